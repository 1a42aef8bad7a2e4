/*
 * compiled_schedule.h - a schedule prepared for execution, and a cache of them.
 *
 * A compiled schedule also lists, for each step, the steps that depend on it. In some operations a
 * rank could complete without having heard, directly or indirectly, from every other rank: the root
 * of a broadcast, the leaves of a reduce, the first ranks of a scan. They get a concurrent
 * dissemination of empty messages, which finds a rank that called a different operation before any
 * rank returns. It ends before the data does on all but the shortest calls. On these, the data
 * itself uses the same pairs where the algorithm can (nx_choice.hears).
 */
#ifndef NX_COMPILED_SCHEDULE_H
#define NX_COMPILED_SCHEDULE_H

#include "coll/select.h"

typedef struct nx_compiled {
    nx_sched sched;
    uint32_t *first;    /* per step, plus one: start of its dependents in ... */
    nx_step_id *follow; /* ... this */
    uint32_t holds;     /* references: runs and the cache */
} nx_compiled;

/* NEXAR_ENOMEM, NEXAR_EINVAL as nx_sched_seal(). |*out| has one reference. */
NX_MUST_CHECK nexar_err nx_compiled_build(nx_compiled **out, const nx_coll *c,
                                          const nx_choice *choice, bool verify);
void nx_compiled_release(nx_compiled *p);

/* The compiled schedules used last on one communicator. Zero-initialised is empty. */
enum { NX_COMPILED_CACHE_KEPT = 16 };
typedef struct nx_compiled_cache {
    struct {
        nx_compiled *program;
        nx_coll coll;
        nx_choice choice;
        bool verify;
        uint64_t used;
    } kept[NX_COMPILED_CACHE_KEPT];
    uint64_t uses;
} nx_compiled_cache;

/* The schedule for |c|, cached or new. Release it with nx_compiled_release(). Errors as
 * nx_compiled_build(). */
NX_MUST_CHECK nexar_err nx_compiled_cache_get(nx_compiled_cache *ps, const nx_coll *c,
                                              const nx_choice *choice, bool verify,
                                              nx_compiled **out);
void nx_compiled_cache_fini(nx_compiled_cache *ps);

#endif /* NX_COMPILED_SCHEDULE_H */
