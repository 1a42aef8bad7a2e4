/*
 * bench.h - the measurements of `nexar bench` and their output.
 *
 * bench.c reads the options and starts ranks. bench_ops.c has one row for each operation,
 * bench_check.c the expected results. bench_run.c measures. bench_print.c prints the table and
 * the JSON, bench_html.c the report.
 *
 * The time of an operation is the time of its slowest rank. A barrier, which is not measured,
 * precedes each iteration. The median of all iterations counts. Sizes are bytes of the vector
 * (broadcast, reduce, allreduce, scan), all blocks together (allgather, gather, scatter; for
 * reduce_scatter the input of one rank), or all that one rank sends (alltoall).
 */
#ifndef NX_BENCH_H
#define NX_BENCH_H

#include <stdio.h>

#include <nexar.h>

#include "base/error.h"
#include "cmd/print/progress_line.h"

enum {
    NX_BENCH_SIZES = 64,     /* of a bench, at most */
    NX_BENCH_TENSORS = 1000, /* tensors of a bucket */
    NX_BENCH_COMPRESSED = 18 /* ranks at most: their sums must be exact */
};

typedef struct nx_bench_op nx_bench_op;

/* The request. */
typedef struct nx_bench {
    const nx_bench_op *ops[32];
    size_t nops;
    uint64_t sizes[NX_BENCH_SIZES]; /* bytes, ascending */
    size_t nsizes;
    uint64_t iters;   /* 0: the number that fits in |time_ns| */
    uint64_t warmup;  /* before them */
    uint64_t time_ns; /* for each row, approximately */
    nexar_dtype dtype;
    nexar_op op;
    bool check;
    const nexar_config *cfg;

    /* Set when the world has formed. */
    nexar_comm *world;
    int rank, size;
    unsigned char *a, *b;    /* input and output */
    size_t room;             /* bytes of each */
    size_t *counts, *displs; /* of v forms, by rank */
    nx_progress *progress;
} nx_bench;

struct nx_bench_op {
    const char *name;
    bool sized;      /* has a size: all but barrier */
    bool reduces;    /* has an op */
    bool pair;       /* between ranks 0 and 1 only */
    bool in_blocks;  /* the input is one block per rank */
    bool out_blocks; /* so is the output */
    bool at_root;    /* only rank 0 has a result */
    bool in_place;   /* the result replaces the input */
    /* Runs the operation once, with |count| elements as the call counts them. */
    nexar_err (*run)(const nx_bench *b, size_t count);
    /* The expected elements [at, at + n) of this rank's result, all of one block. */
    void (*expect)(const nx_bench *b, size_t count, size_t at, size_t n, void *out);
    /* Bytes on the busiest link for each byte of size; NULL: 1. */
    double (*bus)(int ranks);
    /* The number of messages timed in one run: a window, or a round trip; NULL: 1. */
    double (*times)(uint64_t bytes);
};

/* One measurement. */
typedef struct nx_bench_row {
    const nx_bench_op *op;
    uint64_t size;  /* as requested */
    uint64_t bytes; /* rounded to whole elements, one per block at least */
    size_t count;   /* elements, as the call counts them */
    uint64_t iters;
    double median, min, p99, max; /* seconds */
    double algbw, busbw;          /* bytes per second */
    int64_t wrong;                /* elements, on all ranks; -1: not checked */
} nx_bench_row;

typedef struct nx_bench_result {
    nx_bench_row *rows;
    size_t n, room;
    uint64_t wrong; /* elements in all */
    char transport[16];
} nx_bench_result;

/* ---- bench_ops.c --------------------------------------------------------------------- */

/* All operations. */
const nx_bench_op *nx_bench_ops(size_t *n);
/* The number of elements for |bytes|, as the call counts them; at least 1 if the operation has a
 * size. */
size_t nx_bench_count(const nx_bench *b, const nx_bench_op *op, uint64_t bytes);
/* Whether |op| can run in the world of |b|, with its dtype and op. */
bool nx_bench_fits(const nx_bench *b, const nx_bench_op *op);
/* The number of messages in flight per direction. */
size_t nx_bench_window(uint64_t bytes);

/* ---- bench_check.c ------------------------------------------------------------------- */

/* Fills the buffers, runs |op| once, and counts in |*wrong| the wrong elements on all ranks. */
NX_MUST_CHECK nexar_err nx_bench_check(const nx_bench *b, const nx_bench_op *op, size_t count,
                                       int64_t *wrong);
/* Whether the results are exact: sums of small integers. */
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
/* The expectations of v forms: the block of |rank| is at nx_bench_place. */
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
