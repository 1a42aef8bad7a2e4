/* departure.c - ranks that start nothing more: notifications, inquiries, and their effects. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text/sentence.h"
#include "coll/host/host_coll.h"
#include "group_inner.h"
#include "msg/control.h"

enum { DETACHED_ROOM = 16 };

static const struct {
    nexar_err err;
    const char *text;
} departures[NX_DEPARTURES] = {
    [NX_DEPARTURE_NONE] = {NEXAR_OK, "is there"},
    [NX_DEPARTURE_FREED] = {NEXAR_EREVOKED, "has freed the communicator"},
    [NX_DEPARTURE_FINALIZED] = {NEXAR_EPEER, "has called finalize and starts no further operation"},
};

nexar_err nx_departure_error(nx_departure how)
{
    return departures[how].err;
}

const char *nx_departure_text(nx_departure how)
{
    return departures[how].text;
}

/* ---- departure of this rank ---------------------------------------------------------- */

static void send_detached(const nx_registry *hub, uint32_t peer, const nx_group_word *word)
{
    uint8_t frame[DETACHED_ROOM];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_write_u8(&w, NX_CONTROL_DETACHED);
    nx_write_u32(&w, word->comm);
    nx_write_u32(&w, word->next & NX_NUMBER_MASK);
    nx_write_u8(&w, (uint8_t)word->how);
    /* The detector reports an unreachable peer. */
    (void)!nx_msg_send_control(hub->config.msg, peer, w.data, w.len);
    if (hub->config.on_detach != NULL) {
        hub->config.on_detach(hub->config.ctx, word->comm, peer, word->how);
    }
}

void nx_group_detach_from_peer(const nx_group *g, uint32_t peer)
{
    if ((g->departure != NX_DEPARTURE_NONE) && (nx_group_rank_of(g, peer) < g->size)) {
        send_detached(g->hub, peer,
                      &(nx_group_word){.comm = g->comm, .next = g->next, .how = g->departure});
    }
}

void nx_group_detach(nx_group *g, nx_departure how)
{
    g->departure = how;
    if (g->direct != NULL) {
        nx_host_coll_part(g->direct);
    }
    for (uint32_t rank = 0; rank < g->size; rank++) {
        const uint32_t peer = nx_group_peer(g, rank);

        if ((rank != g->rank) && (nx_msg_link(g->hub->config.msg, peer) != NULL)) {
            nx_group_detach_from_peer(g, peer);
        }
    }
}

/* Notifies |peer| that this rank has freed |comm|, unless it took part in |part_id|. */
static void tell_freed(const nx_registry *hub, uint32_t peer, uint32_t comm, const uint32_t *place)
{
    for (size_t i = 0; i < NX_GROUP_FREED; i++) {
        const nx_group_word *word = &hub->freed[i];

        if ((word->comm == comm) && (word->how != NX_DEPARTURE_NONE) &&
            ((place == NULL) || nx_group_is_from(*place >> NX_PART_BITS, word->next))) {
            send_detached(hub, peer, word);
            return;
        }
    }
}

void nx_group_answer_called(nx_registry *hub, uint32_t peer, uint32_t comm, uint32_t place)
{
    const nx_group *g = nx_group_find(hub, comm);

    if (g == NULL) {
        tell_freed(hub, peer, comm, &place);
    } else if ((g->departure != NX_DEPARTURE_NONE) && (nx_group_find_run(g, place) == NULL) &&
               nx_group_to_come(g, place)) {
        nx_group_detach_from_peer(g, peer);
    }
}

void nx_group_on_waits(nx_registry *hub, uint32_t peer, nx_reader *r)
{
    const uint32_t comm = nx_read_u32(r);
    const nx_group *g = nx_group_find(hub, comm);

    if (!nx_reader_done(r)) {
        nx_log(NX_LOG_WARN, "peer %u: dropped a malformed WAITS frame", peer);
    } else if (g == NULL) {
        tell_freed(hub, peer, comm, NULL);
    } else {
        nx_group_detach_from_peer(g, peer);
    }
}

/* ---- departure of other ranks -------------------------------------------------------- */

nx_departure nx_group_detached(const nx_group *g, uint32_t rank)
{
    const nx_group_word *word =
        (g->detached.n == 0) ? NULL : nx_map_get(&g->detached, (uint64_t)rank + 1);

    return (word == NULL) ? NX_DEPARTURE_NONE : word->how;
}

nx_departure nx_group_finished(const nx_group *g, uint32_t rank)
{
    const nx_departure *how =
        (g->finished.n == 0) ? NULL : nx_map_get(&g->finished, (uint64_t)rank + 1);

    return (how == NULL) ? NX_DEPARTURE_NONE : *how;
}

void nx_group_inquire(nx_group *g, uint32_t rank)
{
    uint8_t frame[DETACHED_ROOM];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    if ((rank == g->rank) || (nx_group_finished(g, rank) != NX_DEPARTURE_NONE) ||
        (nx_map_get(&g->inquired, (uint64_t)rank + 1) != NULL) ||
        (nx_map_put(&g->inquired, (uint64_t)rank + 1, g) != NEXAR_OK)) {
        return;
    }
    nx_write_u8(&w, NX_CONTROL_WAITS);
    nx_write_u32(&w, g->comm);
    /* The detector reports an unreachable peer. */
    (void)!nx_msg_send_control(g->hub->config.msg, nx_group_peer(g, rank), w.data, w.len);
}

/* A run of |g| that can still fail, of operation |next| or a later one. */
static nx_run *find_from(const nx_group *g, uint32_t next)
{
    nx_list_for_each (l, &g->runs) {
        nx_run *run = nx_list_entry(l, nx_run, link);

        if (nx_run_open(run) && nx_group_is_from(run->number, next)) {
            return run;
        }
    }
    return NULL;
}

/* No operation from |next| on can run on |g|. */
static void end_from(nx_group *g, uint32_t next, nexar_err err, const char *why)
{
    nx_run *run;

    if ((g->over == NEXAR_OK) || !nx_group_is_from(next, g->over_from)) {
        g->over = err;
        g->over_from = next;
        (void)snprintf(g->over_why, sizeof(g->over_why), "%s", why);
    }
    /* Restart the search each time: a failure may end other runs. */
    while ((run = find_from(g, next)) != NULL) {
        nx_run_fail(run, true, err, "%s", why);
    }
}

/* Applies the announcement |said| about an existing group. NEXAR_ENOMEM: the announcement is
 * dropped. */
static nexar_err use_word(nx_group *g, const nx_group_word *said)
{
    const nx_registry_config *c = &g->hub->config;
    const uint32_t rank = nx_group_rank_of(g, said->peer);
    char text[NX_REGISTRY_TEXT], why[NX_REGISTRY_TEXT + 64];
    nx_group_word *word;

    if ((rank == g->size) || (nx_group_detached(g, rank) != NX_DEPARTURE_NONE)) {
        return NEXAR_OK;
    }
    word = nx_zalloc(sizeof(*word));
    if ((word == NULL) || (nx_map_put(&g->detached, (uint64_t)rank + 1, word) != NEXAR_OK)) {
        nx_free(word);
        return NEXAR_ENOMEM;
    }
    *word = *said;
    (void)nx_sentence(why, sizeof(why), "%s %s", c->peer_text(c->ctx, said->peer, text),
                      nx_departure_text(said->how));
    end_from(g, said->next, nx_departure_error(said->how), why);
    if (c->on_detached != NULL) {
        c->on_detached(c->ctx, said->comm, said->peer, said->how);
    }
    return NEXAR_OK;
}

/* Handles the second notification of |peer|. */
static nexar_err use_finished(nx_group *g, uint32_t peer, nx_departure how)
{
    static nx_departure hows[NX_DEPARTURES] = {NX_DEPARTURE_NONE, NX_DEPARTURE_FREED,
                                               NX_DEPARTURE_FINALIZED};
    const nx_registry_config *c = &g->hub->config;
    const uint32_t rank = nx_group_rank_of(g, peer);
    nexar_err err;

    if ((rank == g->size) || (nx_group_finished(g, rank) != NX_DEPARTURE_NONE)) {
        return NEXAR_OK;
    }
    err = nx_map_put(&g->finished, (uint64_t)rank + 1, &hows[how]);
    if ((err == NEXAR_OK) && (c->on_finished != NULL)) {
        c->on_finished(c->ctx, g->comm, peer, how);
    }
    return err;
}

void nx_registry_on_finished(nx_registry *hub, uint32_t peer, uint32_t comm, uint8_t how)
{
    nx_group *g = nx_group_find(hub, comm);

    if ((how == NX_DEPARTURE_NONE) || (how >= NX_DEPARTURES)) {
        nx_log(NX_LOG_WARN, "peer %u: dropped a malformed end-of-messages frame", peer);
    } else if (nx_group_is_early(hub, comm)) {
        nx_group_keep_early(
            hub, &(nx_early_key){.kind = NX_EARLY_FINISHED, .id = comm, .from = peer}, &how, 1);
    } else if ((g != NULL) && (use_finished(g, peer, (nx_departure)how) != NEXAR_OK)) {
        nx_group_fail_waiting(hub, peer, "no memory to record its departure");
    }
}

void nx_group_on_detached(nx_registry *hub, uint32_t peer, nx_reader *r)
{
    nx_group_word word = {.peer = peer, .comm = nx_read_u32(r)};
    nx_group *g = nx_group_find(hub, word.comm);
    uint8_t how;

    word.next = nx_read_u32(r);
    how = nx_read_u8(r);
    if (r->failed || !nx_reader_done(r) || (how == NX_DEPARTURE_NONE) || (how >= NX_DEPARTURES)) {
        nx_log(NX_LOG_WARN, "peer %u: dropped a malformed DETACHED frame", peer);
        return;
    }
    word.how = (nx_departure)how;
    if ((g != NULL) && (use_word(g, &word) != NEXAR_OK)) {
        nx_group_fail_waiting(hub, peer, "no memory to record its departure");
    }
}

void nx_group_drop_detached(nx_group *g)
{
    nx_group_word *word;
    size_t at = 0;

    while ((word = nx_map_next(&g->detached, &at)) != NULL) {
        nx_free(word);
    }
    nx_map_fini(&g->detached);
    nx_map_fini(&g->finished);
    nx_map_fini(&g->inquired);
}
