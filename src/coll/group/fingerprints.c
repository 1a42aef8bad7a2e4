/* fingerprints.c - checks that all ranks have called the same operation. */
#include "group_inner.h"

void nx_group_mismatch(nx_group *g, nx_run *run, uint32_t peer, const nx_mark *its)
{
    char why[NX_RUN_WHY];

    nx_mark_differ(why, sizeof(why), run->number, nx_group_rank_of(g, peer), its, g->rank,
                   &run->mark);
    nx_run_fail(run, true, NEXAR_EMISMATCH, "%s", why);
}

void nx_group_conclude(nx_group *g, nx_run *run)
{
    if (run->differs) {
        run->differs = false;
        nx_group_mismatch(g, run, run->other, &run->its);
    }
}

static nx_run *find_differing(const nx_group *g)
{
    nx_list_for_each (l, &g->runs) {
        nx_run *run = nx_list_entry(l, nx_run, link);

        if (run->differs) {
            return run;
        }
    }
    return NULL;
}

void nx_group_on_trouble(nx_task *task)
{
    const nx_registry *hub = nx_list_entry(task, nx_registry, task);
    nx_group *g;
    nx_run *run;
    size_t at = 0;

    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        /* Restart the search each time: a failure may end other runs. */
        while ((run = find_differing(g)) != NULL) {
            nx_group_conclude(g, run);
        }
    }
}

/* Checks the fingerprint of |peer| for an operation that has ended on this rank. */
static void check_past(nx_group *g, uint32_t place, uint32_t peer, const nx_mark *mark)
{
    const size_t at = (place >> NX_PART_BITS) % NX_PAST;

    if (g->past[at].went_well && (g->late == NEXAR_OK) &&
        (nx_group_part_id(g->past[at].number, g->past[at].part) == place) &&
        !nx_mark_equal(&g->past[at].mark, mark)) {
        g->late = NEXAR_EMISMATCH;
        nx_mark_differ(g->late_why, sizeof(g->late_why), g->past[at].number,
                       nx_group_rank_of(g, peer), mark, g->rank, &g->past[at].mark);
    }
}

nx_verdict nx_registry_on_mark(nx_registry *hub, uint32_t peer, nx_context context, uint64_t tag,
                               const nx_mark *mark)
{
    const uint32_t place = (uint32_t)(tag >> NX_PART_SHIFT);
    nx_group *g = nx_group_find(hub, context.comm);
    nx_run *run;

    if (context.kind != NX_KIND_COLL) {
        return NX_KEEP;
    }
    if (g == NULL) {
        if (nx_early_is_closed(hub->config.early, context.comm)) {
            return NX_DROP;
        }
        nx_group_note_mark(hub, context.comm, place, peer, mark);
        return NX_KEEP;
    }
    run = nx_group_find_run(g, place);
    if (run == NULL) {
        if (nx_group_to_come(g, place)) {
            nx_group_note_mark(hub, context.comm, place, peer, mark);
            return NX_KEEP;
        }
        check_past(g, place, peer, mark);
        return NX_DROP;
    }
    if (run->err != NEXAR_OK) {
        return NX_DROP;
    }
    if (!nx_mark_equal(&run->mark, mark) && !run->differs) {
        run->differs = true;
        run->its = *mark;
        run->other = peer;
        nx_loop_defer(hub->config.loop, &hub->task);
    }
    return NX_KEEP;
}
