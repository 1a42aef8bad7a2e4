/*
 * sched_sim.h - runs the schedules of all ranks in one thread, on real data, in an order of
 * events that a seed chooses.
 *
 * First a *plan* is created from the sealed schedules. This finds all errors that do not depend
 * on the order (waits, references, matching of messages). Then the plan is run, any number of
 * times. The virtual network shows every behaviour of a real one. Messages overtake each other,
 * arrive late, in fragments. A buffer is released before its message has arrived (the transport
 * has copied it) or long after (the transport keeps it for retransmission). In half of the runs
 * it is never released before (the receiver's window is closed). Ranks run at different speeds.
 * One step may be delayed until nothing else can continue. A run finds:
 *  - a step that accesses memory which another step in flight writes, or that writes memory which
 *    another one reads; a step that runs before an earlier step (in program order) with which it
 *    shares memory;
 *  - a read of scratch or of a receive buffer that no step has written;
 *  - a sent block that changed before its buffer was released;
 *  - steps that never run.
 *
 * Nothing here shares code with src/coll/hazard.c.
 */
#ifndef NXT_SCHED_SIM_H
#define NXT_SCHED_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coll/run/binding.h"
#include "coll/sched.h"

typedef enum nxt_finding {
    NXT_FINE,
    NXT_BAD_WAIT,    /* not backwards, not ascending, out of range */
    NXT_BAD_REF,     /* outside of its space, into the send buffer, onto itself */
    NXT_BAD_MESSAGE, /* no partner, another length, tag not unique or too wide */
    NXT_BAD_TALLY,   /* the schedule's tally is not the sum of its steps */
    NXT_UNORDERED,   /* two steps share memory and no chain of waits orders them */
    NXT_RACE,        /* the same, observed in a run */
    NXT_UNDEFINED,   /* a read of memory that no step has written */
    NXT_CHANGED,     /* a block changed while its send was in flight */
    NXT_DEADLOCK,
    NXT_NO_BARRIER, /* a rank may leave before another has arrived */
    NXT_BAD_CALL,   /* a call step although the run has no hook */
    NXT_WRONG_DATA  /* for users of the simulator, which cannot detect it */
} nxt_finding;

enum { NXT_VERDICT_ROOM = 600 };

typedef struct nxt_verdict {
    nxt_finding finding;
    uint32_t rank, step;
    char text[NXT_VERDICT_ROOM]; /* a message that names rank and step */
} nxt_verdict;

/* Stores |finding| about |step| of |rank| and a message in |*v|; returns false. */
bool nxt_find(nxt_verdict *v, nxt_finding finding, uint32_t rank, uint32_t step, const char *format,
              ...) __attribute__((format(printf, 5, 6)));

/* "send", "recv_reduce", ... */
const char *nxt_step_kind_name(uint8_t kind);

/* ---- the plan ----------------------------------------------------------- */

/* One rank of a plan. */
typedef struct nxt_member {
    const nx_sched *sched;
    size_t room[NX_SPACES]; /* bound elements; scratch: sched->scratch at least */
    bool recv_is_input;     /* the receive buffer is defined at the start */
} nxt_member;

typedef struct nxt_plan nxt_plan;

/* The schedules are borrowed until nxt_plan_destroy() and must not change. NULL: they are wrong
 * in every order of events; |*v| says why. */
nxt_plan *nxt_plan_create(const nxt_member *members, uint32_t size, nxt_verdict *v);
void nxt_plan_destroy(nxt_plan *plan);

/* Whether any two steps of a rank that share memory, one of them writing, are
 * ordered by a chain of waits: then no order of events can make them race.
 * Takes memory and time of the order of steps^2. */
bool nxt_plan_ordered(const nxt_plan *plan, nxt_verdict *v);

/* Whether wait number |nth| of |step| of |rank| is needed: without it, there is
 * an order of events in which the step starts before the other is complete.
 * Chains of waits and of messages over all ranks are followed. */
bool nxt_plan_wait_needed(const nxt_plan *plan, uint32_t rank, uint32_t step, uint32_t nth);

/* Whether no rank can complete all its steps before every rank has started one: the guarantee of
 * a barrier. */
bool nxt_plan_synchronises(const nxt_plan *plan, nxt_verdict *v);

/* Whether the tally of |s| is the sum of its steps. */
bool nxt_tally_right(const nx_sched *s, uint32_t rank, nxt_verdict *v);
bool nxt_tally_equal(const nx_tally *a, const nx_tally *b);

/* ---- a run -------------------------------------------------------------- */

/* A call step: |content| is a contiguous copy of the |len| elements at |dst|; its content is
 * written back afterwards. */
typedef void (*nxt_on_call)(void *ctx, uint32_t rank, nx_ref dst, size_t len, void *content);

typedef struct nxt_run {
    const nx_binding *bindings; /* one per rank, all spaces bound */
    nexar_dtype dtype;
    nexar_op op;
    uint64_t seed;
    nxt_on_call on_call; /* may be NULL */
    void *ctx;
    /* Delays this step, instead of a step (or none) chosen by the seed. */
    bool hold;
    uint32_t hold_rank, hold_step;
} nxt_run;

/* Counters of the simulation since the program started. */
typedef struct nxt_sim_stats {
    uint64_t runs, steps, messages, fragments;
} nxt_sim_stats;
extern nxt_sim_stats nxt_stats;

/* Whether the run found no error; |*v| describes the error. */
bool nxt_plan_run(const nxt_plan *plan, const nxt_run *run, nxt_verdict *v);

#endif /* NXT_SCHED_SIM_H */
