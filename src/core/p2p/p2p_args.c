/* p2p_args.c - checks of the arguments of messages, before anything is sent. */
#include "core/p2p/p2p_args.h"

#include <inttypes.h>

#include "core/world/fork_guard.h"

static nexar_err check_comm(const char *name, const nexar_comm *comm)
{
    if (comm == NULL) {
        return nx_fail(NEXAR_EINVAL, "%s: comm is NULL", name);
    }
    return nx_fork_guard_check(name, comm->world);
}

nexar_err nx_p2p_check_dest(const char *name, const nexar_comm *comm, int dest, uint64_t tag)
{
    nexar_err err = check_comm(name, comm);

    if (err != NEXAR_OK) {
        return err;
    }
    if ((dest < 0) || (dest >= nexar_size(comm))) {
        return nx_fail(NEXAR_EINVAL, "%s: there is no rank %d; ranks are 0 to %" PRIu32, name, dest,
                       nexar_size(comm) - 1);
    }
    if (tag == NEXAR_ANY_TAG) {
        return nx_fail(NEXAR_EINVAL, "%s: NEXAR_ANY_TAG is for receiving; give a tag below it",
                       name);
    }
    return NEXAR_OK;
}

nexar_err nx_p2p_check_source(const char *name, const nexar_comm *comm, int source)
{
    nexar_err err = check_comm(name, comm);

    if (err != NEXAR_OK) {
        return err;
    }
    if ((source != NEXAR_ANY_SOURCE) && ((source < 0) || (source >= nexar_size(comm)))) {
        return nx_fail(NEXAR_EINVAL,
                       "%s: there is no rank %d; ranks are 0 to %" PRIu32 ", or NEXAR_ANY_SOURCE",
                       name, source, nexar_size(comm) - 1);
    }
    return NEXAR_OK;
}

nexar_err nx_p2p_check_memory(const char *name, const void *ptr, size_t bytes)
{
    return ((ptr == NULL) && (bytes != 0))
               ? nx_fail(NEXAR_EINVAL, "%s: the buffer of %zu bytes is NULL", name, bytes)
               : NEXAR_OK;
}

nexar_err nx_p2p_check_apart(const char *name, const nx_bytes *out, const nx_iov_span *in)
{
    const uintptr_t x = (uintptr_t)out->ptr, y = (uintptr_t)in->ptr;

    if ((out->len != 0) && (in->len != 0) && ((x <= y) ? (y - x < out->len) : (x - y < in->len))) {
        return nx_fail(NEXAR_EINVAL, "%s: sendbuf and recvbuf overlap", name);
    }
    return NEXAR_OK;
}

nexar_err nx_p2p_check_regions(const char *name, const nexar_iov *iov, size_t n)
{
    size_t sum = 0;

    if ((iov == NULL) && (n != 0)) {
        return nx_fail(NEXAR_EINVAL, "%s: iov of %zu regions is NULL", name, n);
    }
    for (size_t i = 0; i < n; i++) {
        nexar_err err = nx_p2p_check_memory(name, iov[i].ptr, iov[i].bytes);

        if (err != NEXAR_OK) {
            return err;
        }
        if (iov[i].bytes > SIZE_MAX - sum) {
            return nx_fail(NEXAR_EINVAL, "%s: the regions are more than SIZE_MAX bytes", name);
        }
        sum += iov[i].bytes;
    }
    return NEXAR_OK;
}
