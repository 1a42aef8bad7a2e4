/* completion_test.c - waiting and testing with time-outs, for all, any and some. */
#include <nexar.h>
#include <string.h>

#include "local_world.h"
#include "unit.h"

#define SHORT_NS UINT64_C(5000000)
#define LONG_NS  UINT64_C(60000000000)

enum { N = 4, GO = 100 };

/* Rank 1 sends the messages 0 to N - 1, the first |first| of them at once and the rest on request
 * of rank 0. */
static void serve(nexar_comm *w, int first)
{
    char go = 0;

    for (int i = 0; i < N; i++) {
        if (i == first) {
            NXT_OK(w, nexar_recv(w, &go, 1, 0, GO, NULL));
        }
        NXT_OK(w, nexar_send(w, &i, sizeof(i), 0, (uint64_t)i));
    }
}

static void post(nexar_comm *w, int got[N], nexar_request *reqs[N])
{
    for (int i = 0; i < N; i++) {
        got[i] = -1;
        NXT_OK(w, nexar_irecv(w, &got[i], sizeof(got[i]), 1, (uint64_t)i, &reqs[i]));
    }
}

static void go(nexar_comm *w)
{
    const char byte = 1;

    NXT_OK(w, nexar_send(w, &byte, 1, 1, GO));
}

static void one(nexar_comm *w, void *arg)
{
    nexar_request *reqs[N];
    nexar_status status = {.source = 77};
    int got[N];

    (void)arg;
    if (nexar_rank(w) == 1) {
        serve(w, 0);
        return;
    }
    post(w, got, reqs);
    NXT_SAYS(w, nexar_wait_for(&reqs[2], SHORT_NS, &status), NEXAR_ETIMEDOUT,
             "wait_for: irecv(from rank 1, tag 2) had not completed after 5ms");
    NXT_SAYS(w, nexar_wait_for(&reqs[2], 0, &status), NEXAR_ETIMEDOUT, "after 0");
    NXT_IS(w, (reqs[2] != NULL) && (status.source == 77));
    go(w);
    NXT_OK(w, nexar_wait_for(&reqs[2], LONG_NS, &status));
    NXT_IS(w, (reqs[2] == NULL) && (status.source == 1) && (got[2] == 2));
    NXT_OK(w, nexar_wait_for(&reqs[2], 0, &status));
    NXT_OK(w, nexar_wait_for(&reqs[0], UINT64_MAX, NULL));
    NXT_OK(w, nexar_wait_all(N, reqs));
}

static void test_a_wait_times_out_and_leaves_the_request(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, one, NULL);
}

static void all(nexar_comm *w, void *arg)
{
    nexar_request *reqs[N];
    bool done = true;
    int got[N];

    (void)arg;
    if (nexar_rank(w) == 1) {
        serve(w, 2);
        return;
    }
    post(w, got, reqs);
    NXT_OK(w, nexar_wait_for(&reqs[0], LONG_NS, NULL));
    NXT_SAYS(w, nexar_wait_all_for(N, reqs, SHORT_NS), NEXAR_ETIMEDOUT,
             "2 of 4 requests had not completed after 5ms; the first: "
             "irecv(from rank 1, tag 2)");
    NXT_IS(w, (reqs[1] != NULL) && (reqs[2] != NULL) && (reqs[3] != NULL));
    NXT_OK(w, nexar_test_all(N, reqs, &done));
    NXT_IS(w, !done && (reqs[1] != NULL));
    go(w);
    NXT_OK(w, nexar_wait_all_for(N, reqs, LONG_NS));
    NXT_IS(w, (reqs[1] == NULL) && (reqs[3] == NULL) && (got[3] == 3));
    NXT_OK(w, nexar_test_all(N, reqs, &done));
    NXT_IS(w, done);
    NXT_OK(w, nexar_wait_all_for(0, NULL, 0));
}

static void test_waiting_for_all_claims_none_before_all_have_completed(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, all, NULL);
}

static void any(nexar_comm *w, void *arg)
{
    nexar_request *reqs[N];
    bool done = true;
    size_t index = 99;
    int got[N];

    (void)arg;
    if (nexar_rank(w) == 1) {
        serve(w, 0);
        return;
    }
    post(w, got, reqs);
    NXT_SAYS(w, nexar_wait_any_for(N, reqs, SHORT_NS, &index, NULL), NEXAR_ETIMEDOUT,
             "4 of 4 requests had not completed");
    NXT_OK(w, nexar_test_any(N, reqs, &done, &index, NULL));
    NXT_IS(w, !done && (index == 99));
    go(w);
    NXT_OK(w, nexar_wait_any_for(N, reqs, LONG_NS, &index, NULL));
    NXT_IS(w, (index < N) && (reqs[index] == NULL) && (got[index] == (int)index));
    for (int left = N - 1; left > 0; left -= done ? 1 : 0) {
        NXT_OK(w, nexar_test_any(N, reqs, &done, &index, NULL));
    }
    NXT_SAYS(w, nexar_test_any(N, reqs, &done, &index, NULL), NEXAR_EINVAL, "none of the 4");
    NXT_IS(w, index == N);
}

static void test_waiting_for_any_times_out_and_leaves_all(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, any, NULL);
}

/* The buffer of the third receive is too small. */
static void some(nexar_comm *w, void *arg)
{
    nexar_request *reqs[N];
    size_t indices[N], done = 99, sum = 0;
    nexar_err errs[N];
    bool all_there = false, truncated = false;
    int got[N];

    (void)arg;
    if (nexar_rank(w) == 1) {
        serve(w, 0);
        return;
    }
    post(w, got, reqs);
    NXT_OK(w, nexar_cancel(reqs[2]));
    NXT_SAYS(w, nexar_wait(&reqs[2], NULL), NEXAR_ECANCELED, "");
    NXT_OK(w, nexar_irecv(w, &got[2], 1, 1, 2, &reqs[2]));
    go(w);
    for (int claimed = 0; claimed < N; claimed += (int)done) {
        const nexar_err err = nexar_wait_some(N, reqs, indices, errs, &done);

        NXT_IS(w, (done >= 1) && ((err == NEXAR_OK) || (err == NEXAR_ETRUNC)));
        for (size_t k = 0; k < done; k++) {
            NXT_IS(w, reqs[indices[k]] == NULL);
            NXT_IS(w, errs[k] == ((indices[k] == 2) ? NEXAR_ETRUNC : NEXAR_OK));
            truncated = truncated || ((indices[k] == 2) && (err == NEXAR_ETRUNC));
            sum += indices[k];
        }
    }
    NXT_IS(w, truncated && (sum == 0 + 1 + 2 + 3));
    NXT_SAYS(w, nexar_wait_some(N, reqs, indices, NULL, &done), NEXAR_EINVAL, "none of the 4");
    NXT_IS(w, done == 0);
    NXT_OK(w, nexar_test_all(N, reqs, &all_there));
    NXT_IS(w, all_there);
}

static void test_waiting_for_some_claims_all_that_have_completed(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, some, NULL);
}

/* A rank that waits for one message at a time, with a time-out that passes, loses none. */
static void polls(nexar_comm *w, void *arg)
{
    enum { MANY = 300 };
    nexar_request *req = NULL;
    nexar_err err;

    (void)arg;
    for (int i = 0; i < MANY; i++) {
        int got = -1;

        if (nexar_rank(w) == 1) {
            NXT_OK(w, nexar_send(w, &i, sizeof(i), 0, 1));
            continue;
        }
        NXT_OK(w, nexar_irecv(w, &got, sizeof(got), 1, 1, &req));
        do {
            err = nexar_wait_for(&req, 1000, NULL);
        } while ((err == NEXAR_ETIMEDOUT) && (req != NULL));
        NXT_IS(w, (err == NEXAR_OK) && (got == i));
    }
}

static void test_time_outs_lose_no_message(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, polls, NULL);
}

/* A collective that not all have called yet, with and without retry. */
static void collective(nexar_comm *w, void *arg)
{
    nexar_request *req = NULL;

    (void)arg;
    if (nexar_rank(w) == 1) {
        char byte;

        NXT_OK(w, nexar_recv(w, &byte, 1, 0, GO, NULL));
        NXT_OK(w, nexar_barrier(w));
        return;
    }
    NXT_OK(w, nexar_ibarrier(w, &req));
    NXT_SAYS(w, nexar_wait_for(&req, SHORT_NS, NULL), NEXAR_ETIMEDOUT, "a collective");
    NXT_IS(w, req != NULL);
    go(w);
    NXT_OK(w, nexar_wait_for(&req, LONG_NS, NULL));
}

static void test_a_collective_is_waited_for_with_a_time_out(void **state)
{
    nexar_config *cfg;

    (void)state;
    nxt_local_world(2, NULL, collective, NULL);
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "recovery", "automatic"), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "retry", "on"), NEXAR_OK);
    nxt_local_world(2, cfg, collective, NULL);
    nexar_config_free(cfg);
}

static nexar_err slow(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    nexar_comm *w = arg;
    char byte;

    (void)call;
    (void)data;
    (void)bytes;
    return nexar_recv(w, &byte, 1, 0, GO, NULL);
}

static void call_times_out(nexar_comm *w, void *arg)
{
    nexar_request *req = NULL;
    void *reply = NULL;
    size_t bytes;

    (void)arg;
    if (nexar_rank(w) == 1) {
        NXT_OK(w, nexar_rpc_register(w, 1, slow, w));
    }
    NXT_OK(w, nexar_barrier(w));
    if (nexar_rank(w) == 0) {
        NXT_OK(w, nexar_rpc_icall(w, 1, 1, NULL, 0, &reply, &bytes, &req));
        NXT_SAYS(w, nexar_wait_for(&req, LONG_NS, NULL), NEXAR_ETIMEDOUT, "rpc_icall");
        NXT_IS(w, req == NULL);
        go(w);
    }
    NXT_OK(w, nexar_barrier(w));
}

/* A call with a time-out of its own. */
static void call_for(nexar_comm *w, void *arg)
{
    (void)arg;
    if (nexar_rank(w) == 1) {
        NXT_OK(w, nexar_rpc_register(w, 1, slow, w));
    }
    NXT_OK(w, nexar_barrier(w));
    if (nexar_rank(w) == 0) {
        NXT_SAYS(w, nexar_rpc_call_for(w, 1, 1, NULL, 0, SHORT_NS, NULL, NULL), NEXAR_ETIMEDOUT,
                 "rpc_call_for of function 1");
        go(w);
        go(w);
        NXT_OK(w, nexar_rpc_call_for(w, 1, 1, NULL, 0, LONG_NS, NULL, NULL));
        go(w);
        NXT_OK(w, nexar_rpc_call_for(w, 1, 1, NULL, 0, 0, NULL, NULL));
    }
    NXT_OK(w, nexar_barrier(w));
}

static void test_a_call_has_a_time_out_of_its_own(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, call_for, NULL);
}

static void test_an_operation_that_times_out_itself_has_completed(void **state)
{
    nexar_config *cfg;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "rpc_timeout", "20ms"), NEXAR_OK);
    nxt_local_world(2, cfg, call_times_out, NULL);
    nexar_config_free(cfg);
}

static void misuse(nexar_comm *w, void *arg)
{
    nexar_request *none[2] = {NULL, NULL};
    size_t index = 7, indices[2], done = 7;
    bool is = false;

    (void)arg;
    NXT_SAYS(w, nexar_wait_for(NULL, 0, NULL), NEXAR_EINVAL, "wait_for: req is NULL");
    NXT_SAYS(w, nexar_wait_all_for(1, NULL, 0), NEXAR_EINVAL, "wait_all_for: reqs is NULL");
    NXT_SAYS(w, nexar_wait_any_for(1, NULL, 0, &index, NULL), NEXAR_EINVAL, "reqs is NULL");
    NXT_SAYS(w, nexar_wait_any_for(2, none, 0, NULL, NULL), NEXAR_EINVAL, "index is NULL");
    NXT_SAYS(w, nexar_wait_any_for(2, none, 0, &index, NULL), NEXAR_EINVAL, "none of the 2");
    NXT_IS(w, index == 2);
    NXT_SAYS(w, nexar_wait_some(2, none, NULL, NULL, &done), NEXAR_EINVAL, "indices is NULL");
    NXT_SAYS(w, nexar_wait_some(2, none, indices, NULL, NULL), NEXAR_EINVAL, "done is NULL");
    NXT_SAYS(w, nexar_test_any(2, none, NULL, &index, NULL), NEXAR_EINVAL, "done is NULL");
    NXT_SAYS(w, nexar_test_any(2, none, &is, NULL, NULL), NEXAR_EINVAL, "index is NULL");
    NXT_SAYS(w, nexar_test_all(2, none, NULL), NEXAR_EINVAL, "done is NULL");
    NXT_OK(w, nexar_test_all(2, none, &is));
    NXT_IS(w, is);
}

static void test_misuse_is_refused_in_words(void **state)
{
    (void)state;
    nxt_local_world(1, NULL, misuse, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_times_out_and_leaves_the_request),
        cmocka_unit_test(test_waiting_for_all_claims_none_before_all_have_completed),
        cmocka_unit_test(test_waiting_for_any_times_out_and_leaves_all),
        cmocka_unit_test(test_waiting_for_some_claims_all_that_have_completed),
        cmocka_unit_test(test_time_outs_lose_no_message),
        cmocka_unit_test(test_a_collective_is_waited_for_with_a_time_out),
        cmocka_unit_test(test_an_operation_that_times_out_itself_has_completed),
        cmocka_unit_test(test_a_call_has_a_time_out_of_its_own),
        cmocka_unit_test(test_misuse_is_refused_in_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
