/*
 * segment.h - the memory shared by two processes: layout, creation and mapping.
 *
 * The dialler is side 0, the acceptor side 1. Direction d is from side d to the other. Every line
 * has one writer, except |asleep| and |stuck|, which the other side clears, and claims.
 *
 *   page 0       what the segment is, then for each direction
 *     wrote      tails of its rings and |stuck|: the writer's
 *     read       heads of its rings: the reader's
 *     sleep      the reader's world is about to sleep, or sleeps
 *     side       state of the writer's side
 *     claims     which side copies the offered parts: both sides write (claim.h)
 *     last       the last frame of a writer that has closed the link with a reason
 *   from page 1  the rings of direction 0, then those of direction 1
 *
 * Wake-up. Before a world sleeps it sets |asleep| in all its segments, polls all rings once more,
 * and does not sleep if there is data. A writer loads |asleep| after publishing; if it is set, the
 * writer clears it and rings the bell. The order of byte_ring.h ensures that no wake-up is lost.
 * While the reader is awake, a message costs no system call.
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
    NX_SHM_LINE = 128, /* two lines: processors prefetch them in pairs */
    NX_SHM_CONTROL_ROOM = 8 << 10,
    NX_SHM_MESSAGE_ROOM = 32 << 10,
    NX_SHM_DATA_ROOM = 256 << 10,
    NX_SHM_OFFERS = 16, /* parts of a direction offered at a time */
    NX_SHM_ROOM = NX_SHM_CONTROL_ROOM + NX_SHM_MESSAGE_ROOM + NX_SHM_DATA_ROOM,
    NX_SEGMENT_SIZE = NX_SHM_PAGE + 2 * NX_SHM_ROOM /* 596 KiB; pages are allocated on use */
};

/* Whether the reader of a direction can read the memory of its writer. */
typedef enum nx_shm_reads { NX_READS_UNKNOWN, NX_READS_YES, NX_READS_NO } nx_shm_reads;

/* How the writer of a direction has closed the link. */
typedef enum nx_shm_closed {
    NX_SHM_OPEN,
    NX_SHM_LEFT,     /* in order: all queued data is in the rings */
    NX_SHM_GIVEN_UP, /* without notice */
    NX_SHM_DISMISSED /* the same; |last| has the reason */
} nx_shm_closed;

typedef struct nx_segment_way {
    _Alignas(NX_SHM_LINE) _Atomic uint32_t tail[NX_SHM_RINGS];
    _Atomic uint32_t stuck;
    _Alignas(NX_SHM_LINE) _Atomic uint32_t head[NX_SHM_RINGS];
    _Alignas(NX_SHM_LINE) _Atomic uint32_t asleep;
    _Alignas(NX_SHM_LINE) _Atomic uint32_t closed; /* nx_shm_closed */
    _Atomic uint32_t reads;                        /* nx_shm_reads, by its reader */
    _Alignas(NX_SHM_LINE) nx_claim claims[NX_SHM_OFFERS];
    uint32_t last_len; /* written once, before |closed| is NX_SHM_DISMISSED */
    uint8_t last[NX_LAST_MAX];
} nx_segment_way;

typedef struct nx_segment {
    uint64_t magic;
    uint32_t version, size;
    nx_segment_way way[2];
} nx_segment;
_Static_assert(sizeof(nx_segment) <= NX_SHM_PAGE, "the first page has it all");

/* A memfd of |size| zero bytes with a sealed size.  NEXAR_ESYS, also if the process may not have a
 * file of that size. */
NX_MUST_CHECK nexar_err nx_memfd_create(size_t size, int *fd);
/* Maps it after checking size and seals, so that no access can fault.  NEXAR_EPROTO: wrong size or
 * seals; NEXAR_ESYS. */
NX_MUST_CHECK nexar_err nx_memfd_map(int fd, size_t size, void **out);

/* Creates a segment, or maps the one of |fd|; free it with nx_segment_unmap. */
NX_MUST_CHECK nexar_err nx_segment_create(nx_segment **out, int *fd);
NX_MUST_CHECK nexar_err nx_segment_map(int fd, nx_segment **out);
void nx_segment_unmap(nx_segment *segment);

void nx_segment_out(nx_segment *segment, unsigned way, nx_ring_out out[NX_SHM_RINGS]);
void nx_segment_in(nx_segment *segment, unsigned way, nx_ring_in in[NX_SHM_RINGS]);

#endif /* NX_SEGMENT_H */
