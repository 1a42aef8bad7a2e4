/*
 * segment.h - the memory that two processes share: its layout, making and mapping it.
 *
 * The dialler is side 0, the acceptor side 1.  Direction d is from side d to the other.
 * Every line has one writer, but for |asleep| and |stuck|, which the other side clears, and
 * claims.
 *
 *   page 0       what the segment is, then for each direction
 *     wrote      tails of its rings and |stuck|: the writer's
 *     read       heads of its rings: the reader's
 *     sleep      the reader's world is about to sleep, or sleeps
 *     side       what the writer's side says of itself
 *     claims     who brings the parts that it offers: both write there (claim.h)
 *     last       the last frame, of a writer that has given up the link and says why
 *   from page 1  the rings of direction 0, then those of direction 1
 *
 * Waking.  Before a world sleeps it sets |asleep| in all its segments, then looks at all
 * rings once more, and does not sleep if there is something.  Who has published looks at
 * |asleep| afterwards, and if it is set clears it and rings the bell.  By the order in
 * ring.h no wake is lost; while the reader is awake a message costs no system call.
 */
#ifndef NX_SEGMENT_H
#define NX_SEGMENT_H

#include <stdatomic.h>

#include "base/error.h"
#include "byte_ring.h"
#include "transport/shm/claim.h"
#include "transport/transport.h"

typedef enum nx_shm_ring { NX_SHM_CONTROL, NX_SHM_MESSAGE, NX_SHM_DATA, NX_SHM_RINGS } nx_shm_ring;

enum {
    NX_SHM_PAGE = 4096,
    NX_SHM_LINE = 128, /* two lines: processors fetch them in pairs */
    NX_SHM_CONTROL_ROOM = 8 << 10,
    NX_SHM_MESSAGE_ROOM = 32 << 10,
    NX_SHM_DATA_ROOM = 256 << 10,
    NX_SHM_OFFERS = 16, /* parts of a direction that are offered at a time */
    NX_SHM_ROOM = NX_SHM_CONTROL_ROOM + NX_SHM_MESSAGE_ROOM + NX_SHM_DATA_ROOM,
    NX_SEGMENT_SIZE = NX_SHM_PAGE + 2 * NX_SHM_ROOM /* 596 KiB, and pages only when used */
};

/* Whether the reader of a direction can read the memory of its writer. */
typedef enum nx_shm_reads { NX_READS_UNKNOWN, NX_READS_YES, NX_READS_NO } nx_shm_reads;

/* How the writer of a direction has closed the link. */
typedef enum nx_shm_closed {
    NX_SHM_OPEN,
    NX_SHM_LEFT,     /* in order: all that was queued is there */
    NX_SHM_GIVEN_UP, /* without a good-bye */
    NX_SHM_DISMISSED /* the same, and |last| says why */
} nx_shm_closed;

typedef struct nx_segment_way {
    _Alignas(NX_SHM_LINE) _Atomic uint32_t tail[NX_SHM_RINGS];
    _Atomic uint32_t stuck;
    _Alignas(NX_SHM_LINE) _Atomic uint32_t head[NX_SHM_RINGS];
    _Alignas(NX_SHM_LINE) _Atomic uint32_t asleep;
    _Alignas(NX_SHM_LINE) _Atomic uint32_t closed; /* nx_shm_closed */
    _Atomic uint32_t reads;                        /* nx_shm_reads, by its reader */
    _Alignas(NX_SHM_LINE) nx_claim claims[NX_SHM_OFFERS];
    uint32_t last_len; /* written once, before |closed| says NX_SHM_DISMISSED */
    uint8_t last[NX_LAST_MAX];
} nx_segment_way;

typedef struct nx_segment {
    uint64_t magic;
    uint32_t version, size;
    nx_segment_way way[2];
} nx_segment;
_Static_assert(sizeof(nx_segment) <= NX_SHM_PAGE, "the first page has it all");

/* A memfd of |size| zero bytes that can neither shrink nor grow.  NEXAR_ESYS, also where the
 * process may have no file of that size. */
NX_MUST_CHECK nexar_err nx_memfd_create(size_t size, int *fd);
/* Maps it, after checking that it is |size| long and sealed: then no access to it can
 * fault.  NEXAR_EPROTO: it is not; NEXAR_ESYS. */
NX_MUST_CHECK nexar_err nx_memfd_map(int fd, size_t size, void **out);

/* A new segment, or the one behind |fd|; given back with nx_segment_unmap. */
NX_MUST_CHECK nexar_err nx_segment_create(nx_segment **out, int *fd);
NX_MUST_CHECK nexar_err nx_segment_map(int fd, nx_segment **out);
void nx_segment_unmap(nx_segment *segment);

void nx_segment_out(nx_segment *segment, unsigned way, nx_ring_out out[NX_SHM_RINGS]);
void nx_segment_in(nx_segment *segment, unsigned way, nx_ring_in in[NX_SHM_RINGS]);

#endif /* NX_SEGMENT_H */
