/* join_test.c - worlds that form over the loopback, and those that fail to. */
#include "cluster/join/join.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cluster/addresses.h"
#include "cluster/join_party.h"
#include "transport/quic/endpoint.h"
#include "unit.h"

/* A world of |size| over |listen|; reports the time until the last rank has it. */
static uint64_t form(uint32_t size, const char *listen)
{
    party p;
    uint64_t longest = 0;
    bool ended = false;

    party_begin(&p, size, listen, 0);
    for (uint32_t i = 0; i < size; i++) {
        (void)party_add(&p, (i % 2 == 0) ? NX_RANK_ANY : i);
    }
    party_form(&p);
    assert_int_equal(party_events(&p, NX_SEED_JOINED), size);
    assert_int_equal(party_events(&p, NX_SEED_FORMED), 1);
    for (uint32_t i = 0; i < size; i++) {
        longest = (p.ranks[i].took_ns > longest) ? p.ranks[i].took_ns : longest;
        assert_int_equal(nx_seed_wait(p.seed, 0, &ended), NEXAR_OK);
        assert_false(ended);
        party_leave(&p.ranks[i], true);
    }
    assert_int_equal(nx_seed_wait(p.seed, PARTY_PATIENCE, &ended), NEXAR_OK);
    assert_true(ended);
    assert_int_equal(party_events(&p, NX_SEED_LEFT), size);
    assert_int_equal(party_events(&p, NX_SEED_LOST), 0);
    assert_int_equal(party_events(&p, NX_SEED_ENDED), 1);
    party_end(&p);
    return longest;
}

static void test_worlds_form_and_end(void **state)
{
    (void)state;
    (void)form(1, "127.0.0.1");
    (void)form(2, "127.0.0.1");
    print_message("16 ranks formed in %.1f ms\n", (double)form(16, "127.0.0.1") / 1e6);
}

static void test_a_world_forms_over_ipv6(void **state)
{
    struct sockaddr_storage loopback[2];
    size_t n;

    (void)state;
    if (nx_addresses_find("::1", "", 1, loopback, 2, &n) != NEXAR_OK) {
        print_message("no IPv6 here\n");
        skip();
    }
    (void)form(3, "[::1]");
}

static void test_every_address_of_the_seed_is_in_its_join_string(void **state)
{
    struct sockaddr_storage all[NX_SEED_ADDRESSES_MAX];
    size_t n = 0;
    party p;
    nx_join_string parsed;

    (void)state;
    assert_int_equal(nx_addresses_find("", "", 1, all, NX_SEED_ADDRESSES_MAX, &n), NEXAR_OK);
    party_begin(&p, 1, "", 0);
    assert_int_equal(nx_join_string_parse(p.join, &parsed), NEXAR_OK);
    assert_int_equal(parsed.naddresses, n);
    (void)party_add(&p, 0);
    p.ranks[0].config.listen = "";
    party_form(&p);
    assert_true(nx_join_view(p.ranks[0].j)->members[0].naddresses >= n);
    party_leave(&p.ranks[0], true);
    party_end(&p);
}

static void join_one(party_rank *r)
{
    party_start(r);
    party_finish(r);
}

static void test_a_wrong_token_is_refused_at_once(void **state)
{
    party p;
    party_rank *r;

    (void)state;
    party_begin(&p, 2, "127.0.0.1", 0);
    r = party_add(&p, 0);
    r->join[10] = (r->join[10] == 'A') ? 'B' : 'A';
    join_one(r);
    party_assert_failed(r, NEXAR_EAUTH, "token");
    assert_null(strstr(r->text, "nexar://"));
    assert_true(r->took_ns < PARTY_PATIENCE / 4);
    assert_int_equal(party_events(&p, NX_SEED_REFUSED), 1);
    assert_true(party_said(&p, NX_SEED_REFUSED, "127.0.0.1:"));
    party_end(&p);
}

static void test_a_wrong_pin_is_refused_before_anything_is_sent(void **state)
{
    party p;
    party_rank *r;
    char *pin;

    (void)state;
    party_begin(&p, 2, "127.0.0.1", 0);
    r = party_add(&p, 0);
    pin = strstr(r->join, "?pin=");
    assert_non_null(pin);
    pin[8] = (pin[8] == 'A') ? 'B' : 'A';
    join_one(r);
    party_assert_failed(r, NEXAR_EAUTH, "the seed at 127.0.0.1:");
    assert_true(r->took_ns < PARTY_PATIENCE / 4);
    /* The handshake did not end: the seed has no client, and received no HELLO. */
    for (int kind = 0; kind <= NX_SEED_ENDED; kind++) {
        assert_int_equal(party_events(&p, (nx_seed_event_kind)kind), 0);
    }
    party_end(&p);
}

/* A socket that is bound and does not answer, or a closed port. */
static void absent_seed(bool bound)
{
    struct sockaddr_storage a;
    struct sockaddr_in *in = (struct sockaddr_in *)(void *)&a;
    socklen_t len = sizeof(*in);
    char address[NX_ADDRESS_TEXT], *at;
    party p;
    party_rank *r;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    assert_true(fd >= 0);
    assert_int_equal(nx_address_parse("127.0.0.1:0", 0, &a), NEXAR_OK);
    assert_int_equal(bind(fd, (const struct sockaddr *)in, sizeof(*in)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)in, &len), 0);
    if (!bound) {
        (void)close(fd);
    }
    (void)nx_address_text(&a, address);
    party_begin(&p, 1, "127.0.0.1", 0);
    r = party_add(&p, 0);
    at = strchr(r->join, '@');
    (void)snprintf(at, (size_t)(r->join + sizeof(r->join) - at), "@%s%s", address,
                   strstr(p.join, "/?pin="));
    r->config.formation_timeout_ns = 700 * PARTY_MS;
    join_one(r);
    party_assert_failed(r, NEXAR_ECONNECT, address);
    assert_true(r->took_ns >= 700 * PARTY_MS);
    party_end(&p);
    if (bound) {
        (void)close(fd);
    }
}

static void test_an_absent_seed_is_named(void **state)
{
    (void)state;
    absent_seed(true);
    absent_seed(false);
}

static void test_a_missing_rank_is_named_on_every_rank(void **state)
{
    party p;

    (void)state;
    party_begin(&p, 4, "127.0.0.1", 5 * PARTY_SECOND);
    for (uint32_t rank = 0; rank < 4; rank++) {
        if (rank != 2) {
            party_start(party_add(&p, rank));
        }
    }
    for (size_t i = 0; i < 3; i++) {
        party_finish(&p.ranks[i]);
        party_assert_failed(&p.ranks[i], NEXAR_ETIMEDOUT, "3 of 4 ranks have joined");
        party_assert_failed(&p.ranks[i], NEXAR_ETIMEDOUT, "missing: rank 2;");
    }
    party_wait_event(&p, NX_SEED_TIMEOUT, 1);
    assert_true(party_said(&p, NX_SEED_TIMEOUT, "missing: rank 2;"));
    party_end(&p);
}

static void test_a_joiner_that_gives_up_sends_bye(void **state)
{
    party p;
    party_rank *r;

    (void)state;
    party_begin(&p, 2, "127.0.0.1", 0);
    r = party_add(&p, 1);
    r->config.formation_timeout_ns = 3 * PARTY_SECOND;
    join_one(r);
    party_assert_failed(r, NEXAR_ETIMEDOUT, "within 3s: 1 of 2 ranks have joined; missing: rank 0");
    party_wait_event(&p, NX_SEED_LEFT, 1);
    assert_true(party_said(&p, NX_SEED_LEFT, "it gave up waiting after 3s"));
    party_end(&p);
}

static void test_settings_that_cannot_be_met_are_refused_in_words(void **state)
{
    party p;
    party_rank *first, *r;

    (void)state;
    party_begin(&p, 2, "127.0.0.1", 0);
    first = party_add(&p, 1);
    party_start(first);
    party_wait_event(&p, NX_SEED_JOINED, 1);
    r = party_add(&p, 1);
    join_one(r);
    party_assert_failed(r, NEXAR_EINVAL, "rank 1 is taken by");
    r = party_add(&p, 2);
    join_one(r);
    party_assert_failed(r, NEXAR_EINVAL, "ranks 0 to 1");
    r = party_add(&p, NX_RANK_ANY);
    r->config.world_size = 3;
    join_one(r);
    party_assert_failed(r, NEXAR_EINVAL, "expects a world of 3 ranks; this one has 2");
    r = party_add(&p, NX_RANK_ANY);
    r->config.listen = "nonsense:";
    join_one(r);
    party_assert_failed(r, NEXAR_EINVAL, "nonsense");
    r = party_add(&p, NX_RANK_ANY);
    (void)snprintf(r->join, sizeof(r->join), "rubbish");
    join_one(r);
    party_assert_failed(r, NEXAR_EINVAL, "nexar://");

    r = party_add(&p, NX_RANK_ANY); /* the world still forms */
    join_one(r);
    party_finish(first);
    assert_int_equal(first->err, NEXAR_OK);
    assert_int_equal(r->err, NEXAR_OK);
    assert_int_equal(nx_join_rank(r->j), 0);

    r = party_add(&p, 2);
    join_one(r);
    party_assert_failed(r, NEXAR_EINVAL, "the world of 2 ranks has formed");
    party_assert_failed(r, NEXAR_EINVAL, "rank 2 was asked for");
    party_leave(&p.ranks[0], true);
    party_leave(&p.ranks[p.n - 2], true);
    party_end(&p);
}

static void test_one_lost_before_the_start_makes_room(void **state)
{
    party p;
    party_rank *gone, *a, *b;

    (void)state;
    party_begin(&p, 2, "127.0.0.1", 0);
    gone = party_add(&p, 0);
    gone->config.formation_timeout_ns = 3 * PARTY_SECOND;
    a = party_add(&p, 1);
    join_one(gone);
    party_assert_failed(gone, NEXAR_ETIMEDOUT, "missing: rank 1");
    party_wait_event(&p, NX_SEED_LEFT, 1);
    party_start(a);
    b = party_add(&p, 0);
    join_one(b);
    party_finish(a);
    assert_int_equal(a->err, NEXAR_OK);
    assert_int_equal(b->err, NEXAR_OK);
    party_leave(a, true);
    party_leave(b, false); /* and one that exits without a goodbye is lost */
    party_wait_event(&p, NX_SEED_ENDED, 1);
    assert_int_equal(party_events(&p, NX_SEED_LOST), 1);
    party_end(&p);
}

static void test_a_later_joiner_is_admitted(void **state)
{
    enum { LATE = 3 };
    party p;
    party_rank *members[2], *late[LATE];

    (void)state;
    party_begin(&p, 2, "127.0.0.1", 0);
    for (size_t i = 0; i < 2; i++) {
        members[i] = party_add(&p, NX_RANK_ANY);
        members[i]->drive = true;
    }
    party_form(&p);
    for (size_t i = 0; i < LATE; i++) {
        late[i] = party_add(&p, NX_RANK_ANY);
        late[i]->config.world_size = 2; /* the initial value */
        party_start(late[i]);
    }
    party_wait_waiting(members[0], LATE);
    party_wait_waiting(members[1], LATE);
    assert_int_equal(party_events(&p, NX_SEED_WAITING), LATE);
    party_let_in(members, 2);
    for (size_t i = 0; i < LATE; i++) {
        party_finish(late[i]);
        assert_int_equal(late[i]->err, NEXAR_OK);
        party_assert_same(members[0], late[i]);
    }
    party_wait_started(members[0], 2);
    party_wait_started(members[1], 2);
    assert_int_equal(nx_join_view(members[0]->j)->size, 2 + LATE);
    assert_int_equal(members[0]->waiting, 0);
    for (size_t i = 0; i < LATE; i++) {
        party_leave(late[i], true);
    }
    party_leave(members[0], true);
    party_leave(members[1], true);
    party_wait_event(&p, NX_SEED_ENDED, 1);
    party_end(&p);
}

/* Whether links of |r| grant the credit for |peers| peers. */
static bool divides(party_rank *r, size_t peers)
{
    nx_quic *q = nx_inet_quic(nx_join_endpoint(r->j));
    uint64_t window;
    bool same;

    nx_loop_lock(r->loop);
    window = q->window;
    nx_quic_set_peers(q, peers);
    same = (window == q->window);
    q->window = window;
    nx_loop_unlock(r->loop);
    return same;
}

/* No process knew the size of the world before. */
static void test_what_can_be_received_is_divided_among_the_world(void **state)
{
    enum { WORLD = 8, LATE = 3 };
    party p;
    party_rank *members[WORLD], *late[LATE];

    (void)state;
    party_begin(&p, WORLD, "127.0.0.1", 0);
    for (size_t i = 0; i < WORLD; i++) {
        members[i] = party_add(&p, NX_RANK_ANY);
        members[i]->drive = true;
        assert_int_equal(members[i]->config.world_size, 0);
    }
    party_form(&p);
    for (size_t i = 0; i < WORLD; i++) {
        assert_true(divides(members[i], WORLD - 1));
    }
    for (size_t i = 0; i < LATE; i++) {
        late[i] = party_add(&p, NX_RANK_ANY);
        party_start(late[i]);
    }
    party_wait_waiting(members[0], LATE);
    party_let_in(members, WORLD);
    assert_true(divides(members[0], WORLD + LATE - 1));
    for (size_t i = 0; i < LATE; i++) {
        party_finish(late[i]);
        assert_int_equal(late[i]->err, NEXAR_OK);
        assert_true(divides(late[i], WORLD + LATE - 1));
    }
    for (size_t i = 0; i < WORLD + LATE; i++) {
        party_leave(&p.ranks[i], true);
    }
    party_end(&p);
}

static void test_a_joiner_that_is_not_admitted_gives_up(void **state)
{
    party p;
    party_rank *member, *late;

    (void)state;
    party_begin(&p, 1, "127.0.0.1", 0);
    member = party_add(&p, NX_RANK_ANY);
    member->drive = true;
    party_form(&p);
    late = party_add(&p, NX_RANK_ANY);
    late->config.formation_timeout_ns = PARTY_SECOND;
    party_start(late);
    party_wait_waiting(member, 1);
    party_finish(late);
    party_assert_failed(late, NEXAR_ETIMEDOUT, "its ranks have not called nexar_comm_update");
    party_wait_waiting(member, 0);
    party_leave(member, true);
    party_end(&p);
}

static void test_a_restarted_seed_resumes(void **state)
{
    char folder[] = "/tmp/nexar-join-XXXXXX", path[64];
    party p;
    party_rank *members[2], *waiter, *late;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/state", folder);
    party_begin(&p, 2, "127.0.0.1", 0);
    party_last(&p, path);
    for (size_t i = 0; i < 2; i++) {
        members[i] = party_add(&p, NX_RANK_ANY);
        members[i]->drive = true;
    }
    party_form(&p);
    waiter = party_add(&p, NX_RANK_ANY);
    party_start(waiter);
    party_wait_waiting(members[0], 1);
    party_wait_waiting(members[1], 1);
    party_seed_dies(&p);
    party_wait_waiting(members[0], 0); /* no joiner can be admitted now */
    party_wait_waiting(members[1], 0);
    late = party_add(&p, NX_RANK_ANY);
    party_start(late); /* by the old string; it dials until a seed runs */
    party_seed_again(&p);
    party_wait_back(members[0], 1);
    party_wait_back(members[1], 1);
    party_wait_waiting(members[0], 2);
    party_wait_waiting(members[1], 2);
    party_let_in(members, 2);
    party_finish(waiter);
    party_finish(late);
    assert_int_equal(waiter->err, NEXAR_OK);
    assert_int_equal(late->err, NEXAR_OK);
    party_assert_same(members[0], waiter);
    party_assert_same(members[0], late);
    assert_int_equal(nx_join_rank(waiter->j), 2);
    party_leave(waiter, true);
    party_leave(late, true);
    party_leave(members[0], true);
    party_leave(members[1], true);
    party_wait_event(&p, NX_SEED_ENDED, 1);
    party_end(&p);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void test_a_state_of_another_world_is_refused(void **state)
{
    char folder[] = "/tmp/nexar-join-XXXXXX", path[64];
    nx_seed *other = NULL;
    party p;

    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/state", folder);
    party_begin(&p, 2, "127.0.0.1", 0);
    party_last(&p, path);
    /* While it runs, another seed cannot start. */
    assert_int_equal(nx_seed_create(&other, &p.config), NEXAR_ESYS);
    party_seed_dies(&p);
    p.config.world_size = 3;
    assert_int_equal(nx_seed_create(&other, &p.config), NEXAR_EINVAL);
    assert_non_null(strstr(nexar_last_error(), "a world of 2 ranks, not of 3"));
    assert_int_equal(truncate(path, 300), 0);
    p.config.world_size = 2;
    assert_int_equal(nx_seed_create(&other, &p.config), NEXAR_EPROTO);
    assert_non_null(strstr(nexar_last_error(), "damaged"));
    party_end(&p);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void on_seed(void *ctx, bool there, const char *why)
{
    party_rank *r = ctx;

    assert_false(there);
    (void)snprintf(r->text, sizeof(r->text), "%s", why);
    nx_event_set(r->loop, &r->seed_gone);
}

static void test_the_world_runs_on_without_its_seed(void **state)
{
    party p;

    (void)state;
    party_begin(&p, 1, "127.0.0.1", 0);
    (void)party_add(&p, 0);
    p.ranks[0].config.on_seed = on_seed;
    party_form(&p);
    nx_seed_destroy(p.seed);
    p.seed = NULL;
    nx_loop_lock(p.ranks[0].loop);
    assert_true(nx_loop_wait(p.ranks[0].loop, &p.ranks[0].seed_gone,
                             nx_loop_now(p.ranks[0].loop) + PARTY_PATIENCE));
    nx_loop_unlock(p.ranks[0].loop);
    assert_non_null(strstr(p.ranks[0].text, "127.0.0.1"));
    assert_non_null(nx_join_view(p.ranks[0].j));
    party_leave(&p.ranks[0], true); /* and leaving does not wait for the seed */
    party_end(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worlds_form_and_end),
        cmocka_unit_test(test_a_world_forms_over_ipv6),
        cmocka_unit_test(test_every_address_of_the_seed_is_in_its_join_string),
        cmocka_unit_test(test_a_wrong_token_is_refused_at_once),
        cmocka_unit_test(test_a_wrong_pin_is_refused_before_anything_is_sent),
        cmocka_unit_test(test_an_absent_seed_is_named),
        cmocka_unit_test(test_a_missing_rank_is_named_on_every_rank),
        cmocka_unit_test(test_a_joiner_that_gives_up_sends_bye),
        cmocka_unit_test(test_settings_that_cannot_be_met_are_refused_in_words),
        cmocka_unit_test(test_one_lost_before_the_start_makes_room),
        cmocka_unit_test(test_a_later_joiner_is_admitted),
        cmocka_unit_test(test_what_can_be_received_is_divided_among_the_world),
        cmocka_unit_test(test_a_joiner_that_is_not_admitted_gives_up),
        cmocka_unit_test(test_a_restarted_seed_resumes),
        cmocka_unit_test(test_a_state_of_another_world_is_refused),
        cmocka_unit_test(test_the_world_runs_on_without_its_seed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
