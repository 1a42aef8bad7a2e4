/* The closed forms against the schedules that they describe. */
#include "coll/cost/forecast.h"

#include <string.h>

#include "coll/cost/cost.h"
#include "unit.h"

static nx_net make_net(uint32_t ranks, uint32_t hosts)
{
    return (nx_net){
        .ranks = ranks,
        .hosts = hosts,
        .elem_size = 4,
        .latency = 20e-6,
        .bandwidth = 1.25e9,
        .local_latency = 0.5e-6,
        .local_bandwidth = 6e9,
        .message_cpu = 2e-6,
        .local_cpu = 0.25e-6,
        .reduce_bandwidth = 10e9,
    };
}

static nx_coll make_coll(nx_coll_kind kind, uint32_t size, uint32_t root, size_t count)
{
    nx_coll c = {.kind = kind, .size = size, .root = root, .count = count};

    c.parts = nx_split_each(count, size);
    c.send_parts = c.parts;
    return c;
}

static const nx_cost_limits everything = {.steps = UINT64_MAX, .count = true};
static const nx_cost_limits quick = {.steps = 50000};

/* ---- counts -------------------------------------------------------------------------- */

static void check_counts_on(const nx_algorithm *a, const nx_coll *c, size_t segment, uint32_t hosts)
{
    const nx_net net = make_net(c->size, hosts);
    nx_forecast f = {.net = &net};
    nx_cost cost;

    a->forecast(c, segment, &f);
    assert_int_equal(nx_cost_of(a, c, segment, &net, everything, &cost), NEXAR_OK);
    assert_true(cost.counted && cost.simulated);
    if ((f.rounds != cost.is.rounds) || (f.messages != cost.is.messages) ||
        (f.sent != cost.is.sent)) {
        print_error("%s %s, %u ranks on %u hosts, root %u, count %zu, segment %zu\n",
                    nx_coll_name(a->kind), a->name, (unsigned)c->size, (unsigned)hosts,
                    (unsigned)c->root, c->count, segment);
    }
    assert_int_equal(f.rounds, cost.is.rounds);
    assert_int_equal(f.messages, cost.is.messages);
    assert_int_equal(f.sent, cost.is.sent);
}

static void check_counts(const nx_algorithm *a, const nx_coll *c, size_t segment)
{
    check_counts_on(a, c, segment, c->size);
}

/* One size: counts around it, and another root where there is a root. */
static void check_size(const nx_algorithm *a, uint32_t size, size_t segment)
{
    const size_t counts[] = {size - 1, size + 1, 1, 0, 2, size / 2, size, 3 * (size_t)size + 1};
    const size_t n = (size <= 33) ? sizeof(counts) / sizeof(counts[0]) : 3;

    for (size_t i = 0; i < n; i++) {
        nx_coll c = make_coll(a->kind, size, 0, counts[i]);

        check_counts(a, &c, segment);
    }
    if (nx_coll_rooted(a->kind) && (size > 1)) {
        nx_coll c = make_coll(a->kind, size, size / 2, 13);

        check_counts(a, &c, segment);
    }
}

static void test_counts_are_exact_for_sizes_up_to_64(void **state)
{
    (void)state;
    size_t n;
    const nx_algorithm *all = nx_algorithms(&n);

    for (size_t i = 0; i < n; i++) {
        for (uint32_t size = 1; size <= 64; size++) {
            check_size(&all[i], size, 0);
            if (all[i].cut && (size <= 18)) {
                check_size(&all[i], size, 1);
                check_size(&all[i], size, 5);
            }
        }
    }
}

static bool knows_hosts(const nx_algorithm *a)
{
    return strncmp(a->name, "twolevel", 8) == 0;
}

/* Algorithms that use hosts, on equal hosts. */
static void check_hosts_of(const nx_algorithm *a, uint32_t hosts, uint32_t each)
{
    const uint32_t size = hosts * each;
    const size_t counts[] = {0, 1, size, 5 * (size_t)size + 3};

    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
        nx_coll c = make_coll(a->kind, size, 0, counts[i]);

        check_counts_on(a, &c, 0, hosts);
        if (a->cut) {
            check_counts_on(a, &c, 7, hosts);
        }
    }
    if (a->cut && (size <= 12)) { /* many segments, in windows where there are some */
        nx_coll c = make_coll(a->kind, size, 0, 101 * (size_t)size);

        check_counts_on(a, &c, 7, hosts);
    }
}

static void test_counts_are_exact_for_equal_hosts(void **state)
{
    (void)state;
    size_t n;
    const nx_algorithm *all = nx_algorithms(&n);

    for (size_t i = 0; i < n; i++) {
        for (uint32_t hosts = 1; knows_hosts(&all[i]) && (hosts <= 9); hosts++) {
            for (uint32_t each = 1; each <= 6; each++) {
                check_hosts_of(&all[i], hosts, each);
            }
        }
    }
}

static void test_counts_are_exact_for_some_large_sizes(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {129, 300};
    size_t n;
    const nx_algorithm *all = nx_algorithms(&n);

    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < sizeof(sizes) / sizeof(sizes[0]); k++) {
            nx_coll c = make_coll(all[i].kind, sizes[k], 0, 2 * sizes[k] + 1);

            check_counts(&all[i], &c, all[i].cut ? 100 : 0);
        }
    }
}

/* Enough segments for many windows of the algorithms with windows. */
static void test_counts_are_exact_for_many_segments(void **state)
{
    (void)state;
    size_t n;
    const nx_algorithm *all = nx_algorithms(&n);

    for (size_t i = 0; i < n; i++) {
        for (uint32_t size = 1; all[i].cut && (size <= 9); size += 2) {
            for (size_t count = 700; count <= 1000; count += 37) {
                nx_coll c = make_coll(all[i].kind, size, 0, count);

                check_counts(&all[i], &c, 7);
            }
        }
    }
}

static void test_counts_are_exact_for_blocks_of_many_sizes(void **state)
{
    (void)state;
    size_t n, lens[33], displs[33];
    const nx_algorithm *all = nx_algorithms(&n);

    for (size_t i = 0; i < n; i++) {
        const nx_coll_kind kind = all[i].kind;

        if ((kind != NX_ALLGATHERV) && (kind != NX_REDUCE_SCATTERV)) {
            continue;
        }
        for (uint32_t size = 1; size <= 33; size++) {
            nx_coll c = {.kind = kind, .size = size};
            size_t off = 0;

            for (uint32_t b = 0; b < size; b++) {
                lens[b] = 1 + (7 * b + 3) % 11;
                displs[b] = off;
                off += lens[b];
            }
            c.parts = nx_split_counts(lens, displs, size);
            check_counts(&all[i], &c, all[i].cut ? 4 : 0);
        }
    }
}

/* ---- times --------------------------------------------------------------------------- */

/* Whether every rank does the same; a tree, a chain or a guest breaks the symmetry. */
static bool is_symmetric(const nx_algorithm *a, uint32_t size)
{
    const bool power_of_two = (size & (size - 1)) == 0;

    if (knows_hosts(a) || (strcmp(a->name, "star") == 0)) {
        return false; /* a leader, or an inner rank, does more */
    }
    switch (a->kind) {
    case NX_BARRIER:
    case NX_ALLTOALL:
    case NX_ALLTOALLV:
        return true;
    case NX_ALLREDUCE:
    case NX_ALLGATHER:
    case NX_ALLGATHERV:
    case NX_REDUCE_SCATTER:
    case NX_REDUCE_SCATTERV:
        return power_of_two || a->cut;
    case NX_BROADCAST:
    case NX_REDUCE:
    case NX_GATHER:
    case NX_SCATTER:
    case NX_SCAN:
    case NX_EXSCAN:
    case NX_GATHERV:
    case NX_SCATTERV:
    case NX_COLL_KINDS:
        break;
    }
    return false;
}

/* For kinds with blocks, bytes of all blocks together. */
static size_t count_for(nx_coll_kind kind, uint32_t size, size_t bytes)
{
    const nx_coll one = make_coll(kind, size, 0, 1);
    const size_t each = 4 * (nx_coll_in_blocks(kind) ? (size_t)one.size : 1);

    return (kind == NX_BARRIER) ? 0 : (bytes + each - 1) / each;
}

/* Bounds of closed form over simulation. */
static void check_time(const nx_algorithm *a, const nx_net *net, size_t bytes)
{
    const nx_coll c = make_coll(a->kind, net->ranks, 0, count_for(a->kind, net->ranks, bytes));
    const size_t segment = a->cut ? 65536 : 0;
    const bool alone = (net->hosts == 1) || (net->hosts == net->ranks);
    double bound = (alone && is_symmetric(a, net->ranks)) ? 1.25 : 2, ratio;
    nx_forecast f = {.net = net};
    nx_cost cost;

    a->forecast(&c, segment, &f);
    assert_int_equal(nx_cost_of(a, &c, segment, net, quick, &cost), NEXAR_OK);
    if (!cost.simulated) {
        return;
    }
    ratio = f.time_s / cost.is.time_s;
    /* Empty blocks make schedules irregular. */
    bound = (c.count < c.size) ? 2 : bound;
    if ((ratio > bound) || (ratio < 1 / bound)) {
        print_error("%s %s, %u ranks on %u hosts, %zu bytes: %.3g s, simulated %.3g s\n",
                    nx_coll_name(a->kind), a->name, (unsigned)net->ranks, (unsigned)net->hosts,
                    bytes, f.time_s, cost.is.time_s);
    }
    assert_true((ratio <= bound) && (ratio >= 1 / bound));
}

static void check_times(const nx_algorithm *a, uint32_t ranks, uint32_t per_host)
{
    static const size_t bytes[] = {64, 4096, 1 << 18, 1 << 24};
    const nx_net net = make_net(ranks, (ranks + per_host - 1) / per_host);

    for (size_t i = 0; i < sizeof(bytes) / sizeof(bytes[0]); i++) {
        check_time(a, &net, bytes[i]);
    }
}

static void test_times_are_near_the_simulated_ones(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 3, 4, 7, 8, 24, 32, 64, 100};
    size_t n;
    const nx_algorithm *all = nx_algorithms(&n);

    for (size_t i = 0; i < n; i++) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            check_times(&all[i], sizes[s], 1);
            check_times(&all[i], sizes[s], 4);
            check_times(&all[i], sizes[s], 8);
            check_times(&all[i], sizes[s], sizes[s]);
        }
    }
}

/* A different network: slow, distant, many small hosts. */
static void test_times_are_near_on_a_slow_network(void **state)
{
    (void)state;
    nx_net net = make_net(32, 16);
    size_t n;
    const nx_algorithm *all = nx_algorithms(&n);

    net.latency = 1e-3;
    net.bandwidth = 12.5e6;
    for (size_t i = 0; i < n; i++) {
        for (size_t bytes = 512; bytes <= 1 << 22; bytes *= 16) {
            check_time(&all[i], &net, bytes);
        }
    }
}

/* ---- parts --------------------------------------------------------------------------- */

static void check_hosts(uint32_t ranks, uint32_t hosts)
{
    const nx_net net = make_net(ranks, hosts);
    const nx_split blocks = nx_split_even(ranks, hosts);
    uint32_t rank = 0;

    for (uint32_t h = 0; h < hosts; h++) {
        for (size_t i = 0; i < nx_split_at(&blocks, h).len; i++) {
            assert_int_equal(nx_net_host(&net, rank++), h);
        }
    }
    assert_int_equal(nx_net_per_host(&net), nx_split_max(&blocks));
}

static void test_hosts_hold_ranks_in_even_blocks(void **state)
{
    (void)state;
    for (uint32_t ranks = 1; ranks <= 40; ranks++) {
        for (uint32_t hosts = 1; hosts <= ranks; hosts++) {
            check_hosts(ranks, hosts);
        }
    }
}

static void test_borders_are_counted_around_the_end(void **state)
{
    (void)state;
    const nx_net net = make_net(10, 4); /* 3, 3, 2, 2 */

    for (uint32_t first = 0; first < 10; first++) {
        uint32_t borders = 0;

        for (uint32_t hops = 0; hops < 25; hops++) {
            assert_int_equal(nx_net_borders(&net, first, hops), borders);
            borders += nx_net_host(&net, (first + hops) % 10) !=
                       nx_net_host(&net, (first + hops + 1) % 10);
        }
    }
}

static void test_most_bits_are_found(void **state)
{
    (void)state;
    for (uint32_t from = 0; from < 70; from++) {
        for (uint32_t to = from + 1; to < 140; to++) {
            uint32_t most = 0;

            for (uint32_t i = from; i < to; i++) {
                const uint32_t bits = (uint32_t)__builtin_popcount(i);

                most = (bits > most) ? bits : most;
            }
            assert_int_equal(nx_most_bits(from, to), most);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts_are_exact_for_sizes_up_to_64),
        cmocka_unit_test(test_counts_are_exact_for_equal_hosts),
        cmocka_unit_test(test_counts_are_exact_for_some_large_sizes),
        cmocka_unit_test(test_counts_are_exact_for_many_segments),
        cmocka_unit_test(test_counts_are_exact_for_blocks_of_many_sizes),
        cmocka_unit_test(test_times_are_near_the_simulated_ones),
        cmocka_unit_test(test_times_are_near_on_a_slow_network),
        cmocka_unit_test(test_hosts_hold_ranks_in_even_blocks),
        cmocka_unit_test(test_borders_are_counted_around_the_end),
        cmocka_unit_test(test_most_bits_are_found),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
