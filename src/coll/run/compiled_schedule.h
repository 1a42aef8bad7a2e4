/*
 * compiled_schedule.h - a schedule made ready to run, and kept for the next call like it.
 *
 * Beside the waits of each step a program has those that wait for it.  Operations
 * in which a rank could be done without having heard, directly or through others,
 * from every other one (a broadcast's root, the leaves of a reduce, the first ranks
 * of a scan) get a dissemination of empty messages beside their own: so a rank that
 * called something else is found out before anybody returns.  It runs at the same
 * time as the data and is over before it on all but the shortest calls; of these, where
 * the algorithm can, the data itself goes such ways (nx_choice.hears).
 */
#ifndef NX_COMPILED_SCHEDULE_H
#define NX_COMPILED_SCHEDULE_H

#include "coll/select.h"

typedef struct nx_compiled {
    nx_sched sched;
    uint32_t *first;    /* per step, and one more: where its followers begin in ... */
    nx_step_id *follow; /* ... this */
    uint32_t holds;     /* runs, and the cache */
} nx_compiled;

/* NEXAR_ENOMEM, NEXAR_EINVAL as nx_sched_seal().  |*out| is held once. */
NX_MUST_CHECK nexar_err nx_compiled_build(nx_compiled **out, const nx_coll *c,
                                          const nx_choice *choice, bool verify);
void nx_compiled_release(nx_compiled *p);

/* The last programs of one communicator.  Zero-initialised is empty. */
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

/* The program for |c|: a kept one, or a new one.  Given back with
 * nx_compiled_release().  Errors as nx_compiled_build(). */
NX_MUST_CHECK nexar_err nx_compiled_cache_get(nx_compiled_cache *ps, const nx_coll *c,
                                              const nx_choice *choice, bool verify,
                                              nx_compiled **out);
void nx_compiled_cache_fini(nx_compiled_cache *ps);

#endif /* NX_COMPILED_SCHEDULE_H */
