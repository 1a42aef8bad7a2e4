/*
 * message.h - messages that the application has taken by a matched probe and not received yet.
 *
 * The bytes are msg's (matched.c there); here is the handle.  It belongs to the application until
 * it was received, and to its world if it never is.  With the loop's lock held.
 */
#ifndef NX_MESSAGE_H
#define NX_MESSAGE_H

#include "core/p2p/p2p_op.h"

struct nexar_message {
    nx_list link;     /* in world->messages */
    nexar_comm *comm; /* NULL: it was freed */
    uint32_t id;      /* of comm->inc when the message was taken */
    int source;       /* rank in |comm| then */
    uint64_t tag, number;
    nexar_err lost; /* it cannot be received any more, ... */
    char why[160];  /* ... because of this */
};

/* |msg|, zeroed, stands for what |op|, a match that ended well, has taken. */
void nx_message_init(nexar_message *msg, const nx_op *op);
/* |comm| is destroyed: its messages are lost. */
void nx_messages_lose(const nexar_comm *comm);
/* The world ends: frees all that were not received. */
void nx_messages_free(nx_world *world);

#endif /* NX_MESSAGE_H */
