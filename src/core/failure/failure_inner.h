/*
 * failure_inner.h - shared by the files of failure detection.
 *
 *   failure.c          life; events for the membership; notification of subscribers
 *   detector_events.c  the machines: their frames and events
 *   unreachable.c      unreachable ranks: the seed is asked whether they have left
 *   fail_pending.c     the subscribers: what ends because a rank has failed or left
 */
#ifndef NX_FAILURE_INNER_H
#define NX_FAILURE_INNER_H

#include "cluster/membership/failure_detector.h"
#include "cluster/membership/heard_gate.h"
#include "cluster/membership/reliable_broadcast.h"
#include "core/failure/failure.h"

/* What this rank reports about itself then, followed by the reason. */
#define NX_FAILURE_HELD "the other ranks have declared this rank failed: "

struct nx_failure {
    nx_world *world;
    nx_membership *members;
    nx_detector *detector;
    nx_rbcast *rbcast;
    nx_heard_gate heard_gate; /* for frames that depend on failures */
    nx_list calls;            /* pending calls of the application's functions */
    nx_timer timer;
    uint64_t early_ns;          /* how long before the deadline it expires: see on_timer */
    uint64_t ticked_ns;         /* time of the last tick */
    uint64_t pause_ns[2];       /* longest gap between two ticks, in this period and the previous
                                   one */
    uint64_t span_ns, spans_ns; /* start of this period; length of a period */
    nx_task task;
    uint64_t answer_by_ns; /* deadline of the seed's answer */
    bool quiet;            /* detection is off; otherwise all machines exist */
    bool starved;          /* out of memory: cannot continue */
};

static inline bool nx_failure_is_out(const nx_failure *f)
{
    return f->quiet || nx_membership_expelled(f->members);
}

/* ---- failure.c ---------------------------------------------------------------------------- */

void nx_failure_suspect(nx_world *world, uint32_t slot, nx_life_source source, const char *why);
/* The longest time in the last one or two time-outs during which this rank did not run. */
uint64_t nx_failure_pause(const nx_failure *f);

/* ---- detector_events.c -------------------------------------------------------------------- */

/* No machine exists yet: start makes them, stop frees them. */
void nx_detector_events_init(nx_failure *f);
/* NEXAR_EINVAL, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_detector_events_start(nx_failure *f, nx_detector_config *config);
void nx_detector_events_stop(nx_failure *f);
/* Something came from |peer|. */
void nx_detector_events_heard(nx_failure *f, uint32_t peer, uint64_t now_ns);

/* ---- unreachable.c ------------------------------------------------------------------------ */

/* |peer|, to which there never was a link, is unreachable: asks the seed whether it has left.
 * Without a seed it counts as left. */
void nx_unreachable_ask(nx_failure *f, uint32_t peer);
/* Stops waiting for overdue answers. */
void nx_unreachable_tick(nx_failure *f, uint64_t now_ns);

/* ---- fail_pending.c ----------------------------------------------------------------------- */

/* The table of subscribers, and what happens when this rank was declared failed; |ctx| is the
 * nx_failure. */
extern const nx_life_subscriber nx_fail_pending_table[];
extern const size_t nx_fail_pending_rows;
void nx_fail_pending_all(void *ctx);
/* Forgets pending calls. */
void nx_fail_pending_stop(nx_failure *f);

#endif /* NX_FAILURE_INNER_H */
