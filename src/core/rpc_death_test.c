/*
 * rpc_death_test.c - remote calls between processes, one of which is killed: its callers get an
 * error, its server continues, and the others still call each other.
 */
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nexar.h>

#include "local_world.h"
#include "procs.h"
#include "unit.h"

enum { RANKS = 3, VICTIM = 2, ECHO = 1, HANG, SLOW, HANGING = 20, LARGE = 8 << 20 };
enum { TAG_READY = 1, TAG_DIE, TAG_DONE };

/* ---- handlers -------------------------------------------------------------------------- */

static nexar_err echo(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)arg;
    return nexar_rpc_reply(call, data, bytes);
}

/* On the victim: never returns. */
static nexar_err hang(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)call;
    (void)data;
    (void)bytes;
    (void)arg;
    while (getppid() != 0) { /* always */
        (void)pause();
    }
    return NEXAR_OK;
}

/* On rank 0: replies when the caller has died. */
typedef struct slow_state {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool inside, lost, failed;
} slow_state;

static nexar_err slow(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    slow_state *s = arg;

    (void)data;
    (void)bytes;
    (void)pthread_mutex_lock(&s->lock);
    s->inside = true;
    (void)pthread_cond_broadcast(&s->moved);
    while (!s->lost) {
        (void)pthread_cond_wait(&s->moved, &s->lock);
    }
    s->failed = (nexar_rpc_reply(call, "late", 4) == NEXAR_EPEER);
    (void)pthread_cond_broadcast(&s->moved);
    (void)pthread_mutex_unlock(&s->lock);
    return NEXAR_OK;
}

/* ---- ranks ------------------------------------------------------------------------------ */

static void victim(nexar_comm *w)
{
    nexar_request *req = NULL;
    char byte;

    NXT_OK(w, nexar_rpc_register(w, HANG, hang, NULL));
    for (int rank = 0; rank < VICTIM; rank++) {
        NXT_OK(w, nexar_send(w, "r", 1, rank, TAG_READY));
    }
    NXT_OK(w, nexar_rpc_icall(w, 0, SLOW, NULL, 0, NULL, NULL, &req));
    for (int rank = 0; rank < VICTIM; rank++) {
        NXT_OK(w, nexar_recv(w, &byte, 1, rank, TAG_DIE, NULL));
    }
    (void)raise(SIGKILL);
}

/* Calls that run on the peer, that wait for a thread, and one too long to have arrived. */
static void lose(nexar_comm *w, slow_state *s)
{
    nexar_request *reqs[HANGING + 1];
    void *large = calloc(1, LARGE);

    for (int i = 0; i < HANGING; i++) {
        NXT_OK(w, nexar_rpc_icall(w, VICTIM, HANG, "x", 1, NULL, NULL, &reqs[i]));
    }
    NXT_OK(w, nexar_rpc_icall(w, VICTIM, HANG, large, LARGE, NULL, NULL, &reqs[HANGING]));
    if (nexar_rank(w) == 0) {
        (void)pthread_mutex_lock(&s->lock);
        while (!s->inside) {
            (void)pthread_cond_wait(&s->moved, &s->lock);
        }
        (void)pthread_mutex_unlock(&s->lock);
    }
    NXT_OK(w, nexar_send(w, "d", 1, VICTIM, TAG_DIE));
    for (int i = 0; i <= HANGING; i++) {
        NXT_IS(w, nexar_wait(&reqs[i], NULL) == NEXAR_EPEER);
        NXT_IS(w, strstr(nexar_last_error(), "rpc_icall of function 2 at rank 2 (") != NULL);
    }
    NXT_IS(w, nexar_rpc_call(w, VICTIM, ECHO, NULL, 0, NULL, NULL) == NEXAR_EPEER);
    free(large);
}

static void survivor(nexar_comm *w)
{
    slow_state s = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false, false};
    const int other = 1 - nexar_rank(w);
    char byte;

    NXT_OK(w, nexar_rpc_register(w, ECHO, echo, NULL));
    NXT_OK(w, nexar_rpc_register(w, SLOW, slow, &s));
    NXT_OK(w, nexar_recv(w, &byte, 1, VICTIM, TAG_READY, NULL));
    lose(w, &s);
    (void)pthread_mutex_lock(&s.lock);
    s.lost = true;
    (void)pthread_cond_broadcast(&s.moved);
    while ((nexar_rank(w) == 0) && !s.failed) {
        (void)pthread_cond_wait(&s.moved, &s.lock);
    }
    (void)pthread_mutex_unlock(&s.lock);
    for (int i = 0; i < 100; i++) {
        NXT_OK(w, nexar_rpc_call(w, other, ECHO, "abc", 3, NULL, NULL));
    }
    NXT_OK(w, nexar_sendrecv(w, "d", 1, other, TAG_DONE, &byte, 1, other, TAG_DONE, NULL));
}

static void child(int rank, int join_fd, void *arg)
{
    static const char *const settings[] = {"idle_timeout", "5s", NULL};
    nexar_comm *w = nxt_procs_join(rank, join_fd, settings);

    (void)arg;
    if (rank == VICTIM) {
        victim(w);
    } else {
        survivor(w);
    }
    NXT_OK(w, nexar_finalize(w));
}

/* ---- the parent --------------------------------------------------------------------------- */

static void test_calls_to_and_from_a_killed_process_end(void **state)
{
    nxt_procs procs;

    (void)state;
    nxt_procs_start(&procs, RANKS, child, NULL);
    nxt_procs_wait(&procs, 1U << VICTIM, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_to_and_from_a_killed_process_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
