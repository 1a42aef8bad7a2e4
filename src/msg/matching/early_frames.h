/*
 * early_frames.h - frames for a communicator, or from a member, that does not exist here yet.
 *
 * Ranks make a communicator, and install a view, one after another.  So a rank may receive frames
 * of a communicator that it has not made yet, and connections of members of the next view.  The
 * store keeps such frames unchanged, with their sender.  When the communicator or the view exists
 * here, core replays them in order of arrival (core/comm/early_replay.h, core/world/early_links.c).
 *
 * Invariants
 *  E1  The store is bounded.  For each kind it holds at most limits[kind].sender bytes of one
 *      sender and limits[kind].total bytes of all.  A frame counts with its header, so that the
 *      number of frames is bounded too.
 *  E2  The frames of one identity are delivered in order of arrival.
 *  E3  A frame is delivered at most once.
 *  E4  Nothing is kept for, or delivered to, a communicator that is closed.
 *  E5  No frame is lost silently. It is delivered, or its identity is closed, or nx_early_keep
 *      reports that it was not kept. Or it is older than the creation of any communicator takes
 *      (NX_EARLY_STALE_NS) and another frame replaced it.
 *
 * A sender that exceeds its limit is treated like lack of memory.  If a frame of a communicator is
 * lost, other ranks would wait for this rank indefinitely, so this rank leaves the world. The link
 * of a member that is not in the view is closed.
 *
 * The store also remembers the ids that were closed last.  Ids of communicators are never reused
 * (cluster/comm_id.h), so a frame for a closed one is late.  Application messages for a
 * communicator that does not exist yet are not kept here: they wait in the unexpected-message
 * queue, within their sender's credit.
 *
 * With the loop's lock held.
 */
#ifndef NX_EARLY_FRAMES_H
#define NX_EARLY_FRAMES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/containers/list.h"
#include "transport/transport.h"

typedef enum nx_early_kind {
    NX_EARLY_CONTROL,  /* control frames; id of a communicator; from a slot */
    NX_EARLY_FINISHED, /* "no message of this communicator follows" (nx_msg_config); the same */
    NX_EARLY_CREATION, /* frames of creations; parent and tag (cluster/creation); from a slot */
    NX_EARLY_LINK,     /* frames of a link; id of a member; from that member */
    NX_EARLY_KINDS
} nx_early_kind;

/* Bytes, headers included. */
enum {
    NX_EARLY_CONTROL_SENDER = 1 << 20, /* thousands of frames of a rank that is ahead */
    NX_EARLY_FINISHED_SENDER = 1 << 16,
    NX_EARLY_CREATION_SENDER = 1 << 18, /* more than a thousand calls */
    NX_EARLY_LINK_SENDER = 1 << 16,     /* a link without credit carries far less */
    NX_EARLY_TOTAL = 1 << 26
};
#define NX_EARLY_STALE_NS UINT64_C(600000000000)
/* Number of closed ids that are remembered. */
enum { NX_EARLY_CLOSED = 2048 };

/* The sender of a frame, and its destination. */
typedef struct nx_early_key {
    nx_early_kind kind;
    uint64_t id;
    uint64_t from;
} nx_early_key;

typedef struct nx_early_frame {
    nx_list link;
    nx_early_key key;
    uint64_t came_ns;
    size_t len;
    uint8_t data[];
} nx_early_frame;

typedef struct nx_early nx_early;

/* NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_early_create(nx_early **out);
/* Frees the frames that are left.  NULL is allowed. */
void nx_early_destroy(nx_early *e);

/*
 * Keeps a copy of the concatenation of |n| |parts| for |key|. A frame for a closed communicator is
 * dropped.
 *
 * NEXAR_ENOMEM
 *     Out of memory, or the sender's limit or the total is reached. Nothing is kept.
 */
NX_MUST_CHECK nexar_err nx_early_keep(nx_early *e, const nx_early_key *key, const nx_bytes *parts,
                                      size_t n, uint64_t now_ns);

/* |id| exists now: calls |deliver| for each frame kept for it, then frees the frame. |deliver| may
 * call every function here but nx_early_destroy. */
void nx_early_deliver(nx_early *e, nx_early_kind kind, uint64_t id,
                      void (*deliver)(void *ctx, const nx_early_frame *frame), void *ctx);
/* |id| will not exist: frees the frames kept for it. */
void nx_early_drop(nx_early *e, nx_early_kind kind, uint64_t id);

/* Communicator |id| is closed, or will never exist: drops its frames, current and later. Recoveries
 * have ids beyond those of communicators and are closed in the same way. */
void nx_early_close(nx_early *e, uint64_t id);
/* Whether |id| is among the last NX_EARLY_CLOSED closed ids. */
bool nx_early_is_closed(const nx_early *e, uint64_t id);

/* Bytes that are kept, headers included. */
size_t nx_early_bytes(const nx_early *e, nx_early_kind kind);

#endif /* NX_EARLY_FRAMES_H */
