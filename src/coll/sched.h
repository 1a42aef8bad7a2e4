/*
 * sched.h - a collective as data: steps and their dependencies.
 *
 * An algorithm only builds a schedule. It sends nothing and holds no state, so tests run it without
 * a network for hundreds of ranks in one thread. One engine runs all schedules.
 *
 * A builder adds steps in *program order*: as if each step completed before the next began. The
 * schedule finds the hazards itself (hazard.h). A step waits for the earlier steps that wrote its
 * input, and for the steps that read or wrote the memory it overwrites. A send reads its block
 * until the transport releases the buffer, so a block kept for retransmission is never overwritten.
 * Steps without a common block run concurrently. Every dependency points backwards, so a schedule
 * cannot deadlock on itself.
 *
 * Every transfer, copy and reduction is cut in segments of |segment| elements, each a step of its
 * own. Dependencies are between segments, so a builder that receives a block and forwards it is
 * automatically a pipeline.
 *
 * The first error sticks: later calls do nothing, and a builder checks once, with nx_sched_seal().
 * One thread at a time per schedule. Nothing blocks.
 */
#ifndef NX_SCHED_H
#define NX_SCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

#include "base/error.h"

/* ---- memory -------------------------------------------------------------------------- */

/* What a reference points into. Each space is one vector of elements. The binding (binding.h) maps
 * it to memory, in one or many regions. */
typedef enum nx_space {
    NX_SPACE_SEND,    /* the caller's input; never written */
    NX_SPACE_RECV,    /* the caller's output, and input when in place */
    NX_SPACE_SCRATCH, /* temporary, nx_sched.scratch elements, not cleared */
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

/* ---- steps --------------------------------------------------------------------------- */

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
 * Round and segment distinguish the messages of a schedule between two ranks. They are fields of
 * the tag with fixed widths: 2 (size - 1) rounds of a ring of more than 65 536 ranks, 1 Mi
 * segments.
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
    nx_ref dst, a, b; /* used as the kind says */
    size_t len;       /* elements; 0 is legal: an empty message is sent */
    uint32_t peer;    /* rank; messages only */
    uint32_t round;   /* messages only */
    uint32_t segment; /* messages only */
    uint32_t deps;    /* the dependencies begin here in nx_sched.deps ... */
    uint32_t ndeps;   /* ... and are this many; ascending, no duplicates */
    uint8_t kind;     /* nx_step_kind */
} nx_step;

/* The cost of a schedule to the rank that runs it. */
typedef struct nx_tally {
    uint64_t messages_sent, messages_received;
    uint64_t sent, received;  /* elements */
    uint64_t reduced, copied; /* elements; |reduced| includes reductions on arrival */
    uint64_t steps;           /* of all kinds */
    uint32_t rounds;          /* largest round used + 1; 0 without messages */
} nx_tally;

typedef struct nx_sched {
    nx_step *steps;
    nx_step_id *deps;
    uint32_t nsteps, ndeps;
    size_t scratch; /* elements of scratch that a run needs */
    nx_tally tally;

    /* While building. */
    size_t segment; /* elements; 0: transfers are not cut */
    bool only_tally;
    nexar_err err; /* the first error, returned by seal */
    uint32_t steps_room, deps_room;
    nx_step_id gate[2];
    nx_step_id gate_from, gate_to; /* additional dependencies: ... */
    bool gate_received;            /* ... only steps that receive */
    const struct nx_sched_frame *frame;
    struct nx_hazards *hazards;
} nx_sched;

/* Initialises |s|, the caller's memory, as an empty schedule with transfers cut in |segment|
 * elements (0: not cut). Free with nx_sched_fini(). */
void nx_sched_init(nx_sched *s, size_t segment);

/* The same, but steps are counted in |s->tally| and not stored: for the cost model, with thousands
 * of ranks. */
void nx_sched_init_tally(nx_sched *s, size_t segment);

void nx_sched_fini(nx_sched *s);

/* ---- building ------------------------------------------------------------------------ */

/* Reserves |len| elements of scratch; returns their start. */
nx_ref nx_sched_scratch(nx_sched *s, size_t len);

/*
 * Each adds the steps for |len| elements, cut in segments. 0 elements make one step, so an empty
 * block is still a message. Sender and receiver use equal |round| and |len|. A pair uses a round
 * once in each direction.
 */
void nx_send(nx_sched *s, uint32_t peer, uint32_t round, nx_ref a, size_t len);
void nx_recv(nx_sched *s, uint32_t peer, uint32_t round, nx_ref dst, size_t len);
void nx_recv_reduce(nx_sched *s, uint32_t peer, uint32_t round, nx_ref dst, nx_ref a, size_t len);
/* Local steps of 0 elements, and copies onto themselves, are omitted. */
void nx_copy(nx_sched *s, nx_ref dst, nx_ref a, size_t len);
void nx_reduce_local(nx_sched *s, nx_ref dst, nx_ref a, nx_ref b, size_t len);
void nx_fill(nx_sched *s, nx_ref dst, size_t len);
void nx_divide(nx_sched *s, nx_ref dst, size_t len);
/* One step, never cut, also for 0 elements. */
void nx_call(nx_sched *s, nx_ref dst, size_t len);

/* The newest step; NX_NO_STEP if there is none. */
nx_step_id nx_sched_last(const nx_sched *s);
/* Until the next call, added steps also wait for |first| and |second| (NX_NO_STEP: none). Limits
 * what is in flight, and orders empty messages; hazards do not need it. */
void nx_sched_gate(nx_sched *s, nx_step_id first, nx_step_id second);
/* The same for all existing steps from number |first| on. */
void nx_sched_gate_since(nx_sched *s, nx_step_id first);
/* The same, but only for the receiving steps among them. */
void nx_sched_gate_received(nx_sched *s, nx_step_id first);

/* The number of elements of each segment except the last, when |len| elements are divided by
 * |segment|: |len| if |segment| is 0; more than |segment| if there would be more than
 * NX_MAX_SEGMENTS. */
size_t nx_segment_len(size_t len, size_t segment);

/*
 * A collective of a team of ranks inside a collective of all. Between enter and leave a builder
 * adds its steps as a rank of the team, with its own buffers. Peers, rounds and the caller's two
 * spaces are those of the team; scratch is the schedule's. The seal inside only returns the current
 * error.
 */
typedef struct nx_sched_frame {
    const struct nx_team *team; /* coll/hosts.h */
    uint32_t round;             /* added to each round */
    nx_ref send, recv;          /* start of the team's NX_SPACE_SEND and NX_SPACE_RECV */
} nx_sched_frame;

/* |frame| is borrowed until the leave. Frames do not nest. */
void nx_sched_enter(nx_sched *s, const nx_sched_frame *frame);
/* Also removes gates. */
void nx_sched_leave(nx_sched *s);

/* Ends the building: frees temporary memory and returns the first error since init.
 *
 * NEXAR_ENOMEM
 *     Out of memory, or more than 2^32 - 1 steps or dependencies.
 * NEXAR_EINVAL
 *     A round does not fit its tag bits. */
NX_MUST_CHECK nexar_err nx_sched_seal(nx_sched *s);

#endif /* NX_SCHED_H */
