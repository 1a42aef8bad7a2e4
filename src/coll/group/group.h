/*
 * group.h - a communicator as collectives see it, and the hub of all of a world's.
 *
 * Operations of a group are numbered from 1 in the order in which each rank starts
 * them, one number for each call, whatever it was: so ranks that have called different
 * things are at the same number afterwards.  A call may have several parts, run one after
 * the other (core/coll/compressed.c).  Number and part are in the tag of every message.  Every
 * message carries the fingerprint of its operation, and the hub holds it against its own as
 * soon as the message has come, whether a receive waits for it or not:
 *
 *   operation not begun here   kept, and the fingerprint noted for its beginning
 *   running                    a difference ends it with NEXAR_EMISMATCH
 *   over                       the message is dropped
 *
 * A rank whose operation fails tells all the others of the group (control frame
 * ABORT: communicator, number and part, error, sentence), which end theirs with the same
 * words, also if they begin it only later.
 *
 * Ranks that called different operations may each wait for a message that none of them
 * will send.  So a rank that has waited NX_CALLED_NS says the fingerprint of its operation
 * to those it waits for (control frame CALLED), once for each message, and they take that
 * as one of its messages.  Whatever was called: if some ranks called X and none of them can
 * end, one of these waits for a rank that did not call X, for the schedule of X, on ranks
 * that all call it, ends; it tells that one, and so the difference is found.  A rank that
 * is merely late has got a few bytes.
 *
 * An ABORT for an operation that is over here is dropped.  None comes for a difference: with
 * verify no rank ends well before all are known to have called the same, nor, where lengths
 * are not in the fingerprint, before all are known to fit (nx_coll.heard).
 *
 * A rank that finalizes while something of it is on its way, or that has freed the
 * communicator, parts from the group: it tells those that it has links to (control frame
 * PARTED: communicator, the number of the operation that it would have begun next, why), and
 * others when they say by CALLED that they wait for it.  Then
 *
 *   what it has begun goes on, here and there: numbers below that one;
 *   operations from that number on fail on whoever hears of it, which tells the rest;
 *   messages of the application to it that it has not asked for fail (on_departed); what it has
 *   matched is taken, for its word that it wants it came before, on the same lane;
 *   messages of the application from it are there: it says so a second time behind them
 *   (nx_registry_on_finished), since the first word may overtake them.  Then receives that wait for
 *   it fail (on_finished): nothing comes any more that they could match.
 *
 * Who waits for a message of a rank asks it once whether it has parted (control frame WAITS:
 * communicator), which makes a link if there was none: so it hears of it.
 *
 * So of ranks that all finalize none waits for ever: whatever one of them still waits for, a
 * rank that has begun the same, too, or one that has parted, is to bring.
 *
 * Everything here runs with the loop's lock held.
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

/* The kind of a collective's messages, inside a communicator. */
enum { NX_KIND_COLL = 2 };

/* What watches operations: each may be NULL. */
typedef struct nx_watch {
    void (*on_begin)(void *ctx, nx_run *run);
    void (*on_end)(void *ctx, nx_run *run);
    void *ctx;
} nx_watch;

/* Why a rank takes part in nothing more. */
typedef enum nx_departure {
    NX_DEPARTURE_NONE,
    NX_DEPARTURE_FREED,     /* it has freed the communicator: NEXAR_EREVOKED */
    NX_DEPARTURE_FINALIZED, /* it finalizes: NEXAR_EPEER */
    NX_DEPARTURES
} nx_departure;
nexar_err nx_departure_error(nx_departure how);
/* "has freed the communicator", for sentences. */
const char *nx_departure_text(nx_departure how);

enum { NX_PAST = 64 };
/* EMISMATCH is to be there within a second.  The longest is twice this, see nx_group_on_tick. */
#define NX_CALLED_NS UINT64_C(200000000)

typedef struct nx_group {
    /* Set by the owner. */
    nx_registry *hub;
    uint32_t comm; /* its id */
    uint32_t rank, size;
    const uint32_t *peers; /* by rank; NULL: the same; borrowed */
    const nx_hosts *hosts; /* on which its ranks are; NULL: each on its own; borrowed */

    /* Its own. */
    uint32_t next;   /* number of the next operation */
    nx_list runs;    /* that have begun, oldest first */
    nx_map active;   /* by number and part */
    nx_map reserved; /* parts of numbers that were given out, for later */
    nx_list flights; /* to use again */
    uint32_t nflights;
    nx_compiled_cache programs;
    void *scratch; /* of the last run that had some, for the next */
    size_t scratch_size;
    nx_host_coll *direct; /* NULL: all are run by the engine */
    bool parted;          /* one has failed for want of a peer, perhaps not on all ranks: they
                             need not be at the same operation any more */
    nexar_err broken;     /* why no operation can run any more: nx_group_break */
    char broken_why[256];
    nx_departure departure; /* this rank has parted */
    nx_map gone;            /* other ranks that have, by rank + 1 */
    nx_map finished;        /* of which all messages have come, by rank + 1 */
    nx_map inquired;        /* that were asked, by rank + 1 */
    nexar_err over;         /* why no operation can run ... */
    uint32_t over_from;     /* ... that has this number or a later one */
    char over_why[256];
    nexar_err late; /* an operation that was over turned out wrong */
    char late_why[256];
    struct {
        bool went_well; /* or there is none: of those that have not the others know */
        uint32_t number, part;
        nx_mark mark;
    } past[NX_PAST]; /* operations that are over, by number */
} nx_group;

/* The number of an operation that is about to begin on |g|.  They go round; 0 is none. */
static inline uint32_t nx_group_take_number(nx_group *g)
{
    const uint32_t number = g->next++;

    g->next += (g->next == 0) ? 1 : 0;
    return number;
}

typedef struct nx_registry_config {
    nx_loop *loop;
    nx_msg *msg;
    nx_early *early;       /* keeps frames for groups that are not open yet, and knows the closed */
    const nx_rules *rules; /* the setting algorithms; borrowed, may be NULL */
    size_t segment;
    bool verify;         /* one-sided operations are checked too */
    uint64_t timeout_ns; /* of every operation; 0: none */
    nx_watch watch;
    /* "rank 3 (node7, 10.0.0.7:4433)" of |peer|, for sentences. */
    const char *(*peer_text)(void *ctx, uint32_t peer, char *buf);
    /* Whether |peer| is known to have failed; it has, as others say: |why| is their sentence on
     * what failed because of it.  Both NULL: nobody asks. */
    bool (*has_failed)(void *ctx, uint32_t peer);
    void (*on_failed)(void *ctx, uint32_t peer, const char *why);
    /* Sends the word that an operation has failed, and what was called (ABORT, CALLED), which may
     * rest upon a death; NULL: nx_msg_send_control, by which PARTED and WAITS go in any case. */
    void (*tell)(void *ctx, uint32_t peer, const void *frame, size_t len);
    /* |peer| will ask for no message of the application on |comm| any more; may be NULL. */
    void (*on_departed)(void *ctx, uint32_t comm, uint32_t peer, nx_departure how);
    /* This rank tells |peer| that it has parted from |comm|: to be said behind its messages, too.
     * May be NULL. */
    void (*on_part)(void *ctx, uint32_t comm, uint32_t peer, nx_departure how);
    /* Nothing of the application comes from |peer| on |comm| any more; may be NULL. */
    void (*on_finished)(void *ctx, uint32_t comm, uint32_t peer, nx_departure how);
    void *ctx;
} nx_registry_config;
enum { NX_REGISTRY_TEXT = 160 }; /* room for peer_text */

/* NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_registry_create(nx_registry **out, const nx_registry_config *config);
/* There are no groups left. */
void nx_registry_destroy(nx_registry *hub);
const nx_registry_config *nx_registry_config_of(const nx_registry *hub);

/* What msg asks (nx_msg_config.on_mark). */
nx_verdict nx_registry_on_mark(nx_registry *hub, uint32_t peer, nx_context context, uint64_t tag,
                               const nx_mark *mark);
/* What msg asks (nx_msg_config.on_unexpected): messages of the application on a communicator
 * that this rank has closed are dropped; on one that it has not made yet they wait for it. */
nx_verdict nx_registry_on_unexpected(const nx_registry *hub, nx_context context);
/* A control frame of |peer|.  One for a group that is not open yet is kept in |early|, and given
 * again when the group is there.  False: it is not one of the hub's. */
bool nx_registry_on_control(nx_registry *hub, uint32_t peer, const void *data, size_t len);
/* |peer| has said behind its messages that it has parted from |comm| (nx_msg_config).  Kept in the
 * same way. */
void nx_registry_on_finished(nx_registry *hub, uint32_t peer, uint32_t comm, uint8_t how);
/* |peer| is down: what can only wait for it ends. */
void nx_registry_on_down(nx_registry *hub, uint32_t peer, nexar_err err, const char *why);
/* |peer| has failed: what runs on the groups that it is in fails, and what begins there
 * later does at once. */
void nx_registry_on_death(nx_registry *hub, uint32_t peer, nexar_err err, const char *why);
/* The same for one group, whose first reason counts. */
void nx_group_break(nx_group *g, nexar_err err, const char *why);
/* The end: all that runs fails with |err|, when msg lets go of it; msg may go. */
void nx_registry_stop(nx_registry *hub, nexar_err err, const char *why);

/* Enters |g|, whose first fields are set, the rest zero.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_group_open(nx_group *g);
/* Takes it out; nothing runs.  Messages for it are dropped from now on.  |g->hub| is NULL; its
 * memory is still there for runs that have ended and are not destroyed. */
void nx_group_close(nx_group *g);

/* This rank begins nothing more on |g|, and tells the others. */
void nx_group_part(nx_group *g, nx_departure how);
/* The same to |peer| alone, to which there is a link now. */
void nx_group_part_from(const nx_group *g, uint32_t peer);
/* Whether |rank| has parted. */
nx_departure nx_group_departed(const nx_group *g, uint32_t rank);
/* Whether it has, and all that it had sent is here. */
nx_departure nx_group_finished(const nx_group *g, uint32_t rank);
/* This rank waits for a message of |rank|, and asks whether it has parted; once. */
void nx_group_inquire(nx_group *g, uint32_t rank);

/*
 * The next number, for an operation of |parts| parts, at most NX_CALL_PARTS, that will begin
 * later, in this order; each is given to nx_run_make (and nx_run.part), or given back.
 *
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_group_reserve(nx_group *g, uint32_t parts, uint32_t *number);
/* Those of the |parts| of |number| that have not begun never will. */
void nx_group_unreserve(nx_group *g, uint32_t number, uint32_t parts);

static inline uint32_t nx_group_peer(const nx_group *g, uint32_t rank)
{
    return (g->peers == NULL) ? rank : g->peers[rank];
}

/* ---- for runs --------------------------------------------------------------- */

/* How a number, a part, a round and a segment make a tag. */
enum {
    NX_PART_BITS = 2,
    NX_CALL_PARTS = 1 << NX_PART_BITS,
    NX_PART_SHIFT = NX_ROUND_BITS + NX_SEGMENT_BITS,
    NX_NUMBER_SHIFT = NX_PART_SHIFT + NX_PART_BITS,
    NX_NUMBER_BITS = 64 - NX_NUMBER_SHIFT
};
#define NX_NUMBER_MASK ((UINT32_C(1) << NX_NUMBER_BITS) - 1)

/* Part |part| of operation |number|, as tags and words to others name it. */
static inline uint32_t nx_group_place(uint32_t number, uint32_t part)
{
    return ((number & NX_NUMBER_MASK) << NX_PART_BITS) | part;
}

static inline nx_context nx_group_context(const nx_group *g)
{
    return (nx_context){.comm = g->comm, .kind = NX_KIND_COLL, .class = NX_CLASS_COLL};
}

/* |run| begins: it may fail at once, by what was heard of it before.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_group_begin(nx_group *g, nx_run *run);
void nx_group_end(nx_group *g, nx_run *run);
/* Ends |run| if a message of it had another fingerprint. */
void nx_group_conclude(nx_group *g, nx_run *run);
/* What was heard of operation |number|, which was run otherwise, is forgotten; its
 * messages as well if it has |failed|. */
void nx_group_forget(nx_group *g, uint32_t number, bool failed);
/* The sentence with which another rank has ended operation |number|, which has not begun here
 * by the engine, and its |*err|; NULL: none has. */
const char *nx_group_aborted(const nx_group *g, uint32_t number, nexar_err *err);
/* Operation |number| (0: the next, which is used up) cannot begin here: the others hear of it. */
void nx_group_give_up(nx_group *g, uint32_t number, nexar_err err, const char *why);
/* Operation |number|, of one part, fails here if the engine runs it, and the others are told. */
void nx_group_abort(nx_group *g, uint32_t number, nexar_err err, const char *why);
/* Tells the others that |part| of operation |number| has failed here. */
void nx_group_tell(nx_group *g, uint32_t number, uint32_t part, nexar_err err, const char *why);

#endif /* NX_GROUP_H */
