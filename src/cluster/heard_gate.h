/*
 * heard_gate.h - frames that wait until their receiver has been heard from: (state, event) ->
 * actions; no sockets, no clock, no threads.
 *
 * A rank that hears nothing takes the others for dead.  What it says of that arrives, and
 * must not: see failure_detector.h, H3.  So a frame for one that is not heard is kept, and that one
 * is asked for an answer; it goes when the answer has come, and is dropped when none ever does.
 *
 * Frames to one peer keep their order.
 */
#ifndef NX_HEARD_GATE_H
#define NX_HEARD_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/containers/list.h"

/* None of them may call back, but `send` may call nx_heard_gate_send. */
typedef struct nx_heard_gate_ops {
    void (*send)(void *ctx, uint32_t to, const void *frame, size_t len);
    bool (*hears)(void *ctx, uint32_t peer);
    /* From now on frames wait until |peer| is heard, or do not any more: for each begin
     * there is an end. */
    void (*begin)(void *ctx, uint32_t peer);
    void (*end)(void *ctx, uint32_t peer);
} nx_heard_gate_ops;

typedef struct nx_heard_gate {
    const nx_heard_gate_ops *ops;
    void *ctx;
    nx_list frames; /* that wait, oldest first */
} nx_heard_gate;

/* |ops| and |ctx| are borrowed while it lives. */
void nx_heard_gate_init(nx_heard_gate *g, const nx_heard_gate_ops *ops, void *ctx);
/* Drops what waits; `end` is not called. */
void nx_heard_gate_fini(nx_heard_gate *g);

/* Now, or when |to| is heard.  Without memory: now. */
void nx_heard_gate_send(nx_heard_gate *g, uint32_t to, const void *frame, size_t len);
/* |peer| was heard: what waits for it goes.  Cheap. */
void nx_heard_gate_heard(nx_heard_gate *g, uint32_t peer);
/* |peer| is dead or has left. */
void nx_heard_gate_drop(nx_heard_gate *g, uint32_t peer);

#endif /* NX_HEARD_GATE_H */
