/* comm_device.c - the device of a communicator, and its stream. */
#include "comm_device.h"

#include "base/os/cancellation.h"
#include "core/world/fork_guard.h"
#include "device/staging.h"

/* With the lock.  Returns the previous device, which ends with the operations that use it. */
static nx_device *set(nexar_comm *comm, nx_device *device)
{
    nx_device *old = comm->device;

    comm->device = device;
    comm->stream = NULL;
    atomic_store(&comm->has_device, device != NULL);
    return old;
}

nexar_err nexar_comm_set_device(nexar_comm *comm, const nexar_device *device)
{
    NX_NOT_CANCELLED;
    nx_device *made = NULL;
    nexar_err err;

    if (comm == NULL) {
        return nx_fail(NEXAR_EINVAL, "comm_set_device: comm is NULL");
    }
    err = nx_fork_guard_check("comm_set_device", comm->world);
    if ((err == NEXAR_OK) && (device != NULL)) {
        err = nx_device_create("comm_set_device", device, &made);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    if (comm->world->device_worker == NULL) {
        err = nx_worker_create(&comm->world->device_worker, comm->world->loop, NX_DEVICE_THREADS);
    }
    if (err == NEXAR_OK) {
        made = set(comm, made);
    }
    nx_loop_unlock(comm->world->loop);
    nx_device_release(made);
    return err;
}

nexar_err nexar_comm_set_stream(nexar_comm *comm, void *stream)
{
    NX_NOT_CANCELLED;
    nexar_err err;

    if (comm == NULL) {
        return nx_fail(NEXAR_EINVAL, "comm_set_stream: comm is NULL");
    }
    err = nx_fork_guard_check("comm_set_stream", comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    nx_loop_lock(comm->world->loop);
    if (comm->device == NULL) {
        err =
            nx_fail(NEXAR_EINVAL,
                    "comm_set_stream: the communicator has no device; comm_set_device comes first");
    } else {
        comm->stream = stream;
    }
    nx_loop_unlock(comm->world->loop);
    return err;
}

nexar_err nx_comm_memory(nexar_comm *comm, nx_devmem *mem)
{
    nexar_err err;

    *mem = (nx_devmem){0};
    if (!atomic_load(&comm->has_device)) {
        return NEXAR_OK;
    }
    nx_loop_lock(comm->world->loop);
    *mem = (nx_devmem){.device = comm->device, .stream = comm->stream};
    if (mem->device != NULL) {
        nx_device_hold(mem->device);
    }
    nx_loop_unlock(comm->world->loop);
    if ((mem->device == NULL) || !nx_device_plain(mem->device)) {
        return NEXAR_OK;
    }
    err = nx_device_synchronize(*mem);
    nx_comm_memory_done(mem);
    return err;
}

void nx_comm_inherit_device(nexar_comm *child, const nexar_comm *parent)
{
    if (parent->device != NULL) {
        nx_device_hold(parent->device);
        (void)set(child, parent->device);
        child->stream = parent->stream;
    }
}

void nx_comm_drop_device(nexar_comm *comm)
{
    nx_device_release(set(comm, NULL));
}
