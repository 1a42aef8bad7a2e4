/* retry_order.c - a lock that threads get in the order in which they have asked for it. */
#include "retry_order.h"

void nx_episode_queue(nexar_comm *comm, nx_retry_turn *turn)
{
    nx_retry *r = &comm->retry;

    if (r->busy) { /* the running collective signals the first */
        nx_list_push_back(&r->turns, &turn->link);
    } else {
        r->busy = true;
        turn->event.set = true;
    }
}

void nx_episode_take(nexar_comm *comm, nx_retry_turn *turn)
{
    if (!turn->event.set) {
        nx_oplog_enter(&comm->world->log);
        (void)nx_loop_wait(comm->world->loop, &turn->event, UINT64_MAX);
        nx_oplog_leave(&comm->world->log);
    }
}

void nx_episode_give(nexar_comm *comm)
{
    nx_retry *r = &comm->retry;
    nx_list *first = nx_list_pop(&r->turns);

    r->busy = (first != NULL);
    if (first != NULL) {
        nx_event_set(comm->world->loop, &nx_list_entry(first, nx_retry_turn, link)->event);
    }
}

void nx_retry_order_drain(nexar_comm *comm)
{
    nx_retry_turn turn = {0};

    if (comm->retry.queued > 0) {
        nx_episode_queue(comm, &turn);
        nx_episode_take(comm, &turn);
        nx_episode_give(comm);
    }
}
