/*
 * compress_sim.h - a compressed allreduce of all ranks in one thread, the collectives
 * between its steps done by copying.
 */
#ifndef NXT_COMPRESS_SIM_H
#define NXT_COMPRESS_SIM_H

#include "coll/compress/compress.h"

typedef struct nxt_compress_figures {
    double sent;     /* bytes that a rank sends to others, on average; an allreduce as a ring */
    size_t memory;   /* the most that a rank holds */
    unsigned rounds; /* collectives run */
} nxt_compress_figures;

/* May change what rank |rank| is about to receive; NULL: nobody does. */
typedef void nxt_compress_meddle(uint32_t rank, unsigned round, const nx_exchange *e, void *arg);

typedef struct nxt_compress_sim {
    nxt_compress_meddle *meddle;
    void *arg;
    nxt_compress_figures figures; /* of the last run */
} nxt_compress_sim;

/*
 * Runs |calls[0 .. size - 1]|; rank and size are set here.  Ends the process when ranks
 * ask for collectives that do not fit each other.  Otherwise the first error of a rank,
 * after which no rank goes on.
 */
nexar_err nxt_compress_run(nxt_compress_sim *sim, nx_compress_call *calls, uint32_t size);

#endif /* NXT_COMPRESS_SIM_H */
