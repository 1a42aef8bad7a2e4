/* cast.c - processes of a test that join on request. */
#include "cast.h"

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

static const uint64_t PATIENCE_NS = UINT64_C(60000000000);

void nxt_cast_start(nxt_cast *c, int me, int how)
{
    atomic_store(&c->board->go[me], how);
}

static void make(nxt_cast *c, int me, void (*body)(int me, bool first))
{
    c->pids[me] = nxt_fork_until(&c->board->go[me]);
    if (c->pids[me] != 0) {
        return;
    }
    if (atomic_load(&c->board->go[me]) == NXT_NEVER) {
        _exit(0);
    }
    body(me, atomic_load(&c->board->go[me]) == NXT_FIRST);
    _exit(0);
}

nexar_seed *nxt_cast_begin(nxt_cast *c, nxt_cast_board *board, int n, int ranks,
                           void (*body)(int me, bool first))
{
    nexar_config *cfg = NULL;
    nexar_seed *seed = NULL;
    char size[16];

    *c = (nxt_cast){.n = n, .board = board};
    (void)fflush(NULL);
    for (int me = 0; me < n; me++) {
        make(c, me, body);
    }
    (void)snprintf(size, sizeof(size), "%d", ranks);
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "world_size", size), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "listen", "127.0.0.1"), NEXAR_OK);
    assert_int_equal(nexar_seed_start(cfg, &seed), NEXAR_OK);
    assert_int_equal(nexar_seed_join_string(seed, board->join, sizeof(board->join)), NEXAR_OK);
    nexar_config_free(cfg);
    for (int me = 0; me < ranks; me++) {
        nxt_cast_start(c, me, NXT_FIRST);
    }
    return seed;
}

/* Waits until process |me| sees the processes in |mask|. */
static void await_one(const nxt_cast *c, int me, uint64_t mask, const char *what)
{
    const uint64_t end = nxt_now_ns() + PATIENCE_NS;

    while (atomic_load(&c->board->seen[me]) != mask) {
        int status = 0;

        if ((nxt_now_ns() > end) || (waitpid(c->pids[me], &status, WNOHANG) == c->pids[me])) {
            fail_msg("%s: rank %d saw %llx, not %llx; status %x", what, me,
                     (unsigned long long)c->board->seen[me], (unsigned long long)mask,
                     (unsigned)status);
        }
        nxt_nap();
    }
}

void nxt_cast_await_world(const nxt_cast *c, uint64_t mask, const char *what)
{
    for (int me = 0; me < c->n; me++) {
        if (((mask >> me) & 1) != 0) {
            await_one(c, me, mask, what);
        }
    }
}

uint64_t nxt_cast_strike(const nxt_cast *c, int me)
{
    const uint64_t at = nxt_now_ns();

    assert_int_equal(kill(c->pids[me], SIGKILL), 0);
    assert_int_equal(waitpid(c->pids[me], NULL, 0), c->pids[me]);
    return at;
}

int nxt_cast_await_end(const nxt_cast *c, int me)
{
    const uint64_t end = nxt_now_ns() + PATIENCE_NS;
    int status = 0;
    pid_t got;

    while ((got = waitpid(c->pids[me], &status, WNOHANG)) == 0) {
        assert_true(nxt_now_ns() < end);
        nxt_nap();
    }
    assert_int_equal(got, c->pids[me]);
    return status;
}

void nxt_cast_dismiss(nxt_cast *c, int me)
{
    if (atomic_load(&c->board->go[me]) == 0) {
        nxt_cast_start(c, me, NXT_NEVER);
        (void)nxt_cast_await_end(c, me);
    }
}
