/* crew.c - processes of a test of which some kill themselves. */
#include "crew.h"

#include "local_world.h"
#include "unit.h"

void nxt_crew_man(nxt_crew *c, int n)
{
    *c = (nxt_crew){.n = n};
    for (int r = 0; r < n; r++) {
        c->ids[r] = r;
    }
}

void nxt_crew_lose(nxt_crew *c, uint64_t ranks)
{
    int n = 0;

    for (int r = 0; r < c->n; r++) {
        if ((ranks >> r & 1) == 0) {
            c->ids[n++] = c->ids[r];
        }
    }
    c->n = n;
}

void nxt_crew_await(nexar_comm *w, int left)
{
    nexar_change change;

    while (nexar_size(w) > left) {
        NXT_OK(w, nexar_barrier(w));
    }
    NXT_OK(w, nexar_last_change(w, &change));
    NXT_IS(w, (change.new_size == nexar_size(w)) && (change.failed > 0));
}

void nxt_crew_run(int n, void (*body)(int rank, int join_fd, void *arg), const nxt_crew *left,
                  const _Atomic uint64_t *history)
{
    unsigned killed = (1U << n) - 1;
    nxt_procs procs;

    for (int r = 0; r < left->n; r++) {
        killed &= ~(1U << left->ids[r]);
    }
    nxt_procs_start(&procs, n, body, NULL);
    nxt_procs_wait(&procs, killed, 0);
    for (int r = 0; r < left->n; r++) {
        assert_int_equal(history[left->ids[r]], history[left->ids[0]]);
    }
}
