/* p2p_test.c - point to point between ranks in one process. */
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <nexar.h>

#include "local_world.h"
#include "unit.h"

/* Around the limits of inline and eager messages, and beyond. */
static const size_t sizes[] = {0,     1,      7,      8191,   8192,    8193,
                               65536, 262143, 262144, 262145, 1 << 20, (4 << 20) + 3};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), LARGEST = (4 << 20) + 3 };

static void *memory(size_t bytes)
{
    void *p = calloc(1, bytes + 1);

    assert_non_null(p);
    return p;
}

/* ---- a world of one ------------------------------------------------------------------ */

static void test_without_a_cluster_the_world_is_this_process(void **state)
{
    nexar_comm *world = NULL;
    nexar_request *req = NULL;
    nexar_status status;
    char out[4] = "abc", in[4] = "";
    bool found = true;

    (void)state;
    assert_int_equal(nexar_init(NULL, &world), NEXAR_OK);
    assert_int_equal(nexar_rank(world), 0);
    assert_int_equal(nexar_size(world), 1);
    assert_int_equal(nexar_iprobe(world, 0, 7, &found, NULL), NEXAR_OK);
    assert_false(found);
    assert_int_equal(nexar_isend(world, out, 4, 0, 7, &req), NEXAR_OK);
    assert_int_equal(nexar_probe(world, NEXAR_ANY_SOURCE, NEXAR_ANY_TAG, &status), NEXAR_OK);
    assert_int_equal(status.bytes, 4);
    assert_int_equal(nexar_recv(world, in, 4, 0, 7, &status), NEXAR_OK);
    assert_string_equal(in, "abc");
    assert_int_equal(status.source, 0);
    assert_int_equal(status.tag, 7);
    assert_int_equal(nexar_wait(&req, NULL), NEXAR_OK);
    assert_null(req);
    assert_int_equal(nexar_finalize(world), NEXAR_OK);
}

static void test_bad_arguments_are_named(void **state)
{
    nexar_comm *world = NULL;
    nexar_request *req = NULL;
    char byte = 0, four[4] = "";
    bool found = true;

    (void)state;
    assert_int_equal(nexar_init(NULL, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_init(NULL, &world), NEXAR_OK);
    assert_int_equal(nexar_send(world, &byte, 1, 1, 0), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "no rank 1; ranks are 0 to 0"));
    assert_int_equal(nexar_send(world, &byte, 1, -1, 0), NEXAR_EINVAL);
    assert_int_equal(nexar_send(world, &byte, 1, 0, NEXAR_ANY_TAG), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "NEXAR_ANY_TAG"));
    assert_int_equal(nexar_send(world, &byte, SIZE_MAX, 0, 0), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "the message is longer than 2^62 - 1 bytes"));
    assert_int_equal(nexar_send(world, NULL, 1, 0, 0), NEXAR_EINVAL);
    assert_int_equal(nexar_send(NULL, &byte, 1, 0, 0), NEXAR_EINVAL);
    assert_int_equal(nexar_recv(world, &byte, 1, 2, 0, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_isend(world, &byte, 1, 0, 0, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_sendv(world, NULL, 2, 0, 0), NEXAR_EINVAL);
    assert_int_equal(nexar_sendrecv(world, four, 3, 0, 0, four + 2, 2, 0, 0, NULL), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "overlap"));
    assert_int_equal(nexar_iprobe(world, 0, 0, &found, NULL), NEXAR_OK);
    assert_false(found); /* no part of it was sent */
    assert_int_equal(nexar_sendrecv(world, four, 2, 0, 0, four + 2, 2, 0, 0, NULL), NEXAR_OK);
    assert_int_equal(nexar_wait(NULL, NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_wait(&req, NULL), NEXAR_OK);
    assert_int_equal(nexar_cancel(NULL), NEXAR_EINVAL);
    assert_int_equal(nexar_init_local(0, NULL, &world), NEXAR_EINVAL);
    assert_int_equal(nexar_rank(NULL), -1);
    assert_int_equal(nexar_finalize(world), NEXAR_OK);
    assert_int_equal(nexar_finalize(NULL), NEXAR_OK);
}

/* ---- between ranks ------------------------------------------------------------------- */

static void every_size(nexar_comm *w, void *arg)
{
    const int rank = nexar_rank(w), size = nexar_size(w);
    const int next = (rank + 1) % size, prev = (rank + size - 1) % size;
    unsigned char *out = memory(LARGEST), *in = memory(LARGEST);

    (void)arg;
    for (uint64_t i = 0; i < SIZES; i++) {
        nexar_status status;

        nxt_fill(out, sizes[i], 100 * (uint64_t)rank + i);
        NXT_OK(w, nexar_sendrecv(w, out, sizes[i], next, i, in, LARGEST, prev, i, &status));
        NXT_IS(w, status.bytes == sizes[i]);
        NXT_IS(w, (status.source == prev) && (status.tag == i));
        NXT_IS(w, nxt_filled(in, sizes[i], 100 * (uint64_t)prev + i));
    }
    free(out);
    free(in);
}

static void test_messages_of_every_size_arrive(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, every_size, NULL);
}

enum { MANY = 2000 };

/* Rank 0 sends to rank 1, which receives in another order. */
static void in_order(nexar_comm *w, void *arg)
{
    (void)arg;
    if (nexar_rank(w) == 0) {
        for (uint64_t i = 0; i < MANY; i++) {
            NXT_OK(w, nexar_send(w, &i, sizeof(i), 1, i % 3));
        }
        return;
    }
    for (uint64_t tag = 3; tag-- > 0;) {
        for (uint64_t expect = tag; expect < MANY; expect += 3) {
            uint64_t got = 0;

            NXT_OK(w, nexar_recv(w, &got, sizeof(got), 0, tag, NULL));
            NXT_IS(w, got == expect);
        }
    }
}

static void test_messages_of_one_tag_keep_their_order(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, in_order, NULL);
}

static void wildcards(nexar_comm *w, void *arg)
{
    const int size = nexar_size(w);

    (void)arg;
    if (nexar_rank(w) != 0) {
        int me = nexar_rank(w);

        NXT_OK(w, nexar_send(w, &me, sizeof(me), 0, (uint64_t)(10 + me)));
        return;
    }
    for (int i = 1; i < size; i++) {
        nexar_status probed, status;
        int who = 0;

        NXT_OK(w, nexar_probe(w, NEXAR_ANY_SOURCE, NEXAR_ANY_TAG, &probed));
        NXT_OK(w, nexar_recv(w, &who, sizeof(who), probed.source, probed.tag, &status));
        NXT_IS(w, (who == probed.source) && (status.tag == (uint64_t)(10 + who)));
    }
}

static void test_wildcards_take_what_comes(void **state)
{
    (void)state;
    nxt_local_world(5, NULL, wildcards, NULL);
}

static void truncated(nexar_comm *w, void *arg)
{
    unsigned char *buf = memory(1 << 20);

    (void)arg;
    for (uint64_t i = 1; i < SIZES - 1; i++) {
        if (nexar_rank(w) == 0) {
            nxt_fill(buf, sizes[i], i);
            NXT_OK(w, nexar_send(w, buf, sizes[i], 1, i));
        } else {
            nexar_status status = {0};
            size_t room = sizes[i] / 2;

            memset(buf, 0, 1 << 20);
            NXT_IS(w, nexar_recv(w, buf, room, 0, i, &status) == NEXAR_ETRUNC);
            NXT_IS(w, status.bytes == sizes[i]);
            NXT_IS(w, nxt_filled(buf, room, i) && (buf[room] == 0));
        }
    }
    free(buf);
}

static void test_a_message_that_is_too_long_is_cut_and_reported(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, truncated, NULL);
}

static void scattered(nexar_comm *w, void *arg)
{
    enum { PARTS = 40, EACH = 3001 };
    unsigned char *flat = memory(PARTS * EACH), *parts = memory(PARTS * (EACH + 5));
    nexar_iov iov[PARTS];

    (void)arg;
    for (size_t i = 0; i < PARTS; i++) {
        iov[i] = (nexar_iov){.ptr = parts + i * (EACH + 5), .bytes = EACH};
    }
    nxt_fill(flat, PARTS * EACH, 5);
    for (size_t i = 0; i < PARTS; i++) {
        memcpy(iov[i].ptr, flat + i * EACH, EACH);
    }
    if (nexar_rank(w) == 0) {
        NXT_OK(w, nexar_sendv(w, iov, PARTS, 1, 1));
        NXT_OK(w, nexar_send(w, flat, PARTS * EACH, 1, 2));
    } else {
        memset(flat, 0, PARTS * EACH);
        memset(parts, 0, PARTS * (EACH + 5));
        NXT_OK(w, nexar_recv(w, flat, PARTS * EACH, 0, 1, NULL));
        NXT_IS(w, nxt_filled(flat, PARTS * EACH, 5));
        NXT_OK(w, nexar_recvv(w, iov, PARTS, 0, 2, NULL));
        for (size_t i = 0; i < PARTS; i++) {
            NXT_IS(w, memcmp(iov[i].ptr, flat + i * EACH, EACH) == 0);
            NXT_IS(w, parts[i * (EACH + 5) + EACH] == 0);
        }
    }
    free(flat);
    free(parts);
}

static void test_scattered_memory_is_one_message(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, scattered, NULL);
}

/* ---- requests ------------------------------------------------------------------------ */

enum { OUT = 4000, ONE_BY_ONE = 500 };

static void outstanding(nexar_comm *w, void *arg)
{
    static nexar_request *requests[2][2 * OUT];
    static uint64_t in[2][OUT], out[2][OUT];
    const int me = nexar_rank(w), other = 1 - me;
    nexar_request **reqs = requests[me];

    (void)arg;
    for (int i = 0; i < OUT; i++) {
        out[me][i] = UINT64_C(10000) * (uint64_t)me + (uint64_t)i;
        NXT_OK(w, nexar_irecv(w, &in[me][i], 8, other, (uint64_t)i, &reqs[i]));
    }
    NXT_OK(w, nexar_barrier(w)); /* none of them has begun */
    for (int i = OUT; i-- > 0;) {
        NXT_OK(w, nexar_isend(w, &out[me][i], 8, other, (uint64_t)i, &reqs[OUT + i]));
    }
    for (int i = 0; i < ONE_BY_ONE; i++) {
        size_t index = 0;

        NXT_OK(w, nexar_wait_any(2 * OUT, reqs, &index, NULL));
        NXT_IS(w, (index < 2 * OUT) && (reqs[index] == NULL));
    }
    NXT_OK(w, nexar_wait_all(2 * OUT, reqs));
    for (int i = 0; i < OUT; i++) {
        NXT_IS(w, in[me][i] == UINT64_C(10000) * (uint64_t)other + (uint64_t)i);
    }
}

static void test_thousands_of_requests_are_outstanding_at_once(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, outstanding, NULL);
}

static void events(nexar_comm *w, void *arg)
{
    char byte = 1;

    (void)arg;
    if (nexar_rank(w) == 0) {
        NXT_OK(w, nexar_recv(w, &byte, 1, 1, 1, NULL));
        NXT_OK(w, nexar_send(w, &byte, 1, 1, 2));
        NXT_OK(w, nexar_recv(w, &byte, 1, 1, 3, NULL)); /* a rank that has left cannot send */
        return;
    }
    nexar_request *req = NULL, *never = NULL;
    struct pollfd p = {.events = POLLIN};
    bool done = false;

    NXT_OK(w, nexar_event_fd(w, &p.fd));
    NXT_IS(w, poll(&p, 1, 0) == 0);
    NXT_OK(w, nexar_irecv(w, &byte, 1, 0, 2, &req));
    NXT_OK(w, nexar_send(w, &byte, 1, 0, 1));
    NXT_IS(w, poll(&p, 1, 60000) == 1); /* the background thread makes progress */
    NXT_OK(w, nexar_test(&req, &done, NULL));
    NXT_IS(w, done && (req == NULL));
    NXT_IS(w, poll(&p, 1, 0) == 0);

    NXT_OK(w, nexar_irecv(w, &byte, 1, 0, 99, &never));
    NXT_OK(w, nexar_test(&never, &done, NULL));
    NXT_IS(w, !done && (never != NULL));
    NXT_OK(w, nexar_cancel(never));
    NXT_IS(w, nexar_wait(&never, NULL) == NEXAR_ECANCELED);
    NXT_OK(w, nexar_send(w, &byte, 1, 0, 3));
}

static void test_the_event_descriptor_tells_and_cancel_ends(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, events, NULL);
}

/* ---- a flood of unexpected messages -------------------------------------------------- */

enum { FLOOD_BYTES = 1 << 20 };

/* |arg|: the number of messages. */
static void flood(nexar_comm *w, void *arg)
{
    const uint64_t n = *(const uint64_t *)arg;
    unsigned char *buf = memory(FLOOD_BYTES);

    if (nexar_rank(w) == 0) {
        nexar_request **reqs = memory(n * sizeof(nexar_request *));

        nxt_fill(buf, FLOOD_BYTES, 9);
        for (uint64_t i = 0; i < n; i++) {
            NXT_OK(w, nexar_isend(w, buf, FLOOD_BYTES, 1, i, &reqs[i]));
        }
        NXT_OK(w, nexar_wait_all(n, reqs));
        free(reqs);
        free(buf);
        return;
    }
    NXT_OK(w, nexar_probe(w, 0, n - 1, NULL)); /* the last one is known */
    for (uint64_t i = n; i-- > 0;) {
        memset(buf, 0, FLOOD_BYTES);
        NXT_OK(w, nexar_recv(w, buf, FLOOD_BYTES, 0, i, NULL));
        NXT_IS(w, nxt_filled(buf, FLOOD_BYTES, 9));
    }
    free(buf);
}

static void test_a_flood_is_received_in_reverse_order(void **state)
{
    nexar_config *cfg = NULL;
    uint64_t n = (getenv("NXT_LONG") != NULL) ? 10000 : 300; // NOLINT(concurrency-mt-unsafe)

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "unexpected", "4m"), NEXAR_OK);
    nxt_local_world(2, cfg, flood, &n);
    nexar_config_free(cfg);
}

/* ---- threads of one rank ------------------------------------------------------------- */

enum { THREADS = 4, EXCHANGES = 200 };

typedef struct job {
    nexar_comm *world;
    uint64_t tag;
} job;

static void *exchange(void *arg)
{
    const job *j = arg;
    const int other = 1 - nexar_rank(j->world);

    for (uint64_t i = 0; i < EXCHANGES; i++) {
        uint64_t out = j->tag * 1000 + i, in = 0;

        NXT_OK(j->world,
               nexar_sendrecv(j->world, &out, 8, other, j->tag, &in, 8, other, j->tag, NULL));
        NXT_IS(j->world, in == out);
    }
    return NULL;
}

static void many_threads(nexar_comm *w, void *arg)
{
    pthread_t threads[THREADS];
    job jobs[THREADS];

    (void)arg;
    for (uint64_t i = 0; i < THREADS; i++) {
        jobs[i] = (job){.world = w, .tag = i};
        NXT_IS(w, pthread_create(&threads[i], NULL, exchange, &jobs[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(threads[i], NULL);
    }
}

static void test_threads_of_one_rank_exchange_at_once(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, many_threads, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_a_cluster_the_world_is_this_process),
        cmocka_unit_test(test_bad_arguments_are_named),
        cmocka_unit_test(test_messages_of_every_size_arrive),
        cmocka_unit_test(test_messages_of_one_tag_keep_their_order),
        cmocka_unit_test(test_wildcards_take_what_comes),
        cmocka_unit_test(test_a_message_that_is_too_long_is_cut_and_reported),
        cmocka_unit_test(test_scattered_memory_is_one_message),
        cmocka_unit_test(test_thousands_of_requests_are_outstanding_at_once),
        cmocka_unit_test(test_the_event_descriptor_tells_and_cancel_ends),
        cmocka_unit_test(test_a_flood_is_received_in_reverse_order),
        cmocka_unit_test(test_threads_of_one_rank_exchange_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
