/*
 * heard_gate.h - frames that wait until their receiver was heard recently: (state, event) ->
 * actions; no sockets, no clock, no threads.
 *
 * A rank that receives nothing concludes that others have failed. Its notifications would arrive,
 * and must not: see failure_detector.h, H3. So a frame for a peer that was not heard recently is
 * kept, and the peer is pinged. The frame is sent when the answer has arrived, and is dropped if
 * none ever does.
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
    /* begin: frames wait from now on until |peer| is heard. end: they no longer do. Each begin has
     * an end. */
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
/* Drops waiting frames; does not call `end`. */
void nx_heard_gate_fini(nx_heard_gate *g);

/* Sends now, or when |to| is heard.  Without memory: now. */
void nx_heard_gate_send(nx_heard_gate *g, uint32_t to, const void *frame, size_t len);
/* |peer| was heard: sends its waiting frames. Cheap. */
void nx_heard_gate_heard(nx_heard_gate *g, uint32_t peer);
/* |peer| has failed or left. */
void nx_heard_gate_drop(nx_heard_gate *g, uint32_t peer);

#endif /* NX_HEARD_GATE_H */
