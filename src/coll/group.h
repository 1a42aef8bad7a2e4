/*
 * group.h - a communicator as collectives see it, and the hub of all of a world's.
 *
 * Operations of a group are numbered from 1 in the order in which each rank starts
 * them; the number is in the tag of every message.  Every message carries the
 * fingerprint of its operation, and the hub holds it against its own as soon as the
 * message has come, whether a receive waits for it or not:
 *
 *   operation not begun here   kept, and the fingerprint noted for its beginning
 *   running                    a difference ends it with NEXAR_EMISMATCH
 *   over                       the message is dropped
 *
 * A rank whose operation fails tells all the others of the group (control frame
 * ABORT: communicator, number, error, sentence), which end theirs with the same
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
 * Everything here runs with the loop's lock held.
 */
#ifndef NX_GROUP_H
#define NX_GROUP_H

#include "base/map.h"
#include "coll/call.h"
#include "coll/program.h"

typedef struct nx_run nx_run;
typedef struct nx_hub nx_hub;
typedef struct nx_direct nx_direct; /* coll/direct/direct.h */

/* The kind of a collective's messages, inside a communicator. */
enum { NX_KIND_COLL = 2 };

/* What watches operations: each may be NULL. */
typedef struct nx_watch {
    void (*on_begin)(void *ctx, nx_run *run);
    void (*on_end)(void *ctx, nx_run *run);
    void *ctx;
} nx_watch;

enum { NX_PAST = 64 };
/* EMISMATCH is to be there within a second.  The longest is twice this, see on_tick. */
#define NX_CALLED_NS UINT64_C(200000000)

typedef struct nx_group {
    /* Set by the owner. */
    nx_hub *hub;
    uint32_t comm; /* its id */
    uint32_t rank, size;
    const uint32_t *peers; /* by rank; NULL: the same; borrowed */
    const nx_hosts *hosts; /* on which its ranks are; NULL: each on its own; borrowed */

    /* Its own. */
    uint32_t next;   /* number of the next operation */
    nx_list runs;    /* that have begun, oldest first */
    nx_map active;   /* by number */
    nx_map reserved; /* numbers that were given out for later */
    nx_list flights; /* to use again */
    uint32_t nflights;
    nx_programs programs;
    void *scratch; /* of the last run that had some, for the next */
    size_t scratch_size;
    nx_direct *direct; /* NULL: all are run by the engine */
    bool parted;       /* one has failed for want of a peer, perhaps not on all ranks: they
                          need not be at the same operation any more */
    nexar_err broken;  /* why no operation can run any more: nx_group_break */
    char broken_why[256];
    nexar_err late; /* an operation that was over turned out wrong */
    char late_why[256];
    struct {
        uint32_t number;
        nx_mark mark;
    } past[NX_PAST]; /* operations that are over, by number */
} nx_group;

typedef struct nx_hub_config {
    nx_loop *loop;
    nx_msg *msg;
    const nx_rules *rules; /* the setting algorithms; borrowed, may be NULL */
    size_t segment;
    bool verify;         /* one-sided operations are checked too */
    uint64_t timeout_ns; /* of every operation; 0: none */
    nx_watch watch;
    /* "rank 3 (node7, 10.0.0.7:4433)" of |peer|, for sentences. */
    const char *(*peer_text)(void *ctx, uint32_t peer, char *buf);
    /* Sends the word that an operation has failed; NULL: nx_msg_send_control. */
    void (*tell)(void *ctx, uint32_t peer, const void *frame, size_t len);
    void *ctx;
} nx_hub_config;
enum { NX_HUB_TEXT = 160 }; /* room for peer_text */

/* NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_hub_create(nx_hub **out, const nx_hub_config *config);
/* There are no groups left. */
void nx_hub_destroy(nx_hub *hub);
const nx_hub_config *nx_hub_config_of(const nx_hub *hub);

/* What msg asks (nx_msg_config.on_mark). */
nx_verdict nx_hub_on_mark(nx_hub *hub, uint32_t peer, nx_context context, uint64_t tag,
                          const nx_mark *mark);
/* A control frame of |peer|.  False: it is not one of the hub's. */
bool nx_hub_on_control(nx_hub *hub, uint32_t peer, const void *data, size_t len);
/* |peer| is down: what can only wait for it ends. */
void nx_hub_on_down(nx_hub *hub, uint32_t peer, nexar_err err, const char *why);
/* |peer| has failed: what runs on the groups that it is in fails, and what begins there
 * later does at once. */
void nx_hub_on_death(nx_hub *hub, uint32_t peer, nexar_err err, const char *why);
/* The same for one group, whose first reason counts. */
void nx_group_break(nx_group *g, nexar_err err, const char *why);
/* The end: all that runs fails with |err|, when msg lets go of it; msg may go. */
void nx_hub_stop(nx_hub *hub, nexar_err err, const char *why);

/* Enters |g|, whose first fields are set, the rest zero.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_group_open(nx_group *g);
/* Takes it out; nothing runs.  Messages for it are dropped from now on. */
void nx_group_close(nx_group *g);
/* |to| becomes what |from|, on which nothing has ever run, was; the memory of |from| is the
 * caller's. */
void nx_group_move(nx_group *to, const nx_group *from);

/*
 * Numbers for |n| operations that will begin later, in this order; each is given to
 * nx_run_make, or given back.
 *
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_group_reserve(nx_group *g, uint32_t n, uint32_t *first);
/* Those of [first, first + n) that have not begun never will. */
void nx_group_unreserve(nx_group *g, uint32_t first, uint32_t n);

static inline uint32_t nx_group_peer(const nx_group *g, uint32_t rank)
{
    return (g->peers == NULL) ? rank : g->peers[rank];
}

/* ---- for runs --------------------------------------------------------------- */

/* How a number, a round and a segment make a tag. */
enum { NX_NUMBER_SHIFT = NX_ROUND_BITS + NX_SEGMENT_BITS, NX_NUMBER_BITS = 64 - NX_NUMBER_SHIFT };
#define NX_NUMBER_MASK ((UINT32_C(1) << NX_NUMBER_BITS) - 1)

static inline nx_context nx_group_context(const nx_group *g)
{
    return (nx_context){.comm = g->comm, .kind = NX_KIND_COLL, .class = NX_CLASS_COLL};
}

/* |run| begins: it may fail at once, by what was heard of it before.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_group_begin(nx_group *g, nx_run *run);
void nx_group_end(nx_group *g, nx_run *run);
/* Ends |run| if a message of it had another fingerprint. */
void nx_group_settle(nx_group *g, nx_run *run);
/* What was heard of operation |number|, which was run otherwise, is forgotten; its
 * messages as well if it has |failed|. */
void nx_group_forget(nx_group *g, uint32_t number, bool failed);
/* Tells the others that operation |number| has failed here. */
void nx_group_tell(nx_group *g, uint32_t number, nexar_err err, const char *why);

#endif /* NX_GROUP_H */
