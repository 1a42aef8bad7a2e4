/* hosts_test.c - the map of ranks and hosts, for layouts of all kinds. */
#include "coll/hosts.h"

#include "oom.h"
#include "rand.h"
#include "unit.h"

enum { MOST = 40 };

/* Checks the map of |labels| against a naive computation. */
static void check(const uint32_t *labels, uint32_t ranks)
{
    nx_hosts *h = NULL;
    uint32_t next = 0, at = 0, least = ranks, most = 0;
    bool in_order = true;

    assert_int_equal(nx_hosts_create(&h, labels, ranks), NEXAR_OK);
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t earlier = 0, same = UINT32_MAX;

        for (uint32_t q = 0; q < r; q++) {
            if (labels[q] == labels[r]) {
                earlier++;
                same = q;
            }
        }
        assert_int_equal(nx_hosts_of(h, r), (same == UINT32_MAX) ? next++ : nx_hosts_of(h, same));
        assert_int_equal(nx_hosts_place(h, r), earlier);
        assert_int_equal(nx_hosts_rank(h, nx_hosts_of(h, r), earlier), r);
    }
    assert_int_equal(nx_hosts_n(h, ranks), next);
    for (uint32_t host = 0; host < next; host++) {
        const uint32_t count = nx_hosts_count(h, host);

        assert_int_equal(nx_hosts_before(h, host), at);
        for (uint32_t i = 0; i < count; i++, at++) {
            assert_int_equal(nx_hosts_order(h, at), nx_hosts_rank(h, host, i));
            in_order = in_order && (nx_hosts_order(h, at) == at);
        }
        least = (count < least) ? count : least;
        most = (count > most) ? count : most;
    }
    assert_int_equal(at, ranks);
    assert_int_equal(nx_hosts_least(h), least);
    assert_int_equal(nx_hosts_equal(h), least == most);
    assert_int_equal(nx_hosts_in_order(h), in_order);
    nx_hosts_destroy(h);
}

static void test_any_layout_is_mapped(void **state)
{
    nxt_rand rand = {11};
    uint32_t labels[MOST];

    (void)state;
    for (uint32_t ranks = 1; ranks <= MOST; ranks++) {
        for (uint32_t turn = 0; turn < 30; turn++) {
            const uint32_t hosts = 1 + nxt_below(&rand, ranks);

            for (uint32_t r = 0; r < ranks; r++) {
                labels[r] = (turn % 3 == 0)   ? nxt_below(&rand, hosts)
                            : (turn % 3 == 1) ? (ranks - 1 - r) % hosts
                                              : (uint32_t)((uint64_t)r * hosts / ranks);
            }
            check(labels, ranks);
        }
    }
}

static void test_no_map_is_a_host_for_each(void **state)
{
    (void)state;
    assert_int_equal(nx_hosts_n(NULL, 7), 7);
    for (uint32_t r = 0; r < 7; r++) {
        assert_int_equal(nx_hosts_of(NULL, r), r);
        assert_int_equal(nx_hosts_place(NULL, r), 0);
        assert_int_equal(nx_hosts_count(NULL, r), 1);
        assert_int_equal(nx_hosts_before(NULL, r), r);
        assert_int_equal(nx_hosts_rank(NULL, r, 0), r);
        assert_int_equal(nx_hosts_order(NULL, r), r);
    }
    assert_true(nx_hosts_in_order(NULL) && nx_hosts_equal(NULL));
    assert_int_equal(nx_hosts_least(NULL), 1);
}

static void test_teams_are_of_a_host_or_across(void **state)
{
    static const uint32_t labels[] = {0, 1, 0, 2, 1, 2, 2};
    nx_hosts *h = NULL;

    (void)state;
    assert_int_equal(nx_hosts_create(&h, labels, 7), NEXAR_OK);

    const nx_team local = {.hosts = h, .which = 2};
    const nx_team across = {.hosts = h, .across = true, .which = 1, .chief_host = NX_NO_HOST};
    const nx_team chief = {.hosts = h, .across = true, .chief_host = 2, .chief = 6};

    assert_int_equal(nx_team_rank(&local, 0), 3);
    assert_int_equal(nx_team_rank(&local, 2), 6);
    assert_int_equal(nx_team_rank(&across, 0), 2);
    assert_int_equal(nx_team_rank(&across, 1), 4);
    assert_int_equal(nx_team_rank(&across, 2), 5);
    assert_int_equal(nx_team_rank(&chief, 0), 0);
    assert_int_equal(nx_team_rank(&chief, 1), 1);
    assert_int_equal(nx_team_rank(&chief, 2), 6);
    nx_hosts_destroy(h);
}

static void test_out_of_memory_is_reported(void **state)
{
    static const uint32_t labels[] = {0, 0};

    (void)state;
    NXT_FOR_EACH_OOM (n) {
        nx_hosts *h = NULL;
        const nexar_err err = nx_hosts_create(&h, labels, 2);

        assert_int_equal(err, nx_alloc_failed() ? NEXAR_ENOMEM : NEXAR_OK);
        nx_hosts_destroy(h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_layout_is_mapped),
        cmocka_unit_test(test_no_map_is_a_host_for_each),
        cmocka_unit_test(test_teams_are_of_a_host_or_across),
        cmocka_unit_test(test_out_of_memory_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
