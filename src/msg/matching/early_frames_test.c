/* early_frames_test.c - the store against plain lists, over many seeds; its bounds; no memory. */
#include "early_frames.h"

#include <string.h>

#include "oom.h"
#include "rand.h"
#include "unit.h"

enum { SLOT = 3, COMM = 77 };

static const nx_early_key some = {.kind = NX_EARLY_CONTROL, .id = COMM, .from = SLOT};

static nx_early *make(void)
{
    nx_early *e = NULL;

    assert_int_equal(nx_early_create(&e), NEXAR_OK);
    return e;
}

static nexar_err keep(nx_early *e, const nx_early_key *key, const void *data, size_t len)
{
    return nx_early_keep(e, key, &(nx_bytes){.ptr = data, .len = len}, 1, 0);
}

/* The delivered frames, concatenated. */
typedef struct heard {
    char text[64];
    size_t len, frames;
} heard;

static void hear(void *ctx, const nx_early_frame *f)
{
    heard *h = ctx;

    assert_true(h->len + f->len < sizeof(h->text));
    memcpy(h->text + h->len, f->data, f->len);
    h->len += f->len;
    h->frames++;
}

static void test_frames_come_in_order_when_their_communicator_is_there(void **state)
{
    const nx_early_key other = {.kind = NX_EARLY_CONTROL, .id = COMM + 1, .from = SLOT};
    const nx_early_key link = {.kind = NX_EARLY_LINK, .id = COMM, .from = SLOT};
    const nx_bytes parts[] = {{.ptr = "th", .len = 2}, {.len = 0}, {.ptr = "ree", .len = 3}};
    nx_early *e = make();
    heard h = {.len = 0};

    (void)state;
    assert_int_equal(keep(e, &some, "one ", 4), NEXAR_OK);
    assert_int_equal(keep(e, &other, "no", 2), NEXAR_OK);
    assert_int_equal(keep(e, &link, "no", 2), NEXAR_OK);
    assert_int_equal(keep(e, &some, "", 0), NEXAR_OK);
    assert_int_equal(nx_early_keep(e, &some, parts, 3, 0), NEXAR_OK);
    nx_early_deliver(e, NX_EARLY_CONTROL, COMM, hear, &h);
    assert_string_equal(h.text, "one three");
    assert_int_equal(h.frames, 3);
    nx_early_deliver(e, NX_EARLY_CONTROL, COMM, hear, &h);
    assert_int_equal(h.frames, 3);
    nx_early_destroy(e);
    nx_early_destroy(NULL);
}

static void test_nothing_is_kept_for_a_closed_communicator(void **state)
{
    const nx_early_key link = {.kind = NX_EARLY_LINK, .id = COMM, .from = SLOT};
    nx_early *e = make();
    heard h = {.len = 0};

    (void)state;
    assert_int_equal(keep(e, &some, "x", 1), NEXAR_OK);
    assert_int_equal(keep(e, &link, "y", 1), NEXAR_OK);
    nx_early_close(e, COMM);
    assert_true(nx_early_is_closed(e, COMM) && !nx_early_is_closed(e, COMM + 1));
    assert_int_equal(keep(e, &some, "x", 1), NEXAR_OK);
    assert_int_equal(nx_early_bytes(e, NX_EARLY_CONTROL), 0);
    nx_early_deliver(e, NX_EARLY_CONTROL, COMM, hear, &h);
    assert_int_equal(h.frames, 0);
    nx_early_deliver(e, NX_EARLY_LINK, COMM, hear, &h);
    assert_int_equal(h.frames, 1); /* a member is no communicator */
    nx_early_destroy(e);
}

static void test_the_last_closed_ids_are_known(void **state)
{
    nx_early *e = make();

    (void)state;
    assert_false(nx_early_is_closed(e, 0));
    for (uint64_t id = 0; id <= NX_EARLY_CLOSED; id++) {
        nx_early_close(e, id);
    }
    assert_false(nx_early_is_closed(e, 0));
    assert_true(nx_early_is_closed(e, 1) && nx_early_is_closed(e, NX_EARLY_CLOSED));
    nx_early_destroy(e);
}

/* Keeps frames without bytes until it fails. */
static size_t fill(nx_early *e, const nx_early_key *key)
{
    size_t n = 0;

    while (keep(e, key, NULL, 0) == NEXAR_OK) {
        n++;
    }
    return n;
}

static void test_a_sender_has_its_limit_and_others_theirs(void **state)
{
    const nx_early_key other = {.kind = NX_EARLY_CONTROL, .id = COMM, .from = SLOT + 1};
    nx_early *e = make();
    heard h = {.len = 0};
    size_t n;

    (void)state;
    n = fill(e, &some);
    assert_int_equal(n, NX_EARLY_CONTROL_SENDER / sizeof(nx_early_frame));
    assert_int_equal(nx_early_bytes(e, NX_EARLY_CONTROL), n * sizeof(nx_early_frame));
    assert_int_equal(keep(e, &other, "x", 1), NEXAR_OK);
    nx_early_deliver(e, NX_EARLY_CONTROL, COMM, hear, &h);
    assert_int_equal(h.frames, n + 1);
    assert_int_equal(nx_early_bytes(e, NX_EARLY_CONTROL), 0);
    assert_int_equal(fill(e, &some), n);
    nx_early_destroy(e);
}

static void test_all_senders_together_have_a_limit(void **state)
{
    static const uint8_t much[NX_EARLY_CONTROL_SENDER - sizeof(nx_early_frame)];
    nx_early_key key = some;
    nx_early *e = make();

    (void)state;
    for (key.from = 0; key.from < NX_EARLY_TOTAL / NX_EARLY_CONTROL_SENDER; key.from++) {
        assert_int_equal(keep(e, &key, much, sizeof(much)), NEXAR_OK);
    }
    assert_int_equal(keep(e, &key, NULL, 0), NEXAR_ENOMEM);
    key.kind = NX_EARLY_FINISHED;
    assert_int_equal(keep(e, &key, NULL, 0), NEXAR_OK);
    nx_early_destroy(e);
}

static void test_stale_frames_make_room_but_not_those_of_links(void **state)
{
    nx_early_key key = some;
    nx_early *e = make();
    heard h = {.len = 0};
    size_t n;

    (void)state;
    n = fill(e, &key);
    assert_int_equal(nx_early_keep(e, &key, NULL, 0, NX_EARLY_STALE_NS - 1), NEXAR_ENOMEM);
    assert_int_equal(nx_early_keep(e, &key, NULL, 0, NX_EARLY_STALE_NS), NEXAR_OK);
    nx_early_deliver(e, NX_EARLY_CONTROL, COMM, hear, &h);
    assert_int_equal(h.frames, n);
    key.kind = NX_EARLY_LINK;
    (void)fill(e, &key);
    assert_int_equal(nx_early_keep(e, &key, NULL, 0, NX_EARLY_STALE_NS), NEXAR_ENOMEM);
    nx_early_destroy(e);
}

static void test_without_memory_nothing_is_kept(void **state)
{
    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_early *e = NULL;
        heard h = {.len = 0};
        nexar_err err = nx_early_create(&e);

        if (err == NEXAR_OK) {
            err = keep(e, &some, "x", 1);
            nx_early_deliver(e, NX_EARLY_CONTROL, COMM, hear, &h);
            assert_int_equal(h.frames, (err == NEXAR_OK) ? 1 : 0);
            assert_int_equal(nx_early_bytes(e, NX_EARLY_CONTROL), 0);
        }
        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        nx_early_destroy(e);
    }
}

/* ---- the model ----------------------------------------------------------------------- */

/*
 * Frames are numbered in the order of keeping, and carry their number. The model has, for each
 * identity, the numbers of the kept frames, in order. Deliveries keep, close, drop and deliver from
 * inside.
 */
enum { SEEDS = 60, OPS = 600, IDS = 5, SENDERS = 3, ROOM = 4096, DEPTH = 3 };

typedef struct model {
    nx_early *e;
    nxt_rand random;
    uint32_t next; /* the number of the next frame */
    struct {
        uint32_t at[ROOM];
        size_t n, first;
        bool closed;
    } of[NX_EARLY_KINDS][IDS];
    size_t bytes[NX_EARLY_KINDS];
    int depth;
} model;

static void act(model *m);

static void forget(model *m, int kind, uint32_t id)
{
    m->of[kind][id].first = m->of[kind][id].n;
}

static void on_frame(void *ctx, const nx_early_frame *f)
{
    model *m = ctx;
    uint32_t number;

    assert_true((f->key.kind < NX_EARLY_KINDS) && (f->key.id < IDS) && (f->key.from < SENDERS));
    assert_true(f->len >= sizeof(number));
    memcpy(&number, f->data, sizeof(number));
    assert_true(m->of[f->key.kind][f->key.id].first < m->of[f->key.kind][f->key.id].n);
    assert_int_equal(number, m->of[f->key.kind][f->key.id].at[m->of[f->key.kind][f->key.id].first]);
    assert_false(m->of[f->key.kind][f->key.id].closed);
    m->of[f->key.kind][f->key.id].first++;
    if (m->depth < DEPTH) {
        m->depth++;
        for (uint32_t n = nxt_below(&m->random, 3); n > 0; n--) {
            act(m);
        }
        m->depth--;
    }
}

static void keep_one(model *m, nx_early_kind kind, uint32_t id)
{
    static const uint8_t filler[64];
    const nx_early_key key = {.kind = kind, .id = id, .from = nxt_below(&m->random, SENDERS)};
    const nx_bytes parts[] = {{.ptr = &m->next, .len = sizeof(m->next)},
                              {.ptr = filler, .len = nxt_below(&m->random, sizeof(filler))}};

    assert_int_equal(nx_early_keep(m->e, &key, parts, 2, 0), NEXAR_OK);
    if (!m->of[kind][id].closed) {
        assert_true(m->of[kind][id].n < ROOM);
        m->of[kind][id].at[m->of[kind][id].n++] = m->next;
    }
    m->next++;
}

static void act(model *m)
{
    const nx_early_kind kind = (nx_early_kind)nxt_below(&m->random, NX_EARLY_KINDS);
    const uint32_t id = nxt_below(&m->random, IDS), what = nxt_below(&m->random, 40);
    size_t left = m->of[kind][id].n;

    if (what == 0) {
        forget(m, NX_EARLY_CONTROL, id);
        forget(m, NX_EARLY_FINISHED, id);
        m->of[NX_EARLY_CONTROL][id].closed = m->of[NX_EARLY_FINISHED][id].closed = true;
        nx_early_close(m->e, id);
    } else if (what == 1) {
        forget(m, (int)kind, id);
        nx_early_drop(m->e, kind, id);
    } else if (what < 6) {
        nx_early_deliver(m->e, kind, id, on_frame, m);
        assert_true(m->of[kind][id].first >= left); /* all frames that existed when it began */
    } else {
        keep_one(m, kind, id);
    }
}

static void test_random_programs_deliver_each_frame_once_and_in_order(void **state)
{
    static model m;

    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        m = (model){.e = make(), .random = {.state = seed}};
        for (int i = 0; i < OPS; i++) {
            act(&m);
        }
        for (uint32_t id = 0; id < IDS; id++) {
            nx_early_drop(m.e, NX_EARLY_LINK, id);
            nx_early_drop(m.e, NX_EARLY_CREATION, id);
            nx_early_close(m.e, id);
        }
        for (int kind = 0; kind < NX_EARLY_KINDS; kind++) {
            assert_int_equal(nx_early_bytes(m.e, (nx_early_kind)kind), 0);
        }
        nx_early_destroy(m.e);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_frames_come_in_order_when_their_communicator_is_there),
        cmocka_unit_test(test_nothing_is_kept_for_a_closed_communicator),
        cmocka_unit_test(test_the_last_closed_ids_are_known),
        cmocka_unit_test(test_a_sender_has_its_limit_and_others_theirs),
        cmocka_unit_test(test_all_senders_together_have_a_limit),
        cmocka_unit_test(test_stale_frames_make_room_but_not_those_of_links),
        cmocka_unit_test(test_without_memory_nothing_is_kept),
        cmocka_unit_test(test_random_programs_deliver_each_frame_once_and_in_order),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
