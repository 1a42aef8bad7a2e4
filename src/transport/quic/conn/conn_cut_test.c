/*
 * conn_cut_test.c - networks that are cut for a while, in virtual time: nothing is lost, nothing
 * arrives twice, and a recovered path is used within a bound.
 */
#include <string.h>

#include "quic_sim.h"
#include "sanitized.h"
#include "unit.h"

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)

enum { PARTS_MOST = 200, BLOCK = 1 << 20, CUT_MOST_MS = 4900, HEARTBEAT_MS = 500, HOW = 3 };

/* What the two ends do when the cut begins. */
typedef enum load { BULK_BOTH, BULK_ONE_WAY, SMALL_ONE_WAY, IDLE, LOADS } load;

static const char *const load_names[LOADS] = {"bulk both ways", "bulk one way", "short messages",
                                              "idle"};

static uint8_t block[BLOCK];
static nx_tx txs[2][PARTS_MOST];
static nx_bytes bytes[2][PARTS_MOST];
static size_t parts[2];
static uint64_t frames[2], total[2], sums[2]; /* of the data that side i should receive */

static void queue_parts(nxt_sim *s, int from, size_t n, size_t most)
{
    for (size_t i = 0; i < n; i++) {
        size_t len = nx_random_below(&s->random.random, most + 1);
        nx_tx *tx = &txs[from][i];

        bytes[from][i] = (nx_bytes){block, len};
        *tx = (nx_tx){.id = i, .off = i << 33, .len = len, .bytes = &bytes[from][i], .nbytes = 1};
        assert_int_equal(nx_sendq_part(&s->side[from].q, tx), NEXAR_OK);
        total[1 - from] += len;
        sums[1 - from] += nxt_sim_part_sum(tx);
    }
    parts[from] = n;
}

static void queue_frame(nxt_sim *s, int from)
{
    nxt_sim_frame(&s->side[from], NX_LANE_MESSAGE, frames[1 - from]);
    nxt_sim_frame(&s->side[from], NX_LANE_CONTROL, frames[1 - from]);
    frames[1 - from]++;
}

static bool has_all(const nxt_sim *s, int i)
{
    const nxt_side *side = &s->side[i];

    return (side->bytes == total[i]) && (side->frames[NX_LANE_CONTROL] == frames[i]) &&
           (side->frames[NX_LANE_MESSAGE] == frames[i]);
}

static bool all_is_done(const nxt_sim *s)
{
    return has_all(s, 0) && has_all(s, 1) && nx_sendq_empty(&s->side[0].q) &&
           nx_sendq_empty(&s->side[1].q);
}

static void check(const nxt_sim *s)
{
    for (int i = 0; i < 2; i++) {
        assert_true(has_all(s, i));
        assert_true(s->side[i].sum == sums[i]);
        assert_int_equal(s->side[i].disordered, 0);
        assert_int_equal(s->side[i].failed, 0);
        assert_int_equal(s->side[i].sent, parts[i]);
    }
}

static void begin(nxt_sim *s, const nxt_quic_net *net, uint64_t seed, load what)
{
    memset(parts, 0, sizeof(parts));
    memset(frames, 0, sizeof(frames));
    memset(total, 0, sizeof(total));
    memset(sums, 0, sizeof(sums));
    nxt_sim_open(s, net, seed);
    nxt_sim_connect(s);
    if ((what == BULK_BOTH) || (what == BULK_ONE_WAY)) {
        queue_parts(s, (int)(seed % 2), 60, 100000);
    }
    if (what == BULK_BOTH) {
        queue_parts(s, 1 - (int)(seed % 2), 60, 100000);
    }
    queue_frame(s, 0);
    queue_frame(s, 1);
}

static bool never(const nxt_sim *s)
{
    (void)s;
    return false;
}

static void pass(nxt_sim *s, uint64_t ns)
{
    const uint64_t end = s->now_ns + ns;

    (void)nxt_sim_run(s, never, ns);
    s->now_ns = end;
}

static void set_cut(nxt_sim *s, int how, bool cut)
{
    s->net.mute[0] = cut && (how != 1);
    s->net.mute[1] = cut && (how != 2);
}

static uint64_t had[2];

static uint64_t got(const nxt_sim *s, int i)
{
    return s->side[i].bytes + s->side[i].frames[0] + s->side[i].frames[1];
}

/* Whether each side with missing data has received some. */
static bool all_go_on(const nxt_sim *s)
{
    return (has_all(s, 0) || (got(s, 0) > had[0])) && (has_all(s, 1) || (got(s, 1) > had[1]));
}

/* A cut of |ns|, in one or both directions; returns the time from its end until the awaited data
 * arrived again. */
static uint64_t suffer(nxt_sim *s, load what, int how, uint64_t ns)
{
    uint64_t healed;

    set_cut(s, how, true);
    pass(s, ns / 2);
    if ((what == SMALL_ONE_WAY) || (what == IDLE)) {
        queue_frame(s, (int)(ns % 2));
    }
    pass(s, ns - ns / 2);
    set_cut(s, how, false);
    had[0] = got(s, 0);
    had[1] = got(s, 1);
    healed = s->now_ns;
    assert_true(nxt_sim_run(s, all_go_on, 60 * SECOND));
    return s->now_ns - healed;
}

/* Three cuts of a connection; |*worst|: the longest time until it was used again. */
static void run_seed(uint64_t seed, load what, int how, uint64_t *worst)
{
    nxt_quic_net net = {
        .interface = 1472, .delay_ns = (seed % 5) * (seed % 5) * MS, .rate = 2 << 20};
    const uint64_t bound = HEARTBEAT_MS * MS + 8 * net.delay_ns;
    nxt_sim s;

    begin(&s, &net, seed, what);
    for (int cuts = 0; cuts < 3; cuts++) {
        uint64_t took;

        pass(&s, nx_random_below(&s.random.random, 1000) * MS);
        took = suffer(&s, what, how, (1 + nx_random_below(&s.random.random, CUT_MOST_MS)) * MS);
        *worst = (took > *worst) ? took : *worst;
        if (took > bound) {
            fail_msg("seed %llu, cut %d: used again after %.3f s", (unsigned long long)seed, cuts,
                     (double)took / 1e9);
        }
    }
    assert_true(nxt_sim_run(&s, all_is_done, 120 * SECOND));
    check(&s);
    nxt_sim_close(&s);
}

/* Cuts at any time, of any length below the time-out. */
static void test_a_cut_at_any_moment_loses_nothing(void **state)
{
    uint64_t worst[LOADS][HOW] = {{0}};

    (void)state;
    for (uint64_t seed = 0; seed < (NXT_SANITIZED ? 24u : 192u); seed++) {
        const load what = (load)(seed % LOADS);
        const int how = (int)(seed / LOADS % HOW);

        run_seed(seed, what, how, &worst[what][how]);
    }
    for (int what = 0; what < LOADS; what++) {
        print_message("cut, %s: used again after at most %.0f ms (both ways), %.0f ms (one way), "
                      "%.0f ms (the other)\n",
                      load_names[what], (double)worst[what][0] / 1e6, (double)worst[what][1] / 1e6,
                      (double)worst[what][2] / 1e6);
    }
}

/* A member that does not answer is probed ten times a second while it is dialled, so that its host
 * can report that the process has exited; ngtcp2 would probe after 150, 450 and 1050 ms. */
static void test_a_member_that_is_dialled_is_called(void **state)
{
    nxt_quic_net net = {.interface = 1472, .delay_ns = MS, .cut = true};
    nxt_sim s;

    (void)state;
    nxt_sim_open(&s, &net, 3);
    for (size_t tenths = 2; tenths <= 30; tenths++) {
        (void)nxt_sim_run(&s, never, ((tenths == 2) ? 200 : 100) * MS);
        assert_in_range(s.side[0].calls, tenths - 1, tenths);
    }
    nxt_sim_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_cut_at_any_moment_loses_nothing),
        cmocka_unit_test(test_a_member_that_is_dialled_is_called),
    };
    nx_random_seeded r;

    nx_random_seeded_init(&r, 11);
    nx_random_fill(&r.random, block, sizeof(block));
    return cmocka_run_group_tests(tests, NULL, NULL);
}
