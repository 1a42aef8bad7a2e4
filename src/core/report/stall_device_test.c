/* stall_device_test.c - reports of operations that wait for their own device, or for a function of
 * the caller. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "core/comm/comm.h"
#include "core/report/pending.h"
#include "local_world.h"
#include "unit.h"

enum { COUNT = 1000, BYTES = COUNT * sizeof(float), TENSORS = 10, WAITER = 1 };
#define PATIENCE_NS UINT64_C(60000000000)

/* Device memory is host memory; the calls of the device wait while the gate is closed. */
typedef struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
} gate;

static gate the_gate = {.lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER};

static void set_gate(bool open)
{
    (void)pthread_mutex_lock(&the_gate.lock);
    the_gate.open = open;
    (void)pthread_cond_broadcast(&the_gate.opened);
    (void)pthread_mutex_unlock(&the_gate.lock);
}

static void pass_gate(void)
{
    (void)pthread_mutex_lock(&the_gate.lock);
    while (!the_gate.open) {
        (void)pthread_cond_wait(&the_gate.opened, &the_gate.lock);
    }
    (void)pthread_mutex_unlock(&the_gate.lock);
}

static nexar_err slow_copy(void *ctx, void *to, const void *from, size_t bytes, void *stream)
{
    (void)ctx;
    (void)stream;
    pass_gate();
    memcpy(to, from, bytes);
    return NEXAR_OK;
}

static nexar_err no_wait(void *ctx, void *stream)
{
    (void)ctx;
    (void)stream;
    return NEXAR_OK;
}

static const nexar_device slow = {
    .name = "slow", .to_host = slow_copy, .to_device = slow_copy, .synchronize = no_wait};

/* ---- texts --------------------------------------------------------------------------- */

/* The local wait of the oldest operation of |w|, and the number of ranks that it waits for. */
static bool look(nexar_comm *w, char *here, uint32_t *ranks)
{
    uint32_t whom[NX_DOING_LISTED];
    nx_pending p;
    bool found;

    here[0] = '\0';
    nx_loop_lock(w->world->loop);
    (void)nx_loop_refresh(w->world->loop);
    found = nx_pending_oldest(w->world, 0, &p);
    if (found) {
        nx_pending_here(w->world, &p, here);
        *ranks = nx_pending_whom(w->world, &p, whom, NX_DOING_LISTED);
    }
    nx_loop_unlock(w->world->loop);
    return found;
}

/* Waits until it is |begins|, then checks the answer to another rank, and releases it. */
static void until_said(nexar_comm *w, const char *begins, bool alone)
{
    const uint64_t until_ns = nx_now(&nx_clock_system) + PATIENCE_NS;
    const struct timespec span = {.tv_nsec = 1000000};
    char here[NX_DOING_HERE], text[NX_DOING_TEXT];
    const nx_ask ask = {0};
    uint32_t ranks = 0;
    nx_doing doing;

    while (!look(w, here, &ranks) || (strncmp(here, begins, strlen(begins)) != 0)) {
        nxt_rank_check(w, nx_now(&nx_clock_system) < until_ns, here, __FILE__, __LINE__);
        (void)nanosleep(&span, NULL);
    }
    NXT_IS(w, !alone || (ranks == 0));
    nx_loop_lock(w->world->loop);
    nx_pending_tell(w->world, &ask, &doing);
    nx_loop_unlock(w->world->loop);
    NXT_IS(w, strncmp(doing.here, begins, strlen(begins)) == 0);
    NXT_IS(w, strstr(nx_doing_text(&doing, text), begins) != NULL);
    set_gate(true);
}

/* ---- collectives --------------------------------------------------------------------- */

static void collectives(nexar_comm *w, void *arg)
{
    const bool waiter = (nexar_rank(w) == WAITER);
    static _Thread_local float data[COUNT];
    nexar_tensor tensors[TENSORS];
    nexar_request *req = NULL;

    (void)arg;
    for (size_t i = 0; i < TENSORS; i++) {
        tensors[i] = (nexar_tensor){.ptr = data + i * (COUNT / TENSORS), .count = COUNT / TENSORS};
    }
    if (waiter) {
        NXT_OK(w, nexar_comm_set_device(w, &slow));
    }
    set_gate(false);
    NXT_OK(w, nexar_ibroadcast(w, data, COUNT, NEXAR_F32, WAITER, &req));
    if (waiter) {
        until_said(w, "device slow to copy 4000 bytes for rank 0 (", false);
    }
    NXT_OK(w, nexar_wait(&req, NULL));
    NXT_OK(w, nexar_barrier(w));
    set_gate(false);
    NXT_OK(w, nexar_barrier(w));
    NXT_OK(w, nexar_iallreduce_bucketed(w, tensors, TENSORS, NEXAR_F32, NEXAR_SUM, &req));
    if (waiter) {
        until_said(w, "device slow to gather tensors of 4000 bytes (", true);
    }
    NXT_OK(w, nexar_wait(&req, NULL));
    if (waiter) {
        NXT_OK(w, nexar_comm_set_device(w, NULL));
    }
}

static void test_a_collective_that_waits_for_its_device_is_reported(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, collectives, NULL);
}

static nexar_err slow_shard(void *shard, size_t offset, size_t count, void *arg)
{
    (void)shard;
    (void)offset;
    (void)count;
    (void)arg;
    pass_gate();
    return NEXAR_OK;
}

static void hooks(nexar_comm *w, void *arg)
{
    static _Thread_local float data[COUNT];
    nexar_request *req = NULL;

    (void)arg;
    set_gate(false);
    NXT_OK(w, nexar_barrier(w));
    NXT_OK(w, nexar_iallreduce_rs_ag(w, data, COUNT, NEXAR_F32, NEXAR_SUM,
                                     (nexar_rank(w) == WAITER) ? slow_shard : NULL, NULL, &req));
    if (nexar_rank(w) == WAITER) {
        until_said(w, "its on_shard (", false);
    }
    NXT_OK(w, nexar_wait(&req, NULL));
}

static void test_a_collective_that_waits_for_its_hook_is_reported(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, hooks, NULL);
}

/* ---- messages ------------------------------------------------------------------------ */

typedef struct call {
    nexar_comm *w;
    bool sends;
    float data[COUNT];
    nexar_err err;
} call;

static void *run_call(void *arg)
{
    call *c = arg;

    c->err = c->sends ? nexar_send(c->w, c->data, BYTES, 0, 7)
                      : nexar_recv(c->w, c->data, BYTES, NEXAR_ANY_SOURCE, 8, NULL);
    return NULL;
}

/* A thread of |w| is in a send or a receive, whose device is slow. */
static void in_a_call(nexar_comm *w, bool sends, const char *says)
{
    static call c;
    pthread_t thread;

    c.w = w;
    c.sends = sends;
    NXT_IS(w, pthread_create(&thread, NULL, run_call, &c) == 0);
    until_said(w, says, true);
    NXT_IS(w, pthread_join(thread, NULL) == 0);
    NXT_OK(w, c.err);
}

static void messages(nexar_comm *w, void *arg)
{
    static _Thread_local float data[COUNT];

    (void)arg;
    set_gate(false);
    NXT_OK(w, nexar_barrier(w));
    if (nexar_rank(w) == WAITER) {
        NXT_OK(w, nexar_comm_set_device(w, &slow));
        in_a_call(w, true, "device slow to copy 4000 bytes for rank 0 (");
        set_gate(false);
        in_a_call(w, false, "device slow to take 4000 bytes from rank 0 (");
        NXT_OK(w, nexar_comm_set_device(w, NULL));
    } else {
        NXT_OK(w, nexar_recv(w, data, BYTES, WAITER, 7, NULL));
        NXT_OK(w, nexar_send(w, data, BYTES, WAITER, 8));
    }
}

static void test_a_message_that_waits_for_its_device_is_reported(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, messages, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_collective_that_waits_for_its_device_is_reported),
        cmocka_unit_test(test_a_collective_that_waits_for_its_hook_is_reported),
        cmocka_unit_test(test_a_message_that_waits_for_its_device_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
