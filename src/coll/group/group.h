/*
 * group.h - a communicator as collectives see it, and the registry of a world's groups.
 *
 * Each rank numbers the operations of a group from 1, in the order in which it starts them. Every
 * call takes one number, so ranks that have called different operations still agree on the next
 * number. A call may have several parts that run one after the other (core/coll/compressed.c).
 * Number and part are in the tag of every message. Every message carries the fingerprint of its
 * operation. The registry compares it with its own on arrival, posted receive or not:
 *
 *   operation not begun here   the message is kept, its fingerprint is checked at the start
 *   running                    a difference ends the operation with NEXAR_EMISMATCH
 *   ended                      the message is dropped
 *
 * A rank whose operation fails notifies all other ranks of the group (control frame ABORT:
 * communicator, number and part, error, message). They fail the same operation with the same
 * message, even if they start it later. Where the group is broken (a member has failed, it was
 * revoked, or it is rebuilt) the rank sends no ABORT: reliable broadcast notifies all members of a
 * broken group.
 *
 * Ranks that called different operations may each wait for a message that no rank will send. So a
 * rank that has waited NX_CALLED_NS announces the fingerprint of its operation to the ranks it
 * waits for (control frame CALLED), once for each message. The receiver checks it like the
 * fingerprint of a message. This always finds the difference. If ranks called X and none of them
 * can finish, one of them waits for a rank that did not call X, because X completes when all ranks
 * call it. A rank that is merely late receives a few extra bytes.
 *
 * An ABORT for an operation that has ended here is dropped. No ABORT for a mismatch arrives then:
 * with verify, no rank completes before all ranks are known to have called the same operation.
 * Where fingerprints omit lengths, all lengths must also be known to fit (nx_coll.heard).
 *
 * A rank detaches from the group when it frees the communicator, or when it finalizes with
 * operations in flight. It notifies the ranks that it has links to (control frame DETACHED:
 * communicator, the first number that it will not start, reason). Other ranks learn of it when they
 * announce by CALLED that they wait for it. Then:
 *
 *   - operations below that number continue on all ranks;
 *   - operations from that number on fail on every rank that knows of the departure, and that rank
 *     aborts them on the other ranks;
 *   - application messages to the detached rank fail unless it has already matched them
 *     (on_detached); its request for a matched message arrives before DETACHED, on the same lane;
 *   - application messages from the detached rank still arrive. A second notification follows them
 *     (nx_registry_on_finished), since DETACHED may overtake them. Then receives that wait for
 *     the detached rank fail (on_finished).
 *
 * A rank that waits for a message of another rank asks that rank once whether it has detached
 * (control frame WAITS: communicator). The frame opens a link if there was none, so the answer
 * arrives.
 *
 * Therefore no rank waits indefinitely when all ranks finalize: each pending operation either
 * completes or depends on a detached rank, and fails.
 *
 * Every function here runs with the loop's lock held.
 */
#ifndef NX_GROUP_H
#define NX_GROUP_H

#include "base/containers/map.h"
#include "coll/coll_call.h"
#include "coll/run/compiled_schedule.h"
#include "msg/matching/early_frames.h"

typedef struct nx_run nx_run;
typedef struct nx_registry nx_registry;
typedef struct nx_host_coll nx_host_coll; /* coll/host/host_coll.h */

/* Message kind of collectives within a communicator. */
enum { NX_KIND_COLL = 2 };

/* Observers of operations; each may be NULL. */
typedef struct nx_watch {
    void (*on_begin)(void *ctx, nx_run *run);
    void (*on_end)(void *ctx, nx_run *run);
    void *ctx;
} nx_watch;

/* Why a rank starts nothing more on a communicator. */
typedef enum nx_departure {
    NX_DEPARTURE_NONE,
    NX_DEPARTURE_FREED,     /* the rank has freed the communicator: NEXAR_EREVOKED */
    NX_DEPARTURE_FINALIZED, /* the rank finalizes: NEXAR_EPEER */
    NX_DEPARTURES
} nx_departure;
nexar_err nx_departure_error(nx_departure how);
/* For messages: "has freed the communicator". */
const char *nx_departure_text(nx_departure how);

enum { NX_PAST = 64 };
/* Announcement period. A mismatch is reported within two periods (nx_group_on_tick), well below one
 * second. */
#define NX_CALLED_NS UINT64_C(200000000)

typedef struct nx_group {
    /* Set by the owner. */
    nx_registry *hub;
    uint32_t comm; /* its id */
    uint32_t rank, size;
    const uint32_t *peers; /* world rank of each member, borrowed; NULL: identical */
    const nx_hosts *hosts; /* host of each rank, borrowed; NULL: one host per rank */
    uint64_t timeout_ns;   /* of every operation that begins; 0: that of the registry */

    /* Its own. */
    uint32_t next;   /* number of the next operation */
    nx_list runs;    /* running, oldest first */
    nx_map active;   /* running, by number and part */
    nx_map reserved; /* reserved parts that have not begun */
    nx_list flights; /* free list of transfers */
    uint32_t nflights;
    nx_compiled_cache programs;
    void *scratch; /* scratch memory of the last run, reused by the next */
    size_t scratch_size;
    nx_host_coll *direct; /* NULL: the engine runs every operation */
    bool diverged;        /* an operation failed because a peer was unavailable, perhaps not on all
                           ranks: operation numbers may have diverged */
    nexar_err broken;     /* why no operation can run any more (nx_group_break) */
    char broken_why[256];
    nx_departure departure; /* how this rank has detached */
    nx_map detached;        /* other ranks that have detached, by rank + 1 */
    nx_map finished;        /* detached ranks whose messages have all arrived, by rank + 1 */
    nx_map inquired;        /* ranks that were asked by WAITS, by rank + 1 */
    nexar_err over;         /* why operations fail ... */
    uint32_t over_from;     /* ... from this number on */
    char over_why[256];
    nexar_err late; /* an operation that had ended turned out to mismatch */
    char late_why[256];
    struct {
        bool went_well; /* it succeeded or never ran: failures were announced */
        uint32_t number, part;
        nx_mark mark;
    } past[NX_PAST]; /* ended operations, by number */
} nx_group;

/* Takes the next operation number of |g|. Numbers wrap around; 0 is invalid. */
static inline uint32_t nx_group_take_number(nx_group *g)
{
    const uint32_t number = g->next++;

    g->next += (g->next == 0) ? 1 : 0;
    return number;
}

typedef struct nx_registry_config {
    nx_loop *loop;
    nx_msg *msg;
    nx_early *early;       /* keeps frames for groups that are not open yet; knows closed groups */
    const nx_rules *rules; /* the setting `algorithms`; borrowed, may be NULL */
    size_t segment;
    bool verify;         /* rooted operations are verified too */
    uint64_t timeout_ns; /* of every operation; 0: none */
    nx_watch watch;
    /* For messages: |peer| as "rank 3 (node7, 10.0.0.7:4433)". */
    const char *(*peer_text)(void *ctx, uint32_t peer, char *buf);
    /* The process of |peer| has ended, as a read of its memory shows: whether |peer| has failed,
     * and nx_registry_on_failed follows. May be NULL. */
    bool (*on_exited)(void *ctx, uint32_t peer);
    /* How long to wait for nx_registry_on_failed when another rank already knows of a failure. */
    uint64_t verdict_ns;
    /* Sends ABORT and CALLED, which may depend on a failure verdict. NULL: nx_msg_send_control,
     * which DETACHED and WAITS always use. */
    void (*tell)(void *ctx, uint32_t peer, const void *frame, size_t len);
    /* |peer| will request no further application message on |comm|. May be NULL. */
    void (*on_detached)(void *ctx, uint32_t comm, uint32_t peer, nx_departure how);
    /* This rank has notified |peer| that it detaches from |comm|; the caller repeats that after its
     * messages. May be NULL. */
    void (*on_detach)(void *ctx, uint32_t comm, uint32_t peer, nx_departure how);
    /* No further application message arrives from |peer| on |comm|. May be NULL. */
    void (*on_finished)(void *ctx, uint32_t comm, uint32_t peer, nx_departure how);
    void *ctx;
} nx_registry_config;
enum { NX_REGISTRY_TEXT = 160 }; /* buffer size for peer_text */

/* NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_registry_create(nx_registry **out, const nx_registry_config *config);
/* The time-out of an operation of |g| that begins now; 0: none. */
uint64_t nx_group_timeout(const nx_group *g);
/* No group may be open. */
void nx_registry_destroy(nx_registry *hub);
const nx_registry_config *nx_registry_config_of(const nx_registry *hub);

/* Implements nx_msg_config.on_mark. */
nx_verdict nx_registry_on_mark(nx_registry *hub, uint32_t peer, nx_context context, uint64_t tag,
                               const nx_mark *mark);
/* Implements nx_msg_config.on_unexpected: drops application messages on a communicator that this
 * rank has closed, and keeps those on one that is not open yet. */
nx_verdict nx_registry_on_unexpected(const nx_registry *hub, nx_context context);
/* Handles a control frame of |peer|. A frame for a group that is not open yet is kept in |early|
 * and handled when the group opens. Returns false if the frame is not one of the registry's. */
bool nx_registry_on_control(nx_registry *hub, uint32_t peer, const void *data, size_t len);
/* |peer| has sent its last message on |comm| and has detached (nx_msg_config). Kept in the same
 * way. */
void nx_registry_on_finished(nx_registry *hub, uint32_t peer, uint32_t comm, uint8_t how);
/* The link to |peer| is down: operations that can only wait for it fail. */
void nx_registry_on_down(nx_registry *hub, uint32_t peer, nexar_err err, const char *why);
/* |peer| has failed: operations that run on its groups fail; later ones fail immediately. */
void nx_registry_on_failed(nx_registry *hub, uint32_t peer, nexar_err err, const char *why);
/* The same for one group. The first reason counts. */
void nx_group_break(nx_group *g, nexar_err err, const char *why);
/* Fails all running operations with |err|, as msg releases their memory. msg may then be
 * destroyed. */
void nx_registry_stop(nx_registry *hub, nexar_err err, const char *why);

/* Registers |g|, whose first fields are set and whose other fields are zero.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_group_open(nx_group *g);
/* Unregisters |g|; nothing may run. Later messages for it are dropped. |g->hub| becomes NULL. The
 * memory of |g| stays valid for ended runs that are not destroyed yet. */
void nx_group_close(nx_group *g);

/* This rank detaches from |g|: it starts nothing more there and notifies the other ranks. */
void nx_group_detach(nx_group *g, nx_departure how);
/* Notifies |peer| alone, to which there is a link now. */
void nx_group_detach_from_peer(const nx_group *g, uint32_t peer);
/* How |rank| has detached, if it has. */
nx_departure nx_group_detached(const nx_group *g, uint32_t rank);
/* How |rank| has detached, if it has and all its messages have arrived. */
nx_departure nx_group_finished(const nx_group *g, uint32_t rank);
/* This rank waits for a message of |rank|: asks once whether that rank has detached. */
void nx_group_inquire(nx_group *g, uint32_t rank);

/*
 * Reserves the next number for an operation of |parts| parts, at most NX_CALL_PARTS, which begin
 * later and in this order. The caller passes each part to nx_run_make (nx_run.part) or returns it.
 *
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_group_reserve(nx_group *g, uint32_t parts, uint32_t *number);
/* Returns the parts of |number|, of |parts|, that have not begun. */
void nx_group_unreserve(nx_group *g, uint32_t number, uint32_t parts);

static inline uint32_t nx_group_peer(const nx_group *g, uint32_t rank)
{
    return (g->peers == NULL) ? rank : g->peers[rank];
}

/* ---- for runs ------------------------------------------------------------------------ */

/* Layout of a tag: number, part, round, segment. */
enum {
    NX_PART_BITS = 2,
    NX_CALL_PARTS = 1 << NX_PART_BITS,
    NX_PART_SHIFT = NX_ROUND_BITS + NX_SEGMENT_BITS,
    NX_NUMBER_SHIFT = NX_PART_SHIFT + NX_PART_BITS,
    NX_NUMBER_BITS = 64 - NX_NUMBER_SHIFT
};
#define NX_NUMBER_MASK ((UINT32_C(1) << NX_NUMBER_BITS) - 1)

/* Identifies |part| of operation |number| in tags and control frames. */
static inline uint32_t nx_group_part_id(uint32_t number, uint32_t part)
{
    return ((number & NX_NUMBER_MASK) << NX_PART_BITS) | part;
}

static inline nx_context nx_group_context(const nx_group *g)
{
    return (nx_context){.comm = g->comm, .kind = NX_KIND_COLL, .class = NX_CLASS_COLL};
}

/* |run| begins. It may fail immediately because of frames that arrived before. NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_group_begin(nx_group *g, nx_run *run);
void nx_group_end(nx_group *g, nx_run *run);
/* Fails |run| if one of its messages had another fingerprint. */
void nx_group_conclude(nx_group *g, nx_run *run);
/* Forgets early frames of operation |number|, which ran without the engine; also its messages if it
 * has |failed|. */
void nx_group_forget(nx_group *g, uint32_t number, bool failed);
/* The message and |*err| with which another rank has aborted operation |number|, which the engine
 * has not begun here. NULL: it is not aborted. */
const char *nx_group_aborted(const nx_group *g, uint32_t number, nexar_err *err);
/* Operation |number| (0: the next number, which is consumed) cannot begin here. Notifies the other
 * ranks. */
void nx_group_give_up(nx_group *g, uint32_t number, nexar_err err, const char *why);
/* Fails operation |number|, of one part, if the engine runs it, and notifies the other ranks. */
void nx_group_abort(nx_group *g, uint32_t number, nexar_err err, const char *why);
/* Notifies the other ranks that |part| of operation |number| has failed here. */
void nx_group_tell(nx_group *g, uint32_t number, uint32_t part, nexar_err err, const char *why);

#endif /* NX_GROUP_H */
