/*
 * wait_policy.h - how long a waiting thread spins, when it yields its core, when it parks.
 *
 * The rule is competitive spinning (Karlin, Li, Manasse, Owicki: "Empirical studies of competitive
 * spinning for a shared-memory multiprocessor", SOSP 1991).  A thread polls for as long as a park
 * and its wake-up cost, then it parks.  Without knowledge of the future no rule does better: a wait
 * costs at most twice what the best choice in hindsight costs.
 *
 * A wait has three steps.  It spins: polls with a pause instruction in between.  Then it yields:
 * offers its core to other threads between two polls, since the awaited peer may need this very
 * core.  Then it parks: sleeps in the kernel until it is woken.
 *
 * Three measurements correct the rule.
 *  - A short sleep lengthens the next polling to twice that wait, within a bound. Otherwise a
 *    slow wake-up makes the peer sleep too, and both pay a wake-up for every operation.
 *  - A wait spins only while no other thread wants its core. The duration of a yield shows this:
 *    alone on a core it returns at once. Where ranks outnumber cores a wait yields between all
 *    polls.
 *  - A continuing wait, such as for a long transfer, polls again after an arrival only if the
 *    gaps between arrivals are shorter than a park. Otherwise it parks at once: a poll costs CPU
 *    time that the transfer needs.
 *
 * Times are arguments; only nx_wait_relax reads a clock.  No function blocks, allocates or fails.
 * An nx_wait and its history belong to one thread at a time.
 */
#ifndef NX_WAIT_POLICY_H
#define NX_WAIT_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/wait/machine_costs.h"

#define NX_WAIT_AUTO UINT64_MAX /* setting spin=auto */

typedef struct nx_wait_policy {
    uint64_t poll_ns;  /* how long a wait polls; 0: it parks at once, and nothing spins */
    uint64_t spin_ns;  /* how much of that it spins; then it yields */
    uint64_t pause_ns; /* duration of one poll of memory with a pause */
    uint64_t yield_ns; /* duration of a yield without another thread on the core */
    bool crowded;      /* ranks outnumber cores */
} nx_wait_policy;

/* What waits have learned.  Zero: nothing. */
typedef struct nx_wait_history {
    uint64_t poll_ns; /* polling time after a short sleep; 0: the policy's */
    bool shared;      /* the last yield let another thread run */
} nx_wait_history;

typedef enum nx_wait_step { NX_WAIT_SPIN, NX_WAIT_YIELD, NX_WAIT_PARK } nx_wait_step;

/* One wait. */
typedef struct nx_wait {
    const nx_wait_policy *policy;
    nx_wait_history *history;
    uint64_t begun_ns;
    uint64_t since_ns; /* of the last arrival; at first |begun_ns| */
    uint64_t gap_ns;   /* smoothed time between arrivals; 0: fewer than two */
    bool arrived;
} nx_wait;

/* |asked_ns|: the setting spin, NX_WAIT_AUTO or how long to poll. */
nx_wait_policy nx_wait_policy_make(const nx_machine_costs *costs, uint64_t asked_ns, bool crowded);

/* The longest that a wait polls after a short sleep. */
uint64_t nx_wait_longest(const nx_wait_policy *policy);

/* Whether a wait mostly ends without a system call: it polls, and there is a core for each rank. */
static inline bool nx_wait_is_cheap(const nx_wait_policy *policy)
{
    return (policy->poll_ns > 0) && !policy->crowded;
}

/* The number of polls with a pause that fit into a spin, and into the time of a park; 0: nothing
 * spins. */
unsigned nx_wait_polls_of_spin(const nx_wait_policy *policy);
unsigned nx_wait_polls_of_park(const nx_wait_policy *policy);

/* Whether a wait that begins now spins at first. */
bool nx_wait_spins(const nx_wait_policy *policy, const nx_wait_history *history);

/* |policy| and |history| are borrowed for the wait. */
nx_wait nx_wait_begin(const nx_wait_policy *policy, nx_wait_history *history, uint64_t now_ns);

/* The step until the next poll, after a poll that has found nothing. */
nx_wait_step nx_wait_next(const nx_wait *w, uint64_t now_ns);
/* Performs |step|, unless it is NX_WAIT_PARK; measures the duration of a yield. */
void nx_wait_relax(nx_wait *w, nx_wait_step step);
/* A yield took |span_ns|: nx_wait_relax calls it. */
void nx_wait_yielded(nx_wait *w, uint64_t span_ns);

/* A poll has found something.  The wait may continue. */
void nx_wait_arrived(nx_wait *w, uint64_t now_ns);
/* A park has ended. |found|: something has arrived; otherwise the park timed out. */
void nx_wait_woken(nx_wait *w, uint64_t now_ns, bool found);

#endif /* NX_WAIT_POLICY_H */
