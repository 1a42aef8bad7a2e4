/*
 * sched.h - a collective as data: steps, and what each step waits for.
 *
 * An algorithm only builds a schedule.  It sends nothing and holds no state,
 * so it is tested without a network for hundreds of ranks in one thread; one
 * engine runs them all.
 *
 * A builder adds steps in *program order*: as if each completed before the next
 * began.  The schedule finds the hazards itself (hazard.h): a step waits for
 * the earlier steps that wrote what it reads, and for those that read or wrote
 * what it overwrites.  A send reads its block until the transport gives the
 * buffer back, so a block that is kept for retransmission is never overwritten.
 * Steps without a common block run side by side.  Every wait points backwards:
 * a schedule cannot deadlock on itself.
 *
 * Every transfer, copy and reduction is cut in segments of |segment| elements,
 * each a step of its own.  Waits are between segments, so a builder that
 * receives a block and sends it on is a pipeline without knowing it.
 *
 * Errors stick: after one, adding does nothing; a builder checks once, with
 * nx_sched_seal().  One thread at a time per schedule; nothing blocks.
 */
#ifndef NX_SCHED_H
#define NX_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

#include "base/error.h"

/* ---- memory ------------------------------------------------------------- */

/* What a reference points into.  Each space is one vector of elements; the
 * binding (binding.h) says where it lies, in one piece or in many regions. */
typedef enum nx_space {
    NX_SPACE_SEND,    /* the caller's input; never written */
    NX_SPACE_RECV,    /* the caller's output, and input when in place */
    NX_SPACE_SCRATCH, /* the run's own, nx_sched.scratch elements, not cleared */
    NX_SPACES
} nx_space;

/* Element |off| of a space. */
typedef struct nx_ref {
    uint64_t space : 2; /* nx_space */
    uint64_t off : 62;
} nx_ref;

static inline nx_ref nx_at(nx_space space, size_t off)
{
    return (nx_ref){.space = (uint64_t)space & 3, .off = (uint64_t)off & (UINT64_MAX >> 2)};
}

/* |ref| moved forward by |off| elements. */
static inline nx_ref nx_ref_plus(nx_ref ref, size_t off)
{
    return nx_at((nx_space)ref.space, ref.off + off);
}

/* ---- steps -------------------------------------------------------------- */

typedef enum nx_step_kind {
    NX_STEP_SEND,        /* send |a| to |peer|; done when |a| may be overwritten */
    NX_STEP_RECV,        /* dst = what |peer| sends */
    NX_STEP_RECV_REDUCE, /* dst = op(a, what |peer| sends), on arrival */
    NX_STEP_COPY,        /* dst = a */
    NX_STEP_REDUCE,      /* dst = op(a, b) */
    NX_STEP_FILL,        /* dst = identity of op */
    NX_STEP_DIVIDE,      /* dst = dst / size: ends an average */
    NX_STEP_CALL,        /* the caller's hook on dst, in place */
    NX_STEP_KINDS
} nx_step_kind;

/*
 * A message of a schedule is told from the others between the same two ranks
 * by its round and its segment.  They go into the tag, so their widths are
 * fixed: 2 (size - 1) rounds of a ring of more than 65 536 ranks, 1 Mi segments.
 */
enum { NX_ROUND_BITS = 20, NX_SEGMENT_BITS = 20 };
#define NX_MAX_ROUNDS   (UINT32_C(1) << NX_ROUND_BITS)
#define NX_MAX_SEGMENTS (UINT32_C(1) << NX_SEGMENT_BITS)

/* The step's part of a tag: unique per (sender, receiver) in one schedule. */
static inline uint64_t nx_step_tag(uint32_t round, uint32_t segment)
{
    return ((uint64_t)round << NX_SEGMENT_BITS) | segment;
}

typedef uint32_t nx_step_id;
#define NX_NO_STEP UINT32_MAX

typedef struct nx_step {
    nx_ref dst, a, b; /* those that the kind names */
    size_t len;       /* elements; 0 is legal: an empty message is sent */
    uint32_t peer;    /* rank; messages only */
    uint32_t round;   /* messages only */
    uint32_t segment; /* messages only */
    uint32_t deps;    /* where this step's waits begin in nx_sched.deps ... */
    uint32_t ndeps;   /* ... and how many there are; ascending, no doubles */
    uint8_t kind;     /* nx_step_kind */
} nx_step;

/* What a schedule costs the rank that runs it. */
typedef struct nx_tally {
    uint64_t messages_sent, messages_received;
    uint64_t sent, received;  /* elements */
    uint64_t reduced, copied; /* elements, on arrival included in reduced */
    uint64_t steps;           /* of all kinds */
    uint32_t rounds;          /* largest round used + 1; 0 without messages */
} nx_tally;

typedef struct nx_sched {
    nx_step *steps;
    nx_step_id *deps;
    uint32_t nsteps, ndeps;
    size_t scratch; /* elements of scratch that a run needs */
    nx_tally tally;

    /* Used while building. */
    size_t segment; /* elements; 0: transfers are not cut */
    bool only_tally;
    nexar_err err; /* the first error, kept until seal */
    uint32_t steps_room, deps_room;
    nx_step_id gate[2];
    nx_step_id gate_from, gate_to; /* and these, ... */
    bool gate_received;            /* ... but for those that receive nothing */
    const struct nx_sched_frame *frame;
    struct nx_hazards *hazards;
} nx_sched;

/* Makes |s|, the caller's memory, an empty schedule that cuts transfers in
 * |segment| elements (0: not at all).  Given back with nx_sched_fini(). */
void nx_sched_init(nx_sched *s, size_t segment);

/* The same, but steps are counted in |s->tally| and not kept: what the cost
 * model uses for thousands of ranks. */
void nx_sched_init_tally(nx_sched *s, size_t segment);

void nx_sched_fini(nx_sched *s);

/* ---- building ----------------------------------------------------------- */

/* |len| more elements of scratch; returns where they begin. */
nx_ref nx_sched_scratch(nx_sched *s, size_t len);

/*
 * Each adds the steps for |len| elements, cut in segments; 0 elements are one
 * step, so that an empty block is still an (empty) message.  Sender and receiver
 * give equal |round| and |len|; a pair uses a round once in each direction.
 */
void nx_send(nx_sched *s, uint32_t peer, uint32_t round, nx_ref a, size_t len);
void nx_recv(nx_sched *s, uint32_t peer, uint32_t round, nx_ref dst, size_t len);
void nx_recv_reduce(nx_sched *s, uint32_t peer, uint32_t round, nx_ref dst, nx_ref a, size_t len);
/* Local steps of 0 elements, and copies to where the data already is, are left
 * out. */
void nx_copy(nx_sched *s, nx_ref dst, nx_ref a, size_t len);
void nx_reduce_local(nx_sched *s, nx_ref dst, nx_ref a, nx_ref b, size_t len);
void nx_fill(nx_sched *s, nx_ref dst, size_t len);
void nx_divide(nx_sched *s, nx_ref dst, size_t len);
/* One step, never cut, also for 0 elements. */
void nx_call(nx_sched *s, nx_ref dst, size_t len);

/* The number of the newest step; NX_NO_STEP when there is none. */
nx_step_id nx_sched_last(const nx_sched *s);
/* Steps added from now on wait for |first| and |second| as well, until the next
 * call; NX_NO_STEP is no step.  For limits on what is in flight and for empty
 * messages: hazards are found without it. */
void nx_sched_gate(nx_sched *s, nx_step_id first, nx_step_id second);
/* The same with all steps from number |first| on that there are now. */
void nx_sched_gate_since(nx_sched *s, nx_step_id first);
/* The same with those of them that receive. */
void nx_sched_gate_received(nx_sched *s, nx_step_id first);

/* How many elements each segment has, but for the last, when |len| elements are
 * cut in |segment|: |len| when |segment| is 0, more than |segment| when there
 * would be more than NX_MAX_SEGMENTS. */
size_t nx_segment_len(size_t len, size_t segment);

/*
 * A collective of some of the ranks as a part of one of them all: between enter and
 * leave a builder adds its steps as the rank of a team that it is told to be, with
 * buffers of its own.  Peers, rounds and the caller's two spaces are those of the team;
 * scratch is the schedule's.  The seal only returns the error so far.
 */
typedef struct nx_sched_frame {
    const struct nx_team *team; /* coll/hosts.h */
    uint32_t round;             /* added to the rounds */
    nx_ref send, recv;          /* where the team's NX_SPACE_SEND and NX_SPACE_RECV begin */
} nx_sched_frame;

/* |frame| is borrowed until the leave; frames are not put into one another. */
void nx_sched_enter(nx_sched *s, const nx_sched_frame *frame);
/* Gates are taken away, too. */
void nx_sched_leave(nx_sched *s);

/* Ends the building: frees what only building needs and returns the first
 * error since init.
 *
 * NEXAR_ENOMEM
 *     Out of memory, or more than 2^32 - 1 steps or waits.
 * NEXAR_EINVAL
 *     A round does not fit its tag bits.
 */
NX_MUST_CHECK nexar_err nx_sched_seal(nx_sched *s);

#endif /* NX_SCHED_H */
