/*
 * comm_split.c - nexar_comm_split, nexar_comm_dup, nexar_comm_split_host.
 *
 * An id is that of a member, mostly the first (comm_id.h).  Every rank offers one of its own in
 * the exchange of colours; that of the first member that has one left is taken.
 */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "base/text/sentence.h"
#include "comm.h"
#include "core/agreement/agreement.h"
#include "core/coll/coll_run.h"
#include "core/world/fork_guard.h"

/* What each rank announces. */
typedef struct entry {
    int64_t color, key, id, rank;
} entry;
enum { ENTRY_WORDS = sizeof(entry) / sizeof(int64_t) };

static int by_key(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->key != y->key) {
        return (x->key < y->key) ? -1 : 1;
    }
    return (x->rank < y->rank) ? -1 : (x->rank > y->rank);
}

/* The id offered by the first of the |n| members |e| that has one left; 0: none has. */
static uint32_t choose_id(const entry *e, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (e[i].id != 0) {
            return (uint32_t)e[i].id;
        }
    }
    return 0;
}

/* Creates the communicator of the |n| members |e|, sorted. */
static nexar_err make_part(nexar_comm *parent, const char *how, const entry *e, uint32_t n,
                           nexar_comm **out)
{
    const nx_incarnation *inc = parent->inc;
    nx_members who = {.id = choose_id(e, n), .size = n, .peers = nx_calloc(n, sizeof(*who.peers))};

    if (who.peers == NULL) {
        return nx_fail_nomem("a communicator");
    }
    for (uint32_t i = 0; i < n; i++) {
        who.peers[i] = nx_incarnation_peer(inc, (uint32_t)e[i].rank);
        who.rank = (e[i].rank == (int64_t)inc->rank) ? i : who.rank;
    }
    return nx_comm_create(parent, how, &who, out);
}

/* Moves the entries of |color| among the |n| entries to the front, sorted; returns their number. */
static uint32_t choose(entry *all, uint32_t n, int64_t color)
{
    uint32_t chosen = 0;

    for (uint32_t i = 0; i < n; i++) {
        if (all[i].color == color) {
            all[i].rank = i;
            all[chosen++] = all[i];
        }
    }
    qsort(all, chosen, sizeof(*all), by_key);
    return chosen;
}

/* What a split announces to all ranks of |comm|. */
static nexar_err exchange(nexar_comm *comm, nx_variant guise, const char *name, const entry *mine,
                          entry *all)
{
    return nx_coll_wait(&(nx_coll_args){.name = name,
                                        .comm = comm,
                                        .kind = NX_ALLGATHER,
                                        .guise = guise,
                                        .send = mine,
                                        .recv = all,
                                        .count = ENTRY_WORDS,
                                        .dtype = NEXAR_I64,
                                        .host_memory = true},
                        NULL);
}

/*
 * The worst error with which the ranks of |comm| have made their parts; or the error of this
 * exchange, if a rank has failed.  A rank that returns NEXAR_OK knows that all other ranks have
 * their parts.  A rank that does not revokes its own part, so that no rank waits there for it.
 */
static nexar_err conclude(nexar_comm *comm, nx_variant guise, const char *name, nexar_err err)
{
    int64_t worst = err;
    const nexar_err asked = nx_coll_wait(&(nx_coll_args){.name = name,
                                                         .comm = comm,
                                                         .kind = NX_ALLREDUCE,
                                                         .guise = guise,
                                                         .send = NEXAR_IN_PLACE,
                                                         .recv = &worst,
                                                         .count = 1,
                                                         .dtype = NEXAR_I64,
                                                         .op = NEXAR_MIN,
                                                         .host_memory = true},
                                         NULL);

    if ((asked != NEXAR_OK) || (worst == NEXAR_OK)) {
        return asked;
    }
    return (err != NEXAR_OK) ? err
                             : nx_fail((nexar_err)worst, "%s: another rank could not: %s", name,
                                       nexar_strerror((nexar_err)worst));
}

/* Gives back a part that other ranks may have too. */
static void drop_part(nexar_comm *part)
{
    char sentence[NX_ERROR_ROOM];
    nexar_err err = NEXAR_OK;

    if (part != NULL) {
        (void)nx_sentence(sentence, sizeof(sentence), "%s", nexar_last_error());
        nx_loop_lock(part->world->loop);
        err = nx_agreement_revoke(part->inc);
        nx_loop_kick(part->world->loop);
        nx_loop_unlock(part->world->loop);
        nexar_comm_free(part);
        (void)nx_fail(err, "%s", sentence);
    }
}

static const char *how_of(nx_variant guise)
{
    return (guise == NX_VARIANT_DUP) ? "dup" : (guise == NX_VARIANT_SPLIT) ? "split" : "host";
}

static nexar_err split(nexar_comm *comm, nx_variant guise, const char *name, entry mine,
                       nexar_comm **out)
{
    nx_world *world = comm->world;
    entry *all = nx_calloc(nx_comm_seat(comm).size, sizeof(*all));
    nexar_comm *part = NULL;
    nexar_err err;

    if (all == NULL) {
        err = nx_fail_nomem("a communicator");
        nx_loop_lock(world->loop);
        if (!comm->retry.on) {
            err = nx_comm_give_up(comm->inc, 0, err);
            nx_loop_kick(world->loop);
        }
        nx_loop_unlock(world->loop);
        return err;
    }
    nx_loop_lock(world->loop);
    mine.id = nx_comm_take_id(world);
    nx_loop_unlock(world->loop);
    err = exchange(comm, guise, name, &mine, all);
    if (err == NEXAR_OK) {
        if (mine.color != NEXAR_NO_COLOR) {
            uint32_t n = choose(all, nx_comm_seat(comm).size, mine.color);

            nx_loop_lock(world->loop);
            err = make_part(comm, how_of(guise), all, n, &part);
            nx_loop_unlock(world->loop);
        }
        err = conclude(comm, guise, name, err);
        if (err == NEXAR_OK) {
            *out = part;
        } else {
            drop_part(part);
        }
    }
    nx_free(all);
    return err;
}

static nexar_err check(const char *name, const nexar_comm *comm, nexar_comm *const *out)
{
    if ((comm == NULL) || (out == NULL)) {
        return nx_fail(NEXAR_EINVAL, "%s: %s is NULL", name,
                       (comm == NULL) ? "comm" : "the output");
    }
    return nx_fork_guard_check(name, comm->world);
}

nexar_err nexar_comm_split(nexar_comm *comm, int color, int key, nexar_comm **out)
{
    NX_NOT_CANCELLED;
    nexar_err err = check("comm_split", comm, out);

    if (err != NEXAR_OK) {
        return err;
    }
    if ((color < 0) && (color != NEXAR_NO_COLOR)) {
        return nx_fail(NEXAR_EINVAL,
                       "comm_split: the colour %d; 0 and more, or NEXAR_NO_COLOR, are accepted",
                       color);
    }
    return split(comm, NX_VARIANT_SPLIT, "comm_split", (entry){.color = color, .key = key}, out);
}

nexar_err nexar_comm_dup(nexar_comm *comm, nexar_comm **out)
{
    NX_NOT_CANCELLED;
    nexar_err err = check("comm_dup", comm, out);

    if (err != NEXAR_OK) {
        return err;
    }
    return split(comm, NX_VARIANT_DUP, "comm_dup", (entry){.color = 0}, out);
}

nexar_err nexar_comm_split_host(nexar_comm *comm, nexar_comm **host)
{
    NX_NOT_CANCELLED;
    nexar_err err = check("comm_split_host", comm, host);
    nexar_host where;

    if (err == NEXAR_OK) {
        err = nexar_comm_host(comm, nexar_rank(comm), &where);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    return split(comm, NX_VARIANT_SPLIT_HOST, "comm_split_host", (entry){.color = where.host},
                 host);
}
