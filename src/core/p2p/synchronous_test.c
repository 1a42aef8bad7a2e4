/* synchronous_test.c - sends that complete when a receive has taken them; matched probes with a
 * request. */
#include <nexar.h>
#include <stdlib.h>
#include <string.h>

#include "core/p2p/p2p_request.h"
#include "local_world.h"
#include "unit.h"

enum { GO = 1000, LONG = 3 << 20 };

static void go(nexar_comm *w, int to)
{
    NXT_OK(w, nexar_send(w, "g", 1, to, GO));
}

static void await_go(nexar_comm *w, int from)
{
    char byte;

    NXT_OK(w, nexar_recv(w, &byte, 1, from, GO, NULL));
}

static nexar_request *issend(nexar_comm *w, const void *buf, size_t bytes, int dest, uint64_t tag)
{
    const nexar_iov iov[2] = {{(void *)(uintptr_t)buf, bytes / 2},
                              {(char *)(uintptr_t)buf + bytes / 2, bytes - bytes / 2}};
    nexar_request *req = NULL;

    NXT_OK(w, nx_p2p_issendv(w, iov, 2, dest, tag, &req));
    return req;
}

static bool is_done(nexar_comm *w, nexar_request **req)
{
    bool done = false;

    NXT_OK(w, nexar_test(req, &done, NULL));
    return done;
}

static const size_t lengths[] = {0, 1, 33, 5000, 200000, LONG};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]), WAYS = 3 };

static void receive(nexar_comm *w, uint8_t *in, size_t bytes, int way)
{
    nexar_message *msg = NULL;
    nexar_request *req = NULL;
    nexar_status status;

    if (way == 0) { /* the message waits */
        await_go(w, 0);
        NXT_OK(w, nexar_probe(w, 0, 7, NULL));
        go(w, 0);
        await_go(w, 0);
        NXT_OK(w, nexar_recv(w, in, bytes, 0, 7, &status));
    } else if (way == 1) { /* the receive waits */
        NXT_OK(w, nexar_irecv(w, in, bytes, 0, 7, &req));
        go(w, 0);
        NXT_OK(w, nexar_wait(&req, &status));
    } else { /* a matched probe does not receive it */
        NXT_OK(w, nexar_mprobe(w, 0, 7, &msg, NULL));
        go(w, 0);
        await_go(w, 0);
        NXT_OK(w, nexar_mrecv(&msg, in, bytes, &status));
    }
    NXT_IS(w, (status.bytes == bytes) && nxt_filled(in, bytes, (uint64_t)way + 1));
}

static void transmit(nexar_comm *w, uint8_t *out, size_t bytes, int way)
{
    nexar_request *req;

    nxt_fill(out, bytes, (uint64_t)way + 1);
    if (way == 1) {
        await_go(w, 1);
    }
    req = issend(w, out, bytes, 1, 7);
    if (way == 0) {
        go(w, 1);
    }
    if (way != 1) {
        await_go(w, 1);
        NXT_IS(w, !is_done(w, &req));
        go(w, 1);
    }
    NXT_OK(w, nexar_wait(&req, NULL));
}

static void pair(nexar_comm *w, void *arg)
{
    uint8_t *buf = malloc(LONG);

    (void)arg;
    for (int way = 0; way < WAYS; way++) {
        for (size_t i = 0; i < LENGTHS; i++) {
            (nexar_rank(w) == 0 ? transmit : receive)(w, buf, lengths[i], way);
        }
    }
    NXT_OK(w, nexar_barrier(w));
    free(buf);
}

static void test_a_synchronous_send_ends_with_its_receive(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, pair, NULL);
}

static void oneself(nexar_comm *w, void *arg)
{
    uint8_t *out = malloc(LONG), *in = malloc(LONG);

    (void)arg;
    for (size_t i = 0; i < LENGTHS; i++) {
        nexar_request *req;

        nxt_fill(out, lengths[i], 5);
        req = issend(w, out, lengths[i], 0, 7);
        NXT_IS(w, !is_done(w, &req));
        NXT_OK(w, nexar_recv(w, in, lengths[i], 0, 7, NULL));
        NXT_OK(w, nexar_wait(&req, NULL));
        NXT_IS(w, nxt_filled(in, lengths[i], 5));
    }
    free(out);
    free(in);
}

static void test_a_synchronous_send_to_oneself_too(void **state)
{
    (void)state;
    nxt_local_world(1, NULL, oneself, NULL);
}

/* Some are cancelled before a receive is posted; for others the peer frees the communicator. */
static void unreceived(nexar_comm *w, void *arg)
{
    nexar_comm *dup = NULL;
    bool found = true;

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &dup));
    if (nexar_rank(w) == 0) {
        nexar_request *lost[2];

        for (size_t i = 0; i < 2; i++) {
            nexar_request *req = issend(w, "abc", 3 * i, 1, 1);

            lost[i] = issend(dup, "abc", 3 * i, 1, 1);
            NXT_OK(w, nexar_cancel(req));
            NXT_SAYS(w, nexar_wait(&req, NULL), NEXAR_ECANCELED, "issend to rank 1");
        }
        go(w, 1);
        for (size_t i = 0; i < 2; i++) {
            const nexar_err err = nexar_wait(&lost[i], NULL);

            NXT_IS(w, (err == NEXAR_OK) || (err == NEXAR_EREVOKED));
        }
    } else {
        await_go(w, 0);
        NXT_OK(w, nexar_iprobe(w, 0, 1, &found, NULL));
        NXT_IS(w, !found);
    }
    nexar_comm_free(dup);
    NXT_OK(w, nexar_barrier(w));
}

static void test_one_that_nobody_receives_ends(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, unreceived, NULL);
}

/* Requests of matched probes take messages in the order in which they and receives were posted. */
static void matches(nexar_comm *w, void *arg)
{
    nexar_request *first = NULL, *second = NULL, *never = NULL;
    nexar_message *msg = NULL, *none = NULL;
    nexar_status status;
    char in[8] = "";

    (void)arg;
    if (nexar_rank(w) == 1) {
        await_go(w, 0);
        NXT_OK(w, nexar_send(w, "one", 4, 0, 3));
        NXT_OK(w, nexar_send(w, "three", 6, 0, 3));
        await_go(w, 0);
        NXT_OK(w, nexar_send(w, "four", 4, 0, 4));
        await_go(w, 0);
        return;
    }
    NXT_OK(w, nx_p2p_imatch(w, 1, 3, &msg, &first));
    NXT_OK(w, nexar_irecv(w, in, sizeof(in), 1, 3, &second));
    NXT_OK(w, nx_p2p_imatch(w, NEXAR_ANY_SOURCE, 9, &none, &never));
    go(w, 1);
    NXT_OK(w, nexar_wait(&second, &status));
    NXT_IS(w, (status.bytes == 6) && (strcmp(in, "three") == 0));
    NXT_OK(w, nexar_wait(&first, &status));
    NXT_IS(w, (msg != NULL) && (status.bytes == 4) && (status.source == 1) && (status.tag == 3));
    NXT_OK(w, nexar_mrecv(&msg, in, sizeof(in), NULL));
    NXT_IS(w, strcmp(in, "one") == 0);
    NXT_OK(w, nexar_cancel(never));
    NXT_OK(w, nx_p2p_iprobe(w, 1, 4, &second));
    go(w, 1);
    NXT_OK(w, nexar_wait(&second, &status));
    NXT_IS(w, (status.bytes == 4) && (status.source == 1) && (status.tag == 4));
    NXT_SAYS(w, nexar_wait(&never, NULL), NEXAR_ECANCELED, "mprobe");
    NXT_IS(w, none == NULL);
    go(w, 1);
    NXT_SAYS(w, nx_p2p_imatch(w, 2, 3, &msg, &first), NEXAR_EINVAL, "no rank 2");
}

static void *allocate(size_t bytes, void *arg)
{
    return (arg != NULL) ? NULL : malloc(bytes + 1);
}

/* Messages of any length are received by requests that were posted before, in order; that ends a
 * synchronous send. */
static void any_length(nexar_comm *w, void *arg)
{
    nx_p2p_room rooms[LENGTHS] = {{.alloc = NULL}}, none = {.alloc = allocate, .arg = &none};
    nexar_request *reqs[LENGTHS] = {NULL}, *req = NULL;
    uint8_t *out = malloc(LONG);
    const int other = nexar_size(w) - 1;

    (void)arg;
    if (nexar_rank(w) == 0) {
        for (size_t i = 0; i < LENGTHS; i++) {
            rooms[i].alloc = allocate;
            NXT_OK(w, nx_p2p_irecv_any(w, NEXAR_ANY_SOURCE, 7, &rooms[i], &reqs[i]));
        }
        go(w, other);
    }
    if (nexar_rank(w) == other) {
        await_go(w, 0);
        for (size_t i = 0; i < LENGTHS; i++) {
            nxt_fill(out, lengths[i], i);
            req = issend(w, out, lengths[i], 0, 7);
            NXT_OK(w, nexar_wait(&req, NULL));
        }
    }
    for (size_t i = 0; (nexar_rank(w) == 0) && (i < LENGTHS); i++) {
        nexar_status status;

        NXT_OK(w, nexar_wait(&reqs[i], &status));
        NXT_IS(w, (status.bytes == lengths[i]) && (rooms[i].bytes == lengths[i]));
        NXT_IS(w, (status.source == other) && (status.tag == 7));
        NXT_IS(w, nxt_filled(rooms[i].ptr, lengths[i], i));
        free(rooms[i].ptr);
    }
    if ((nexar_rank(w) == 0) && (other != 0)) {
        NXT_OK(w, nx_p2p_irecv_any(w, other, 8, &none, &req));
        go(w, other);
        NXT_SAYS(w, nexar_wait(&req, NULL), NEXAR_ENOMEM, "irecv");
        NXT_OK(w, nx_p2p_irecv_any(w, other, 9, &rooms[0], &req));
        NXT_OK(w, nexar_cancel(req));
        NXT_SAYS(w, nexar_wait(&req, NULL), NEXAR_ECANCELED, "irecv");
    }
    if ((nexar_rank(w) == other) && (other != 0)) {
        await_go(w, 0);
        NXT_OK(w, nexar_send(w, out, 10, 0, 8));
    }
    NXT_OK(w, nexar_barrier(w));
    free(out);
}

static void test_receives_of_any_length(void **state)
{
    (void)state;
    nxt_local_world(1, NULL, any_length, NULL);
    nxt_local_world(2, NULL, any_length, NULL);
}

static void test_matched_probes_with_a_request(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, matches, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_synchronous_send_ends_with_its_receive),
        cmocka_unit_test(test_a_synchronous_send_to_oneself_too),
        cmocka_unit_test(test_one_that_nobody_receives_ends),
        cmocka_unit_test(test_receives_of_any_length),
        cmocka_unit_test(test_matched_probes_with_a_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
