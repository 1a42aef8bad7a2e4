/*
 * cancellation_test.c - pthread_cancel of a thread that is in a call: the call ends normally,
 * the cancellation takes effect after it, and other threads and ranks are unaffected.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <nexar.h>

#include "local_world.h"
#include "procs.h"
#include "unit.h"

enum { TAG = 5, FN = 1, COUNT = 16, LONG_COUNT = 1 << 19 };

static nexar_comm *worlds[2];
static sem_t answered; /* the handler of FN may reply */

/* ---- the calls of rank 0, and the actions of rank 1 that end them ------------------------- */

static nexar_err do_recv(void)
{
    char byte;

    return nexar_recv(worlds[0], &byte, 1, 1, TAG, NULL);
}

static nexar_err do_wait(void)
{
    nexar_request *req = NULL;
    char byte;
    const nexar_err err = nexar_irecv(worlds[0], &byte, 1, NEXAR_ANY_SOURCE, TAG, &req);

    return (err == NEXAR_OK) ? nexar_wait(&req, NULL) : err;
}

static nexar_err do_wait_any(void)
{
    nexar_request *req = NULL;
    size_t index;
    char byte;
    const nexar_err err = nexar_irecv(worlds[0], &byte, 1, 1, TAG, &req);

    return (err == NEXAR_OK) ? nexar_wait_any(1, &req, &index, NULL) : err;
}

static nexar_err do_probe(void)
{
    const nexar_err err = nexar_probe(worlds[0], 1, TAG, NULL);

    return (err == NEXAR_OK) ? do_recv() : err;
}

static nexar_err give(void)
{
    return nexar_send(worlds[1], "x", 1, 0, TAG);
}

static nexar_err do_sendrecv(void)
{
    char byte;

    return nexar_sendrecv(worlds[0], "x", 1, 1, TAG, &byte, 1, 1, TAG, NULL);
}

static nexar_err swap(void)
{
    char byte;

    return nexar_sendrecv(worlds[1], "x", 1, 0, TAG, &byte, 1, 0, TAG, NULL);
}

static double bulk[LONG_COUNT];

static nexar_err do_send(void)
{
    return nexar_send(worlds[0], bulk, sizeof(bulk), 1, TAG);
}

static nexar_err take(void)
{
    return nexar_recv(worlds[1], bulk, sizeof(bulk), 0, TAG, NULL);
}

/* NAME() of rank 0, other_NAME() of rank 1: |BODY| on the world |w|. */
#define BOTH(NAME, BODY)                       \
    static nexar_err NAME##_by(nexar_comm **w) \
    {                                          \
        return (BODY);                         \
    }                                          \
    static nexar_err do_##NAME(void)           \
    {                                          \
        return NAME##_by(&worlds[0]);          \
    }                                          \
    static nexar_err other_##NAME(void)        \
    {                                          \
        return NAME##_by(&worlds[1]);          \
    }

static nexar_err wait_for(nexar_err begun, nexar_request **req)
{
    return (begun == NEXAR_OK) ? nexar_wait(req, NULL) : begun;
}

static nexar_err ibarrier(nexar_comm *w)
{
    nexar_request *req = NULL;

    return wait_for(nexar_ibarrier(w, &req), &req);
}

static nexar_err duplicate(nexar_comm *w)
{
    nexar_comm *c = NULL;
    const nexar_err err = nexar_comm_dup(w, &c);

    nexar_comm_free(c);
    return err;
}

static nexar_err shrink(nexar_comm *w)
{
    nexar_comm *c = NULL;
    const nexar_err err = nexar_comm_shrink(w, &c);

    nexar_comm_free(c);
    return err;
}

/* Runs on the calling thread, whose cancellation may be pending. */
static nexar_err on_shard(void *shard, size_t offset, size_t count, void *arg)
{
    (void)shard;
    (void)offset;
    (void)count;
    (void)arg;
    pthread_testcancel();
    return NEXAR_OK;
}

BOTH(barrier, nexar_barrier(*w))
BOTH(ibarrier, ibarrier(*w))
BOTH(sum, nxt_sum_all(*w, COUNT))
BOTH(long_sum, nxt_sum_all(*w, LONG_COUNT))
BOTH(shards,
     nexar_allreduce_rs_ag(*w, (float[COUNT]){0}, COUNT, NEXAR_F32, NEXAR_SUM, on_shard, NULL))
BOTH(compressed, nexar_allreduce_compressed(*w, (float[COUNT]){0}, COUNT, NEXAR_F32, NEXAR_SUM,
                                            NEXAR_COMPRESS_TOPK, 0.5, NULL))
BOTH(dup, duplicate(*w))
BOTH(agree, nexar_comm_agree(*w, &(uint64_t){1}))
BOTH(shrink, shrink(*w))
BOTH(update, nexar_comm_update(w, NULL))

static nexar_err handle(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)data;
    (void)bytes;
    (void)arg;
    (void)pthread_cancel(pthread_self()); /* a thread of the runtime is not the application's */
    while (sem_wait(&answered) != 0) {
    }
    return nexar_rpc_reply(call, "x", 1);
}

static nexar_err do_rpc(void)
{
    return nexar_rpc_call(worlds[0], 1, FN, NULL, 0, NULL, NULL);
}

static nexar_err let_reply(void)
{
    return (sem_post(&answered) == 0) ? NEXAR_OK : NEXAR_ESYS;
}

typedef struct row {
    const char *name;
    nexar_err (*call)(void);
    nexar_err (*answer)(void);
} row;

static const row rows[] = {
    {"recv", do_recv, give},
    {"wait", do_wait, give},
    {"wait_any", do_wait_any, give},
    {"probe", do_probe, give},
    {"sendrecv", do_sendrecv, swap},
    {"send", do_send, take},
    {"barrier", do_barrier, other_barrier},
    {"ibarrier", do_ibarrier, other_ibarrier},
    {"allreduce", do_sum, other_sum},
    {"allreduce, long", do_long_sum, other_long_sum},
    {"allreduce_rs_ag", do_shards, other_shards},
    {"allreduce_compressed", do_compressed, other_compressed},
    {"dup", do_dup, other_dup},
    {"agree", do_agree, other_agree},
    {"shrink", do_shrink, other_shrink},
    {"update", do_update, other_update},
    {"rpc_call", do_rpc, let_reply},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

/* ---- a cancelled thread ------------------------------------------------------------------- */

typedef struct victim {
    const row *row;
    bool before; /* it is cancelled before its call, not in it */
    _Atomic long tid;
    atomic_bool returned;
    nexar_err err;
} victim;

static void *victim_main(void *arg)
{
    victim *v = arg;

    if (v->before) {
        (void)pthread_cancel(pthread_self());
    }
    atomic_store(&v->tid, syscall(SYS_gettid));
    v->err = v->row->call();
    atomic_store(&v->returned, true);
    for (;;) {
        pthread_testcancel();
    }
    return NULL;
}

/* Whether thread |tid| of this process sleeps in the kernel. */
static bool is_asleep(long tid)
{
    char path[64], state = '?';
    FILE *f;

    (void)snprintf(path, sizeof(path), "/proc/self/task/%ld/stat", tid);
    f = fopen(path, "r");
    if (f != NULL) {
        (void)fscanf(f, "%*d (%*[^)]) %c", &state);
        (void)fclose(f);
    }
    return state == 'S';
}

static void cancel_one(const row *r, bool before)
{
    victim v = {.row = r, .before = before};
    void *result = NULL;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, victim_main, &v), 0);
    while (!before && ((atomic_load(&v.tid) == 0) || !is_asleep(atomic_load(&v.tid)))) {
        nxt_nap();
    }
    if (!before) {
        assert_int_equal(pthread_cancel(thread), 0);
    }
    assert_int_equal(r->answer(), NEXAR_OK);
    assert_int_equal(pthread_join(thread, &result), 0);
    if (!atomic_load(&v.returned) || (v.err != NEXAR_OK)) {
        (void)fprintf(stderr, "%s: %s\n", r->name,
                      atomic_load(&v.returned) ? nexar_err_name(v.err) : "did not return");
    }
    assert_true(atomic_load(&v.returned));
    assert_int_equal(v.err, NEXAR_OK);
    assert_true(result == PTHREAD_CANCELED);
}

static void *barrier_of_0(void *err)
{
    *(nexar_err *)err = nexar_barrier(worlds[0]);
    return NULL;
}

/* Later calls of both ranks work. */
static void work_on(void)
{
    nexar_err err = NEXAR_EINTERNAL;
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, barrier_of_0, &err), 0);
    assert_int_equal(nexar_barrier(worlds[1]), NEXAR_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(err, NEXAR_OK);
}

static void *finalize_0(void *returned)
{
    (void)pthread_cancel(pthread_self());
    (void)nexar_finalize(worlds[0]);
    atomic_store((atomic_bool *)returned, true);
    return NULL;
}

static void cancel_all(bool before)
{
    atomic_bool returned = false;
    nexar_config *cfg = NULL;
    pthread_t thread;

    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(sem_init(&answered, 0, 0), 0);
    assert_int_equal(nexar_init_local(2, cfg, worlds), NEXAR_OK);
    assert_int_equal(nexar_rpc_register(worlds[1], FN, handle, NULL), NEXAR_OK);
    for (int i = 0; i < ROWS; i++) {
        cancel_one(&rows[i], before);
        work_on();
    }
    assert_int_equal(pthread_create(&thread, NULL, finalize_0, &returned), 0);
    assert_int_equal(nexar_finalize(worlds[1]), NEXAR_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(atomic_load(&returned));
    nexar_config_free(cfg);
    (void)sem_destroy(&answered);
}

static void test_a_blocked_thread_is_cancelled_after_its_call(void **state)
{
    (void)state;
    cancel_all(false);
}

static void test_a_call_of_a_cancelled_thread_is_made(void **state)
{
    (void)state;
    cancel_all(true);
}

/* ---- a world of one ----------------------------------------------------------------------- */

static nexar_err joins_and_leaves(nexar_config *cfg)
{
    nexar_comm *w = NULL;
    nexar_seed *seed = NULL;
    char byte = 0;
    bool done = false;
    nexar_request *req = NULL;
    void *memory = NULL;
    int fd = -1;
    nexar_err err = nexar_config_set(cfg, "world_size", "1");

    err = (err == NEXAR_OK) ? nexar_seed_start(cfg, &seed) : err;
    nexar_seed_stop(seed);
    err = (err == NEXAR_OK) ? nexar_init(cfg, &w) : err;
    err = (err == NEXAR_OK) ? nexar_event_fd(w, &fd) : err;
    err = (err == NEXAR_OK) ? nexar_irecv(w, &byte, 1, 0, TAG, &req) : err;
    err = (err == NEXAR_OK) ? nexar_test(&req, &done, NULL) : err;
    err = (err == NEXAR_OK) ? nexar_iprobe(w, 0, TAG, &done, NULL) : err;
    err = (err == NEXAR_OK) ? nexar_cancel(req) : err;
    (void)!nexar_wait(&req, NULL);
    err = (err == NEXAR_OK) ? nexar_alloc(w, 100, &memory) : err;
    nexar_free(w, memory);
    (void)nexar_finalize(w);
    return err;
}

static void *alone(void *arg)
{
    nexar_config *cfg = NULL;
    nexar_err err;

    (void)pthread_cancel(pthread_self());
    err = nexar_config_create(&cfg);
    err = (err == NEXAR_OK) ? joins_and_leaves(cfg) : err;
    nexar_config_free(cfg);
    atomic_store((atomic_int *)arg, err);
    return NULL;
}

static void test_a_cancelled_thread_can_join_and_leave(void **state)
{
    atomic_int err = 1;
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, alone, &err), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&err), NEXAR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cancelled_thread_can_join_and_leave),
        cmocka_unit_test(test_a_call_of_a_cancelled_thread_is_made),
        cmocka_unit_test(test_a_blocked_thread_is_cancelled_after_its_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
