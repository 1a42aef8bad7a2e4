/*
 * bench.h - what `nexar bench` measures, and the ways to show it.
 *
 * bench.c reads the options and starts ranks, bench_ops.c has one row for each
 * operation, bench_check.c knows what its result must be, bench_run.c measures, and
 * one file each prints the table and the JSON, and the report.
 *
 * The time of an operation is that of its slowest rank; each is preceded by a
 * barrier that is not measured; of all iterations the median counts.  Sizes are what
 * the vector has (broadcast, reduce, allreduce, scan), all blocks together
 * (allgather, gather, scatter; of reduce_scatter what one rank puts in), or all that
 * one rank sends (alltoall).
 */
#ifndef NX_BENCH_H
#define NX_BENCH_H

#include <stdio.h>

#include <nexar.h>

#include "base/error.h"
#include "cmd/print/progress_line.h"

enum {
    NX_BENCH_SIZES = 64,     /* of a bench, at most */
    NX_BENCH_TENSORS = 1000, /* that a bucket is made of */
    NX_BENCH_COMPRESSED = 18 /* ranks at most: their sums must be known to the bit */
};

typedef struct nx_bench_op nx_bench_op;

/* The question. */
typedef struct nx_bench {
    const nx_bench_op *ops[32];
    size_t nops;
    uint64_t sizes[NX_BENCH_SIZES]; /* bytes, ascending */
    size_t nsizes;
    uint64_t iters;   /* 0: as many as fit in |time_ns| */
    uint64_t warmup;  /* before them */
    uint64_t time_ns; /* for each row, nearly */
    nexar_dtype dtype;
    nexar_op op;
    bool check;
    const nexar_config *cfg;

    /* Set when the world is there. */
    nexar_comm *world;
    int rank, size;
    unsigned char *a, *b;    /* what goes in, and what comes out */
    size_t room;             /* bytes of each */
    size_t *counts, *displs; /* of v forms, by rank */
    nx_progress *progress;
} nx_bench;

struct nx_bench_op {
    const char *name;
    bool sized;      /* has a size: all but barrier */
    bool reduces;    /* has an op */
    bool pair;       /* between ranks 0 and 1 alone */
    bool in_blocks;  /* what goes in is a block for each rank */
    bool out_blocks; /* so is what comes out */
    bool at_root;    /* rank 0 alone has a result */
    bool in_place;   /* the result replaces what went in */
    /* Once, with |count| elements as the call counts them. */
    nexar_err (*run)(const nx_bench *b, size_t count);
    /* What the elements [at, at + n) of this rank's result must be; they are of one
     * block. */
    void (*expect)(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
    /* Bytes on the busiest link for each byte of size; NULL: 1. */
    double (*bus)(int ranks);
    /* How many times one run is: a window of messages, or a message there and back;
     * NULL: 1. */
    double (*times)(uint64_t bytes);
};

/* One measurement. */
typedef struct nx_bench_row {
    const nx_bench_op *op;
    uint64_t size;  /* as asked for */
    uint64_t bytes; /* rounded to whole elements, one per block at least */
    size_t count;   /* elements, as the call counts them */
    uint64_t iters;
    double median, min, p99, max; /* seconds */
    double algbw, busbw;          /* bytes per second */
    int64_t wrong;                /* elements, on all ranks; -1: not looked at */
} nx_bench_row;

typedef struct nx_bench_result {
    nx_bench_row *rows;
    size_t n, room;
    uint64_t wrong; /* elements in all */
    char transport[16];
} nx_bench_result;

/* ---- bench_ops.c --------------------------------------------------------------------- */

/* All operations there are. */
const nx_bench_op *nx_bench_ops(size_t *n);
/* Elements that the call counts for |bytes|; at least 1 where there is a size. */
size_t nx_bench_count(const nx_bench *b, const nx_bench_op *op, uint64_t bytes);
/* Whether |op| can run in the world of |b|, with its dtype and op. */
bool nx_bench_fits(const nx_bench *b, const nx_bench_op *op);
/* How many messages are in flight, per direction. */
size_t nx_bench_window(uint64_t bytes);

/* ---- bench_check.c ------------------------------------------------------------------- */

/* Fills the buffers, runs |op| once, and counts in |*wrong| the elements of all ranks
 * that are not what they must be. */
NX_MUST_CHECK nexar_err nx_bench_check(const nx_bench *b, const nx_bench_op *op, size_t count,
                                       int64_t *wrong);
/* Whether the results can be known to the bit: sums of small whole numbers. */
bool nx_bench_exact(const nx_bench *b);

/* Expectations, for the table of operations. */
void nx_bench_expect_reduced(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
void nx_bench_expect_scattered(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
void nx_bench_expect_scan(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
void nx_bench_expect_exscan(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
void nx_bench_expect_root(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
void nx_bench_expect_part(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
void nx_bench_expect_gathered(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
void nx_bench_expect_exchanged(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
/* Those of v forms, whose block of |rank| lies at nx_bench_place. */
void nx_bench_expect_part_v(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
void nx_bench_expect_gathered_v(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
void nx_bench_expect_exchanged_v(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
size_t nx_bench_place(const nx_bench *b, size_t rank);
void nx_bench_expect_other(const nx_bench *b, size_t count, size_t at, size_t n, void *out);

/* ---- bench_run.c --------------------------------------------------------------------- */

/* Measures |op| at |size|; collective.  Fails as a collective does. */
NX_MUST_CHECK nexar_err nx_bench_measure(const nx_bench *b, const nx_bench_op *op, uint64_t size,
                                         nx_bench_row *row);

/* ---- bench_print.c, bench_html.c: rank 0 --------------------------------------------- */

void nx_bench_print_head(const nx_bench *b);
void nx_bench_print_op(const nx_bench *b, const nx_bench_op *op);
void nx_bench_print_row(const nx_bench *b, const nx_bench_row *row);
void nx_bench_print_end(const nx_bench *b, const nx_bench_result *r);
void nx_bench_write_json(FILE *out, const nx_bench *b, const nx_bench_result *r);
void nx_bench_write_html(FILE *out, const nx_bench *b, const nx_bench_result *r);

#endif /* NX_BENCH_H */
