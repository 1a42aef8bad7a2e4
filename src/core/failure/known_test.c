/*
 * known_test.c - after a call that ends with NEXAR_EPEER because a rank has failed,
 * nexar_comm_failed on the same thread includes that rank, whatever the call, the transport and
 * the fault; and nexar_on_failure reports it once for each communicator.
 *
 * Two survivors share a communicator with each victim, one victim for each call of a table.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <nexar.h>

#include "local_world.h"
#include "procs.h"
#include "unit.h"

enum { SURVIVORS = 2, MOST_ROWS = NXT_PROCS - SURVIVORS, TAG = 7, FN = 3 };
enum { COUNT = 12, LONG_COUNT = 1 << 18, ROOM = 3 * LONG_COUNT };

static float in[ROOM], out[ROOM];
static const size_t blocks[] = {COUNT, COUNT, COUNT};

/* ---- the calls ------------------------------------------------------------------------------ */

/* |req| is the request of the call that returned |begun|. */
static nexar_err waited(nexar_err begun, nexar_request **req)
{
    return (begun == NEXAR_OK) ? nexar_wait(req, NULL) : begun;
}

static nexar_err tested(nexar_err begun, nexar_request **req)
{
    bool done = false;

    while ((begun == NEXAR_OK) && !done) {
        begun = nexar_test(req, &done, NULL);
    }
    return begun;
}

/* NAME(c, to): |body| with a request |r| to use. */
#define CALL(NAME, BODY)                             \
    static nexar_err NAME(nexar_comm *c, int to)     \
    {                                                \
        float mine[ROOM / LONG_COUNT * COUNT] = {0}; \
        float theirs[ROOM / LONG_COUNT * COUNT];     \
        nexar_request *r = NULL;                     \
                                                     \
        (void)to, (void)r, (void)mine, (void)theirs; \
        return (BODY);                               \
    }

CALL(do_send, nexar_send(c, mine, sizeof(mine), to, TAG))
CALL(do_send_long, nexar_send(c, in, sizeof(in), to, TAG))
CALL(do_recv, nexar_recv(c, theirs, sizeof(theirs), to, TAG, NULL))
CALL(do_recv_any, nexar_recv(c, theirs, sizeof(theirs), NEXAR_ANY_SOURCE, TAG, NULL))
CALL(do_sendrecv,
     nexar_sendrecv(c, mine, sizeof(mine), to, TAG, theirs, sizeof(theirs), to, TAG + 1, NULL))
CALL(do_isend, waited(nexar_isend(c, in, sizeof(in), to, TAG, &r), &r))
CALL(do_irecv, waited(nexar_irecv(c, theirs, sizeof(theirs), to, TAG, &r), &r))
CALL(do_irecv_test, tested(nexar_irecv(c, theirs, sizeof(theirs), to, TAG, &r), &r))
CALL(do_irecv_any, waited(nexar_irecv(c, theirs, sizeof(theirs), NEXAR_ANY_SOURCE, TAG, &r), &r))
CALL(do_probe, nexar_probe(c, to, TAG, NULL))
CALL(do_probe_any, nexar_probe(c, NEXAR_ANY_SOURCE, TAG, NULL))
CALL(do_sendv, nexar_sendv(c, (nexar_iov[]){{mine, 4}, {mine + 2, 4}}, 2, to, TAG))
CALL(do_recvv, nexar_recvv(c, (nexar_iov[]){{theirs, 4}, {theirs + 2, 4}}, 2, to, TAG, NULL))
CALL(do_rpc, nexar_rpc_call(c, to, FN, mine, sizeof(mine), NULL, NULL))
CALL(do_irpc, waited(nexar_rpc_icall(c, to, FN, mine, sizeof(mine), NULL, NULL, &r), &r))

static nexar_err wait_both(nexar_comm *c, int to, bool any)
{
    nexar_request *reqs[2] = {NULL, NULL};
    size_t index = 2;
    char bytes[2];
    nexar_err err = nexar_irecv(c, &bytes[0], 1, to, TAG, &reqs[0]);

    err = (err == NEXAR_OK) ? nexar_irecv(c, &bytes[1], 1, to, TAG + 1, &reqs[1]) : err;
    if ((err == NEXAR_OK) && any) {
        err = nexar_wait_any(2, reqs, &index, NULL);
        (void)!nexar_wait(&reqs[1 - index], NULL);
    } else if (err == NEXAR_OK) {
        err = nexar_wait_all(2, reqs);
    }
    return err;
}

CALL(do_wait_any, wait_both(c, to, true))
CALL(do_wait_all, wait_both(c, to, false))

/* A receive that is waited for with a time-out, or among others. */
typedef enum manner { FOR, ALL_FOR, ANY_FOR, SOME, TEST_ANY, TEST_ALL } manner;

static nexar_err complete(nexar_comm *c, int to, manner how)
{
    const uint64_t long_ns = UINT64_C(300000000000);
    nexar_request *r = NULL;
    bool done = false;
    size_t index, n;
    char byte;
    nexar_err err = nexar_irecv(c, &byte, 1, to, TAG, &r);

    while ((err == NEXAR_OK) && (r != NULL)) {
        err = (how == FOR)        ? nexar_wait_for(&r, long_ns, NULL)
              : (how == ALL_FOR)  ? nexar_wait_all_for(1, &r, long_ns)
              : (how == ANY_FOR)  ? nexar_wait_any_for(1, &r, long_ns, &index, NULL)
              : (how == SOME)     ? nexar_wait_some(1, &r, &index, NULL, &n)
              : (how == TEST_ANY) ? nexar_test_any(1, &r, &done, &index, NULL)
                                  : nexar_test_all(1, &r, &done);
    }
    return err;
}

CALL(do_wait_for, complete(c, to, FOR))
CALL(do_wait_all_for, complete(c, to, ALL_FOR))
CALL(do_wait_any_for, complete(c, to, ANY_FOR))
CALL(do_wait_some, complete(c, to, SOME))
CALL(do_test_any, complete(c, to, TEST_ANY))
CALL(do_test_all, complete(c, to, TEST_ALL))
CALL(do_isendv, waited(nexar_isendv(c, (nexar_iov[]){{in, sizeof(in)}}, 1, to, TAG, &r), &r))
CALL(do_irecvv, waited(nexar_irecvv(c, (nexar_iov[]){{theirs, 4}}, 1, to, TAG, &r), &r))
CALL(do_rpc_for, nexar_rpc_call_for(c, to, FN, mine, sizeof(mine), 0, NULL, NULL))

static nexar_err match_at_once(nexar_comm *c, int source)
{
    nexar_message *msg = NULL;
    nexar_err err = NEXAR_OK;
    bool found = false;

    while ((err == NEXAR_OK) && !found) {
        err = nexar_improbe(c, source, TAG, &found, &msg, NULL);
    }
    return err;
}

static nexar_err match(nexar_comm *c, int source)
{
    nexar_message *msg = NULL;

    return nexar_mprobe(c, source, TAG, &msg, NULL);
}

CALL(do_mprobe, match(c, to))
CALL(do_mprobe_any, match(c, NEXAR_ANY_SOURCE))
CALL(do_improbe, match_at_once(c, to))

static nexar_err look_for(nexar_comm *c, int source)
{
    nexar_err err = NEXAR_OK;
    bool found = false;

    while ((err == NEXAR_OK) && !found) {
        err = nexar_iprobe(c, source, TAG, &found, NULL);
    }
    return err;
}

CALL(do_iprobe, look_for(c, to))
CALL(do_iprobe_any, look_for(c, NEXAR_ANY_SOURCE))

/* Both forms of a collective: NAME(arguments), and iNAME(arguments, &r). */
#define BOTH(NAME, ...)                           \
    CALL(do_##NAME, nexar_##NAME(c, __VA_ARGS__)) \
    CALL(do_i##NAME, waited(nexar_i##NAME(c, __VA_ARGS__, &r), &r))

CALL(do_barrier, nexar_barrier(c))
CALL(do_ibarrier, waited(nexar_ibarrier(c, &r), &r))
CALL(do_ibarrier_test, tested(nexar_ibarrier(c, &r), &r))
BOTH(broadcast, mine, COUNT, NEXAR_F32, 0)
BOTH(reduce, mine, theirs, COUNT, NEXAR_F32, NEXAR_SUM, 0)
BOTH(allreduce, mine, theirs, COUNT, NEXAR_F32, NEXAR_SUM)
BOTH(allgather, mine, theirs, COUNT, NEXAR_F32)
BOTH(gather, mine, theirs, COUNT, NEXAR_F32, 0)
BOTH(scatter, mine, theirs, COUNT, NEXAR_F32, 0)
BOTH(reduce_scatter, mine, theirs, COUNT, NEXAR_F32, NEXAR_SUM)
BOTH(alltoall, mine, theirs, COUNT, NEXAR_F32)
BOTH(scan, mine, theirs, COUNT, NEXAR_F32, NEXAR_SUM)
BOTH(exscan, mine, theirs, COUNT, NEXAR_F32, NEXAR_SUM)
BOTH(allgatherv, mine, COUNT, theirs, blocks, NULL, NEXAR_F32)
BOTH(gatherv, mine, COUNT, theirs, blocks, NULL, NEXAR_F32, 0)
BOTH(scatterv, mine, blocks, NULL, theirs, COUNT, NEXAR_F32, 0)
BOTH(reduce_scatterv, mine, theirs, blocks, NEXAR_F32, NEXAR_SUM)
BOTH(alltoallv, mine, blocks, NULL, theirs, blocks, NULL, NEXAR_F32)
BOTH(allreduce_bucketed, (nexar_tensor[]){{mine, COUNT}, {theirs, 1}}, 2, NEXAR_F32, NEXAR_MAX)
BOTH(allreduce_rs_ag, mine, COUNT, NEXAR_F32, NEXAR_SUM, NULL, NULL)
BOTH(allreduce_compressed, mine, COUNT, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_TOPK, 0.5, NULL)
CALL(do_allreduce_long, nexar_allreduce(c, in, out, LONG_COUNT, NEXAR_F32, NEXAR_SUM))
CALL(do_alltoall_long, nexar_alltoall(c, in, out, LONG_COUNT, NEXAR_F32))

static nexar_err split(nexar_comm *c, int color)
{
    nexar_comm *made = NULL;
    const nexar_err err =
        (color < 0) ? nexar_comm_dup(c, &made) : nexar_comm_split(c, color, 0, &made);

    nexar_comm_free(made);
    return err;
}

CALL(do_split, split(c, 1))
CALL(do_dup, split(c, -1))

static nexar_err create(nexar_comm *c)
{
    const int ranks[] = {2, 0, 1};
    nexar_comm *made = NULL;
    const nexar_err err = nexar_comm_create(c, ranks, 3, 1, &made);

    nexar_comm_free(made);
    return err;
}

CALL(do_create, create(c))

static nexar_err sync_state(nexar_comm *c, size_t count)
{
    static _Thread_local uint64_t state[LONG_COUNT];
    const nexar_state t = {"state", state, count, NEXAR_U64};
    uint64_t revision = state[0];

    if (nexar_rank(c) == 0) {
        state[0] = ++revision;
    }
    return nexar_state_sync(c, &t, 1, &revision, NULL);
}

CALL(do_state_sync, sync_state(c, COUNT))
CALL(do_state_sync_long, sync_state(c, LONG_COUNT))

typedef enum who {
    WITH_EACH, /* the survivors call it with the victim, which does nothing */
    WITH_ONE,  /* so does one of them, on a communicator with the victim */
    TOGETHER   /* all three call it, repeatedly */
} who;

typedef struct row {
    const char *name;
    nexar_err (*call)(nexar_comm *c, int to);
    who who;
} row;

#define TWO_ROWS(NAME)                  \
    {#NAME, do_##NAME, TOGETHER},       \
    {                                   \
        "i" #NAME, do_i##NAME, TOGETHER \
    }
static const row all[] = {
    {"send", do_send, WITH_EACH},
    {"send, long", do_send_long, WITH_EACH},
    {"recv", do_recv, WITH_EACH},
    {"recv from any", do_recv_any, WITH_ONE},
    {"sendrecv", do_sendrecv, WITH_EACH},
    {"isend", do_isend, WITH_EACH},
    {"irecv", do_irecv, WITH_EACH},
    {"irecv, test", do_irecv_test, WITH_EACH},
    {"irecv from any", do_irecv_any, WITH_ONE},
    {"wait_any", do_wait_any, WITH_EACH},
    {"wait_all", do_wait_all, WITH_EACH},
    {"probe", do_probe, WITH_EACH},
    {"probe of any", do_probe_any, WITH_ONE},
    {"iprobe", do_iprobe, WITH_EACH},
    {"iprobe of any", do_iprobe_any, WITH_ONE},
    {"sendv", do_sendv, WITH_EACH},
    {"recvv", do_recvv, WITH_EACH},
    {"rpc_call", do_rpc, WITH_EACH},
    {"rpc_icall", do_irpc, WITH_EACH},
    {"wait_for", do_wait_for, WITH_EACH},
    {"wait_all_for", do_wait_all_for, WITH_EACH},
    {"wait_any_for", do_wait_any_for, WITH_EACH},
    {"wait_some", do_wait_some, WITH_EACH},
    {"test_any", do_test_any, WITH_EACH},
    {"test_all", do_test_all, WITH_EACH},
    {"isendv", do_isendv, WITH_EACH},
    {"irecvv", do_irecvv, WITH_EACH},
    {"rpc_call_for", do_rpc_for, WITH_EACH},
    {"mprobe", do_mprobe, WITH_EACH},
    {"mprobe of any", do_mprobe_any, WITH_ONE},
    {"improbe", do_improbe, WITH_EACH},
    {"ibarrier, test", do_ibarrier_test, TOGETHER},
    TWO_ROWS(barrier),
    TWO_ROWS(broadcast),
    TWO_ROWS(reduce),
    TWO_ROWS(allreduce),
    TWO_ROWS(allgather),
    TWO_ROWS(gather),
    TWO_ROWS(scatter),
    TWO_ROWS(reduce_scatter),
    TWO_ROWS(alltoall),
    TWO_ROWS(scan),
    TWO_ROWS(exscan),
    TWO_ROWS(allgatherv),
    TWO_ROWS(gatherv),
    TWO_ROWS(scatterv),
    TWO_ROWS(reduce_scatterv),
    TWO_ROWS(alltoallv),
    TWO_ROWS(allreduce_bucketed),
    TWO_ROWS(allreduce_rs_ag),
    TWO_ROWS(allreduce_compressed),
    {"allreduce, long", do_allreduce_long, TOGETHER},
    {"alltoall, long", do_alltoall_long, TOGETHER},
    {"split", do_split, TOGETHER},
    {"dup", do_dup, TOGETHER},
    {"create", do_create, TOGETHER},
    {"state_sync", do_state_sync, TOGETHER},
    {"state_sync, long", do_state_sync_long, TOGETHER},
};
enum { ROWS = sizeof(all) / sizeof(all[0]) };

/* One call of each family; with as many victims each is watched by a survivor
 * (failure_detector.h). */
static const row silent[] = {
    {"recv", do_recv, WITH_EACH},
    {"iprobe of any", do_iprobe_any, WITH_ONE},
    {"rpc_call", do_rpc, WITH_EACH},
    {"barrier", do_barrier, TOGETHER},
};
static const row cut_off[] = {
    {"isend", do_isend, WITH_EACH},
    {"probe", do_probe, WITH_EACH},
    {"rpc_icall", do_irpc, WITH_EACH},
    {"iallreduce", do_iallreduce, TOGETHER},
};
enum { FEW = sizeof(silent) / sizeof(silent[0]) };

/* ---- one world, a victim for each row ------------------------------------------------------- */

typedef struct board {
    _Atomic int there[MOST_ROWS]; /* survivors that have reached the row */
    _Atomic int out, ready, go, done;
    _Atomic uint64_t died_ns;
    /* Calls of the failure callbacks: by which survivor, for which communicator (the last is the
     * world), of which of its ranks. */
    _Atomic int told[SURVIVORS][MOST_ROWS + 1][NXT_PROCS];
} board;

typedef struct plan {
    const char *const *settings;
    const row *rows;
    int n;
    int sig; /* messages that the victims themselves send */
} plan;

static board *shared;

static _Noreturn void wait_for_the_end(void)
{
    for (;;) {
        (void)pause();
    }
}

static void count_call(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)comm;
    (void)why;
    atomic_fetch_add(&((_Atomic int *)arg)[rank], 1);
}

static nexar_err hang(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)call;
    (void)data;
    (void)bytes;
    (void)arg;
    wait_for_the_end();
}

static bool is_in(const row *r, int rank, int victim)
{
    return (rank == victim) || (rank == 0) || ((rank == 1) && (r->who != WITH_ONE));
}

static int callers(const row *r)
{
    return (r->who == WITH_ONE) ? 1 : SURVIVORS;
}

typedef struct scene {
    const plan *plan;
    nexar_comm *comm;
    int row;
} scene;

/* A survivor's part in a row: until the call fails; then its own thread must know the failed
 * rank. */
static void *outlive(void *arg)
{
    const scene *s = arg;
    const row *r = &s->plan->rows[s->row];
    const int victim = nexar_size(s->comm) - 1;
    int failed[NXT_PROCS];
    size_t n = NXT_PROCS;
    nexar_err err = NEXAR_OK;

    atomic_fetch_add(&shared->there[s->row], 1);
    while (err == NEXAR_OK) {
        err = r->call(s->comm, victim);
    }
    NXT_OK(s->comm, nexar_comm_failed(s->comm, failed, &n));
    if ((err != NEXAR_EPEER) || (n != 1) || (failed[0] != victim)) {
        (void)fprintf(stderr, "%s: %s (%s); %zu known to have failed\n", r->name,
                      nexar_err_name(err), nexar_last_error(), n);
        NXT_IS(s->comm, false);
    }
    return NULL;
}

static void *end_soon(void *arg)
{
    const plan *p = arg;

    if (p->sig == SIGKILL) {
        return nxt_die_soon(&shared->died_ns);
    }
    nxt_nap();
    (void)raise(p->sig);
    return NULL;
}

static void be_victim(const plan *p, int row_at, nexar_comm *comm)
{
    const row *r = &p->rows[row_at];
    pthread_t thread;

    nxt_await(&shared->there[row_at], callers(r));
    NXT_IS(comm, pthread_create(&thread, NULL, end_soon, (void *)p) == 0);
    while (r->who == TOGETHER) {
        (void)!r->call(comm, nexar_size(comm) - 1);
    }
    wait_for_the_end();
}

/* One after another if victims are killed; at once if their silence must be waited for. */
static void be_survivor(const plan *p, nexar_comm *comms[], int rank)
{
    pthread_t threads[MOST_ROWS];
    scene scenes[MOST_ROWS];

    for (int i = 0; i < p->n; i++) {
        scenes[i] = (scene){.plan = p, .comm = comms[i], .row = i};
        if (comms[i] == NULL) {
            continue;
        }
        NXT_OK(comms[i], nexar_on_failure(comms[i], count_call, shared->told[rank][i]));
        NXT_IS(comms[i], pthread_create(&threads[i], NULL, outlive, &scenes[i]) == 0);
        if (p->sig == SIGKILL) {
            (void)pthread_join(threads[i], NULL);
        }
    }
    for (int i = 0; (p->sig != SIGKILL) && (i < p->n); i++) {
        if (comms[i] != NULL) {
            (void)pthread_join(threads[i], NULL);
        }
    }
}

static void survive(const plan *p, nexar_comm *w, nexar_comm *comms[], int rank)
{
    NXT_OK(w, nexar_on_failure(w, count_call, shared->told[rank][MOST_ROWS]));
    be_survivor(p, comms, rank);
    atomic_fetch_add(&shared->done, 1);
    nxt_await(&shared->done, SURVIVORS);
    (void)nexar_finalize(w); /* which waits until all were notified */
}

static void live(int rank, int join_fd, void *arg)
{
    const plan *p = arg;
    nexar_comm *w = nxt_procs_join(rank, join_fd, p->settings);
    nexar_comm *comms[MOST_ROWS] = {NULL};

    for (int i = 0; i < p->n; i++) {
        const int color = is_in(&p->rows[i], rank, SURVIVORS + i) ? 0 : NEXAR_NO_COLOR;

        NXT_OK(w, nexar_comm_split(w, color, 0, &comms[i]));
        if (comms[i] != NULL) {
            NXT_OK(w, nexar_barrier(comms[i])); /* links exist */
        }
    }
    if (rank >= SURVIVORS) {
        NXT_OK(w, nexar_rpc_register(comms[rank - SURVIVORS], FN, hang, NULL));
    }
    NXT_OK(w, nexar_barrier(w));
    atomic_fetch_add(&shared->out, 1); /* no victim ends while another rank is in the barrier */
    nxt_await(&shared->out, SURVIVORS + p->n);
    if (rank >= SURVIVORS) {
        be_victim(p, rank - SURVIVORS, comms[rank - SURVIVORS]);
    } else {
        survive(p, w, comms, rank);
    }
}

static void lose_all(const plan *p)
{
    const unsigned victims = ((1U << p->n) - 1) << SURVIVORS;
    nxt_procs procs;

    shared = nxt_share(sizeof(*shared));
    nxt_procs_start(&procs, SURVIVORS + p->n, live, (void *)p);
    nxt_await(&shared->done, SURVIVORS);
    if (p->sig != SIGKILL) {
        nxt_procs_signal(&procs, victims, SIGKILL);
    }
    nxt_procs_wait(&procs, victims, 0);
    for (int i = 0; i < p->n; i++) {
        for (int rank = 0; rank < callers(&p->rows[i]); rank++) {
            assert_int_equal(atomic_load(&shared->told[rank][i][callers(&p->rows[i])]), 1);
            assert_int_equal(atomic_load(&shared->told[rank][MOST_ROWS][SURVIVORS + i]), 1);
        }
    }
    nxt_unshare(shared, sizeof(*shared));
}

static void kill_for(const char *transports)
{
    const char *const settings[] = {"transports", transports, "heartbeat_timeout", "300s", NULL};

    for (int from = 0; from < ROWS; from += MOST_ROWS) {
        const int n = (ROWS - from < MOST_ROWS) ? ROWS - from : MOST_ROWS;

        lose_all(&(plan){.settings = settings, .rows = all + from, .n = n, .sig = SIGKILL});
    }
}

static void test_who_is_killed_is_known_by_shared_memory(void **state)
{
    (void)state;
    kill_for("auto");
}

static void test_who_is_killed_is_known_by_quic(void **state)
{
    (void)state;
    kill_for("quic");
}

static void test_who_is_killed_is_known_by_tcp(void **state)
{
    (void)state;
    kill_for("tcp");
}

static void stop_for(const char *transports, const char *idle_timeout, const row *rows)
{
    const char *const settings[] = {
        "transports", transports,          "idle_timeout", idle_timeout, "heartbeat_interval",
        "200ms",      "heartbeat_timeout", "2s",           NULL};

    lose_all(&(plan){.settings = settings, .rows = rows, .n = FEW, .sig = SIGSTOP});
}

static void test_a_rank_that_does_not_answer_is_named(void **state)
{
    (void)state;
    stop_for("auto", "30s", silent);
    stop_for("quic", "30s", silent);
    stop_for("tcp", "30s", silent);
}

/* The end of a link proves nothing about the rank: it precedes the verdict. */
static void test_the_rank_of_a_lost_link_is_named(void **state)
{
    (void)state;
    stop_for("quic", "1s", cut_off);
}

/* ---- ranks without a link ----------------------------------------------------------------- */

/* Only the seed knows whether such a rank has left. */
static const row strangers[] = {
    {"recv", do_recv, WITH_EACH},
    {"send, long", do_send_long, WITH_EACH},
    {"probe", do_probe, WITH_EACH},
    {"rpc_call", do_rpc, WITH_EACH},
};
enum { STRANGERS = sizeof(strangers) / sizeof(strangers[0]) };

static bool holds(const int ranks[], size_t n, int rank)
{
    size_t i = 0;

    while ((i < n) && (ranks[i] != rank)) {
        i++;
    }
    return i < n;
}

static void miss(const plan *p, nexar_comm *w, int i)
{
    int failed[NXT_PROCS];
    size_t n = NXT_PROCS;
    nexar_err err = NEXAR_OK;

    while (err == NEXAR_OK) {
        err = p->rows[i].call(w, SURVIVORS + i);
    }
    NXT_OK(w, nexar_comm_failed(w, failed, &n));
    if ((err != NEXAR_EPEER) || (holds(failed, n, SURVIVORS + i) != (p->sig == SIGKILL))) {
        (void)fprintf(stderr, "%s: %s (%s); %zu known to have failed\n", p->rows[i].name,
                      nexar_err_name(err), nexar_last_error(), n);
        NXT_IS(w, false);
    }
}

static void meet_late(int rank, int join_fd, void *arg)
{
    const plan *p = arg;
    nexar_comm *w = nxt_procs_join(rank, join_fd, p->settings);

    atomic_fetch_add(&shared->ready, 1);
    if (rank >= SURVIVORS) {
        if (p->sig == SIGKILL) {
            wait_for_the_end();
        }
        NXT_OK(w, nexar_finalize(w));
        return;
    }
    nxt_await(&shared->go, 1);
    for (int i = 0; i < p->n; i++) {
        miss(p, w, i);
    }
    atomic_fetch_add(&shared->done, 1);
    nxt_await(&shared->done, SURVIVORS);
    (void)nexar_finalize(w);
}

static void never_meet(const char *transports, int sig)
{
    const char *const settings[] = {"transports", transports, "heartbeat_timeout", "300s", NULL};
    const plan p = {.settings = settings, .rows = strangers, .n = STRANGERS, .sig = sig};
    const unsigned victims = ((1U << STRANGERS) - 1) << SURVIVORS;
    siginfo_t info;
    nxt_procs procs;

    shared = nxt_share(sizeof(*shared));
    nxt_procs_start(&procs, SURVIVORS + STRANGERS, meet_late, (void *)&p);
    nxt_await(&shared->ready, SURVIVORS + STRANGERS);
    if (sig != 0) {
        nxt_procs_signal(&procs, victims, sig);
    }
    for (int i = 0; i < STRANGERS; i++) {
        assert_int_equal(waitid(P_PID, (id_t)procs.pids[SURVIVORS + i], &info, WEXITED | WNOWAIT),
                         0);
    }
    atomic_store(&shared->go, 1);
    nxt_procs_wait(&procs, (sig == SIGKILL) ? victims : 0, 0);
    nxt_unshare(shared, sizeof(*shared));
}

static void test_who_was_killed_unknown_is_known(void **state)
{
    (void)state;
    never_meet("auto", SIGKILL);
    never_meet("quic", SIGKILL);
    never_meet("tcp", SIGKILL);
}

static void test_a_rank_that_has_left_has_not_failed(void **state)
{
    (void)state;
    never_meet("auto", 0);
    never_meet("quic", 0);
    never_meet("tcp", 0);
}

/* ---- decisions without a quorum ----------------------------------------------------------- */

static nexar_err agree(nexar_comm **w)
{
    uint64_t flags = 1;

    return nexar_comm_agree(*w, &flags);
}

static nexar_err shrink(nexar_comm **w)
{
    nexar_comm *rest = NULL;

    return nexar_comm_shrink(*w, &rest);
}

static nexar_err update(nexar_comm **w)
{
    return nexar_comm_update(w, NULL);
}

enum { PARTY = 4 };

typedef struct decision {
    nexar_err (*call)(nexar_comm **w);
    const char *const *settings;
} decision;

/* Half of the ranks fail, without which the rest does not continue. */
static void decide(int rank, int join_fd, void *arg)
{
    const decision *d = arg;
    nexar_comm *w = nxt_procs_join(rank, join_fd, d->settings);
    nexar_err err = NEXAR_OK;
    int failed[PARTY];
    size_t n = PARTY;

    NXT_OK(w, nxt_sum_all(w, COUNT));
    atomic_fetch_add(&shared->ready, 1);
    if (rank < PARTY / 2) {
        wait_for_the_end();
    }
    while (err == NEXAR_OK) {
        err = d->call(&w);
    }
    NXT_OK(w, nexar_comm_failed(w, failed, &n));
    NXT_SAYS(w, err, NEXAR_EPEER, "");
    NXT_IS(w, (n == PARTY / 2) && (failed[0] == 0) && (failed[1] == 1));
    atomic_fetch_add(&shared->done, 1);
    nxt_await(&shared->done, PARTY / 2); /* a departing rank would be missed, too */
    (void)nexar_finalize(w);
}

static void test_who_is_missed_by_a_decision_is_known(void **state)
{
    static const char *const majority[] = {"quorum", "majority", NULL};
    static const char *const most[] = {"min_world", "3", NULL};
    static decision decisions[] = {
        {agree, majority}, {shrink, majority}, {update, majority}, {shrink, most}, {update, most}};

    (void)state;
    for (size_t i = 0; i < sizeof(decisions) / sizeof(decisions[0]); i++) {
        nxt_procs procs;

        shared = nxt_share(sizeof(*shared));
        nxt_procs_start(&procs, PARTY, decide, &decisions[i]);
        nxt_await(&shared->ready, PARTY);
        nxt_procs_signal(&procs, 3, SIGKILL);
        nxt_procs_wait(&procs, 3, 0);
        nxt_unshare(shared, sizeof(*shared));
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_who_is_killed_is_known_by_shared_memory),
        cmocka_unit_test(test_who_is_killed_is_known_by_quic),
        cmocka_unit_test(test_who_is_killed_is_known_by_tcp),
        cmocka_unit_test(test_who_was_killed_unknown_is_known),
        cmocka_unit_test(test_a_rank_that_has_left_has_not_failed),
        cmocka_unit_test(test_who_is_missed_by_a_decision_is_known),
        cmocka_unit_test(test_a_rank_that_does_not_answer_is_named),
        cmocka_unit_test(test_the_rank_of_a_lost_link_is_named),
    };

    if (argc > 1) { /* some of them */
        cmocka_set_test_filter(argv[1]);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
