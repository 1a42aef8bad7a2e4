/* operations.c - operations of a group: their numbers, start, end and removal. */
#include "coll/host/host_coll.h"
#include "group_inner.h"

bool nx_group_to_come(const nx_group *g, uint32_t place)
{
    const uint32_t number = place >> NX_PART_BITS;
    const uint32_t behind = (g->next - number) & NX_NUMBER_MASK;

    return (behind == 0) || (behind > NX_NUMBER_MASK / 2) ||
           ((g->direct != NULL) && nx_host_coll_has(g->direct, number)) ||
           (nx_map_get(&g->reserved, nx_group_part_key(place)) != NULL);
}

/* Forgets the messages of one part of operation |number|. */
static void forget_messages(nx_group *g, uint32_t number, uint32_t part)
{
    if (!g->hub->stopped) {
        nx_msg_forget_tags(g->hub->config.msg, nx_group_context(g),
                           (uint64_t)nx_group_part_id(number, part) << NX_PART_SHIFT,
                           UINT64_MAX << NX_PART_SHIFT);
    }
}

/* Forgets early frames of parts of |number| that this rank will not run, because it called a
 * different operation. Only aborts can have arrived: a rank begins a part only when it knows that
 * all ranks have called the same operation. */
static void forget_rest(nx_group *g, uint32_t number)
{
    for (uint32_t part = 1; (part < NX_CALL_PARTS) && (g->hub->early.n != 0); part++) {
        if (nx_map_get(&g->reserved, nx_group_part_key(nx_group_part_id(number, part))) == NULL) {
            nx_group_forget_early(g, number, part);
        }
    }
}

void nx_group_forget(nx_group *g, uint32_t number, bool failed)
{
    nx_group_forget_early(g, number, 0);
    forget_rest(g, number);
    if (failed) {
        forget_messages(g, number, 0);
    }
}

static bool take_reserved(nx_group *g, uint32_t number, uint32_t part)
{
    return nx_map_take(&g->reserved, nx_group_part_key(nx_group_part_id(number, part))) != NULL;
}

nexar_err nx_group_reserve(nx_group *g, uint32_t parts, uint32_t *number)
{
    for (uint32_t i = 0; i < parts; i++) {
        nexar_err err =
            nx_map_put(&g->reserved, nx_group_part_key(nx_group_part_id(g->next, i)), g);

        if (err != NEXAR_OK) {
            /* Keep early frames: they belong to the operation that takes this number next. */
            while (i > 0) {
                (void)take_reserved(g, g->next, --i);
            }
            return err;
        }
    }
    *number = nx_group_take_number(g);
    return NEXAR_OK;
}

void nx_group_unreserve(nx_group *g, uint32_t number, uint32_t parts)
{
    for (uint32_t i = 0; i < parts; i++) {
        if (take_reserved(g, number, i)) {
            nx_group_forget_early(g, number, i);
            forget_messages(g, number, i);
        }
    }
    forget_rest(g, number);
}

void nx_group_give_up(nx_group *g, uint32_t number, nexar_err err, const char *why)
{
    if (number == 0) {
        number = nx_group_take_number(g);
    }
    if (g->direct != NULL) {
        nx_host_coll_engine(g->direct, number);
    }
    nx_group_tell(g, number, 0, err, why);
    nx_group_forget(g, number, true);
}

nexar_err nx_group_begin(nx_group *g, nx_run *run)
{
    const uint64_t key = nx_group_part_key(nx_group_part_id(run->number, run->part));
    nexar_err err;

    if (g->direct != NULL) {
        nx_host_coll_engine(g->direct, run->number);
    }
    err = nx_map_put(&g->active, key, run);
    if (err != NEXAR_OK) {
        return err;
    }
    (void)nx_map_take(&g->reserved, key);
    nx_list_push_back(&g->runs, &run->link);
    nx_group_tick(g->hub);
    if (g->hub->config.watch.on_begin != NULL) {
        g->hub->config.watch.on_begin(g->hub->config.watch.ctx, run);
    }
    if (g->broken != NEXAR_OK) {
        nx_run_fail(run, false, g->broken, "%s", g->broken_why);
    }
    if ((g->over != NEXAR_OK) && nx_group_is_from(run->number, g->over_from)) {
        nx_run_fail(run, true, g->over, "%s", g->over_why);
    }
    if (g->late != NEXAR_OK) {
        nx_run_fail(run, true, g->late, "%s", g->late_why);
        g->late = NEXAR_OK;
    }
    if (g->hub->early.n != 0) {
        nx_group_use_early(g, run);
    }
    return NEXAR_OK;
}

void nx_group_end(nx_group *g, nx_run *run)
{
    const size_t at = (run->number & NX_NUMBER_MASK) % NX_PAST;

    (void)nx_map_take(&g->active, nx_group_part_key(nx_group_part_id(run->number, run->part)));
    nx_list_remove(&run->link);
    g->past[at].went_well = (run->err == NEXAR_OK);
    g->past[at].number = run->number;
    g->past[at].part = run->part;
    g->past[at].mark = run->mark;
    g->diverged = g->diverged || (run->err == NEXAR_EPEER) || (run->err == NEXAR_ECONNECT) ||
                  (run->err == NEXAR_EPROTO);
    if (run->err != NEXAR_OK) {
        forget_messages(g, run->number, run->part);
    }
    forget_rest(g, run->number);
    if (g->hub->config.watch.on_end != NULL) {
        g->hub->config.watch.on_end(g->hub->config.watch.ctx, run);
    }
}
