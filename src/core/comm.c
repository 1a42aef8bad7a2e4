/*
 * comm.c - communicators: made, split, freed.
 *
 * An id is that of a member, mostly the first (comm_id.h).  Every rank offers one of its own in
 * the exchange of colours; that of the first member that has one left is taken.
 */
#include "core/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/cancellation.h"
#include "base/sentence.h"
#include "core/accord/accord.h"
#include "core/accord/rescue.h"
#include "core/coll/coll_run.h"
#include "core/coll/direct.h"
#include "core/device.h"
#include "core/failure/failure.h"
#include "core/forked.h"
#include "core/p2p/message.h"
#include "core/recover/queued.h"
#include "core/recover/recover.h"
#include "core/recover/roster.h"

/* ---- life ---------------------------------------------------------------------------- */

/* A rank and the host that it says it is on. */
typedef struct seat {
    const uint8_t *host;
    uint32_t rank;
} seat;

static int by_host(const void *a, const void *b)
{
    return memcmp(((const seat *)a)->host, ((const seat *)b)->host, NX_BOOT_ID_SIZE);
}

/* Equal labels for the ranks of |comm| that are on one host. */
static void label_hosts(const nexar_comm *comm, seat *seats, uint32_t *labels)
{
    const nx_view *view = comm->world->view;

    for (uint32_t i = 0; i < comm->size; i++) {
        const nx_member *m = nx_view_slot(view, nx_comm_peer(comm, i));

        /* Of one that is gone it is all the same: |comm| is broken. */
        seats[i] = (seat){.host = (m == NULL) ? view->members[0].boot_id : m->boot_id, .rank = i};
    }
    qsort(seats, comm->size, sizeof(*seats), by_host);
    for (uint32_t i = 1, label = 0; i < comm->size; i++) {
        label += (by_host(&seats[i - 1], &seats[i]) != 0);
        labels[seats[i].rank] = label;
    }
}

/* Finds out which ranks of |comm| share a host.  A world without a view is one rank.
 *
 * A boot id says that shared memory may work, not that it does; where it does not, the
 * ranks of a host talk over its loopback, which no other host sees either. */
static nexar_err map_hosts(nexar_comm *comm)
{
    uint32_t *labels = nx_calloc(comm->size, sizeof(*labels));
    seat *seats = nx_calloc(comm->size, sizeof(*seats));
    nexar_err err;

    if ((labels == NULL) || (seats == NULL)) {
        nx_free(labels);
        nx_free(seats);
        return nx_fail_nomem("a communicator");
    }
    if (comm->world->view != NULL) {
        label_hosts(comm, seats, labels);
    }
    err = nx_hosts_create(&comm->hosts, labels, comm->size);
    nx_free(labels);
    nx_free(seats);
    return err;
}

static void destroy(nexar_comm *comm)
{
    if (comm != NULL) {
        nx_list_remove(&comm->link);
        nx_messages_lose(comm);
        nx_accord_closed(comm);
        nx_rescue_close(comm);
        nx_rankset_fini(&comm->called);
        nx_comm_drop_device(comm);
        nx_comm_direct_fini(comm);
        if (comm->group.hub != NULL) {
            nx_group_close(&comm->group);
        }
        nx_hosts_destroy(comm->hosts);
        nx_free(comm->recovery.kept.mem);
        nx_roster_release(comm->recovery.now);
        nx_roster_release(comm->recovery.shown);
        nx_runner_retire(comm->recovery.runner);
        nx_free(comm->peers);
        nx_free(comm);
    }
}

/* Opens |comm|, whose ranks are set, for messages; frees it on error. */
static nexar_err open_comm(nx_world *world, nexar_comm *comm)
{
    nexar_err err;

    comm->world = world;
    comm->holds = 1;
    comm->board_fd = -1;
    comm->known_rank = comm->rank;
    comm->known_size = comm->size;
    nx_list_init(&comm->link);
    nx_list_init(&comm->staged);
    nx_list_init(&comm->recovery.waiting);
    nx_list_init(&comm->recovery.due);
    nx_list_init(&comm->recovery.turns);
    err = map_hosts(comm);
    comm->group = (nx_group){.hub = world->hub,
                             .comm = comm->id,
                             .rank = comm->rank,
                             .size = comm->size,
                             .peers = comm->peers,
                             .hosts = comm->hosts};
    if (err == NEXAR_OK) {
        err = nx_recover_open(comm);
    }
    if (err == NEXAR_OK) {
        err = nx_group_open(&comm->group);
    }
    if (err != NEXAR_OK) {
        comm->group.hub = NULL;
        nx_rescue_undo(comm); /* or it would stand for the next one with this id, and leave */
        destroy(comm);
    }
    return err;
}

/* The members of |view| are those of |comm|; one that joined a world that had changed
 * knows their slots from it. */
static nexar_err take_world(nexar_comm *comm, const nx_view *view, uint32_t self)
{
    comm->size = view->size;
    comm->rank = nx_view_slot(view, self)->rank;
    if (view->slots == view->size) {
        return NEXAR_OK;
    }
    comm->peers = nx_calloc(view->size, sizeof(*comm->peers));
    if (comm->peers == NULL) {
        return nx_fail_nomem("a communicator");
    }
    for (uint32_t rank = 0; rank < view->size; rank++) {
        comm->peers[rank] = view->members[rank].slot;
    }
    return NEXAR_OK;
}

nexar_err nx_comm_create_world(nx_world *world, uint32_t id, nexar_comm **out)
{
    nexar_comm *comm = nx_zalloc(sizeof(*comm));
    nexar_err err;

    if (comm == NULL) {
        return nx_fail_nomem("a communicator");
    }
    comm->id = id;
    comm->size = 1;
    err = (world->view == NULL) ? NEXAR_OK : take_world(comm, world->view, world->self);
    if (err != NEXAR_OK) {
        nx_free(comm);
        return err;
    }
    err = open_comm(world, comm);
    if (err == NEXAR_OK) {
        world->comm = *out = comm;
        (void)snprintf(comm->name, sizeof(comm->name), "world");
        nx_failure_opened(comm);
    }
    return err;
}

void nx_comm_hold(nexar_comm *comm)
{
    comm->holds++;
}

void nx_comm_release(nexar_comm *comm)
{
    if (--comm->holds == 0) {
        if ((comm->group.hub != NULL) && !comm->world->closing && !comm->revoked &&
            (nx_config_choice(comm->world->config, NX_SET_RECOVERY) != NX_RECOVERY_AUTOMATIC)) {
            nx_group_part(&comm->group, NX_PARTING_FREED);
        }
        destroy(comm);
    }
}

void nx_comms_free(nx_world *world)
{
    while (!nx_list_empty(&world->comms)) {
        destroy(nx_list_entry(world->comms.next, nexar_comm, link));
    }
    destroy(world->comm);
}

uint32_t nx_comm_rank_of(const nexar_comm *comm, uint32_t peer)
{
    uint32_t rank = 0;

    if (comm->peers == NULL) {
        return peer;
    }
    while (comm->peers[rank] != peer) {
        rank++;
    }
    return rank;
}

int nx_comm_find_peer(const nexar_comm *comm, uint32_t peer)
{
    const uint32_t size = comm->size;

    if (comm->peers == NULL) {
        return (peer < size) ? (int)peer : -1;
    }
    for (uint32_t rank = 0; rank < size; rank++) {
        if (comm->peers[rank] == peer) {
            return (int)rank;
        }
    }
    return -1;
}

int nexar_rank(const nexar_comm *comm)
{
    return (comm == NULL) ? -1 : (int)comm->known_rank;
}

int nexar_size(const nexar_comm *comm)
{
    return (comm == NULL) ? -1 : (int)comm->known_size;
}

nexar_err nx_comm_give_up(nexar_comm *comm, uint32_t number, nexar_err err)
{
    char sentence[NX_ERROR_ROOM];

    (void)nx_sentence(sentence, sizeof(sentence), "rank %u: %s", comm->rank, nexar_last_error());
    nx_group_give_up(&comm->group, number, err, sentence);
    return nx_fail(err, "%s", sentence);
}

/* ---- splitting -------------------------------------------------------------------------- */

/* What each rank says. */
typedef struct entry {
    int64_t color, key, id, rank;
} entry;
enum { ENTRY_WORDS = sizeof(entry) / sizeof(int64_t) };

uint32_t nx_comm_take_id(nx_world *world)
{
    if (world->ids == nx_comm_id_last(world->self)) {
        return 0;
    }
    return nx_comm_id_make(world->self, ++world->ids);
}

static int by_key(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->key != y->key) {
        return (x->key < y->key) ? -1 : 1;
    }
    return (x->rank < y->rank) ? -1 : (x->rank > y->rank);
}

/* The id of the first of the |n| members |e| that has one left; 0: none has. */
static uint32_t choose_id(const entry *e, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (e[i].id != 0) {
            return (uint32_t)e[i].id;
        }
    }
    return 0;
}

/* Makes the communicator of the |n| members |e|, sorted. */
static nexar_err make_part(nexar_comm *parent, const char *how, const entry *e, uint32_t n,
                           nexar_comm **out)
{
    const uint32_t id = choose_id(e, n);
    nexar_comm *comm;
    uint32_t *peers;
    nexar_err err;

    if (id == 0) {
        return nx_fail(
            NEXAR_ENOTSUP,
            "a communicator: its ranks have given out all ids that they have, %u each at "
            "most",
            nx_comm_id_last(0));
    }
    comm = nx_zalloc(sizeof(*comm));
    peers = nx_calloc(n, sizeof(*peers));
    if ((comm == NULL) || (peers == NULL)) {
        nx_free(comm);
        nx_free(peers);
        return nx_fail_nomem("a communicator");
    }
    for (uint32_t i = 0; i < n; i++) {
        peers[i] = nx_comm_peer(parent, (uint32_t)e[i].rank);
        comm->rank = (e[i].rank == (int64_t)parent->rank) ? i : comm->rank;
    }
    comm->peers = peers;
    comm->size = n;
    comm->id = id;
    err = open_comm(parent->world, comm);
    if (err == NEXAR_OK) {
        nx_list_push_back(&parent->world->comms, &comm->link);
        nx_comm_inherit_device(comm, parent);
        nx_comm_name_child(comm, parent, how);
        nx_failure_opened(comm);
        *out = comm;
    }
    return err;
}

nexar_err nx_comm_make_rest(nexar_comm *comm, const nx_rankset *failed, uint32_t id,
                            nexar_comm **out)
{
    entry *all = nx_calloc(comm->size, sizeof(*all));
    uint32_t n = 0;
    nexar_err err;

    if (all == NULL) {
        return nx_fail_nomem("a communicator");
    }
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        if (!nx_rankset_has(failed, rank)) {
            all[n++] = (entry){.rank = rank, .id = id};
        }
    }
    err = make_part(comm, "shrink", all, n, out);
    nx_free(all);
    return err;
}

/* ---- the end of what waits ------------------------------------------------------------- */

static const char why[] = "the communicator was revoked";

void nx_comm_end_messages(nexar_comm *comm)
{
    comm->revoked = true;
    nx_msg_fail_context(comm->world->msg, nx_comm_user(comm), false, NEXAR_EREVOKED, why);
    if (comm->world->rpc != NULL) {
        nx_rpc_fail_comm(comm->world->rpc, comm->id, NEXAR_EREVOKED, why);
    }
}

void nx_comm_revoked(nexar_comm *comm)
{
    if (!comm->revoked) {
        nx_group_break(&comm->group, NEXAR_EREVOKED, why);
        comm->group.broken = NEXAR_EREVOKED; /* also if a rank has failed before */
        (void)snprintf(comm->group.broken_why, sizeof(comm->group.broken_why), "%s", why);
        nx_comm_end_messages(comm);
        nx_recover_wake(comm);
    }
}

/* Whether all others have freed |comm|: nobody of them has failed or left. */
static bool all_have_freed(const nexar_comm *comm)
{
    bool freed = true;

    for (uint32_t rank = 0; freed && (rank < comm->size); rank++) {
        freed = (rank == comm->rank) || (nx_group_finished(&comm->group, rank) == NX_PARTING_FREED);
    }
    return freed;
}

nexar_err nx_comm_alone_why(const nexar_comm *comm, char text[NX_COMM_ALONE_WHY])
{
    char gone[NX_FAILURE_GONE];

    if (all_have_freed(comm)) {
        (void)snprintf(text, NX_COMM_ALONE_WHY, "all other ranks have freed the communicator");
        return NEXAR_EREVOKED;
    }
    (void)snprintf(text, NX_COMM_ALONE_WHY, "no other rank is left%s", nx_failure_gone(comm, gone));
    return NEXAR_EPEER;
}

void nx_comm_fail_any(nexar_comm *comm)
{
    char text[NX_COMM_ALONE_WHY];
    const nexar_err err = nx_comm_alone_why(comm, text);

    nx_msg_fail_context(comm->world->msg, nx_comm_user(comm), true, err, text);
}

void nx_comm_fail_from(nexar_comm *comm, uint32_t peer, nx_parting how)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "it %s", nx_parting_text(how));
    nx_msg_fail_from(comm->world->msg, peer, nx_comm_user(comm), nx_parting_error(how), text);
}

/* Those of |color| among the |n| entries, sorted, to the front; how many. */
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

/* What a split says to all ranks of |comm|. */
static nexar_err exchange(nexar_comm *comm, nx_guise guise, const char *name, const entry *mine,
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
 * All ranks of |comm| have come to |err| with their parts, or have died: the worst of it.
 * Whoever returns with NEXAR_OK knows that all others have theirs; one that does not
 * revokes its own, so that nobody waits there for it.
 */
static nexar_err conclude(nexar_comm *comm, nx_guise guise, const char *name, nexar_err err)
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

/* Gives back a part that others may have too. */
static void drop_part(nexar_comm *part)
{
    char sentence[NX_ERROR_ROOM];
    nexar_err err = NEXAR_OK;

    if (part != NULL) {
        (void)nx_sentence(sentence, sizeof(sentence), "%s", nexar_last_error());
        nx_loop_lock(part->world->loop);
        err = nx_accord_revoke(part);
        nx_loop_kick(part->world->loop);
        nx_loop_unlock(part->world->loop);
        nexar_comm_free(part);
        (void)nx_fail(err, "%s", sentence);
    }
}

static const char *how_of(nx_guise guise)
{
    return (guise == NX_GUISE_DUP) ? "dup" : (guise == NX_GUISE_SPLIT) ? "split" : "host";
}

static nexar_err split(nexar_comm *comm, nx_guise guise, const char *name, entry mine,
                       nexar_comm **out)
{
    nx_world *world = comm->world;
    entry *all = nx_calloc(comm->size, sizeof(*all));
    nexar_comm *part = NULL;
    nexar_err err;

    if (all == NULL) {
        err = nx_fail_nomem("a communicator");
        nx_loop_lock(world->loop);
        if (!comm->recovery.retries) {
            err = nx_comm_give_up(comm, 0, err);
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
            uint32_t n = choose(all, comm->size, mine.color);

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
    return nx_forked_check(name, comm->world);
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
    return split(comm, NX_GUISE_SPLIT, "comm_split", (entry){.color = color, .key = key}, out);
}

nexar_err nexar_comm_dup(nexar_comm *comm, nexar_comm **out)
{
    NX_NOT_CANCELLED;
    nexar_err err = check("comm_dup", comm, out);

    if (err != NEXAR_OK) {
        return err;
    }
    return split(comm, NX_GUISE_DUP, "comm_dup", (entry){.color = 0}, out);
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
    return split(comm, NX_GUISE_SPLIT_HOST, "comm_split_host", (entry){.color = where.host}, host);
}

void nx_comm_give_back(nexar_comm *comm)
{
    nx_recover_freed(comm);
    nx_comm_release(comm);
}

void nexar_comm_free(nexar_comm *comm)
{
    NX_NOT_CANCELLED;
    nx_world *world;

    if ((comm == NULL) || (comm == comm->world->comm) ||
        (nx_forked_check("comm_free", comm->world) != NEXAR_OK)) {
        return;
    }
    world = comm->world;
    nx_loop_lock(world->loop);
    nx_rpc_forget(world->rpc, comm->id);
    if (comm->recovery.queued > 0) { /* they may need the others, who need to find this rank */
        comm->recovery.free_due = true;
    } else {
        nx_comm_give_back(comm);
    }
    nx_loop_unlock(world->loop);
    nx_runners_reap(world);
}
