/*
 * create.h - nexar_comm_create: the creations of a world, and what they hear.
 *
 * cluster/creation/creation.h has the protocol.  Everything here is called with the loop's lock.
 */
#ifndef NX_CREATE_H
#define NX_CREATE_H

#include "core/comm/incarnation.h"

/* NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_create_open(nx_world *world);
/* No thread of the application is in nexar_comm_create. */
void nx_create_stop(nx_world *world);

/* From msg.  False: the frame is not of this. */
bool nx_create_on_control(nx_world *world, uint32_t peer, const void *data, size_t len);
/* |slot| has failed or left; this rank itself: it is out of the world. */
void nx_create_gone(nx_world *world, uint32_t slot, const char *why);
/* |inc| was revoked, or is about to be closed. */
void nx_create_revoked(nx_incarnation *inc, const char *why);

#endif /* NX_CREATE_H */
