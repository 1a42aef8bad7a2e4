/*
 * replay_test.c - calls in blocks, of which ranks fail repeatedly, all ranks in one thread.
 * Failing attempts write anywhere in their buffers.  The last attempt runs the translated call, and
 * its buffers are compared with the contract of the original call.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fewer.h"
#include "oom.h"
#include "rand.h"
#include "replay.h"
#include "unit.h"

enum { MOST = 9, SEEDS = 400, WORDS = 5 };

typedef struct member {
    nxt_fewer f;
    nx_replay r;
    nx_kept kept;
} member;

/* ---- a collective, executed from its arguments -------------------------------------------- */

static const uint32_t *input_of(const nx_coll_args *a)
{
    return (a->send == NEXAR_IN_PLACE) ? a->recv : a->send;
}

static void put(const nx_coll_args *to, size_t to_off, const uint32_t *from, size_t len)
{
    if (len != 0) {
        memcpy((uint32_t *)to->recv + to_off, from, len * sizeof(*from));
    }
}

/* The block from |from|, of rank |b|, to |to|, of rank |r|. */
static void send_block(const nx_coll_args *to, uint32_t r, const nx_coll_args *from, uint32_t b)
{
    const bool in_place = (from->send == NEXAR_IN_PLACE);
    const size_t *counts = in_place ? from->counts : from->send_counts;
    const size_t *displs = in_place ? from->displs : from->send_displs;

    switch ((int)to->kind) {
    case NX_ALLGATHERV:
        assert_int_equal(to->counts[b], from->counts[b]);
        put(to, to->displs[b], input_of(from) + (in_place ? from->displs[b] : 0), to->counts[b]);
        break;
    case NX_GATHERV:
        if (r == (uint32_t)to->root) {
            assert_int_equal(to->counts[b], from->count);
            put(to, to->displs[b], input_of(from) + (in_place ? from->displs[b] : 0), from->count);
        }
        break;
    case NX_SCATTERV:
        if (b == (uint32_t)to->root) {
            assert_int_equal(from->counts[r], to->count);
            put(to, 0, input_of(from) + from->displs[r], to->count);
        }
        break;
    case NX_ALLTOALLV:
        assert_int_equal(to->counts[b], counts[r]);
        put(to, to->displs[b], input_of(from) + displs[r], counts[r]);
        break;
    default:
        assert_int_equal(to->kind, NX_REDUCE_SCATTERV);
        assert_int_equal(to->counts[r], from->counts[r]);
        for (size_t i = 0; i < to->counts[r]; i++) {
            uint32_t *sum = (uint32_t *)to->recv + i;

            *sum = ((b == 0) ? 0 : *sum) + input_of(from)[from->displs[r] + i];
        }
    }
}

/* Runs the calls of |left|; inputs in place keep their values until all were read. */
static void run_all(member **left, uint32_t n)
{
    nx_coll_args was[MOST];
    uint32_t *inputs[MOST] = {0};

    for (uint32_t b = 0; b < n; b++) {
        const size_t bytes = left[b]->f.call.recv_len[left[b]->f.me] * sizeof(uint32_t);

        was[b] = left[b]->r.now;
        assert_int_equal(left[b]->r.size, n);
        assert_int_equal(left[b]->r.rank, b);
        assert_int_equal(was[b].kind, left[0]->r.now.kind);
        assert_int_equal(was[b].root, left[0]->r.now.root);
        if (was[b].send == NEXAR_IN_PLACE) {
            inputs[b] = malloc(bytes + 1);
            memcpy(inputs[b], was[b].recv, bytes);
            was[b].recv = inputs[b];
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        for (uint32_t b = 0; b < n; b++) {
            send_block(&left[r]->r.now, r, &was[b], b);
        }
    }
    for (uint32_t b = 0; b < n; b++) {
        free(inputs[b]);
    }
}

/* ---- effects of a failing attempt --------------------------------------------------------- */

static void scribble(uint32_t *at, nx_span where, nxt_rand *rand)
{
    for (size_t i = 0; i < where.len; i++) {
        at[where.off + i] = nxt_one_in(rand, 3) ? at[where.off + i] : (uint32_t)nxt_next(rand);
    }
}

/* Writes into the blocks that |m| receives, and into inputs that reductions overwrite. */
static void attempt(member *m, nxt_rand *rand)
{
    const nxt_call *c = &m->f.call;
    const bool scatters = (c->kind == NX_SCATTER) || (c->kind == NX_SCATTERV);
    const size_t len = c->recv_len[m->f.me];

    if (nx_coll_reduces(c->kind) || scatters) {
        scribble(m->f.recv, (nx_span){.len = len}, rand);
    } else if (!nx_coll_rooted(c->kind) || (m->f.me == c->root)) {
        for (uint32_t b = 0; b < c->size; b++) {
            scribble(m->f.recv, nxt_call_block(c, m->f.me, b), rand);
        }
    }
}

/* ---- one call --------------------------------------------------------------------------- */

/* Some of |left| fail, but not the root, and not all; the others' calls become smaller.  Returns
 * the number that is left. */
static uint32_t some_fail(member **left, uint32_t n, nxt_rand *rand)
{
    nx_rankset failed;
    uint32_t rest = 0;

    assert_int_equal(nx_rankset_init(&failed, n), NEXAR_OK);
    for (uint32_t i = 0; i < n; i++) {
        if (nxt_one_in(rand, 3) && (left[i]->f.me != left[i]->f.call.root) &&
            (failed.count + 1 < n)) {
            (void)nx_rankset_add(&failed, i);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        if (!nx_rankset_has(&failed, i)) {
            nx_replay_shrink(&left[i]->r, &failed);
            left[rest++] = left[i];
        }
    }
    nx_rankset_fini(&failed);
    return rest;
}

static void run_case(const nxt_fewer_plan *plan, nxt_rand *rand)
{
    const uint32_t size = plan->size;
    member *all = calloc(size, sizeof(*all)), *left[MOST];
    uint32_t n = size, rounds = 1 + nxt_below(rand, 3);
    uint64_t who = 0;

    for (uint32_t i = 0; i < size; i++) {
        nx_coll_args a;

        left[i] = &all[i];
        nxt_fewer_init(&all[i].f, plan, i);
        a = nxt_fewer_args(&all[i].f, NULL, all[i].f.send, all[i].f.recv);
        a.host_memory = true;
        assert_int_equal(nx_replay_init(&all[i].r, &a, (nx_seat){size, i}, &all[i].kept), NEXAR_OK);
    }
    for (; rounds > 0; rounds--) {
        for (uint32_t i = 0; i < n; i++) {
            attempt(left[i], rand);
        }
        n = some_fail(left, n, rand);
        for (uint32_t i = 0; i < n; i++) {
            assert_int_equal(nx_replay_restore(&left[i]->r), NEXAR_OK);
        }
    }
    run_all(left, n);
    for (uint32_t i = 0; i < n; i++) {
        who |= UINT64_C(1) << left[i]->f.me;
        assert_int_equal(nx_replay_deliver(&left[i]->r), NEXAR_OK);
    }
    for (uint32_t i = 0; i < n; i++) {
        assert_true(nxt_fewer_is_right(&left[i]->f, who));
    }
    for (uint32_t i = 0; i < size; i++) {
        nx_replay_fini(&all[i].r);
        nx_free(all[i].kept.mem);
        nxt_fewer_fini(&all[i].f);
    }
    free(all);
}

static void test_blocks_of_survivors_keep_their_offsets(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        for (unsigned k = 0; k < NXT_FEWER_KINDS; k++) {
            nxt_rand rand = {.state = seed * NXT_FEWER_KINDS + k};
            const uint32_t size = 1 + nxt_below(&rand, MOST);
            const nxt_fewer_plan plan = {.kind = nxt_fewer_kind(k),
                                         .size = size,
                                         .root = nxt_below(&rand, size),
                                         .count = nxt_below(&rand, 12),
                                         .place = (nxt_place)nxt_below(&rand, NXT_PLACES),
                                         .seed = nxt_next(&rand)};

            run_case(&plan, &rand);
        }
    }
}

/* ---- memory ----------------------------------------------------------------------------- */

static void test_without_memory_nothing_is_kept(void **state)
{
    (void)state;
    for (unsigned k = 0; k < NXT_FEWER_KINDS; k++) {
        const nxt_fewer_plan plan = {
            .kind = nxt_fewer_kind(k), .size = 4, .count = 5, .place = NXT_IN_PLACE, .seed = k};
        nxt_fewer f;
        nx_coll_args a;
        nx_replay r;

        nxt_fewer_init(&f, &plan, 0);
        a = nxt_fewer_args(&f, NULL, f.send, f.recv);
        a.host_memory = true;
        NXT_FOR_EACH_OOM (n) {
            nx_kept kept = {0};
            const nexar_err err = nx_replay_init(&r, &a, (nx_seat){4, 0}, &kept);

            assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
            if (err == NEXAR_OK) {
                nx_replay_fini(&r);
            }
            nx_free(kept.mem);
        }
        nxt_fewer_fini(&f);
    }
}

/* ---- calls without blocks --------------------------------------------------------------- */

static void test_memory_that_is_changed_is_put_back(void **state)
{
    uint32_t a[WORDS] = {1, 2, 3, 4, 5}, b[2] = {6, 7};
    const nexar_tensor tensors[] = {{a, WORDS}, {NULL, 0}, {b, 2}};
    const nx_variant guises[] = {NX_VARIANT_BUCKETED, NX_VARIANT_COMPRESSED};
    nx_kept kept = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        nx_coll_args call = {.kind = NX_ALLREDUCE,
                             .send = NEXAR_IN_PLACE,
                             .recv = a,
                             .count = WORDS,
                             .dtype = NEXAR_U32,
                             .host_memory = true};
        nx_replay r;

        if (i < 2) {
            call.guise = guises[i];
            call.tensors = tensors;
            call.ntensors = 3;
        }
        assert_int_equal(nx_replay_init(&r, &call, (nx_seat){3, 1}, &kept), NEXAR_OK);
        memset(a, 0xee, sizeof(a));
        b[1] = (i < 2) ? 0 : 7;
        assert_int_equal(nx_replay_restore(&r), NEXAR_OK);
        nx_replay_fini(&r);
        assert_true((a[0] == 1) && (a[WORDS - 1] == 5) && (b[0] == 6) && (b[1] == 7));
    }
    nx_free(kept.mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_of_survivors_keep_their_offsets),
        cmocka_unit_test(test_without_memory_nothing_is_kept),
        cmocka_unit_test(test_memory_that_is_changed_is_put_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
