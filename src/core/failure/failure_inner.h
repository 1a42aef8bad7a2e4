/*
 * failure_inner.h - what the files of the detection of failures share, and who does what.
 *
 *   failure.c    the record: deaths and ends of links; life
 *   detector_events.c    the machines: what they say to others, and are told by them
 *   unreachable.c     those of whom nothing was found: the seed is asked how they went
 *   fail_pending.c  what ends because somebody has failed, and who is told here
 */
#ifndef NX_FAILURE_INNER_H
#define NX_FAILURE_INNER_H

#include "cluster/failure_detector.h"
#include "cluster/heard_gate.h"
#include "cluster/reliable_broadcast.h"
#include "core/failure/failure.h"

/* What this rank says of itself then, and why follows. */
#define NX_FAILURE_HELD "the other ranks hold this one for dead: "

/* Who has died, and why. */
typedef struct nx_death {
    nx_list link;
    uint32_t rank;
    nx_rankset told; /* by nx_failure_vouch */
    char why[NX_FAILURE_WHY];
} nx_death;

struct nx_failure {
    nx_world *world;
    nx_detector *detector;
    nx_rbcast *rbcast;
    nx_heard_gate heard_gate; /* for what rests upon deaths */
    nx_rankset dead, left;    /* the record: who has failed; who has left */
    nx_rankset burials;       /* of |dead|: what follows is due */
    nx_rankset down;          /* whose link has ended, which says nothing of them: the same */
    nx_rankset asked;         /* nothing listens there: the seed was asked how they went */
    nx_rankset absent;        /* of those that have left: it may be that they have failed */
    nx_rankset lost;          /* watched since their link is lost */
    nx_rankset leaves;        /* of |left|: what follows is due */
    nx_list deaths;           /* nx_death.link */
    nx_list calls;            /* of the application's functions, on their way */
    nx_list early;            /* deaths in slots that are not known yet */
    nx_timer timer;
    uint64_t early_ns;          /* it expires so long before it is due: see on_timer */
    uint64_t ticked_ns;         /* when it last did */
    uint64_t pause_ns[2];       /* the longest between two, in this span and the one before */
    uint64_t span_ns, spans_ns; /* when this one began; how long one is */
    nx_task task;
    uint64_t answer_by_ns; /* for those in |asked| */
    bool quiet;
    bool expelled; /* this rank is out: the others hold it for dead, or will */
    bool starved;  /* it has no memory to go on */
};

/* ---- failure.c ---------------------------------------------------------------------------- */

/* The longest time in the last one or two time-outs that this rank itself did not look. */
uint64_t nx_failure_pause(const nx_failure *f);

/* ---- detector_events.c
 * ---------------------------------------------------------------------------- */

/* No machine is there yet: they are made by start, and freed by stop if they were. */
void nx_detector_events_init(nx_failure *f);
/* NEXAR_EINVAL, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_detector_events_start(nx_failure *f, const nx_detector_config *config);
void nx_detector_events_stop(nx_failure *f);
/* Something came from |peer|. */
void nx_detector_events_heard(nx_failure *f, uint32_t peer, uint64_t now_ns);

/* ---- unreachable.c -----------------------------------------------------------------------------
 */

/* Nothing listens where |peer| should be, to which there never was a link: whether the seed could
 * be asked how it went.  The answer is acted upon when it comes. */
NX_MUST_CHECK bool nx_unreachable_ask(nx_failure *f, uint32_t peer);
/* Answers that are overdue are not waited for. */
void nx_unreachable_tick(nx_failure *f, uint64_t now_ns);

/* ---- fail_pending.c -------------------------------------------------------------------------- */

/* |rank| has failed, as is noted in |deaths|. */
void nx_fail_pending_failed(nx_failure *f, uint32_t rank);
/* |rank| will not speak again: receives from anybody end where nobody else is left. */
void nx_fail_pending_left(nx_failure *f, uint32_t rank);
/* Forgets the calls that have not been made. */
void nx_fail_pending_stop(nx_failure *f);

#endif /* NX_FAILURE_INNER_H */
