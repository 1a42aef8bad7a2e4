/*
 * world_fixture.h - one collective by one algorithm, built for all ranks, run in the simulator
 * and compared with the oracle.
 */
#ifndef NXT_WORLD_FIXTURE_H
#define NXT_WORLD_FIXTURE_H

#include "call_check.h"
#include "coll/algorithms.h"
#include "sched_sim.h"

/* The collective to build. */
typedef struct nxt_case {
    const nx_algorithm *row;
    uint32_t size, root;
    size_t count, segment;
    nxt_place place;
    bool average, hook, heard;
    size_t cut;    /* most elements in a region of a buffer; 0: one region */
    uint64_t seed; /* of the blocks of v forms, the in-place ranks, and the hosts */
} nxt_case;

/* The placement of the ranks of a case on hosts: drawn by its seed. */
typedef enum nxt_layout {
    NXT_ALONE,    /* one host per rank, without a map */
    NXT_ONE,      /* all on one host */
    NXT_BLOCKS,   /* in blocks as even as possible */
    NXT_TURNS,    /* round-robin */
    NXT_UNEVEN,   /* in blocks of any length */
    NXT_SHUFFLED, /* in random order */
    NXT_LAYOUTS
} nxt_layout;
nxt_layout nxt_case_layout(const nxt_case *c);

typedef struct nxt_world {
    nxt_case what;
    nxt_call call;
    nx_hosts *hosts;
    nx_sched *scheds;
    nxt_plan *plan;
    uint64_t digest; /* of all results of the last run */
} nxt_world;

/* How a built world is run. */
typedef struct nxt_trial {
    nexar_dtype dtype;
    nexar_op op; /* NEXAR_AVG exactly if the case has |average| */
    /* Wild inputs have no exact result: only the equality of ranks is checked,
     * and the digest is to be compared with that of another seed. */
    bool wild;
    uint64_t data_seed, seed; /* of the inputs; of the order of events */
    bool hold;                /* as in nxt_run */
    uint32_t hold_rank, hold_step;
} nxt_trial;

/* Builds the schedules. On failure the world is already freed. */
bool nxt_world_init(nxt_world *w, const nxt_case *what, nxt_verdict *v);
void nxt_world_fini(nxt_world *w);

/* Checks and matches the schedules (again, if they were changed), without the
 * proof of nxt_plan_ordered. */
bool nxt_world_plan(nxt_world *w, nxt_verdict *v);

/* Whether the run succeeded with the oracle's result. */
bool nxt_world_run(nxt_world *w, const nxt_trial *t, nxt_verdict *v);

/* The argument of |rank|'s builder. */
nx_coll nxt_world_coll(const nxt_world *w, uint32_t rank);

/* "allreduce ring: 5 ranks, count 17, ..." in a buffer of |room| bytes. */
void nxt_case_text(const nxt_case *c, char *text, size_t room);

#endif /* NXT_WORLD_FIXTURE_H */
