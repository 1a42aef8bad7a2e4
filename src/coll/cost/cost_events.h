/* cost_events.h - what will happen, soonest first. */
#ifndef NX_COST_EVENTS_H
#define NX_COST_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/* In the order in which events of one instant happen. */
typedef enum nx_cost_event_kind {
    NX_COST_EVENT_DONE,   /* a receive or a local step is over */
    NX_COST_EVENT_ACK,    /* a send is over */
    NX_COST_EVENT_ARRIVE, /* all of a message has come in */
    NX_COST_EVENT_HEAD,   /* a message has reached the way in */
    NX_COST_EVENT_OUT,    /* a message has reached the way out */
} nx_cost_event_kind;

/* Times are not negative, so that their bits compare as they do. */
typedef struct nx_cost_event {
    uint64_t time_bits;
    uint64_t what; /* kind << 32 | step: breaks ties, always the same way */
} nx_cost_event;

/* Zero-initialised is empty.  A heap of four children each: half as deep as the
 * usual one, and the children share a cache line. */
typedef struct nx_cost_events {
    nx_cost_event *heap;
    uint32_t n, room;
    bool failed; /* out of memory, once and for all */
} nx_cost_events;

void nx_cost_events_push(nx_cost_events *e, double time, nx_cost_event_kind kind, uint32_t step);
/* The soonest; false if there is none. */
bool nx_cost_events_pop(nx_cost_events *e, double *time, nx_cost_event_kind *kind, uint32_t *step);
void nx_cost_events_fini(nx_cost_events *e);

#endif /* NX_COST_EVENTS_H */
