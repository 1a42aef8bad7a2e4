/* host_boards_test.c - collectives on shared memory, through the public API. */
#include <pthread.h>

#include "api_call.h"
#include "base/adaptive_choice.h"
#include "core/comm/comm.h"
#include "host_world.h"
#include "local_world.h"
#include "unit.h"

static void trial(nexar_comm *comm, nx_coll_kind kind, uint64_t seed)
{
    const char *wrong = nxt_api_trial(comm, kind, seed);

    nxt_rank_check(comm, wrong == NULL, (wrong == NULL) ? "" : wrong, __FILE__, __LINE__);
}

/* ---- short operations ------------------------------------------------------------------- */

static void oracle(nexar_comm *w, void *arg)
{
    uint64_t before;

    (void)arg;
    nxt_host_warm_up(w);
    before = nxt_host_count(w);
    for (int kind = 0; kind < NX_COLL_KINDS; kind++) {
        for (uint64_t seed = 0; seed < 24; seed++) {
            trial(w, (nx_coll_kind)kind, 77 * (uint64_t)kind + seed);
        }
    }
    NXT_IS(w, nxt_host_count(w) - before >= 150); /* the others have requests */
}

static void test_all_kinds_give_what_they_must(void **state)
{
    (void)state;
    for (int n = 2; n <= 8; n++) {
        nxt_local_world(n, NULL, oracle, NULL);
    }
}

/* ---- long operations --------------------------------------------------------------------- */

typedef struct buffers {
    nexar_comm *w;
    int64_t *in, *out;
    size_t count; /* per block */
    int64_t n, me;
} buffers;

static int64_t value(int64_t rank, size_t at)
{
    return (rank + 1) * 1000003 + (int64_t)at * 7;
}

/* The sum over ranks [0, last] of value(rank, at). */
static int64_t sum(int64_t last, size_t at)
{
    int64_t s = 0;

    for (int64_t r = 0; r <= last; r++) {
        s += value(r, at);
    }
    return s;
}

/* In place the input is in |out| at |off|; otherwise in |in|. */
static const void *fill(const buffers *b, bool in_place, size_t off, size_t len)
{
    int64_t *to = in_place ? b->out + off : b->in;

    for (size_t i = 0; i < b->count * (size_t)b->n; i++) {
        b->out[i] = -1;
    }
    for (size_t i = 0; i < len; i++) {
        to[i] = value(b->me, i);
    }
    return in_place ? NEXAR_IN_PLACE : b->in; // NOLINT(performance-no-int-to-ptr)
}

static void reductions(const buffers *b, bool in_place, int root)
{
    const size_t c = b->count, whole = c * (size_t)b->n;
    const void *in = fill(b, in_place, 0, whole);

    NXT_OK(b->w, nexar_allreduce(b->w, in, b->out, whole, NEXAR_I64, NEXAR_SUM));
    for (size_t i = 0; i < whole; i++) {
        NXT_IS(b->w, b->out[i] == sum(b->n - 1, i));
    }
    in = fill(b, in_place && (b->me == root), 0, c);
    NXT_OK(b->w, nexar_reduce(b->w, in, b->out, c, NEXAR_I64, NEXAR_AVG, root));
    for (size_t i = 0; i < c; i++) {
        NXT_IS(b->w, b->out[i] == ((b->me == root) ? sum(b->n - 1, i) / b->n : -1));
    }
    in = fill(b, in_place, 0, whole);
    NXT_OK(b->w, nexar_reduce_scatter(b->w, in, b->out, c, NEXAR_I64, NEXAR_SUM));
    for (size_t i = 0; i < c; i++) {
        NXT_IS(b->w, b->out[i] == sum(b->n - 1, (size_t)b->me * c + i));
    }
}

static void scans(const buffers *b, bool in_place)
{
    const void *in = fill(b, in_place, 0, b->count);

    NXT_OK(b->w, nexar_scan(b->w, in, b->out, b->count, NEXAR_I64, NEXAR_SUM));
    for (size_t i = 0; i < b->count; i++) {
        NXT_IS(b->w, b->out[i] == sum(b->me, i));
    }
    in = fill(b, in_place, 0, b->count);
    NXT_OK(b->w, nexar_exscan(b->w, in, b->out, b->count, NEXAR_I64, NEXAR_SUM));
    for (size_t i = 0; i < b->count; i++) {
        NXT_IS(b->w, b->out[i] == sum(b->me - 1, i));
    }
}

static void copies(const buffers *b, bool in_place, int root)
{
    const size_t c = b->count, whole = c * (size_t)b->n;
    const void *in;

    (void)fill(b, true, 0, c);
    NXT_OK(b->w, nexar_broadcast(b->w, b->out, c, NEXAR_I64, root));
    for (size_t i = 0; i < c; i++) {
        NXT_IS(b->w, b->out[i] == value(root, i));
    }
    in = fill(b, in_place, (size_t)b->me * c, c);
    NXT_OK(b->w, nexar_allgather(b->w, in, b->out, c, NEXAR_I64));
    for (size_t i = 0; i < whole; i++) {
        NXT_IS(b->w, b->out[i] == value((int64_t)(i / c), i % c));
    }
    in = fill(b, in_place && (b->me == root), (size_t)b->me * c, c);
    NXT_OK(b->w, nexar_gather(b->w, in, b->out, c, NEXAR_I64, root));
    for (size_t i = 0; (b->me == root) && (i < whole); i++) {
        NXT_IS(b->w, b->out[i] == value((int64_t)(i / c), i % c));
    }
    in = fill(b, false, 0, whole);
    NXT_OK(b->w, nexar_scatter(b->w, in, b->out, c, NEXAR_I64, root));
    for (size_t i = 0; i < c; i++) {
        NXT_IS(b->w, b->out[i] == value(root, (size_t)b->me * c + i));
    }
    in = fill(b, in_place, 0, whole);
    NXT_OK(b->w, nexar_alltoall(b->w, in, b->out, c, NEXAR_I64));
    for (size_t i = 0; i < whole; i++) {
        NXT_IS(b->w, b->out[i] == value((int64_t)(i / c), (size_t)b->me * c + i % c));
    }
}

static void long_ones(nexar_comm *w, void *arg)
{
    static const size_t counts[] = {1001, 30011, 100003, 1001};

    (void)arg;
    nxt_host_warm_up(w);
    for (size_t k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
        buffers b = {.w = w, .count = counts[k], .n = nexar_size(w), .me = nexar_rank(w)};
        const uint64_t before = nxt_host_count(w);

        const size_t bytes = b.count * (size_t)b.n * sizeof(int64_t);
        const size_t dice = k + (size_t)b.me;
        const bool all = (k == 3), in_shared = all || (dice % 2 == 0),
                   out_shared = all || (dice % 3 == 0);

        b.in = nxt_host_take(w, in_shared, bytes);
        b.out = nxt_host_take(w, out_shared, bytes);
        for (int i = 0; i < 3; i++) {
            /* In place on all, on none, on every other. */
            const bool in_place = (i == 2) ? (b.me % 2 == 0) : (i == 1);

            reductions(&b, in_place, (int)(k % (size_t)b.n));
            scans(&b, in_place);
            copies(&b, in_place, (int)b.n - 1);
        }
        /* All of these are transferred in pieces if remote memory cannot be read. */
        NXT_IS(w, nxt_host_count(w) - before == 30);
        nxt_host_give_back(w, in_shared, b.in);
        nxt_host_give_back(w, out_shared, b.out);
    }
}

static void test_long_ones_work_in_the_memory_of_others(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++) {
        nxt_local_world(n, NULL, long_ones, NULL);
    }
    nxt_local_world(8, NULL, long_ones, NULL);
    nxt_host_with_setting(4, "spin", "20us", long_ones); /* as if there were a core for each rank */
}

/* So long that results bypass the caches; of a reduce_scatter each block. */
static void very_long_ones(nexar_comm *w, void *arg)
{
    buffers b = {.w = w, .count = 1100003, .n = nexar_size(w), .me = nexar_rank(w)};
    buffers r = {.w = w, .count = 4200007, .n = b.n, .me = b.me};
    const size_t bytes = r.count * (size_t)r.n * sizeof(int64_t);

    (void)arg;
    nxt_host_warm_up(w);
    b.in = r.in = nxt_host_take(w, false, bytes);
    b.out = r.out = nxt_host_take(w, false, bytes);
    for (int i = 0; i < 2; i++) {
        reductions(&b, i == 1, 1);
        scans(&b, i == 1);
        copies(&b, i == 1, 0);
    }
    for (int i = 0; i < 2; i++) {
        const void *in = fill(&r, i == 1, 0, r.count * (size_t)r.n);

        NXT_OK(w, nexar_reduce_scatter(w, in, r.out, r.count, NEXAR_I64, NEXAR_AVG));
        for (size_t k = 0; k < r.count; k++) {
            NXT_IS(w, r.out[k] == sum(r.n - 1, (size_t)r.me * r.count + k) / r.n);
        }
    }
    nxt_host_give_back(w, false, b.in);
    nxt_host_give_back(w, false, b.out);
}

static void test_very_long_ones_are_right_too(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, very_long_ones, NULL);
    nxt_local_world(3, NULL, very_long_ones, NULL);
}

/* So often that both methods are used, whichever is faster: path_choice.h. */
static void many_times(nexar_comm *w, void *arg)
{
    buffers b = {.w = w, .count = 9001, .n = nexar_size(w), .me = nexar_rank(w)};
    const size_t bytes = b.count * (size_t)b.n * sizeof(int64_t);
    uint64_t before;

    (void)arg;
    nxt_host_warm_up(w);
    before = nxt_host_count(w);
    b.in = nxt_host_take(w, false, bytes);
    b.out = nxt_host_take(w, false, bytes);
    for (int i = 0; i < 3 * NX_ADAPTIVE_FIRST; i++) {
        const bool in_place = (i % 3 == 2) ? (b.me % 2 == 0) : (i % 3 == 1);

        reductions(&b, in_place, (int)(i % b.n));
        scans(&b, in_place);
        copies(&b, in_place, (int)(i % b.n));
    }
    NXT_IS(w, nxt_host_count(w) - before == 10 * 3 * NX_ADAPTIVE_FIRST);
    nxt_host_give_back(w, false, b.in);
    nxt_host_give_back(w, false, b.out);
}

static void test_what_is_brought_may_be_read_as_well(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++) {
        nxt_local_world(n, NULL, many_times, NULL);
    }
}

static void test_where_memory_cannot_be_read_what_comes_in_pieces_is_direct(void **state)
{
    (void)state;
    nxt_host_with_setting(3, "direct", "short", long_ones);
}

static void never(nexar_comm *w, void *arg)
{
    (void)arg;
    for (uint64_t i = 0; i < 50; i++) {
        trial(w, NX_ALLREDUCE, i);
    }
    NXT_IS(w, nxt_host_count(w) == 0);
}

static void test_it_can_be_turned_off(void **state)
{
    (void)state;
    nxt_host_with_setting(2, "direct", "off", never);
}

/* ---- memory ----------------------------------------------------------------------------- */

static void memory(nexar_comm *w, void *arg)
{
    enum { BLOCKS = 40 };
    uint8_t *at[BLOCKS];

    (void)arg;
    NXT_SAYS(w, nexar_alloc(NULL, 1, (void **)&at[0]), NEXAR_EINVAL, "comm is NULL");
    NXT_SAYS(w, nexar_alloc(w, 1, NULL), NEXAR_EINVAL, "ptr is NULL");
    NXT_SAYS(w, nexar_alloc(w, SIZE_MAX, (void **)&at[0]), NEXAR_ENOMEM, "no memory for");
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            NXT_OK(w, nexar_alloc(w, i * 5000, (void **)&at[i]));
            NXT_IS(w, (uintptr_t)at[i] % 4096 == 0);
            nxt_fill(at[i], i * 5000, i);
        }
        for (size_t i = 0; i < BLOCKS; i += 2) {
            nexar_free(w, at[i]);
        }
        for (size_t i = 0; i < BLOCKS; i += 2) {
            NXT_OK(w, nexar_alloc(w, i * 3000, (void **)&at[i]));
            nxt_fill(at[i], i * 3000, i);
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            NXT_IS(w, nxt_filled(at[i], i * ((i % 2 == 0) ? 3000 : 5000), i));
            nexar_free(w, at[BLOCKS - 1 - i]);
            if (i + 1 == BLOCKS / 2) { /* memory that is not freed is unchanged */
                break;
            }
        }
        for (size_t i = 0; i < BLOCKS / 2; i++) {
            NXT_IS(w, nxt_filled(at[i], i * ((i % 2 == 0) ? 3000 : 5000), i));
            nexar_free(w, at[i]);
        }
    }
    nexar_free(w, NULL);
    nexar_free(NULL, w);
}

static void test_memory_is_given_and_taken_back(void **state)
{
    (void)state;
    nxt_local_world(1, NULL, memory, NULL);
    nxt_local_world(2, NULL, memory, NULL);
    nxt_host_with_setting(2, "transports", "quic", memory);
}

/* ---- ranks that call different operations ------------------------------------------------- */

static void mismatches(nexar_comm *w, void *arg)
{
    static _Thread_local float a[40000], b[40000];
    const int odd = nexar_rank(w) == nexar_size(w) - 1;
    uint64_t before;

    (void)arg;
    nxt_host_warm_up(w);
    before = nxt_host_count(w);
    NXT_SAYS(w,
             odd ? nexar_broadcast(w, a, 8, NEXAR_F32, 0)
                 : nexar_allreduce(w, a, b, 8, NEXAR_F32, NEXAR_SUM),
             NEXAR_EMISMATCH, "broadcast(8 x f32, root 0)");
    NXT_SAYS(w, nexar_allreduce(w, a, b, odd ? 40000 : 8, NEXAR_F32, NEXAR_SUM), NEXAR_EMISMATCH,
             "40000 x f32");
    NXT_SAYS(w, nexar_allreduce(w, a, b, 30000, NEXAR_F32, odd ? NEXAR_MAX : NEXAR_SUM),
             NEXAR_EMISMATCH, "max");
    NXT_IS(w, nxt_host_count(w) - before == 3); /* all on the board */
    for (uint64_t seed = 0; seed < 11; seed++) {
        trial(w, (nx_coll_kind)seed, seed);
    }
}

static void test_ranks_that_call_different_things_are_notified(void **state)
{
    (void)state;
    for (int n = 2; n <= 5; n++) {
        nxt_local_world(n, NULL, mismatches, NULL);
    }
}

/* A form with a request, which the engine runs, meets a blocking one. */
static void mixed_forms(nexar_comm *w, void *arg)
{
    const int n = nexar_size(w), me = nexar_rank(w);
    float a[4] = {1, 1, 1, 1}, b[4];
    const size_t counts[5] = {1, 1, 1, 1, 1};

    (void)arg;
    nxt_host_warm_up(w);
    for (int i = 0; i < 200; i++) {
        if (i % 7 == me) {
            nexar_request *req = NULL;

            NXT_OK(w, nexar_iallreduce(w, a, b, 4, NEXAR_F32, NEXAR_SUM, &req));
            NXT_OK(w, nexar_wait(&req, NULL));
        } else {
            NXT_OK(w, nexar_allreduce(w, a, b, 4, NEXAR_F32, NEXAR_SUM));
        }
        NXT_IS(w, b[3] == (float)n);
    }
    NXT_SAYS(w,
             (me == 0) ? nexar_allgatherv(w, a, 1, b, counts, NULL, NEXAR_F32)
                       : nexar_allgather(w, a, b, 1, NEXAR_F32),
             NEXAR_EMISMATCH, "allgatherv(");
    nxt_host_warm_up(w);
}

static void test_forms_with_and_without_a_request_meet(void **state)
{
    (void)state;
    for (int n = 2; n <= 4; n++) {
        nxt_local_world(n, NULL, mixed_forms, NULL);
    }
    nxt_host_with_setting(3, "verify", "off", mixed_forms);
}

/* ---- threads -------------------------------------------------------------------------------- */

static void *ones(void *arg)
{
    nexar_comm *w = arg;

    for (int i = 0; i < 300; i++) {
        int32_t one = 1, all = 0;

        NXT_OK(w, nexar_allreduce(w, &one, &all, 1, NEXAR_I32, NEXAR_SUM));
        NXT_IS(w, all == nexar_size(w));
    }
    return NULL;
}

static void two_threads(nexar_comm *w, void *arg)
{
    pthread_t other;

    (void)arg;
    nxt_host_warm_up(w);
    NXT_IS(w, pthread_create(&other, NULL, ones, w) == 0);
    (void)ones(w);
    NXT_IS(w, pthread_join(other, NULL) == 0);
}

static void test_threads_take_turns(void **state)
{
    (void)state;
    nxt_local_world(3, NULL, two_threads, NULL);
}

/* ---- timing ------------------------------------------------------------------------------- */

static void late(nexar_comm *w, void *arg)
{
    float a = 1, b = 0;

    (void)arg;
    for (int i = 0; (nxt_host_count(w) == 0) && (i < 1000); i++) {
        NXT_OK(w, nexar_barrier(w));
    }
    NXT_OK(w, nexar_barrier(w));
    if (nexar_rank(w) != 0) {
        NXT_SAYS(w, nexar_allreduce(w, &a, &b, 1, NEXAR_F32, NEXAR_SUM), NEXAR_ETIMEDOUT,
                 "collective_timeout");
        NXT_OK(w, nexar_send(w, &a, sizeof(a), 0, 1));
    } else {
        for (int i = 1; i < nexar_size(w); i++) {
            NXT_OK(w, nexar_recv(w, &a, sizeof(a), i, 1, NULL));
        }
        NXT_SAYS(w, nexar_allreduce(w, &a, &b, 1, NEXAR_F32, NEXAR_SUM), NEXAR_ETIMEDOUT,
                 "collective_timeout");
    }
    for (uint64_t seed = 0; seed < 20; seed++) { /* by the engine from here on */
        trial(w, NX_ALLREDUCE, seed);
    }
}

static void test_one_that_takes_too_long_ends_on_all(void **state)
{
    (void)state;
    nxt_host_with_setting(3, "collective_timeout", "2s", late);
}

/* Rank 1 ends an operation that it never begins: rank 0, which waits on the board, gets an
 * error. */
static void aborted(nexar_comm *w, void *arg)
{
    const bool before = (arg != NULL);
    uint8_t word = 0;

    nxt_host_warm_up(w);
    if (nexar_rank(w) == 0) {
        if (before) { /* the message of rank 1 follows its detach notification */
            NXT_OK(w, nexar_recv(w, &word, 1, 1, 1, NULL));
        }
        NXT_SAYS(w, nexar_barrier(w), NEXAR_ENOMEM, "it never came");
        NXT_OK(w, nexar_send(w, &word, 1, 1, 2));
    } else {
        nx_loop_lock(w->world->loop);
        nx_group_tell(&w->inc->group, w->inc->group.next++, 0, NEXAR_ENOMEM, "it never came");
        nx_loop_kick(w->world->loop);
        nx_loop_unlock(w->world->loop);
        if (before) {
            NXT_OK(w, nexar_send(w, &word, 1, 0, 1));
        }
        NXT_OK(w, nexar_recv(w, &word, 1, 0, 2, NULL));
    }
    NXT_OK(w, nexar_barrier(w));
}

static void test_who_waits_on_the_board_hears_that_another_will_not_come(void **state)
{
    static int before;

    (void)state;
    nxt_local_world(2, NULL, aborted, NULL);
    nxt_local_world(2, NULL, aborted, &before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_kinds_give_what_they_must),
        cmocka_unit_test(test_long_ones_work_in_the_memory_of_others),
        cmocka_unit_test(test_very_long_ones_are_right_too),
        cmocka_unit_test(test_what_is_brought_may_be_read_as_well),
        cmocka_unit_test(test_where_memory_cannot_be_read_what_comes_in_pieces_is_direct),
        cmocka_unit_test(test_it_can_be_turned_off),
        cmocka_unit_test(test_memory_is_given_and_taken_back),
        cmocka_unit_test(test_ranks_that_call_different_things_are_notified),
        cmocka_unit_test(test_forms_with_and_without_a_request_meet),
        cmocka_unit_test(test_threads_take_turns),
        cmocka_unit_test(test_one_that_takes_too_long_ends_on_all),
        cmocka_unit_test(test_who_waits_on_the_board_hears_that_another_will_not_come),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
