/*
 * message.h - messages that a matched probe has taken and that are not received yet.
 *
 * msg holds the bytes (matched.c there); this is the handle. The application owns it until the
 * message is received; otherwise the world frees it. With the loop's lock held.
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

/* |msg|, zeroed, becomes the handle of what |op|, a successful matched probe, has taken. */
void nx_message_init(nexar_message *msg, const nx_op *op);
/* |comm| is destroyed: its messages are lost. */
void nx_messages_lose(const nexar_comm *comm);
/* The world ends: frees all handles that are left. */
void nx_messages_free(nx_world *world);

#endif /* NX_MESSAGE_H */
