/* cancel_test.c - nexar_cancel of sends: a message arrives complete or not at all. */
#include <stdlib.h>
#include <string.h>

#include <nexar.h>

#include "local_world.h"
#include "unit.h"

/* Short, as long as eager messages may be, longer; each as often as would use up the credit of a
 * peer. */
static const size_t sizes[] = {0, 8, 65536, 1 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), LARGEST = 1 << 20, TIMES = 20 };

static unsigned char *memory(size_t bytes)
{
    unsigned char *p = calloc(1, bytes);

    assert_non_null(p);
    return p;
}

/* Cancels and waits.  The memory then belongs to the caller, and is overwritten at once: a later
 * read would send wrong data. */
static nexar_err end_send(nexar_comm *w, nexar_request **req, unsigned char *buf, size_t bytes)
{
    nexar_err err;

    NXT_OK(w, nexar_cancel(*req));
    err = nexar_wait(req, NULL);
    NXT_IS(w, ((err == NEXAR_OK) || (err == NEXAR_ECANCELED)) && (*req == NULL));
    memset(buf, 0xff, bytes);
    return err;
}

/* ---- before it is matched ------------------------------------------------------------ */

/* No receive is posted.  A short message may have been sent already: then it arrives. */
static void send_unasked(nexar_comm *w, unsigned char *buf, size_t bytes, uint64_t seed)
{
    nexar_request *req = NULL;
    uint64_t came;

    nxt_fill(buf, bytes, seed);
    NXT_OK(w, nexar_isend(w, buf, bytes, 1, 1, &req));
    came = (end_send(w, &req, buf, bytes) == NEXAR_OK);
    NXT_IS(w, !came || (bytes <= 65536));
    NXT_OK(w, nexar_send(w, &came, sizeof(came), 1, 2));
    nxt_fill(buf, bytes, seed + 1);
    NXT_OK(w, nexar_send(w, buf, bytes, 1, 1));
}

static void receive_unasked(nexar_comm *w, unsigned char *buf, size_t bytes, uint64_t seed)
{
    uint64_t came = 2;

    NXT_OK(w, nexar_recv(w, &came, sizeof(came), 0, 2, NULL));
    for (uint64_t i = (came == 1) ? 0 : 1; i < 2; i++) {
        nexar_status status = {0};

        memset(buf, 0, bytes);
        NXT_OK(w, nexar_recv(w, buf, bytes, 0, 1, &status));
        NXT_IS(w, (status.bytes == bytes) && nxt_filled(buf, bytes, seed + i));
    }
}

static void unasked(nexar_comm *w, void *arg)
{
    unsigned char *buf = memory(LARGEST);
    bool found = true;

    (void)arg;
    for (uint64_t i = 0; i < SIZES; i++) {
        for (uint64_t k = 0; k < TIMES; k++) {
            if (nexar_rank(w) == 0) {
                send_unasked(w, buf, sizes[i], 100 * i + 2 * k);
            } else {
                receive_unasked(w, buf, sizes[i], 100 * i + 2 * k);
            }
        }
    }
    NXT_OK(w, nexar_iprobe(w, NEXAR_ANY_SOURCE, NEXAR_ANY_TAG, &found, NULL));
    NXT_IS(w, !found);
    free(buf);
}

static void test_an_unrequested_send_never_arrives(void **state)
{
    nexar_config *cfg = NULL;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "unexpected", "4m"), NEXAR_OK);
    nxt_local_world(2, cfg, unasked, NULL);
    nexar_config_free(cfg);
}

/* A short message is copied, and done: a long one is not. */
static void test_a_send_to_oneself_never_comes(void **state)
{
    unsigned char *out = memory(LARGEST), *in = memory(LARGEST);
    nexar_comm *w = NULL;
    nexar_request *req = NULL;
    bool found = true;

    (void)state;
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK);
    nxt_fill(out, LARGEST, 1);
    NXT_OK(w, nexar_isend(w, out, LARGEST, 0, 1, &req));
    NXT_OK(w, nexar_cancel(req)); /* the second time it has ended */
    NXT_IS(w, end_send(w, &req, out, LARGEST) == NEXAR_ECANCELED);
    NXT_OK(w, nexar_iprobe(w, 0, 1, &found, NULL));
    NXT_IS(w, !found);
    nxt_fill(out, LARGEST, 2);
    NXT_OK(w, nexar_isend(w, out, LARGEST, 0, 1, &req));
    NXT_OK(w, nexar_recv(w, in, LARGEST, 0, 1, NULL));
    NXT_IS(w, end_send(w, &req, out, LARGEST) == NEXAR_OK);
    NXT_IS(w, nxt_filled(in, LARGEST, 2));
    NXT_OK(w, nexar_finalize(w));
    free(out);
    free(in);
}

/* ---- after completion ---------------------------------------------------------------- */

static void done(nexar_comm *w, void *arg)
{
    unsigned char *buf = memory(LARGEST);

    (void)arg;
    for (uint64_t i = 0; i < SIZES; i++) {
        nexar_request *req = NULL;

        if (nexar_rank(w) == 0) {
            nxt_fill(buf, sizes[i], i);
            NXT_OK(w, nexar_isend(w, buf, sizes[i], 1, i, &req));
            NXT_OK(w, nexar_recv(w, NULL, 0, 1, i, NULL)); /* it is there */
            NXT_IS(w, end_send(w, &req, buf, sizes[i]) == NEXAR_OK);
        } else {
            memset(buf, 0, LARGEST);
            NXT_OK(w, nexar_recv(w, buf, LARGEST, 0, i, NULL));
            NXT_OK(w, nexar_send(w, NULL, 0, 0, i));
            NXT_IS(w, nxt_filled(buf, sizes[i], i));
        }
    }
    free(buf);
}

static void test_a_send_that_is_done_stays_done(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, done, NULL);
}

/* ---- half way ------------------------------------------------------------------------ */

enum { LONG_BYTES = 8 << 20, ROUNDS = 24 };

/* Polls |looks| times whether the message has been sent, then cancels it.  Returns whether it was
 * sent. */
static uint64_t send_some(nexar_comm *w, unsigned char *buf, uint64_t looks)
{
    nexar_request *req = NULL;
    bool over = false;

    NXT_OK(w, nexar_isend(w, buf, LONG_BYTES, 1, 1, &req));
    for (uint64_t i = 0; (i < looks) && !over; i++) {
        NXT_OK(w, nexar_test(&req, &over, NULL));
    }
    return over || (end_send(w, &req, buf, LONG_BYTES) == NEXAR_OK);
}

/* A message with the outcome of the send follows it, with the same tag. */
static void half_way_sender(nexar_comm *w, unsigned char *buf, uint64_t round)
{
    uint64_t came;

    nxt_fill(buf, LONG_BYTES, round);
    NXT_OK(w, nexar_recv(w, NULL, 0, 1, 2, NULL)); /* the receive is posted */
    came = send_some(w, buf, (round == 0) ? 0 : UINT64_C(1) << (round / 2));
    NXT_OK(w, nexar_send(w, &came, sizeof(came), 1, 1));
}

/* The receive got the complete message, or an error because it was cancelled, or the message behind
 * it. */
static void half_way_receiver(nexar_comm *w, unsigned char *buf, uint64_t round)
{
    nexar_request *req = NULL;
    nexar_status status = {0};
    uint64_t came = 2;
    nexar_err err;

    memset(buf, 0, LONG_BYTES);
    NXT_OK(w, nexar_irecv(w, buf, LONG_BYTES, 0, 1, &req));
    NXT_OK(w, nexar_send(w, NULL, 0, 0, 2));
    err = nexar_wait(&req, &status);
    if (err == NEXAR_ECANCELED) {
        NXT_SAYS(w, err, NEXAR_ECANCELED, "cancelled");
    }
    if ((err == NEXAR_OK) && (status.bytes == sizeof(came))) {
        memcpy(&came, buf, sizeof(came));
        NXT_IS(w, came == 0);
        return;
    }
    NXT_OK(w, nexar_recv(w, &came, sizeof(came), 0, 1, NULL));
    NXT_IS(w, err == ((came == 1) ? NEXAR_OK : NEXAR_ECANCELED));
    if (came == 1) {
        NXT_IS(w, (status.bytes == LONG_BYTES) && nxt_filled(buf, LONG_BYTES, round));
    }
}

static void half_way(nexar_comm *w, void *arg)
{
    unsigned char *buf = memory(LONG_BYTES);

    (void)arg;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        if (nexar_rank(w) == 0) {
            half_way_sender(w, buf, round);
        } else {
            half_way_receiver(w, buf, round);
        }
    }
    free(buf);
}

static void test_a_long_send_comes_whole_or_not_at_all(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, half_way, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_an_unrequested_send_never_arrives),
        cmocka_unit_test(test_a_send_to_oneself_never_comes),
        cmocka_unit_test(test_a_send_that_is_done_stays_done),
        cmocka_unit_test(test_a_long_send_comes_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
