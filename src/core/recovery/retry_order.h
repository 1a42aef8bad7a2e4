/*
 * retry_order.h - with retry=on: one collective of a communicator at a time, in the order of the
 * calls, which is the same on all ranks.  With the loop's lock held.
 */
#ifndef NX_RETRY_ORDER_H
#define NX_RETRY_ORDER_H

#include "core/comm/comm.h"

/* A position in the queue of collectives of a communicator; zero-initialised. */
typedef struct nx_retry_turn {
    nx_list link;   /* in comm->retry.turns */
    nx_event event; /* set: it is at the front */
} nx_retry_turn;

/* Append to the queue; wait until at the front; remove, and signal the next. */
void nx_episode_queue(nexar_comm *comm, nx_retry_turn *turn);
void nx_episode_take(nexar_comm *comm, nx_retry_turn *turn);
void nx_episode_give(nexar_comm *comm);
/* Waits until all current requests have ended. */
void nx_retry_order_drain(nexar_comm *comm);

#endif /* NX_RETRY_ORDER_H */
