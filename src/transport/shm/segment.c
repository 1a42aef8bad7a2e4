/* segment.c - sealed memory, and the layout of its rings. */
#include "transport/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/os/sys.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

static const uint64_t MAGIC = UINT64_C(0x6e65786172736831);
enum { VERSION = 3 };

static const uint32_t rooms[NX_SHM_RINGS] = {NX_SHM_CONTROL_ROOM, NX_SHM_MESSAGE_ROOM,
                                             NX_SHM_DATA_ROOM};

/* ---- sealed memory ------------------------------------------------------------------- */

/* Beyond the limit ftruncate would end the process with SIGXFSZ. */
static nexar_err check_file_limit(size_t size)
{
    struct rlimit limit;

    if ((getrlimit(RLIMIT_FSIZE, &limit) == 0) && (limit.rlim_cur != RLIM_INFINITY) &&
        (size > limit.rlim_cur)) {
        return nx_fail(NEXAR_ESYS,
                       "shared memory of %zu bytes is more than the file size limit of this "
                       "process (ulimit -f), %llu bytes",
                       size, (unsigned long long)limit.rlim_cur);
    }
    return NEXAR_OK;
}

nexar_err nx_memfd_create(size_t size, int *fd)
{
    nexar_err err = check_file_limit(size);
    int made, code;

    if (err != NEXAR_OK) {
        return err;
    }
    made = nx_sys_memfd_create("nexar", MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
    if ((made < 0) && (errno == EINVAL)) {
        made = nx_sys_memfd_create("nexar", MFD_ALLOW_SEALING); /* an older kernel */
    }
    if (made < 0) {
        return nx_fail_sys("memfd_create", "", errno);
    }
    if ((nx_sys_ftruncate(made, (off_t)size) != 0) ||
        (fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)) {
        code = errno;
        (void)nx_sys_close(made);
        return nx_fail_sys("memfd_create", "", code);
    }
    *fd = made;
    return NEXAR_OK;
}

nexar_err nx_memfd_map(int fd, size_t size, void **out)
{
    const int wanted = F_SEAL_SHRINK | F_SEAL_GROW;
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat st;
    void *at;

    if ((seals < 0) || ((seals & wanted) != wanted) || (fstat(fd, &st) != 0) ||
        ((size_t)st.st_size != size)) {
        return nx_fail(NEXAR_EPROTO, "it passed memory that is not sealed, or of another size");
    }
    at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
        return nx_fail_sys("mmap", "", errno);
    }
    *out = at;
    return NEXAR_OK;
}

/* ---- segments ------------------------------------------------------------------------ */

nexar_err nx_segment_create(nx_segment **out, int *fd)
{
    void *at = NULL;
    nexar_err err = nx_memfd_create(NX_SEGMENT_SIZE, fd);

    if (err != NEXAR_OK) {
        return err;
    }
    err = nx_memfd_map(*fd, NX_SEGMENT_SIZE, &at);
    if ((err != NEXAR_OK) || (at == NULL)) {
        (void)nx_sys_close(*fd);
        return err;
    }
    *out = at;
    (*out)->magic = MAGIC;
    (*out)->version = VERSION;
    (*out)->size = NX_SEGMENT_SIZE;
    return NEXAR_OK;
}

nexar_err nx_segment_map(int fd, nx_segment **out)
{
    nx_segment *segment;
    void *at = NULL;
    nexar_err err = nx_memfd_map(fd, NX_SEGMENT_SIZE, &at);

    if ((err != NEXAR_OK) || (at == NULL)) {
        return err;
    }
    segment = at;
    if ((segment->magic != MAGIC) || (segment->version != VERSION) ||
        (segment->size != NX_SEGMENT_SIZE)) {
        nx_segment_unmap(segment);
        return nx_fail(NEXAR_EPROTO, "it passed memory that is no segment of this version");
    }
    *out = segment;
    return NEXAR_OK;
}

void nx_segment_unmap(nx_segment *segment)
{
    (void)munmap(segment, NX_SEGMENT_SIZE);
}

static uint8_t *ring_data(nx_segment *segment, unsigned way, int ring)
{
    uint8_t *at = (uint8_t *)segment + NX_SHM_PAGE + (size_t)way * NX_SHM_ROOM;

    for (int i = 0; i < ring; i++) {
        at += rooms[i];
    }
    return at;
}

static nx_ring_words ring_words(nx_segment *segment, unsigned way, int ring)
{
    nx_segment_way *w = &segment->way[way];

    return (nx_ring_words){.tail = &w->tail[ring], .head = &w->head[ring], .stuck = &w->stuck};
}

void nx_segment_out(nx_segment *segment, unsigned way, nx_ring_out out[NX_SHM_RINGS])
{
    for (int i = 0; i < NX_SHM_RINGS; i++) {
        nx_ring_out_init(&out[i], ring_words(segment, way, i), ring_data(segment, way, i),
                         rooms[i]);
    }
}

void nx_segment_in(nx_segment *segment, unsigned way, nx_ring_in in[NX_SHM_RINGS])
{
    for (int i = 0; i < NX_SHM_RINGS; i++) {
        nx_ring_in_init(&in[i], ring_words(segment, way, i), ring_data(segment, way, i), rooms[i]);
    }
}
