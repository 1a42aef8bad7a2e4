/* failures.c - failed operations: on this rank, on other ranks, by loss of a rank or of the
 * world. */
#include <stdio.h>

#include "base/log.h"
#include "base/text/sentence.h"
#include "coll/host/host_coll.h"
#include "group_inner.h"
#include "msg/control.h"

enum { ABORT_ROOM = 16 + NX_RUN_WHY };

/* ---- notification of a failure ------------------------------------------------------- */

void nx_group_tell(nx_group *g, uint32_t number, uint32_t part, nexar_err err, const char *why)
{
    uint8_t frame[ABORT_ROOM];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    if (g->broken != NEXAR_OK) {
        return; /* which all ranks receive by broadcast */
    }
    nx_write_u8(&w, NX_CONTROL_ABORT);
    nx_write_u32(&w, g->comm);
    nx_write_u32(&w, nx_group_part_id(number, part));
    nx_write_u8(&w, (uint8_t)-err);
    nx_write_sentence(
        &w, why,
        NX_RUN_WHY); /* an oversized frame would be dropped, and its receiver would wait forever */
    for (uint32_t rank = 0; rank < g->size; rank++) {
        if (rank != g->rank) {
            nx_group_send_frame(g, rank, &w);
        }
    }
}

void nx_group_abort(nx_group *g, uint32_t number, nexar_err err, const char *why)
{
    nx_run *run = nx_group_find_run(g, nx_group_part_id(number, 0));

    nx_group_tell(g, number, 0, err, why);
    if (run != NULL) {
        nx_run_fail(run, false, err, "%s", why);
    }
}

/* |part_id| of |comm| has failed on another rank. */
static void take_abort(nx_registry *hub, uint32_t comm, uint32_t place, nexar_err err,
                       const char *why)
{
    nx_group *g = nx_group_find(hub, comm);
    nx_run *run = (g == NULL) ? NULL : nx_group_find_run(g, place);

    if (run != NULL) {
        nx_run_fail(run, false, err, "%s", why);
    } else if ((g != NULL) && nx_group_to_come(g, place)) {
        nx_group_note_abort(hub, comm, place, err, why);
        if ((g->direct != NULL) && nx_host_coll_has(g->direct, place >> NX_PART_BITS)) {
            nx_host_coll_on_abort(g->direct, err, why); /* the sender may never join the episode */
        }
    }
}

void nx_group_on_abort(nx_registry *hub, uint32_t peer, nx_reader *r)
{
    const uint32_t comm = nx_read_u32(r);
    const uint32_t place = nx_read_u32(r);
    const int err = -(int)nx_read_u8(r);
    char why[NX_RUN_WHY];

    nx_read_sentence(r, why, sizeof(why));
    if (r->failed || !nx_reader_done(r) || (err > NEXAR_EINVAL) || (err < NEXAR_EINTERNAL) ||
        ((uint64_t)place >> NX_PART_ID_BITS != 0)) {
        nx_log(NX_LOG_WARN, "peer %u: dropped a malformed ABORT frame", peer);
        return;
    }
    take_abort(hub, comm, place, (nexar_err)err, why);
}

/* ---- failures of all runs ------------------------------------------------------------ */

/* Finds a run of |g| that can still fail. If |rank| is not NULL, the run waits for it alone. */
static nx_run *find_open(const nx_group *g, const uint32_t *rank)
{
    nx_list_for_each (l, &g->runs) {
        nx_run *run = nx_list_entry(l, nx_run, link);

        if (nx_run_open(run) && ((rank == NULL) || nx_run_waits_for_cancelled(run, *rank))) {
            return run;
        }
    }
    return NULL;
}

/* Fails the runs of |g|: all, or only those that wait for |rank|. */
static void fail_runs(nx_group *g, const uint32_t *rank, nexar_err err, const char *why)
{
    nx_run *run;

    /* Restart the search each time: the abort of a run may find another link broken, which ends
     * other runs. */
    while ((run = find_open(g, rank)) != NULL) {
        nx_run_fail(run, rank != NULL, err, "%s", why);
    }
}

void nx_registry_on_down(nx_registry *hub, uint32_t peer, nexar_err err, const char *why)
{
    char text[NX_REGISTRY_TEXT], sentence[NX_RUN_WHY];
    nx_group *g;
    size_t at = 0;

    (void)nx_sentence(sentence, sizeof(sentence), "%s: %s",
                      hub->config.peer_text(hub->config.ctx, peer, text), why);
    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        const uint32_t rank = nx_group_rank_of(g, peer);

        if (g->direct != NULL) {
            nx_host_coll_on_down(g->direct, rank, err, sentence);
        }
        fail_runs(g, &rank, err, sentence);
    }
}

/* Breaks |g| because of |rank|. */
static void break_by(nx_group *g, uint32_t rank, nexar_err err, const char *why)
{
    if (g->broken == NEXAR_OK) {
        g->broken = err;
        (void)snprintf(g->broken_why, sizeof(g->broken_why), "%s", why);
    }
    if (g->direct != NULL) {
        nx_host_coll_on_down(g->direct, rank, g->broken, why);
    }
    fail_runs(g, NULL, err, why);
}

void nx_group_break(nx_group *g, nexar_err err, const char *why)
{
    break_by(g, g->rank, err, why);
}

void nx_registry_on_failed(nx_registry *hub, uint32_t peer, nexar_err err, const char *why)
{
    nx_group *g;
    size_t at = 0;

    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        const uint32_t rank = nx_group_rank_of(g, peer);

        if (rank < g->size) {
            break_by(g, rank, err, why);
        }
    }
}

void nx_registry_stop(nx_registry *hub, nexar_err err, const char *why)
{
    nx_group *g;
    size_t at = 0;

    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        fail_runs(g, NULL, err, why);
    }
    hub->stopped = true;
    nx_loop_timer_cancel(hub->config.loop, &hub->tick);
}
