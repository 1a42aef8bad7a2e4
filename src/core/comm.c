/*
 * comm.c - communicators: made, split, freed.
 *
 * An id is (the slot of a member, mostly the first, a number that this member has given
 * out): unique without anybody's help, since no two members share the first half and
 * one member gives no number out twice while it is in use.  Every rank offers a number
 * of its own in the exchange of colours; that of the first member is taken.
 */
#include "core/comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "core/accord.h"
#include "core/coll_run.h"
#include "core/device.h"
#include "core/direct.h"
#include "core/failure.h"

#define SERIAL_MASK ((UINT32_C(1) << NX_SERIAL_BITS) - 1)

/* ---- life ---------------------------------------------------------------------------- */

static int by_host(const void *a, const void *b)
{
    return memcmp(*(const uint8_t *const *)a, *(const uint8_t *const *)b, NX_BOOT_ID_SIZE);
}

/* On how many hosts the ranks of |comm| are: the same number on each of them. */
static nexar_err count_hosts(const nexar_comm *comm, uint32_t *hosts)
{
    const nx_view *view = comm->world->view;
    const uint8_t **ids;

    *hosts = 1;
    if (view == NULL) {
        return NEXAR_OK;
    }
    ids = nx_calloc(comm->size, sizeof(*ids));
    if (ids == NULL) {
        return nx_fail_nomem("a communicator");
    }
    for (uint32_t i = 0; i < comm->size; i++) {
        const nx_member *m = nx_view_slot(view, nx_comm_peer(comm, i));

        ids[i] = (m == NULL) ? view->members[0].boot_id : m->boot_id; /* it is broken then */
    }
    qsort(ids, comm->size, sizeof(*ids), by_host);
    for (uint32_t i = 1; i < comm->size; i++) {
        *hosts += (memcmp(ids[i - 1], ids[i], NX_BOOT_ID_SIZE) != 0);
    }
    nx_free(ids);
    return NEXAR_OK;
}

static void destroy(nexar_comm *comm)
{
    if (comm != NULL) {
        nx_list_remove(&comm->link);
        nx_accord_closed(comm);
        nx_rankset_fini(&comm->called);
        nx_comm_drop_device(comm);
        nx_comm_direct_fini(comm);
        if (comm->group.hub != NULL) {
            nx_group_close(&comm->group);
        }
        nx_free(comm->peers);
        nx_free(comm);
    }
}

/* Opens |comm|, whose ranks are set, for messages; frees it on error. */
static nexar_err open_comm(nx_world *world, nexar_comm *comm)
{
    uint32_t hosts;
    nexar_err err;

    comm->world = world;
    comm->holds = 1;
    comm->board_fd = -1;
    nx_list_init(&comm->link);
    nx_list_init(&comm->staged);
    err = count_hosts(comm, &hosts);
    comm->group = (nx_group){.hub = world->hub,
                             .comm = comm->id,
                             .rank = comm->rank,
                             .size = comm->size,
                             .peers = comm->peers,
                             .hosts = hosts};
    if (err == NEXAR_OK) {
        err = nx_group_open(&comm->group);
    }
    if (err != NEXAR_OK) {
        comm->group.hub = NULL;
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
    for (uint32_t rank = 0; rank < comm->size; rank++) {
        if (((comm->peers == NULL) ? rank : comm->peers[rank]) == peer) {
            return (int)rank;
        }
    }
    return -1;
}

int nexar_rank(const nexar_comm *comm)
{
    return (comm == NULL) ? -1 : (int)comm->rank;
}

int nexar_size(const nexar_comm *comm)
{
    return (comm == NULL) ? -1 : (int)comm->size;
}

/* ---- splitting -------------------------------------------------------------------------- */

/* What each rank says. */
typedef struct entry {
    int64_t color, key, serial, rank;
} entry;
enum { ENTRY_WORDS = sizeof(entry) / sizeof(int64_t) };

/* Whether the id that |serial| would make is in use here. */
static bool in_use(const nx_world *world, uint32_t id)
{
    for (const nx_list *at = world->comms.next; at != &world->comms; at = at->next) {
        if (nx_list_entry(at, nexar_comm, link)->id == id) {
            return true;
        }
    }
    return (id == 0) || ((world->comm != NULL) && (world->comm->id == id));
}

uint32_t nx_comm_take_serial(nx_world *world)
{
    do {
        world->serial = (world->serial + 1) & SERIAL_MASK;
    } while (in_use(world, (world->self << NX_SERIAL_BITS) | world->serial));
    return world->serial;
}

static int by_key(const void *a, const void *b)
{
    const entry *x = a, *y = b;

    if (x->key != y->key) {
        return (x->key < y->key) ? -1 : 1;
    }
    return (x->rank < y->rank) ? -1 : (x->rank > y->rank);
}

/* Makes the communicator of the |n| members |e|, sorted. */
static nexar_err make_part(nexar_comm *parent, const entry *e, uint32_t n, nexar_comm **out)
{
    nexar_comm *comm = nx_zalloc(sizeof(*comm));
    uint32_t *peers = nx_calloc(n, sizeof(*peers));
    nexar_err err;

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
    comm->id = (peers[0] << NX_SERIAL_BITS) | (uint32_t)e[0].serial;
    err = open_comm(parent->world, comm);
    if (err == NEXAR_OK) {
        nx_list_push_back(&parent->world->comms, &comm->link);
        nx_comm_inherit_device(comm, parent);
        nx_failure_opened(comm);
        *out = comm;
    }
    return err;
}

nexar_err nx_comm_make_rest(nexar_comm *comm, const nx_rankset *failed, uint32_t serial,
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
            all[n++] = (entry){.rank = rank, .serial = serial};
        }
    }
    err = make_part(comm, all, n, out);
    nx_free(all);
    return err;
}

/* ---- the end of what waits ------------------------------------------------------------- */

void nx_comm_revoked(nexar_comm *comm)
{
    static const char why[] = "the communicator was revoked";

    if (!comm->revoked) {
        comm->revoked = true;
        nx_group_break(&comm->group, NEXAR_EREVOKED, why);
        comm->group.broken = NEXAR_EREVOKED; /* also if a rank has failed before */
        (void)snprintf(comm->group.broken_why, sizeof(comm->group.broken_why), "%s", why);
        nx_msg_fail_context(comm->world->msg, nx_comm_user(comm), false, NEXAR_EREVOKED, why);
    }
}

void nx_comm_fail_any(nexar_comm *comm)
{
    nx_msg_fail_context(comm->world->msg, nx_comm_user(comm), true, NEXAR_EPEER,
                        "no other rank of the communicator is left");
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

static nexar_err split(nexar_comm *comm, nx_guise guise, const char *name, entry mine,
                       nexar_comm **out)
{
    nx_world *world = comm->world;
    entry *all = nx_calloc(comm->size, sizeof(*all));
    nexar_err err;

    if (all == NULL) {
        return nx_fail_nomem("a communicator");
    }
    nx_loop_lock(world->loop);
    mine.serial = nx_comm_take_serial(world);
    nx_loop_unlock(world->loop);
    err = nx_coll_wait(&(nx_coll_args){.name = name,
                                       .comm = comm,
                                       .kind = NX_ALLGATHER,
                                       .guise = guise,
                                       .send = &mine,
                                       .recv = all,
                                       .count = ENTRY_WORDS,
                                       .dtype = NEXAR_I64,
                                       .host_memory = true},
                       NULL);
    if (err == NEXAR_OK) {
        *out = NULL;
    }
    if ((err == NEXAR_OK) && (mine.color != NEXAR_NO_COLOR)) {
        uint32_t n = choose(all, comm->size, mine.color);

        nx_loop_lock(world->loop);
        err = make_part(comm, all, n, out);
        nx_loop_unlock(world->loop);
    }
    nx_free(all);
    return err;
}

static nexar_err check(const char *name, const nexar_comm *comm, nexar_comm *const *out)
{
    if ((comm == NULL) || (out == NULL)) {
        return nx_fail(NEXAR_EINVAL, "%s: %s is NULL", name, (comm == NULL) ? "comm" : "out");
    }
    return NEXAR_OK;
}

nexar_err nexar_comm_split(nexar_comm *comm, int color, int key, nexar_comm **out)
{
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
    nexar_err err = check("comm_dup", comm, out);

    if (err != NEXAR_OK) {
        return err;
    }
    return split(comm, NX_GUISE_DUP, "comm_dup", (entry){.color = 0}, out);
}

void nexar_comm_free(nexar_comm *comm)
{
    nx_loop *loop;

    if ((comm == NULL) || (comm == comm->world->comm)) {
        return;
    }
    loop = comm->world->loop;
    nx_loop_lock(loop);
    nx_rpc_forget(comm->world->rpc, comm->id);
    nx_comm_release(comm);
    nx_loop_unlock(loop);
}
