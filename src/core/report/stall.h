/*
 * stall.h - reports operations that wait too long, the ranks they wait for, and the activity of
 * these ranks.
 *
 * One timer, no work per operation.  When an operation has waited for |after_ns|, the ranks that it
 * waits for are asked (core/report/doing.h), then the ranks that these wait for, a few steps
 * deep.  When all have answered, or ANSWER_NS after the last question, the report is printed.
 * The same operation is reported again after twice the time, then after twice that.
 *
 * Which rank prints.  In a collective of 64 ranks of which one is late, 63 wait: one report is
 * wanted, not 63.  A rank prints a collective if it waits for a rank that is not in the
 * collective, is silent, or has failed or left.  It also prints one if it waits for something
 * local, such as a device.  Rank 0 of the communicator always prints, and follows the chain to
 * its end.  The others print one line, at the level info. A message concerns two ranks: each
 * rank that waits for one prints.  A rank that serves remote calls may wait in a collective for
 * as long as the others compute: if it has served one since the last check, it prints one line,
 * at the level info.
 *
 * Deadlocks.  Ranks that each wait for exactly one other, in a cycle, are named in a line of their
 * own.
 *
 * Independent of worlds: the owner reports what waits, and carries frames.  Runs with the loop's
 * lock held.
 */
#ifndef NX_STALL_H
#define NX_STALL_H

#include "base/log.h"
#include "core/report/doing.h"
#include "loop/loop.h"

typedef struct nx_stall nx_stall;

/* Of a note; and the end of one about an arrived message that no call receives. */
enum { NX_NOTE_TEXT = 112 };
#define NX_UNMATCHED " is here and matches no receive"

/* An operation that has begun and not ended. */
typedef struct nx_pending {
    nx_what what;
    uint64_t begun_ns;
    bool first; /* this rank is rank 0 of its communicator */
} nx_pending;

/* How a line is meant. */
typedef enum nx_stall_voice {
    NX_STALL_INFO,  /* another rank prints more */
    NX_STALL_WARN,  /* a report */
    NX_STALL_DEMAND /* requested by a user: printed at any level */
} nx_stall_voice;

typedef struct nx_stall_config {
    nx_loop *loop;
    uint32_t self, size;
    uint64_t after_ns; /* the setting stall_report; 0: only on demand */
    /* The oldest operation that began after |since_ns|; of a communicator's collectives
     * only the oldest counts.  False: there is none. */
    bool (*oldest)(void *ctx, uint64_t since_ns, nx_pending *out);
    /* The ranks of the world that |p| waits for, each once, the first |room| of them; returns their
     * number.  May include this rank. */
    uint32_t (*whom)(void *ctx, const nx_pending *p, uint32_t *out, uint32_t room);
    /* What |p| waits for on this rank itself, NX_DOING_HERE bytes; empty: nothing.  May be
     * NULL: never anything. */
    void (*here)(void *ctx, const nx_pending *p, char *out);
    /* A message about |p|, NX_NOTE_TEXT bytes, that explains why it waits; empty: none.  May be
     * NULL. */
    void (*note)(void *ctx, const nx_pending *p, char *out);
    /* Number of remote calls that this rank has served.  May be NULL: none. */
    uint64_t (*served)(void *ctx);
    /* The state of |rank|, which has gone: "has failed", "has left".  May be NULL. */
    const char *(*fate)(void *ctx, uint32_t rank);
    /* Sends a control frame; an error has its message. */
    nexar_err (*send)(void *ctx, uint32_t peer, const void *data, size_t len);
    void (*print)(void *ctx, nx_stall_voice voice, const char *line);
    void *ctx;
} nx_stall_config;

/* NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_stall_create(nx_stall **out, const nx_stall_config *config);
void nx_stall_destroy(nx_stall *s);
/* The ranks have changed; a report in progress is dropped. */
void nx_stall_resize(nx_stall *s, uint32_t self, uint32_t size);

/* Reports the oldest operation now, however long it has waited; false: none waits. */
bool nx_stall_demand(nx_stall *s);

/* |peer| has answered; |peer| has gone. */
void nx_stall_on_answer(nx_stall *s, uint32_t peer, const nx_doing *d);
void nx_stall_on_down(nx_stall *s, uint32_t peer, const char *why);

#endif /* NX_STALL_H */
