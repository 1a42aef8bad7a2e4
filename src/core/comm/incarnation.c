/* incarnation.c - one identity of a communicator: its life, and the end of pending operations on
 * it. */
#include "incarnation.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "comm.h"
#include "core/agreement/agreement.h"
#include "core/coll/host_boards.h"
#include "core/create/create.h"
#include "core/failure/failure.h"
#include "core/recovery/auto_shrink.h"
#include "core/recovery/recovery.h"

/* ---- hosts --------------------------------------------------------------------------- */

/* A rank and the host that it reports. */
typedef struct resident {
    const uint8_t *host;
    uint32_t rank;
} resident;

static int by_host(const void *a, const void *b)
{
    return memcmp(((const resident *)a)->host, ((const resident *)b)->host, NX_BOOT_ID_SIZE);
}

/* Assigns equal labels to the ranks of |inc| that are on one host. */
static void label_hosts(const nx_incarnation *inc, resident *all, uint32_t *labels)
{
    const nx_view *view = inc->world->view;

    for (uint32_t i = 0; i < inc->size; i++) {
        const nx_member *m = nx_view_slot(view, nx_incarnation_peer(inc, i));

        /* The host of a departed member does not matter: |inc| is broken. */
        all[i] = (resident){.host = (m == NULL) ? view->members[0].boot_id : m->boot_id, .rank = i};
    }
    qsort(all, inc->size, sizeof(*all), by_host);
    for (uint32_t i = 1, label = 0; i < inc->size; i++) {
        label += (by_host(&all[i - 1], &all[i]) != 0);
        labels[all[i].rank] = label;
    }
}

/* Determines which ranks of |inc| share a host.  A world without a view is one rank.  Equal boot
 * ids mean that shared memory may work, not that it does.  Where it does not, the ranks of a host
 * communicate over its loopback interface, which no other host sees either. */
static nexar_err map_hosts(nx_incarnation *inc)
{
    uint32_t *labels = nx_calloc(inc->size, sizeof(*labels));
    resident *all = nx_calloc(inc->size, sizeof(*all));
    nexar_err err;

    if ((labels == NULL) || (all == NULL)) {
        nx_free(labels);
        nx_free(all);
        return nx_fail_nomem("a communicator");
    }
    if (inc->world->view != NULL) {
        label_hosts(inc, all, labels);
    }
    err = nx_hosts_create(&inc->hosts, labels, inc->size);
    nx_free(labels);
    nx_free(all);
    return err;
}

/* ---- life ---------------------------------------------------------------------------- */

static nexar_err open_machines(nx_incarnation *inc)
{
    nexar_err err = map_hosts(inc);

    inc->group = (nx_group){.hub = inc->world->hub,
                            .comm = inc->id,
                            .rank = inc->rank,
                            .size = inc->size,
                            .peers = inc->peers,
                            .hosts = inc->hosts,
                            .timeout_ns = inc->comm->timeout_ns};
    err = (err == NEXAR_OK) ? nx_recovery_open(inc) : err;
    err = (err == NEXAR_OK) ? nx_group_open(&inc->group) : err;
    if (err != NEXAR_OK) {
        inc->group.hub = NULL;
        nx_auto_shrink_undo(inc); /* otherwise it would act for the next one */
    }
    return err;
}

nexar_err nx_incarnation_open(nexar_comm *comm, const nx_members *who, nx_incarnation **out)
{
    const int rank = (int)who->rank, size = (int)who->size;
    nx_incarnation *inc = nx_zalloc(sizeof(*inc));
    nexar_err err;

    if (inc == NULL) {
        nx_free(who->peers);
        return nx_fail_nomem("a communicator");
    }
    *inc = (nx_incarnation){
        .world = comm->world,
        .comm = comm,
        .holds = 1,
        .id = who->id,
        .rank = who->rank,
        .size = who->size,
        .peers = who->peers,
        .change = {.old_rank = rank, .old_size = size, .new_rank = rank, .new_size = size},
        .board = {.fd = -1}};
    nx_list_init(&inc->link);
    nx_list_init(&inc->staged);
    nx_list_init(&inc->recovery.due);
    err = open_machines(inc);
    if (err != NEXAR_OK) {
        nx_incarnation_release(inc);
        return err;
    }
    nx_list_push_back(&inc->world->incarnations, &inc->link);
    *out = inc;
    return NEXAR_OK;
}

nexar_err nx_incarnation_rest(const nx_incarnation *inc, const nx_rankset *failed, uint32_t id,
                              nx_members *out)
{
    *out = (nx_members){.id = id, .peers = nx_calloc(inc->size, sizeof(*out->peers))};
    if (out->peers == NULL) {
        return nx_fail_nomem("a communicator");
    }
    for (uint32_t rank = 0; rank < inc->size; rank++) {
        if (!nx_rankset_has(failed, rank)) {
            out->rank = (rank == inc->rank) ? out->size : out->rank;
            out->peers[out->size++] = nx_incarnation_peer(inc, rank);
        }
    }
    return NEXAR_OK;
}

void nx_incarnation_close(nx_incarnation *inc)
{
    nx_list *at;

    if (inc->comm == NULL) {
        return;
    }
    while ((at = nx_list_pop(&inc->recovery.due)) != NULL) { /* they never complete */
        nx_request_done(nx_list_entry(at, nexar_request, due));
    }
    nx_list_remove(&inc->link);
    nx_create_revoked(inc, "the parent was freed");
    nx_agreement_closed(inc);
    nx_auto_shrink_close(inc);
    nx_incarnation_direct_fini(inc);
    if (inc->group.hub != NULL) {
        nx_group_close(&inc->group);
    }
    inc->comm = NULL;
}

nx_incarnation *nx_incarnation_hold(nx_incarnation *inc)
{
    inc->holds++;
    return inc;
}

void nx_incarnation_release(nx_incarnation *inc)
{
    if ((inc == NULL) || (inc->holds-- > 1)) {
        return;
    }
    inc->holds = 1;
    nx_incarnation_close(inc); /* may live on in an agreement */
    if (--inc->holds == 0) {
        nx_hosts_destroy(inc->hosts);
        nx_free(inc->peers);
        nx_free(inc->changed);
        nx_free(inc);
    }
}

nx_incarnation *nx_incarnation_find(const nx_world *world, uint64_t id)
{
    for (const nx_list *at = world->incarnations.next; at != &world->incarnations; at = at->next) {
        nx_incarnation *inc = nx_list_entry(at, nx_incarnation, link);

        if (inc->id == id) {
            return inc;
        }
    }
    return NULL;
}

int nx_incarnation_rank_of(const nx_incarnation *inc, uint32_t peer)
{
    if (inc->peers == NULL) {
        return (peer < inc->size) ? (int)peer : -1;
    }
    for (uint32_t rank = 0; rank < inc->size; rank++) {
        if (inc->peers[rank] == peer) {
            return (int)rank;
        }
    }
    return -1;
}

/* ---- the end of pending operations --------------------------------------------------- */

static const char why[] = "the communicator was revoked";

void nx_incarnation_end_messages(nx_incarnation *inc)
{
    inc->revoked = true;
    nx_create_revoked(inc, why);
    nx_msg_fail_context(inc->world->msg, nx_incarnation_user(inc), false, NEXAR_EREVOKED, why);
    if (inc->world->rpc != NULL) {
        nx_rpc_fail_comm(inc->world->rpc, inc->id, NEXAR_EREVOKED, why);
    }
}

void nx_incarnation_revoke(nx_incarnation *inc)
{
    if (!inc->revoked) {
        nx_group_break(&inc->group, NEXAR_EREVOKED, why);
        inc->group.broken = NEXAR_EREVOKED; /* also if a rank has failed before */
        (void)snprintf(inc->group.broken_why, sizeof(inc->group.broken_why), "%s", why);
        nx_incarnation_end_messages(inc);
        nx_recovery_wake(inc);
    }
}

/* Whether all other ranks have freed |inc|: none of them has failed or left. */
static bool all_have_freed(const nx_incarnation *inc)
{
    bool freed = true;

    for (uint32_t rank = 0; freed && (rank < inc->size); rank++) {
        freed = (rank == inc->rank) || (nx_group_finished(&inc->group, rank) == NX_DEPARTURE_FREED);
    }
    return freed;
}

nexar_err nx_incarnation_alone_why(const nx_incarnation *inc, char text[NX_ALONE_WHY])
{
    char gone[NX_FAILURE_GONE];

    if (all_have_freed(inc)) {
        (void)snprintf(text, NX_ALONE_WHY, "all other ranks have freed the communicator");
        return NEXAR_EREVOKED;
    }
    (void)snprintf(text, NX_ALONE_WHY, "no other rank is left%s", nx_failure_gone(inc, gone));
    return NEXAR_EPEER;
}

void nx_incarnation_fail_any(const nx_incarnation *inc)
{
    char text[NX_ALONE_WHY];
    const nexar_err err = nx_incarnation_alone_why(inc, text);

    nx_msg_fail_context(inc->world->msg, nx_incarnation_user(inc), true, err, text);
}

void nx_incarnation_fail_from(const nx_incarnation *inc, uint32_t peer, nx_departure how)
{
    char text[64];

    (void)snprintf(text, sizeof(text), "it %s", nx_departure_text(how));
    nx_msg_fail_from(inc->world->msg, peer, nx_incarnation_user(inc), nx_departure_error(how),
                     text);
}
