/*
 * stall.h - says on stderr what waits too long, for whom, and what those are doing.
 *
 * One timer, no work per operation.  When an operation has waited for |after_ns|, the
 * ranks that it waits for are asked (core/report/doing.h), and those that they wait for in
 * turn, a few steps deep; when all have answered, or ANSWER_NS after the last
 * question, the report is printed.  The same operation is reported again after
 * twice the time, then after twice that.
 *
 * Who prints.  In a collective of 64 ranks of which one is late, 63 wait: one report is
 * wanted, not 63.  A rank prints a collective if it waits for a rank that is not in
 * it, or is silent or gone, or for something of its own, as a device; and rank 0 of the
 * communicator does in any case, and follows the chain to those at its end.  The others say one
 * line, at the level info.  A message concerns two ranks: whoever waits for one prints.
 * A rank that serves remote calls may wait in a collective for as long as the others compute: if
 * it has served one since it last looked, it says so in one line, at the level info.
 *
 * Deadlocks.  Ranks that each wait for exactly one other, in a circle, are named in a line of
 * their own.
 *
 * Knows nothing of worlds: the owner tells what waits, and carries frames.  Runs with
 * the loop's lock held.
 */
#ifndef NX_STALL_H
#define NX_STALL_H

#include "base/log.h"
#include "core/report/doing.h"
#include "loop/loop.h"

typedef struct nx_stall nx_stall;

/* Of a note; what ends one on a message that is here and that nobody receives. */
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
    NX_STALL_INFO,  /* another rank says more */
    NX_STALL_WARN,  /* a report */
    NX_STALL_DEMAND /* somebody has asked for it: printed at any level */
} nx_stall_voice;

typedef struct nx_stall_config {
    nx_loop *loop;
    uint32_t self, size;
    uint64_t after_ns; /* the setting stall_report; 0: only on demand */
    /* The oldest operation that began after |since_ns|; of a communicator's collectives
     * only the oldest counts.  False: there is none. */
    bool (*oldest)(void *ctx, uint64_t since_ns, nx_pending *out);
    /* Whom |p| waits for, ranks of the world, each once, the first |room| of them; how
     * many there are.  May be this rank itself. */
    uint32_t (*whom)(void *ctx, const nx_pending *p, uint32_t *out, uint32_t room);
    /* What |p| waits for on this rank itself, NX_DOING_HERE bytes; empty: nothing.  May be
     * NULL: never anything. */
    void (*here)(void *ctx, const nx_pending *p, char *out);
    /* A sentence on |p|, NX_NOTE_TEXT bytes, which explains why it waits; empty: none.  May be
     * NULL. */
    void (*note)(void *ctx, const nx_pending *p, char *out);
    /* How many remote calls this rank has served so far.  May be NULL: none. */
    uint64_t (*served)(void *ctx);
    /* What has become of |rank|, which is gone: it "has failed", "has left".  May be NULL. */
    const char *(*fate)(void *ctx, uint32_t rank);
    /* Sends a control frame; an error has its sentence. */
    nexar_err (*send)(void *ctx, uint32_t peer, const void *data, size_t len);
    void (*print)(void *ctx, nx_stall_voice voice, const char *line);
    void *ctx;
} nx_stall_config;

/* NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_stall_create(nx_stall **out, const nx_stall_config *config);
void nx_stall_destroy(nx_stall *s);
/* Ranks are others from now on; what is being asked is given up. */
void nx_stall_resize(nx_stall *s, uint32_t self, uint32_t size);

/* Reports the oldest operation now, however long it has waited; false: none waits. */
bool nx_stall_demand(nx_stall *s);

/* |peer| has answered; it has gone. */
void nx_stall_on_tell(nx_stall *s, uint32_t peer, const nx_doing *d);
void nx_stall_on_down(nx_stall *s, uint32_t peer, const char *why);

#endif /* NX_STALL_H */
