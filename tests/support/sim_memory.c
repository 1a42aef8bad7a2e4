/* sim_memory.c - one memfd, mapped twice. */
#include "sim_memory.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 256 }; /* the alignment of device memory */

bool nxt_sim_memory_init(nxt_sim_memory *mem, size_t bytes)
{
    int fd = memfd_create("sim_device", MFD_CLOEXEC);
    void *device = MAP_FAILED, *real = MAP_FAILED;

    if ((fd >= 0) && (ftruncate(fd, (off_t)bytes) == 0)) {
        device = mmap(NULL, bytes, PROT_NONE, MAP_SHARED, fd, 0);
        real = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    *mem = (nxt_sim_memory){.device = device, .real = real, .bytes = bytes};
    return (device != MAP_FAILED) && (real != MAP_FAILED);
}

void nxt_sim_memory_fini(nxt_sim_memory *mem)
{
    (void)munmap(mem->device, mem->bytes);
    (void)munmap(mem->real, mem->bytes);
}

void *nxt_sim_memory_alloc(nxt_sim_memory *mem, size_t bytes)
{
    size_t need = (bytes + ALIGN - 1) / ALIGN * ALIGN;
    char *at = mem->device + mem->used;

    if (need > mem->bytes - mem->used) {
        return NULL;
    }
    mem->used += need;
    return at;
}

void nxt_sim_memory_reset(nxt_sim_memory *mem)
{
    mem->used = 0;
}

char *nxt_sim_memory_real(const nxt_sim_memory *mem, const void *dev, size_t bytes)
{
    uintptr_t off = (uintptr_t)dev - (uintptr_t)mem->device;

    if ((off > mem->bytes) || (bytes > mem->bytes - off)) {
        return NULL;
    }
    return mem->real + off;
}

bool nxt_sim_memory_touches(const nxt_sim_memory *mem, const void *ptr, size_t bytes)
{
    uintptr_t begin = (uintptr_t)ptr, device = (uintptr_t)mem->device;

    return (begin < device + mem->bytes) && (begin + bytes > device);
}
