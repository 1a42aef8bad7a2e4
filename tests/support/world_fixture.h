/*
 * world.h - one collective by one algorithm, built for all ranks and tried in
 * the simulator against the oracle.
 */
#ifndef NXT_WORLD_FIXTURE_H
#define NXT_WORLD_FIXTURE_H

#include "call_check.h"
#include "coll/algorithms.h"
#include "sched_sim.h"

/* What is built. */
typedef struct nxt_case {
    const nx_algorithm *row;
    uint32_t size, root;
    size_t count, segment;
    nxt_place place;
    bool average, hook, heard;
    size_t cut;    /* buffers lie in regions of up to so many elements; 0: in one */
    uint64_t seed; /* of the blocks of v forms, of who is in place, of who is on which host */
} nxt_case;

/* How the ranks of a case lie on hosts: drawn by its seed. */
typedef enum nxt_layout {
    NXT_ALONE,    /* each on its own, without a map */
    NXT_ONE,      /* all on one */
    NXT_BLOCKS,   /* in blocks as even as it goes */
    NXT_TURNS,    /* dealt out in turn */
    NXT_UNEVEN,   /* in blocks of any length */
    NXT_SHUFFLED, /* anyhow */
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

/* Builds the schedules.  On failure the world is given back already. */
bool nxt_world_init(nxt_world *w, const nxt_case *what, nxt_verdict *v);
void nxt_world_fini(nxt_world *w);

/* Checks and matches the schedules (again, if they were changed), without the
 * proof of nxt_plan_ordered. */
bool nxt_world_plan(nxt_world *w, nxt_verdict *v);

/* Whether the run was fine and gave what the oracle says. */
bool nxt_world_run(nxt_world *w, const nxt_trial *t, nxt_verdict *v);

/* What |rank|'s builder is given. */
nx_coll nxt_world_coll(const nxt_world *w, uint32_t rank);

/* "allreduce ring: 5 ranks, count 17, ..." in a buffer of |room| bytes. */
void nxt_case_text(const nxt_case *c, char *text, size_t room);

#endif /* NXT_WORLD_FIXTURE_H */
