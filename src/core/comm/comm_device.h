/* comm_device.h - the device of a communicator, for calls on it. */
#ifndef NX_COMM_DEVICE_H
#define NX_COMM_DEVICE_H

#include "comm.h"
#include "device/device.h"

/*
 * Where the buffers of a call that begins on |comm| lie: |*mem| has a reference to the device, or
 * none for host memory, and the stream.  If device pointers are host pointers, waits for the
 * stream, and |*mem| has no device.  Without the loop's lock.
 *
 * NEXAR_EDEVICE
 */
NX_MUST_CHECK nexar_err nx_comm_memory(nexar_comm *comm, nx_devmem *mem);
/* Releases |*mem|. */
static inline void nx_comm_memory_done(nx_devmem *mem)
{
    nx_device_release(mem->device);
    mem->device = NULL;
}

/* |child| begins with the device and the stream of |parent|; with the lock. */
void nx_comm_inherit_device(nexar_comm *child, const nexar_comm *parent);
/* |comm| ends; with the lock. */
void nx_comm_drop_device(nexar_comm *comm);

#endif /* NX_COMM_DEVICE_H */
