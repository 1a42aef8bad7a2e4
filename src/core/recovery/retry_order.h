/*
 * retry_order.h - with retry=on: one collective of a communicator at a time, in the order of the
 * calls, which is the same on all ranks.  With the loop's lock held.
 */
#ifndef NX_RETRY_ORDER_H
#define NX_RETRY_ORDER_H

#include "core/comm/comm.h"

/* A place in the row of the collectives of a communicator; zero-initialised. */
typedef struct nx_retry_turn {
    nx_list link;   /* in comm->retry.turns */
    nx_event event; /* set: it is this one's turn */
} nx_retry_turn;

/* Takes the last place for now; waits for its turn; gives the turn to the next. */
void nx_episode_queue(nexar_comm *comm, nx_retry_turn *turn);
void nx_episode_take(nexar_comm *comm, nx_retry_turn *turn);
void nx_episode_give(nexar_comm *comm);
/* Waits until the requests that there are now have ended. */
void nx_retry_order_drain(nexar_comm *comm);

#endif /* NX_RETRY_ORDER_H */
