/* timers.c - what the loop runs without I/O: timers in a heap, deferred work in a list. */
#include "loop_inner.h"

nexar_err nx_loop_timer_set(nx_loop *loop, nx_timer *self, uint64_t at_ns)
{
    /* Not before now: otherwise a timer that sets itself to a time long past would precede all
     * others in every iteration. */
    uint64_t key = (at_ns > loop->now_ns) ? at_ns : loop->now_ns;

    if (nx_heap_holds(&self->item)) {
        nx_heap_move(&loop->timers, &self->item, key);
        return NEXAR_OK;
    }
    return nx_heap_push(&loop->timers, &self->item, key);
}

void nx_loop_timer_cancel(nx_loop *loop, nx_timer *self)
{
    nx_heap_remove(&loop->timers, &self->item);
}

void nx_task_init(nx_task *self, void (*run)(nx_task *self))
{
    nx_list_init(&self->link);
    self->run = run;
    self->patient = false;
}

void nx_loop_defer(nx_loop *loop, nx_task *self)
{
    if (!nx_list_linked(&self->link)) {
        nx_list_push_back(&loop->tasks, &self->link);
    }
}

void nx_loop_undefer(nx_task *self)
{
    nx_list_remove(&self->link);
}

uint64_t nx_loop_next_due(const nx_loop *loop)
{
    const nx_heap_item *top = nx_heap_top(&loop->timers);

    if (!nx_list_empty(&loop->tasks)) {
        return 0;
    }
    return (top == NULL) ? UINT64_MAX : top->key;
}

/* Runs as many timers as exist now, so that timers that reset themselves to a past time do not
 * starve descriptors. */
void nx_loop_run_timers(nx_loop *loop)
{
    size_t most = loop->timers.n;

    loop->dispatching = true;
    while (most-- > 0) {
        nx_heap_item *top = nx_heap_top(&loop->timers);
        nx_timer *timer = nx_list_entry(top, nx_timer, item);

        if ((top == NULL) || (top->key > loop->now_ns)) {
            break;
        }
        nx_heap_remove(&loop->timers, top);
        timer->on_expire(timer, loop->now_ns);
    }
    loop->dispatching = false;
}

/* Work deferred by a task, for instance the task itself, runs in the next iteration. So a
 * connection with much to write does not starve descriptors. */
void nx_loop_run_tasks(nx_loop *loop)
{
    nx_list batch;

    if (nx_list_empty(&loop->tasks)) {
        return;
    }
    nx_list_insert(loop->tasks.next, &batch); /* takes the head's position in its ring */
    nx_list_remove(&loop->tasks);
    loop->dispatching = true;
    for (nx_list *at = nx_list_pop(&batch); at != NULL; at = nx_list_pop(&batch)) {
        nx_task *task = nx_list_entry(at, nx_task, link);

        task->run(task);
    }
    loop->dispatching = false;
}
