/*
 * compress_sim.h - a compressed allreduce of all ranks in one thread, the collectives
 * between its steps done by copying.
 */
#ifndef NXT_COMPRESS_SIM_H
#define NXT_COMPRESS_SIM_H

#include "coll/compress/compress.h"

typedef struct nxt_compress_figures {
    double sent;     /* average bytes that a rank sends; a plain allreduce counts as a ring */
    size_t memory;   /* the most that a rank holds */
    unsigned rounds; /* collectives run */
} nxt_compress_figures;

/* May modify the data that |rank| is about to receive; NULL: no change. */
typedef void nxt_compress_meddle(uint32_t rank, unsigned round, const nx_exchange *e, void *arg);

typedef struct nxt_compress_sim {
    nxt_compress_meddle *meddle;
    void *arg;
    nxt_compress_figures figures; /* of the last run */
} nxt_compress_sim;

/*
 * Runs |calls[0 .. size - 1]|; rank and size are set here. Ends the process if ranks request
 * mismatched collectives. Returns the first error of a rank, after which no rank continues.
 */
nexar_err nxt_compress_run(nxt_compress_sim *sim, nx_compress_call *calls, uint32_t size);

#endif /* NXT_COMPRESS_SIM_H */
