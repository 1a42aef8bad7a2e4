/* net.c - the virtual network's time: the next event of the net or of its loops. */
#include <assert.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "sim_inner.h"

enum { SECOND_NS = 1000000000 };

uint64_t nx_sim_now(const nx_sim_net *net)
{
    return (net->loop != NULL) ? nx_loop_now(net->loop) : net->clock.ns;
}

const nx_clock *nx_sim_clock(const nx_sim_net *net)
{
    return &net->clock.clock;
}

size_t nx_sim_links(const nx_sim_net *net)
{
    return net->nlinks;
}

/* ---- events -------------------------------------------------------------------------- */

nexar_err nx_sim_reserve(nx_sim_net *net, size_t n)
{
    nx_heap *h = &net->events;
    nx_heap_item **items = nx_vec_grow(h->items, &h->room, net->reserved + n, sizeof(void *));

    if (items == NULL) {
        return nx_fail_nomem("events of the virtual network");
    }
    h->items = items;
    net->reserved += n;
    return NEXAR_OK;
}

void nx_sim_unreserve(nx_sim_net *net, size_t n)
{
    net->reserved -= n;
}

/* In a loop of its own the net is a timer, set to the next event. */
static void arm(nx_sim_net *net)
{
    const nx_heap_item *top = nx_heap_top(&net->events);
    uint64_t at_ns = (top == NULL) ? UINT64_MAX : top->key;
    nexar_err err;

    if (net->loop == NULL) {
        return;
    }
    if (!nx_list_empty(&net->work)) {
        at_ns = 0;
    }
    /* The timer is always set already, and moving it cannot fail. */
    err = nx_loop_timer_set(net->loop, &net->timer, at_ns);
    assert(err == NEXAR_OK);
    (void)err;
}

void nx_sim_schedule(nx_sim_net *net, nx_sim_event *event, uint64_t at_ns)
{
    nexar_err err;

    assert(!nx_heap_holds(&event->item));
    err = nx_heap_push(&net->events, &event->item, at_ns);
    assert(err == NEXAR_OK); /* reserved */
    (void)err;
    arm(net);
}

void nx_sim_unschedule(nx_sim_net *net, nx_sim_event *event)
{
    nx_heap_remove(&net->events, &event->item);
    nx_list_remove(&event->held);
}

void nx_sim_work(nx_sim_link *link)
{
    if (!nx_list_linked(&link->work)) {
        nx_list_push_back(&link->net->work, &link->work);
        arm(link->net);
    }
}

/* Runs one of the events that are due at |now_ns|. */
static bool happen(nx_sim_net *net, uint64_t now_ns)
{
    nx_list *at = nx_list_pop(&net->work);
    nx_heap_item *top = nx_heap_top(&net->events);

    if (at != NULL) {
        nx_sim_link_work(nx_list_entry(at, nx_sim_link, work));
        return true;
    }
    if ((top == NULL) || (top->key > now_ns)) {
        return false;
    }
    nx_heap_remove(&net->events, top);
    nx_sim_link_happen(nx_list_entry(top, nx_sim_event, item));
    return true;
}

/* ---- time ---------------------------------------------------------------------------- */

static void on_timer(nx_timer *self, uint64_t now_ns)
{
    nx_sim_net *net = nx_list_entry(self, nx_sim_net, timer);
    /* The heap of timers has just released this one's entry. */
    nexar_err err = nx_loop_timer_set(net->loop, self, UINT64_MAX);

    assert(err == NEXAR_OK);
    (void)err;
    /* As many as an idle loop would find; then other work of the loop runs. */
    for (int i = 0; (i < 64) && happen(net, now_ns); i++) {
    }
    arm(net);
}

static uint64_t kick_all(nx_sim_net *net)
{
    uint64_t due_ns = UINT64_MAX;

    for (size_t i = 0; i < net->nloops; i++) {
        nx_loop_kick(net->loops[i]);
    }
    for (size_t i = 0; i < net->nloops; i++) {
        uint64_t next_ns = nx_loop_next_due(net->loops[i]);

        due_ns = (next_ns < due_ns) ? next_ns : due_ns;
    }
    return due_ns;
}

bool nx_sim_step(nx_sim_net *net)
{
    uint64_t due_ns = kick_all(net);
    const nx_heap_item *top = nx_heap_top(&net->events);

    assert(net->loop == NULL);
    if (!nx_list_empty(&net->work)) {
        due_ns = 0;
    }
    if ((top != NULL) && (top->key < due_ns)) {
        due_ns = top->key;
    }
    if (due_ns == UINT64_MAX) {
        return false;
    }
    if (due_ns > net->clock.ns) {
        net->clock.ns = due_ns;
    }
    (void)happen(net, net->clock.ns);
    (void)kick_all(net);
    return true;
}

nexar_err nx_sim_attach(nx_sim_net *net, nx_loop *loop)
{
    nx_loop **loops = nx_vec_grow(net->loops, &net->room_loops, net->nloops + 1, sizeof(void *));

    if (loops == NULL) {
        return nx_fail_nomem("loops of the virtual network");
    }
    net->loops = loops;
    net->loops[net->nloops++] = loop;
    return NEXAR_OK;
}

void nx_sim_detach(nx_sim_net *net, nx_loop *loop)
{
    for (size_t i = 0; i < net->nloops; i++) {
        if (net->loops[i] == loop) {
            net->loops[i] = net->loops[--net->nloops];
            return;
        }
    }
}

/* ---- life ---------------------------------------------------------------------------- */

nexar_err nx_sim_create(nx_sim_net **out, uint64_t seed, nx_loop *loop)
{
    nx_sim_net *net = nx_zalloc(sizeof(*net));
    nexar_err err;

    if (net == NULL) {
        return nx_fail_nomem("a virtual network");
    }
    nx_clock_manual_init(&net->clock, SECOND_NS);
    nx_random_seeded_init(&net->random, seed);
    nx_list_init(&net->links);
    nx_list_init(&net->work);
    net->loop = loop;
    net->timer.on_expire = on_timer;
    if (loop != NULL) {
        err = nx_loop_timer_set(loop, &net->timer, UINT64_MAX);
        if (err != NEXAR_OK) {
            nx_free(net);
            return err;
        }
    }
    *out = net;
    return NEXAR_OK;
}

void nx_sim_destroy(nx_sim_net *net)
{
    if (net == NULL) {
        return;
    }
    while (!nx_list_empty(&net->links)) {
        nx_sim_link_free(nx_list_entry(net->links.next, nx_sim_link, links));
    }
    if (net->loop != NULL) {
        nx_loop_timer_cancel(net->loop, &net->timer);
    }
    assert(net->reserved == 0);
    nx_heap_fini(&net->events);
    nx_free(net->loops);
    nx_free(net);
}
