/* matched_test.c - matched probes, and scattered messages with a request. */
#include <nexar.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "local_world.h"
#include "unit.h"

enum { GO = 1000, LONG = 3 << 20 };

static void go(nexar_comm *w, int to)
{
    const char byte = 1;

    NXT_OK(w, nexar_send(w, &byte, 1, to, GO));
}

static void await_go(nexar_comm *w, int from)
{
    char byte;

    NXT_OK(w, nexar_recv(w, &byte, 1, from, GO, NULL));
}

/* Rank 0: finds a message of |bytes|, which no other call finds any more; receives it after a later
 * message. */
static void found(nexar_comm *w, size_t bytes)
{
    uint8_t *buf = malloc((bytes == 0) ? 1 : bytes);
    nexar_message *msg = NULL;
    nexar_status status;
    bool there = true;
    char small;

    NXT_OK(w, nexar_mprobe(w, NEXAR_ANY_SOURCE, NEXAR_ANY_TAG, &msg, &status));
    NXT_IS(w, (msg != NULL) && (status.source == 1) && (status.tag == 7));
    NXT_IS(w, status.bytes == bytes);
    NXT_OK(w, nexar_recv(w, &small, 1, 1, NEXAR_ANY_TAG, &status));
    NXT_IS(w, (small == 'x') && (status.bytes == 1));
    NXT_OK(w, nexar_iprobe(w, 1, NEXAR_ANY_TAG, &there, NULL));
    NXT_IS(w, !there);
    NXT_OK(w, nexar_mrecv(&msg, buf, bytes, &status));
    NXT_IS(w, (msg == NULL) && (status.source == 1) && (status.tag == 7));
    NXT_IS(w, (status.bytes == bytes) && nxt_filled(buf, bytes, 5));
    go(w, 1);
    free(buf);
}

static void sizes(nexar_comm *w, void *arg)
{
    static const size_t lengths[] = {0, 1, 32, 33, 5000, 200000, LONG};

    (void)arg;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        if (nexar_rank(w) == 1) {
            nexar_request *reqs[2];
            uint8_t *buf = malloc(lengths[i] + 1);
            const char small = 'x';

            nxt_fill(buf, lengths[i], 5);
            NXT_OK(w, nexar_isend(w, buf, lengths[i], 0, 7, &reqs[0]));
            NXT_OK(w, nexar_isend(w, &small, 1, 0, 7, &reqs[1]));
            await_go(w, 0);
            NXT_OK(w, nexar_wait_all(2, reqs));
            free(buf);
        } else {
            found(w, lengths[i]);
        }
    }
}

static void test_a_message_found_belongs_to_its_finder(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, sizes, NULL);
}

/* The probe waits first: it gets the next message, not a later receive. */
static void waiting(nexar_comm *w, void *arg)
{
    nexar_message *msg = NULL;
    nexar_request *req = NULL;
    bool there = true;
    int got = -1, first = 1, second = 2;

    (void)arg;
    if (nexar_rank(w) == 1) {
        await_go(w, 0);
        NXT_OK(w, nexar_send(w, &first, sizeof(first), 0, 3));
        NXT_OK(w, nexar_send(w, &second, sizeof(second), 0, 3));
        return;
    }
    NXT_OK(w, nexar_improbe(w, 1, 3, &there, &msg, NULL));
    NXT_IS(w, !there && (msg == NULL));
    go(w, 1);
    NXT_OK(w, nexar_mprobe(w, 1, 3, &msg, NULL));
    NXT_OK(w, nexar_irecv(w, &got, sizeof(got), 1, 3, &req));
    NXT_OK(w, nexar_wait(&req, NULL));
    NXT_IS(w, got == 2);
    NXT_OK(w, nexar_mrecv(&msg, &got, sizeof(got), NULL));
    NXT_IS(w, got == 1);
}

static void test_a_probe_that_waits_takes_the_first_message(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, waiting, NULL);
}

/* ---- several threads ----------------------------------------------------------------- */

enum { MANY = 400, THREADS = 4 };

typedef struct crew {
    nexar_comm *w;
    atomic_int seen[MANY], taken;
} crew;

/* Each thread finds and receives messages; the oldest available one comes first. */
static void *finder(void *arg)
{
    crew *c = arg;
    int last = -1, value = -1;

    while (atomic_fetch_add(&c->taken, 1) < MANY) {
        nexar_message *msg = NULL;
        nexar_status status;
        bool there = false;

        while (!there) {
            NXT_OK(c->w, nexar_improbe(c->w, NEXAR_ANY_SOURCE, 9, &there, &msg, &status));
        }
        NXT_OK(c->w, nexar_mrecv(&msg, &value, sizeof(value), NULL));
        NXT_IS(c->w, (value > last) && (value < MANY) && (status.source == 1));
        NXT_IS(c->w, atomic_fetch_add(&c->seen[value], 1) == 0);
        last = value;
    }
    return NULL;
}

static void threads(nexar_comm *w, void *arg)
{
    static crew c;
    pthread_t thread[THREADS];

    (void)arg;
    if (nexar_rank(w) == 1) {
        for (int i = 0; i < MANY; i++) {
            NXT_OK(w, nexar_send(w, &i, sizeof(i), 0, 9));
        }
        return;
    }
    memset(&c, 0, sizeof(c));
    c.w = w;
    for (int i = 0; i < THREADS; i++) {
        NXT_IS(w, pthread_create(&thread[i], NULL, finder, &c) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(thread[i], NULL);
    }
    for (int i = 0; i < MANY; i++) {
        NXT_IS(w, atomic_load(&c.seen[i]) == 1);
    }
}

static void test_threads_find_each_message_once_and_in_order(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, threads, NULL);
}

/* ---- lack of credit ------------------------------------------------------------------ */

/* Far more messages than the pool holds; the last one is probed first. */
static void starved(nexar_comm *w, void *arg)
{
    enum { FLOOD = 3000, BYTES = 3000 };
    static uint8_t buf[2][BYTES];
    uint8_t *mine = buf[nexar_rank(w)];
    nexar_message *msg = NULL, *other = NULL;
    nexar_request **reqs;
    bool there = false;

    (void)arg;
    if (nexar_rank(w) == 1) {
        reqs = calloc(FLOOD + 2, sizeof(nexar_request *));
        nxt_fill(mine, BYTES, 1);
        for (int i = 0; i < FLOOD; i++) {
            NXT_OK(w, nexar_isend(w, mine, BYTES, 0, 1, &reqs[i]));
        }
        NXT_OK(w, nexar_isend(w, mine, BYTES, 0, 2, &reqs[FLOOD]));
        NXT_OK(w, nexar_isend(w, mine, BYTES, 0, 3, &reqs[FLOOD + 1]));
        NXT_OK(w, nexar_wait_all(FLOOD + 2, reqs));
        free(reqs);
        return;
    }
    NXT_OK(w, nexar_mprobe(w, 1, 2, &msg, NULL));
    while (!there) {
        NXT_OK(w, nexar_improbe(w, 1, 3, &there, &other, NULL));
    }
    for (int i = 0; i < FLOOD; i++) {
        NXT_OK(w, nexar_recv(w, mine, BYTES, 1, 1, NULL));
    }
    memset(mine, 0, BYTES);
    NXT_OK(w, nexar_mrecv(&msg, mine, BYTES, NULL));
    NXT_IS(w, nxt_filled(mine, BYTES, 1));
    NXT_OK(w, nexar_mrecv(&other, mine, BYTES, NULL));
}

static void test_messages_held_back_by_their_sender_are_found(void **state)
{
    nexar_config *cfg;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "unexpected", "1m"), NEXAR_OK);
    nxt_local_world(2, cfg, starved, NULL);
    nexar_config_free(cfg);
}

/* ---- to itself, errors, ends --------------------------------------------------------- */

static void self(nexar_comm *w, void *arg)
{
    static uint8_t out[LONG], in[LONG];
    nexar_message *msg = NULL;
    nexar_request *req;
    bool there;

    (void)arg;
    for (size_t bytes = 0; bytes <= LONG; bytes = 4 * bytes + 1) {
        nxt_fill(out, bytes, bytes);
        NXT_OK(w, nexar_isend(w, out, bytes, 0, 1, &req));
        NXT_OK(w, nexar_improbe(w, 0, 1, &there, &msg, NULL));
        NXT_IS(w, there);
        NXT_OK(w, nexar_mrecv(&msg, in, bytes, NULL));
        NXT_OK(w, nexar_wait(&req, NULL));
        NXT_IS(w, nxt_filled(in, bytes, bytes));
    }
}

static void test_a_message_to_oneself_is_found(void **state)
{
    (void)state;
    nxt_local_world(1, NULL, self, NULL);
}

static void errors(nexar_comm *w, void *arg)
{
    static uint8_t out[LONG], in[LONG];
    nexar_message *msg = NULL;
    nexar_request *req = NULL;
    nexar_status status = {0};
    nexar_comm *dup = NULL;
    nexar_err err;
    bool there = false;

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &dup));
    if (nexar_rank(w) == 1) {
        NXT_OK(w, nexar_isend(w, out, LONG, 0, 1, &req)); /* too long for its receiver */
        await_go(w, 0);
        NXT_OK(w, nexar_wait(&req, NULL));
        NXT_OK(w, nexar_isend(w, out, LONG, 0, 2, &req)); /* cancelled by the sender */
        await_go(w, 0);
        NXT_OK(w, nexar_cancel(req));
        err = nexar_wait(&req, NULL);
        NXT_IS(w, (err == NEXAR_ECANCELED) || (err == NEXAR_OK));
        go(w, 0);
        NXT_OK(w, nexar_send(dup, "abc", 3, 0, 3)); /* of a communicator that is freed */
        await_go(w, 0);
        nexar_comm_free(dup);
        NXT_OK(w, nexar_send(w, "abc", 3, 0, 4)); /* never received */
        return;
    }
    NXT_OK(w, nexar_mprobe(w, 1, 1, &msg, NULL));
    NXT_SAYS(w, nexar_mrecv(&msg, NULL, 1, NULL), NEXAR_EINVAL, "mrecv: the buffer of 1 bytes");
    NXT_IS(w, msg != NULL);
    NXT_SAYS(w, nexar_mrecv(&msg, in, 100, &status), NEXAR_ETRUNC, "mrecv from rank 1");
    NXT_IS(w, (msg == NULL) && (status.bytes == LONG) && (status.tag == 1));
    go(w, 1);
    NXT_OK(w, nexar_mprobe(w, 1, 2, &msg, NULL));
    go(w, 1);
    await_go(w, 1);
    err = nexar_mrecv(&msg, in, LONG, NULL);
    if (err != NEXAR_OK) { /* it was not in flight yet */
        NXT_IS(w, (err == NEXAR_ECANCELED) && (msg != NULL));
        NXT_SAYS(w, nexar_mrecv(&msg, in, LONG, NULL), NEXAR_ECANCELED, "was lost before");
    }
    NXT_OK(w, nexar_mprobe(dup, 1, 3, &msg, NULL));
    nexar_comm_free(dup);
    NXT_SAYS(w, nexar_mrecv(&msg, in, 3, NULL), NEXAR_EINVAL, "was freed");
    go(w, 1);
    NXT_OK(w, nexar_mprobe(w, 1, 4, &msg, NULL));
    NXT_SAYS(w, nexar_mrecv(NULL, in, 3, NULL), NEXAR_EINVAL, "msg is NULL");
    NXT_SAYS(w, nexar_mprobe(w, 1, 4, NULL, NULL), NEXAR_EINVAL, "msg is NULL");
    NXT_SAYS(w, nexar_mprobe(w, 2, 4, &msg, NULL), NEXAR_EINVAL, "no rank 2");
    NXT_SAYS(w, nexar_improbe(w, 1, 4, NULL, &msg, NULL), NEXAR_EINVAL, "found is NULL");
    NXT_SAYS(w, nexar_improbe(w, 1, 4, &there, NULL, NULL), NEXAR_EINVAL, "msg is NULL");
}

static void test_errors_keep_or_end_the_message(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, errors, NULL);
}

/* ---- scattered memory with a request ------------------------------------------------- */

static void scattered(nexar_comm *w, void *arg)
{
    enum { PIECES = 40, EACH = 1001 };
    static uint8_t buf[2][PIECES * EACH];
    uint8_t *mine = buf[nexar_rank(w)];
    nexar_iov iov[PIECES];
    nexar_request *req = NULL;
    nexar_status status;

    (void)arg;
    for (int n = 0; n <= PIECES; n += 20) {
        for (int i = 0; i < n; i++) {
            iov[i] = (nexar_iov){.ptr = mine + (size_t)(n - 1 - i) * EACH, .bytes = EACH};
        }
        if (nexar_rank(w) == 1) {
            nxt_fill(mine, (size_t)n * EACH, (uint64_t)n);
            NXT_OK(w, nexar_isendv(w, iov, (size_t)n, 0, 1, &req));
        } else {
            memset(mine, 0, sizeof(buf[0]));
            NXT_OK(w, nexar_irecvv(w, iov, (size_t)n, 1, 1, &req));
        }
        memset(iov, 0xff, sizeof(iov)); /* it was read */
        NXT_OK(w, nexar_wait(&req, &status));
        if (nexar_rank(w) == 0) {
            NXT_IS(w, status.bytes == (size_t)n * EACH);
            NXT_IS(w, nxt_filled(mine, (size_t)n * EACH, (uint64_t)n));
        }
    }
    NXT_SAYS(w, nexar_isendv(w, NULL, 2, 0, 1, &req), NEXAR_EINVAL, "isendv: iov of 2");
    NXT_SAYS(w, nexar_irecvv(w, iov, 0, 5, 1, &req), NEXAR_EINVAL, "irecvv: there is no rank 5");
    NXT_SAYS(w, nexar_irecvv(w, iov, 0, 0, 1, NULL), NEXAR_EINVAL, "irecvv: req is NULL");
}

static void test_scattered_messages_have_requests_too(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, scattered, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_message_found_belongs_to_its_finder),
        cmocka_unit_test(test_a_probe_that_waits_takes_the_first_message),
        cmocka_unit_test(test_threads_find_each_message_once_and_in_order),
        cmocka_unit_test(test_messages_held_back_by_their_sender_are_found),
        cmocka_unit_test(test_a_message_to_oneself_is_found),
        cmocka_unit_test(test_errors_keep_or_end_the_message),
        cmocka_unit_test(test_scattered_messages_have_requests_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
