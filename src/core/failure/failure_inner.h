/*
 * failure_inner.h - what the files of the detection of failures share, and who does what.
 *
 *   failure.c          life; events for the membership, and when subscribers are notified
 *   detector_events.c  the machines: what they say to others, and are told by them
 *   unreachable.c      ranks that cannot be found: the seed is asked how they went
 *   fail_pending.c     the subscribers: what ends because a rank has failed or left
 */
#ifndef NX_FAILURE_INNER_H
#define NX_FAILURE_INNER_H

#include "cluster/failure_detector.h"
#include "cluster/heard_gate.h"
#include "cluster/reliable_broadcast.h"
#include "core/failure/failure.h"

/* What this rank says of itself then, and why follows. */
#define NX_FAILURE_HELD "the other ranks hold this one for dead: "

struct nx_failure {
    nx_world *world;
    nx_membership *members;
    nx_detector *detector;
    nx_rbcast *rbcast;
    nx_heard_gate heard_gate; /* for what rests upon failures */
    nx_list calls;            /* of the application's functions, on their way */
    nx_timer timer;
    uint64_t early_ns;          /* it expires so long before it is due: see on_timer */
    uint64_t ticked_ns;         /* when it last did */
    uint64_t pause_ns[2];       /* the longest between two, in this span and the one before */
    uint64_t span_ns, spans_ns; /* when this one began; how long one is */
    nx_task task;
    uint64_t answer_by_ns; /* when the seed is to have answered */
    bool quiet;            /* nothing is found out; where it is not, all machines are there */
    bool starved;          /* it has no memory to go on */
};

static inline bool nx_failure_is_out(const nx_failure *f)
{
    return f->quiet || nx_membership_expelled(f->members);
}

/* ---- failure.c ---------------------------------------------------------------------------- */

void nx_failure_suspect(nx_world *world, uint32_t slot, nx_life_source source, const char *why);
/* The longest time in the last one or two time-outs that this rank itself did not look. */
uint64_t nx_failure_pause(const nx_failure *f);

/* ---- detector_events.c -------------------------------------------------------------------- */

/* No machine is there yet: they are made by start, and freed by stop if they were. */
void nx_detector_events_init(nx_failure *f);
/* NEXAR_EINVAL, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_detector_events_start(nx_failure *f, nx_detector_config *config);
void nx_detector_events_stop(nx_failure *f);
/* Something came from |peer|. */
void nx_detector_events_heard(nx_failure *f, uint32_t peer, uint64_t now_ns);

/* ---- unreachable.c ------------------------------------------------------------------------ */

/* Nothing listens where |peer| should be, to which there never was a link: the seed is asked how it
 * went.  Without one it has left, as far as is known. */
void nx_unreachable_ask(nx_failure *f, uint32_t peer);
/* Answers that are overdue are not waited for. */
void nx_unreachable_tick(nx_failure *f, uint64_t now_ns);

/* ---- fail_pending.c ----------------------------------------------------------------------- */

/* The table of subscribers, and what happens when this rank was declared failed; |ctx| is the
 * nx_failure. */
extern const nx_life_subscriber nx_fail_pending_table[];
extern const size_t nx_fail_pending_rows;
void nx_fail_pending_all(void *ctx);
/* Forgets the calls that have not been made. */
void nx_fail_pending_stop(nx_failure *f);

#endif /* NX_FAILURE_INNER_H */
