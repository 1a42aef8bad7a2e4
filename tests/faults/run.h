/* run.h - runs one cell of the matrix with real processes, and checks the promised results. */
#ifndef NXT_RUN_H
#define NXT_RUN_H

#include "cell.h"
#include "hosts.h"

typedef struct nxt_result {
    _Atomic bool done;
    bool formed;        /* the world has formed: false only if a rank died in init */
    double known_ms;    /* time until the last survivor had its error */
    double rebuilt_ms;  /* time until the last had a correct sum from all survivors */
    bool late;          /* one of them exceeds its deadline */
    char failure[2048]; /* a failed check; "": none */
} nxt_result;

/* Why the cell does not exist; NULL: it does. */
const char *nxt_cell_na(const nxt_cell *cell);

/* Sets the fields that follow from fault and transport. */
nxt_cell nxt_cell_make(const nxt_fault *f, const nxt_work *w, const nxt_transport *t);

/* The deadlines for all survivors to know of the fault, and then to have a correct sum. */
double nxt_cell_known_ms(const nxt_cell *cell);
double nxt_cell_rebuilt_ms(const nxt_cell *cell);

/* Runs the cell on |hosts| with the cleared |board|, which processes share; |*result| is reset.
 * Beyond |lenience| times its deadline a step is late, which is no failure. */
void nxt_cell_run(const nxt_cell *cell, nxt_hosts *hosts, nxt_board *board, int lenience,
                  nxt_result *result);

#endif /* NXT_RUN_H */
