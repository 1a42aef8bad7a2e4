/* cost_events.h - a queue of future events, earliest first. */
#ifndef NX_COST_EVENTS_H
#define NX_COST_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/* In the order in which simultaneous events happen. */
typedef enum nx_cost_event_kind {
    NX_COST_EVENT_DONE,   /* a receive or a local step is done */
    NX_COST_EVENT_ACK,    /* a send is done */
    NX_COST_EVENT_ARRIVE, /* a message has arrived completely */
    NX_COST_EVENT_HEAD,   /* a message has reached the receiver's port */
    NX_COST_EVENT_OUT,    /* a message has reached the sender's port */
} nx_cost_event_kind;

/* Times are not negative, so their bits compare like their values. */
typedef struct nx_cost_event {
    uint64_t time_bits;
    uint64_t what; /* kind << 32 | step: breaks ties, always the same way */
} nx_cost_event;

/* Zero-initialised is empty. A 4-ary heap: half as deep as a binary one, and siblings share a cache
 * line. */
typedef struct nx_cost_events {
    nx_cost_event *heap;
    uint32_t n, room;
    bool failed; /* out of memory; permanent */
} nx_cost_events;

void nx_cost_events_push(nx_cost_events *e, double time, nx_cost_event_kind kind, uint32_t step);
/* Removes the earliest event; false if there is none. */
bool nx_cost_events_pop(nx_cost_events *e, double *time, nx_cost_event_kind *kind, uint32_t *step);
void nx_cost_events_fini(nx_cost_events *e);

#endif /* NX_COST_EVENTS_H */
