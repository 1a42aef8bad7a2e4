/*
 * upcalls.h - starts the layers below a world, and implements their upcalls.  With the loop's lock.
 */
#ifndef NX_UPCALLS_H
#define NX_UPCALLS_H

#include "world.h"

/* Messages, collectives and failure detection.  NEXAR_ENOMEM, NEXAR_EINVAL */
NX_MUST_CHECK nexar_err nx_upcalls_start_messages(nx_world *world);
/* Remote calls.  NEXAR_ENOMEM, NEXAR_ESYS */
NX_MUST_CHECK nexar_err nx_upcalls_start_rpc(nx_world *world);

#endif /* NX_UPCALLS_H */
