/* call_announce.c - announces the called operation to ranks that have not sent yet. */
#include "base/log.h"
#include "group_inner.h"
#include "msg/control.h"

enum { CALLED_ROOM = 32 };

/* Announces the operation of |run| to |rank|. */
static void tell_call(const nx_group *g, const nx_run *run, uint32_t rank)
{
    uint8_t frame[CALLED_ROOM];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_write_u8(&w, NX_CONTROL_CALLED);
    nx_write_u32(&w, g->comm);
    nx_write_u32(&w, nx_group_part_id(run->number, run->part));
    nx_write_u64(&w, run->mark.word[0]);
    nx_write_u64(&w, run->mark.word[1]);
    nx_group_send_frame(g, rank, &w);
}

void nx_group_on_called(nx_registry *hub, uint32_t peer, nx_reader *r)
{
    const nx_context context = {.comm = nx_read_u32(r), .kind = NX_KIND_COLL};
    const uint32_t place = nx_read_u32(r);
    nx_mark mark;

    mark.word[0] = nx_read_u64(r);
    mark.word[1] = nx_read_u64(r);
    if (r->failed || !nx_reader_done(r) || ((uint64_t)place >> NX_PART_ID_BITS != 0)) {
        nx_log(NX_LOG_WARN, "peer %u: dropped a malformed CALLED frame", peer);
        return;
    }
    (void)nx_registry_on_mark(hub, peer, context, (uint64_t)place << NX_PART_SHIFT, &mark);
    nx_group_answer_called(hub, peer, context.comm, place);
}

/* Finds a run that has waited for a tick and has not announced itself to |*rank|, for which it
 * waits. |*any|: some run exists. */
static nx_run *find_untold(const nx_registry *hub, uint64_t now_ns, uint32_t *rank, bool *any)
{
    nx_group *g;
    size_t at = 0;

    while ((g = nx_map_next(&hub->groups, &at)) != NULL) {
        nx_list_for_each (l, &g->runs) {
            nx_run *run = nx_list_entry(l, nx_run, link);

            *any = true;
            if ((now_ns - run->begun_ns >= NX_CALLED_NS) && nx_run_take_unannounced(run, rank)) {
                return run;
            }
        }
    }
    return NULL;
}

/* Announces operations that have waited for a tick, at most two ticks after they began. */
void nx_group_on_tick(nx_timer *timer, uint64_t now_ns)
{
    nx_registry *hub = nx_list_entry(timer, nx_registry, tick);
    bool any = false;
    uint32_t rank;
    const nx_run *run;

    /* Restart the search each time: a link that fails ends runs. */
    while ((run = find_untold(hub, now_ns, &rank, &any)) != NULL) {
        tell_call(run->group, run, rank);
    }
    hub->ticking =
        any && (nx_loop_timer_set(hub->config.loop, timer, now_ns + NX_CALLED_NS) == NEXAR_OK);
}

void nx_group_tick(nx_registry *hub)
{
    if (!hub->ticking && !hub->stopped) {
        hub->ticking = nx_loop_timer_set(hub->config.loop, &hub->tick,
                                         nx_loop_now(hub->config.loop) + NX_CALLED_NS) == NEXAR_OK;
    }
}
