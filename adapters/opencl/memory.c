/*
 * memory.c - addresses for buffers, and pinned memory.
 *
 * A range is reserved with PROT_NONE: it uses no memory, no other mapping gets its addresses, and
 * a host access to it faults at once.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "inner.h"

/* Reserves room for one more element of |size|. False: out of memory. */
static bool grow(void **array, size_t n, size_t *room, size_t size)
{
    void *more;

    if (n < *room) {
        return true;
    }
    more = realloc(*array, (*room + 16) * size);
    if (more == NULL) {
        return false;
    }
    *array = more;
    *room += 16;
    return true;
}

/* The number of ranges that begin at or before |ptr|. */
static size_t ranges_up_to(const nexar_opencl *cl, const char *ptr)
{
    size_t lo = 0, hi = cl->nranges;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if ((uintptr_t)cl->ranges[mid].base <= (uintptr_t)ptr) {
            lo = mid + 1;
        } else {
            hi = mid;
        }
    }
    return lo;
}

nexar_err nx_cl_find(nexar_opencl *cl, const void *ptr, size_t bytes, cl_mem *mem, size_t *offset)
{
    nx_cl_range found = {0};
    size_t at;

    (void)pthread_mutex_lock(&cl->lock);
    at = ranges_up_to(cl, ptr);
    if (at > 0) {
        found = cl->ranges[at - 1];
    }
    (void)pthread_mutex_unlock(&cl->lock);
    if (found.mem != NULL) {
        size_t off = (size_t)((const char *)ptr - found.base);

        if ((off <= found.bytes) && (bytes <= found.bytes - off)) {
            *mem = found.mem;
            *offset = off;
            return NEXAR_OK;
        }
    }
    return nx_cl_refuse(NEXAR_EINVAL,
                        "%zu bytes at %p lie in no buffer that was allocated or attached", bytes,
                        ptr);
}

/* Takes over |mem|, also on error. */
static nexar_err add_range(nexar_opencl *cl, cl_mem mem, size_t bytes, void **ptr)
{
    void *base = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    bool room;

    if (base == MAP_FAILED) {
        (void)clReleaseMemObject(mem);
        return nx_cl_refuse(NEXAR_ENOMEM, "no addresses for a buffer of %zu bytes", bytes);
    }
    (void)pthread_mutex_lock(&cl->lock);
    room = grow((void **)&cl->ranges, cl->nranges, &cl->ranges_room, sizeof(*cl->ranges));
    if (room) {
        size_t at = ranges_up_to(cl, base);

        memmove(&cl->ranges[at + 1], &cl->ranges[at], (cl->nranges - at) * sizeof(*cl->ranges));
        cl->ranges[at] = (nx_cl_range){.base = base, .bytes = bytes, .mem = mem};
        cl->nranges++;
    }
    (void)pthread_mutex_unlock(&cl->lock);
    if (!room) {
        (void)munmap(base, bytes);
        (void)clReleaseMemObject(mem);
        return nx_cl_refuse(NEXAR_ENOMEM, "out of memory for a range");
    }
    *ptr = base;
    return NEXAR_OK;
}

nexar_err nexar_opencl_alloc(nexar_opencl *cl, size_t bytes, void **ptr)
{
    cl_int code;
    cl_mem mem;

    if ((cl == NULL) || (ptr == NULL) || (bytes == 0)) {
        return nx_cl_refuse(NEXAR_EINVAL, "alloc: %s",
                            (bytes == 0) ? "0 bytes; a buffer has at least one"
                                         : "cl and ptr must not be NULL");
    }
    mem = clCreateBuffer(cl->context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    return (mem == NULL) ? nx_cl_failed("clCreateBuffer", code) : add_range(cl, mem, bytes, ptr);
}

nexar_err nexar_opencl_attach(nexar_opencl *cl, cl_mem buffer, void **ptr)
{
    size_t bytes = 0;
    cl_int code;

    if ((cl == NULL) || (ptr == NULL) || (buffer == NULL)) {
        return nx_cl_refuse(NEXAR_EINVAL, "attach: cl, buffer and ptr must not be NULL");
    }
    code = clGetMemObjectInfo(buffer, CL_MEM_SIZE, sizeof(bytes), &bytes, NULL);
    if (code != CL_SUCCESS) {
        return nx_cl_failed("clGetMemObjectInfo", code);
    }
    code = clRetainMemObject(buffer);
    return (code != CL_SUCCESS) ? nx_cl_failed("clRetainMemObject", code)
                                : add_range(cl, buffer, bytes, ptr);
}

static void drop_range(const nx_cl_range *range)
{
    (void)munmap(range->base, range->bytes);
    (void)clReleaseMemObject(range->mem);
}

void nexar_opencl_free(nexar_opencl *cl, void *ptr)
{
    nx_cl_range gone = {0};
    size_t at;

    if ((cl == NULL) || (ptr == NULL)) {
        return;
    }
    (void)pthread_mutex_lock(&cl->lock);
    at = ranges_up_to(cl, ptr);
    if ((at > 0) && (cl->ranges[at - 1].base == ptr)) {
        gone = cl->ranges[at - 1];
        cl->nranges--;
        memmove(&cl->ranges[at - 1], &cl->ranges[at], (cl->nranges + 1 - at) * sizeof(gone));
    }
    (void)pthread_mutex_unlock(&cl->lock);
    if (gone.mem != NULL) {
        drop_range(&gone);
    }
}

nexar_err nexar_opencl_buffer(nexar_opencl *cl, const void *ptr, cl_mem *buffer, size_t *offset)
{
    if ((cl == NULL) || (buffer == NULL) || (offset == NULL)) {
        return nx_cl_refuse(NEXAR_EINVAL, "buffer: cl, buffer and offset must not be NULL");
    }
    return nx_cl_find(cl, ptr, 0, buffer, offset);
}

/* ---- pinned memory ----------------------------------------------------------------- */

void *nx_cl_alloc_host(void *ctx, size_t bytes)
{
    nexar_opencl *cl = ctx;
    cl_int code;
    cl_mem mem =
        clCreateBuffer(cl->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &code);
    void *host;
    bool room;

    if (mem == NULL) {
        (void)nx_cl_failed("clCreateBuffer of pinned memory", code);
        return NULL;
    }
    host = clEnqueueMapBuffer(cl->queue, mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0,
                              NULL, NULL, &code);
    if (host == NULL) {
        (void)nx_cl_failed("clEnqueueMapBuffer of pinned memory", code);
        (void)clReleaseMemObject(mem);
        return NULL;
    }
    (void)pthread_mutex_lock(&cl->lock);
    room = grow((void **)&cl->pinned, cl->npinned, &cl->pinned_room, sizeof(*cl->pinned));
    if (room) {
        cl->pinned[cl->npinned++] = (nx_cl_pinned){.host = host, .mem = mem};
    }
    (void)pthread_mutex_unlock(&cl->lock);
    if (!room) {
        (void)clEnqueueUnmapMemObject(cl->queue, mem, host, 0, NULL, NULL);
        (void)clReleaseMemObject(mem);
        (void)nx_cl_refuse(NEXAR_ENOMEM, "out of memory for pinned memory");
        return NULL;
    }
    return host;
}

static void drop_pinned(nexar_opencl *cl, const nx_cl_pinned *p)
{
    (void)clEnqueueUnmapMemObject(cl->queue, p->mem, p->host, 0, NULL, NULL);
    (void)clReleaseMemObject(p->mem);
}

void nx_cl_free_host(void *ctx, void *host)
{
    nexar_opencl *cl = ctx;
    nx_cl_pinned gone = {0};

    (void)pthread_mutex_lock(&cl->lock);
    for (size_t i = 0; i < cl->npinned; i++) {
        if (cl->pinned[i].host == host) {
            gone = cl->pinned[i];
            cl->pinned[i] = cl->pinned[--cl->npinned];
            break;
        }
    }
    (void)pthread_mutex_unlock(&cl->lock);
    if (gone.mem != NULL) {
        drop_pinned(cl, &gone);
    }
}

void nx_cl_memory_fini(nexar_opencl *cl)
{
    for (size_t i = 0; i < cl->nranges; i++) {
        drop_range(&cl->ranges[i]);
    }
    for (size_t i = 0; i < cl->npinned; i++) {
        drop_pinned(cl, &cl->pinned[i]);
    }
    free(cl->ranges);
    free(cl->pinned);
}
