/* wait_policy.c - spin, yield, park. */
#include "base/wait/wait_policy.h"

#include <sched.h>

#include "base/clock.h"
#include "base/wait/cpu.h"

/* A short message and its answer take this many hand-overs of a cache line: two in each direction
 * for head and data, and as many for the counters of the ring.  [hand-overs; counted] */
enum { ANSWER_HANDOVERS = 16 };
/* A sleep shorter than this number of parks lengthens the next polling. [parks; src/base/wait/
 * wait_policy_test.c holds the bound] */
enum { SHORT_SLEEP_PARKS = 16 };
/* The latest gap between arrivals has the weight 1 / GAP_WEIGHT. [1; an exponential average] */
enum { GAP_WEIGHT = 8 };

nx_wait_policy nx_wait_policy_make(const nx_machine_costs *costs, uint64_t asked_ns, bool crowded)
{
    const uint64_t poll_ns = (asked_ns == NX_WAIT_AUTO) ? costs->park_ns : asked_ns;
    const uint64_t handovers_ns = ANSWER_HANDOVERS * costs->handover_ns;
    const uint64_t answer_ns = (handovers_ns > costs->yield_ns) ? handovers_ns : costs->yield_ns;

    return (nx_wait_policy){.poll_ns = poll_ns,
                            .spin_ns = (answer_ns < poll_ns) ? answer_ns : poll_ns,
                            .pause_ns = costs->pause_ns,
                            .yield_ns = costs->yield_ns,
                            .crowded = crowded};
}

uint64_t nx_wait_longest(const nx_wait_policy *policy)
{
    return SHORT_SLEEP_PARKS * policy->poll_ns;
}

static unsigned polls(const nx_wait_policy *policy, uint64_t span_ns)
{
    const uint64_t n = span_ns / ((policy->pause_ns > 0) ? policy->pause_ns : 1);

    return (n < UINT32_MAX) ? (unsigned)n : UINT32_MAX;
}

unsigned nx_wait_polls_of_spin(const nx_wait_policy *policy)
{
    return polls(policy, policy->spin_ns);
}

unsigned nx_wait_polls_of_park(const nx_wait_policy *policy)
{
    return polls(policy, policy->poll_ns);
}

bool nx_wait_spins(const nx_wait_policy *policy, const nx_wait_history *history)
{
    return (policy->spin_ns > 0) && !policy->crowded && !history->shared;
}

nx_wait nx_wait_begin(const nx_wait_policy *policy, nx_wait_history *history, uint64_t now_ns)
{
    return (nx_wait){.policy = policy, .history = history, .begun_ns = now_ns, .since_ns = now_ns};
}

/* How long this wait polls. */
static uint64_t budget(const nx_wait *w)
{
    const uint64_t learned_ns = w->history->poll_ns;

    return (learned_ns > w->policy->poll_ns) ? learned_ns : w->policy->poll_ns;
}

nx_wait_step nx_wait_next(const nx_wait *w, uint64_t now_ns)
{
    const nx_wait_policy *p = w->policy;
    const bool pays = (w->gap_ns <= p->poll_ns);
    const uint64_t idle_ns = now_ns - w->since_ns;

    if ((p->poll_ns == 0) || ((pays ? idle_ns : now_ns - w->begun_ns) >= budget(w))) {
        return NX_WAIT_PARK;
    }
    return ((idle_ns < p->spin_ns) && nx_wait_spins(p, w->history)) ? NX_WAIT_SPIN : NX_WAIT_YIELD;
}

void nx_wait_yielded(nx_wait *w, uint64_t span_ns)
{
    w->history->shared = (span_ns > 2 * w->policy->yield_ns);
}

void nx_wait_relax(nx_wait *w, nx_wait_step step)
{
    if (step == NX_WAIT_SPIN) {
        nx_cpu_pause();
    } else if (step == NX_WAIT_YIELD) {
        const uint64_t begun_ns = nx_now(&nx_clock_system);

        (void)sched_yield();
        nx_wait_yielded(w, nx_now(&nx_clock_system) - begun_ns);
    }
}

/* A single long gap, such as a preemption, is limited to twice the cost of a park. */
static void note_gap(nx_wait *w, uint64_t now_ns)
{
    const uint64_t most_ns = 2 * w->policy->poll_ns, span_ns = now_ns - w->since_ns;
    const uint64_t gap_ns = (span_ns < most_ns) ? span_ns : most_ns;

    if (w->arrived) {
        w->gap_ns =
            (w->gap_ns == 0) ? gap_ns : w->gap_ns - w->gap_ns / GAP_WEIGHT + gap_ns / GAP_WEIGHT;
    }
    w->arrived = true;
    w->since_ns = now_ns;
}

void nx_wait_arrived(nx_wait *w, uint64_t now_ns)
{
    note_gap(w, now_ns);
}

void nx_wait_woken(nx_wait *w, uint64_t now_ns, bool found)
{
    const uint64_t span_ns = now_ns - w->since_ns, longest_ns = nx_wait_longest(w->policy);

    if (span_ns >= longest_ns) {
        w->history->poll_ns = 0;
    } else if (w->gap_ns <= w->policy->poll_ns) {
        w->history->poll_ns = (2 * span_ns < longest_ns) ? 2 * span_ns : longest_ns;
    }
    if (found) {
        note_gap(w, now_ns);
    } else {
        w->since_ns = now_ns;
    }
}
