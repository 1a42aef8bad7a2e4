/*
 * program.h - a schedule made ready to run, and kept for the next call like it.
 *
 * Beside the waits of each step a program has those that wait for it.  Operations
 * in which a rank could be done without having heard, directly or through others,
 * from every other one (a broadcast's root, the leaves of a reduce, the first ranks
 * of a scan) get a dissemination of empty messages beside their own: so a rank that
 * called something else is found out before anybody returns.  It runs at the same
 * time as the data and is over before it on all but the shortest calls; of these, where
 * the algorithm can, the data itself goes such ways (nx_choice.hears).
 */
#ifndef NX_PROGRAM_H
#define NX_PROGRAM_H

#include "coll/select.h"

typedef struct nx_program {
    nx_sched sched;
    uint32_t *first;    /* per step, and one more: where its followers begin in ... */
    nx_step_id *follow; /* ... this */
    uint32_t holds;     /* runs, and the cache */
} nx_program;

/* NEXAR_ENOMEM, NEXAR_EINVAL as nx_sched_seal().  |*out| is held once. */
NX_MUST_CHECK nexar_err nx_program_build(nx_program **out, const nx_coll *c,
                                         const nx_choice *choice, bool verify);
void nx_program_release(nx_program *p);

/* The last programs of one communicator.  Zero-initialised is empty. */
enum { NX_PROGRAMS_KEPT = 16 };
typedef struct nx_programs {
    struct {
        nx_program *program;
        nx_coll coll;
        nx_choice choice;
        bool verify;
        uint64_t used;
    } kept[NX_PROGRAMS_KEPT];
    uint64_t uses;
} nx_programs;

/* The program for |c|: a kept one, or a new one.  Given back with
 * nx_program_release().  Errors as nx_program_build(). */
NX_MUST_CHECK nexar_err nx_programs_get(nx_programs *ps, const nx_coll *c, const nx_choice *choice,
                                        bool verify, nx_program **out);
void nx_programs_fini(nx_programs *ps);

#endif /* NX_PROGRAM_H */
