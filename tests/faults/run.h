/* run.h - runs one cell of the matrix with real processes and holds it to what is promised. */
#ifndef NXT_RUN_H
#define NXT_RUN_H

#include "cell.h"
#include "hosts.h"

typedef struct nxt_result {
    _Atomic bool done;
    bool formed;        /* the world did: false only where a rank died in init */
    double known_ms;    /* until the last survivor had its error */
    double rebuilt_ms;  /* until the last had a right sum from all who are left */
    bool late;          /* one of them is more than it may be */
    char failure[2048]; /* what was not as promised; "": all was */
} nxt_result;

/* Why there is no such cell; NULL: there is. */
const char *nxt_cell_na(const nxt_cell *cell);

/* Fills in what follows from fault and transport. */
nxt_cell nxt_cell_make(const nxt_fault *f, const nxt_work *w, const nxt_transport *t);

/* Within what all survivors of it know, and then have a right sum. */
double nxt_cell_known_ms(const nxt_cell *cell);
double nxt_cell_rebuilt_ms(const nxt_cell *cell);

/* Runs it on |hosts| with the cleared |board|, which processes share; |*result| is made anew.
 * What takes longer than |lenience| times what it may is late, which is no failure. */
void nxt_cell_run(const nxt_cell *cell, nxt_hosts *hosts, nxt_board *board, int lenience,
                  nxt_result *result);

#endif /* NXT_RUN_H */
