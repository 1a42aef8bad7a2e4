/* join_attack_test.c - processes without authorisation are rejected, and disturb no other
 * process. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/random.h"
#include "cluster/join/frames.h"
#include "cluster/join_party.h"
#include "unit.h"

enum { FLOOD = 1000 };

/* ---- strangers: a joiner's endpoint, misused ----------------------------------------- */

typedef struct stranger stranger;

typedef struct stranger_link {
    stranger *owner;
    nx_link *link;
    bool up, down;
    nexar_err err;
    char why[256];
    uint8_t refused[NX_REASON_MAX + 16]; /* the first REFUSED that arrived */
    size_t refused_len;
} stranger_link;

struct stranger {
    nx_loop *loop;
    nx_quic *quic;
    nx_join_string seed;
    stranger_link *links;
    size_t n, settled, down; /* settled: came up, or went down before it was up */
    size_t wait_settled, wait_down;
    nx_event reached;
};

static void check_reached(stranger *s)
{
    if ((s->settled >= s->wait_settled) && (s->down >= s->wait_down)) {
        nx_event_set(s->loop, &s->reached);
    }
}

static void on_up(void *ctx, nx_link *link)
{
    stranger_link *l = ctx;

    (void)link;
    l->up = true;
    l->owner->settled++;
    check_reached(l->owner);
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    stranger_link *l = ctx;

    (void)link;
    if ((lane == NX_LANE_CONTROL) && (len <= sizeof(l->refused)) && (l->refused_len == 0)) {
        memcpy(l->refused, data, len);
        l->refused_len = len;
    }
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    (void)ctx;
    (void)link;
    (void)id;
    (void)off;
    (void)data;
    (void)len;
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    stranger_link *l = ctx;

    l->down = true;
    l->err = err;
    (void)snprintf(l->why, sizeof(l->why), "%s", why);
    l->link = NULL;
    nx_link_close(link, false);
    l->owner->settled += l->up ? 0 : 1;
    l->owner->down++;
    check_reached(l->owner);
}

static const nx_link_up stranger_up = {.on_up = on_up,
                                       .on_frame = on_frame,
                                       .on_data = on_data,
                                       .on_sent = nx_link_sent_ignored,
                                       .on_down = on_down};

static void not_accepted(void *ctx, nx_link *link, uint64_t member)
{
    (void)ctx;
    (void)member;
    nx_link_close(link, false);
}

static void stranger_begin(stranger *s, const party *p, size_t n)
{
    nx_quic_config config = {.random = &nx_random_system, .peers = 1, .on_accept = not_accepted};

    *s = (stranger){.n = n, .links = nx_calloc(n, sizeof(stranger_link))};
    assert_non_null(s->links);
    assert_int_equal(nx_join_string_parse(p->join, &s->seed), NEXAR_OK);
    assert_int_equal(nx_loop_create(&s->loop, &nx_clock_system), NEXAR_OK);
    config.loop = s->loop;
    nx_loop_lock(s->loop);
    assert_int_equal(nx_quic_open(&s->quic, &config), NEXAR_OK);
    for (size_t i = 0; i < n; i++) {
        const nx_quic_target target = {
            .pin = s->seed.pin, .addresses = s->seed.addresses, .n = s->seed.naddresses};

        s->links[i].owner = s;
        assert_int_equal(
            nx_quic_dial(s->quic, &target, &stranger_up, &s->links[i], &s->links[i].link),
            NEXAR_OK);
    }
}

/* Waits until this many have come up or failed to, and this many are down. */
static void stranger_wait(stranger *s, size_t settled, size_t down)
{
    s->wait_settled = settled;
    s->wait_down = down;
    s->reached = (nx_event){0};
    check_reached(s);
    assert_true(nx_loop_wait(s->loop, &s->reached, nx_loop_now(s->loop) + PARTY_PATIENCE));
}

static void stranger_send(stranger *s, size_t i, nx_lane lane, const void *data, size_t len)
{
    const nx_bytes bytes = {.ptr = data, .len = len};

    assert_int_equal(nx_link_send_frame(s->links[i].link, lane, &bytes, 1), NEXAR_OK);
}

static void stranger_end(stranger *s)
{
    nx_quic_close(s->quic);
    nx_loop_unlock(s->loop);
    nx_loop_destroy(s->loop);
    nx_free(s->links);
}

static void assert_told(const stranger_link *l, const char *words)
{
    nx_reader r = nx_reader_make(l->refused, l->refused_len);
    nx_refused refused;

    assert_int_equal(nx_read_u8(&r), NX_JOIN_REFUSED);
    assert_int_equal(nx_refused_decode(&r, &refused), NEXAR_OK);
    if (strstr(refused.text, words) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", refused.text, words);
    }
}

/* ---- tests --------------------------------------------------------------------------- */

static void add_ranks(party *p, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        (void)party_add(p, NX_RANK_ANY);
    }
}

static void leave_all(party *p)
{
    for (size_t i = 0; i < p->n; i++) {
        party_leave(&p->ranks[i], true);
    }
}

static void test_garbage_frames_are_refused_in_words(void **state)
{
    static const uint8_t version[] = {NX_JOIN_HELLO, 0, 9};
    party p;
    stranger s;

    (void)state;
    party_begin(&p, 2, "127.0.0.1", 0);
    stranger_begin(&s, &p, 3);
    stranger_wait(&s, 3, 0);
    stranger_send(&s, 0, NX_LANE_CONTROL, "GET / HTTP/1.1", 14);
    stranger_send(&s, 1, NX_LANE_CONTROL, version, sizeof(version));
    stranger_send(&s, 2, NX_LANE_MESSAGE, "hello", 5);
    stranger_wait(&s, 3, 3);
    assert_told(&s.links[0], "no hello");
    assert_told(&s.links[1], "protocol 9");
    assert_told(&s.links[2], "message");
    stranger_end(&s);
    party_wait_event(&p, NX_SEED_REFUSED, 3);
    add_ranks(&p, 2);
    party_form(&p);
    leave_all(&p);
    party_end(&p);
}

/* Half of them send garbage, half of them are silent, all at once. */
static void test_a_thousand_unauthenticated_peers_do_not_prevent_formation(void **state)
{
    party p;
    stranger s;
    uint64_t began;
    size_t strangers = 0;

    (void)state;
    party_begin(&p, 4, "127.0.0.1", 0);
    stranger_begin(&s, &p, FLOOD);
    nx_loop_unlock(s.loop);
    assert_int_equal(nx_loop_background_start(s.loop), NEXAR_OK);
    add_ranks(&p, 4);
    began = nx_now(&nx_clock_system);
    party_form(&p);
    for (size_t i = 0; i < 4; i++) { /* they answer the seed meanwhile */
        assert_int_equal(nx_loop_background_start(p.ranks[i].loop), NEXAR_OK);
    }
    print_message("4 ranks among %d strangers: %.0f ms\n", FLOOD,
                  (double)(nx_now(&nx_clock_system) - began) / 1e6);
    nx_loop_background_stop(s.loop);
    nx_loop_lock(s.loop);
    stranger_wait(&s, FLOOD, 0);
    for (size_t i = 0; i < FLOOD; i += 2) {
        if (s.links[i].link != NULL) {
            stranger_send(&s, i, NX_LANE_CONTROL, "rubbish", 7);
        }
    }
    stranger_wait(&s, FLOOD, FLOOD); /* silent ones too, after 10 s */
    for (size_t i = 0; i < FLOOD; i++) {
        strangers += s.links[i].up ? 1 : 0;
    }
    /* On a very busy machine all of them have timed out before. */
    print_message("%zu of the strangers got as far as being turned away\n", strangers);
    stranger_end(&s);
    assert_int_equal(party_events(&p, NX_SEED_LOST), 0);
    assert_true(party_events(&p, NX_SEED_REFUSED) < FLOOD / 2);
    for (size_t i = 0; i < 4; i++) {
        nx_loop_background_stop(p.ranks[i].loop);
    }
    leave_all(&p);
    party_end(&p);
}

typedef struct sprayer {
    struct sockaddr_storage to;
    _Atomic bool stop;
    uint64_t sent;
} sprayer;

/* Random bytes, half of them with the header of a QUIC Initial packet. */
static void *spray(void *ctx)
{
    sprayer *w = ctx;
    nx_random_seeded random;
    uint8_t packet[1400];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    nx_random_seeded_init(&random, 1);
    while (!atomic_load(&w->stop)) {
        const size_t len = (size_t)nx_random_below(&random.random, sizeof(packet));

        nx_random_fill(&random.random, packet, len);
        if ((len > 100) && (packet[1] % 2 == 0)) {
            static const uint8_t head[] = {0xc3, 0, 0, 0, 1, 8};

            memcpy(packet, head, sizeof(head));
        }
        (void)sendto(fd, packet, len, MSG_DONTWAIT, (const struct sockaddr *)&w->to,
                     sizeof(struct sockaddr_in));
        w->sent++;
    }
    (void)close(fd);
    return NULL;
}

static void test_garbage_datagrams_do_not_keep_a_world_from_forming(void **state)
{
    party p;
    sprayer w = {0};
    pthread_t thread;

    (void)state;
    party_begin(&p, 4, "127.0.0.1", 0);
    w.to = party_address(&p);
    assert_int_equal(pthread_create(&thread, NULL, spray, &w), 0);
    add_ranks(&p, 4);
    party_form(&p);
    atomic_store(&w.stop, true);
    (void)pthread_join(thread, NULL);
    print_message("4 ranks formed under %llu datagrams of garbage\n", (unsigned long long)w.sent);
    leave_all(&p);
    party_end(&p);
}

static void test_seeds_and_jobs_on_one_host_do_not_meet(void **state)
{
    party a, b;
    party_rank *r;
    const char *token_end;

    (void)state;
    party_begin(&a, 1, "127.0.0.1", 0);
    party_begin(&b, 1, "127.0.0.1", 0);
    /* The token of one world, used at the other. */
    r = party_add(&b, 0);
    token_end = strchr(a.join, '@');
    memcpy(r->join, a.join, (size_t)(token_end - a.join));
    party_start(r);
    party_finish(r);
    party_assert_failed(r, NEXAR_EAUTH, "token");
    /* Both worlds form, each alone. */
    (void)party_add(&a, 0);
    party_form(&a);
    r = party_add(&b, 0);
    party_start(r);
    party_finish(r);
    assert_int_equal(r->err, NEXAR_OK);
    assert_memory_not_equal(&nx_join_view(r->j)->job, &nx_join_view(a.ranks[0].j)->job,
                            sizeof(nx_job_id));
    leave_all(&a);
    leave_all(&b);
    party_end(&a);
    party_end(&b);
}

/* ---- links between members ----------------------------------------------------------- */

/* The member that rank 1 has accepted, and the link to it. */
static _Atomic uint64_t accepted;
static stranger host;
static stranger_link guest = {.owner = &host};

static void note_accept(void *ctx, nx_link *link, uint64_t member)
{
    const party_rank *r = ctx;

    host.loop = r->loop;
    link->up = &stranger_up;
    link->up_ctx = &guest;
    atomic_store(&accepted, member);
}

/* Dials from |r|'s endpoint, until the link is up and accepted, or down with that error. */
static nexar_err dial(party_rank *r, const nx_member *where, uint64_t member)
{
    stranger s = {.loop = r->loop, .wait_down = 1};
    stranger_link l = {.owner = &s};
    const nx_quic_target target = {
        .member = member, .addresses = where->addresses, .n = where->naddresses};
    uint64_t until;

    nx_loop_lock(r->loop);
    until = nx_loop_now(r->loop) + PARTY_PATIENCE;
    assert_int_equal(
        nx_quic_dial(nx_inet_quic(nx_join_endpoint(r->j)), &target, &stranger_up, &l, &l.link),
        NEXAR_OK);
    while (!l.down && !(l.up && (atomic_load(&accepted) != 0))) {
        (void)nx_loop_wait(r->loop, &s.reached, nx_loop_now(r->loop) + 20 * PARTY_MS);
        assert_true(nx_loop_now(r->loop) < until);
    }
    if (l.link != NULL) {
        nx_link_close(l.link, false);
    }
    nx_loop_unlock(r->loop);
    return l.up ? NEXAR_OK : l.err;
}

static void test_a_member_cannot_pose_as_another(void **state)
{
    party p, other;
    const nx_view *view;

    (void)state;
    party_begin(&p, 3, "127.0.0.1", 0);
    party_begin(&other, 1, "127.0.0.1", 0);
    for (uint32_t i = 0; i < 3; i++) { /* one after another: rank i is member i + 1 */
        party_rank *r = party_add(&p, i);

        r->config.on_accept = note_accept;
        party_start(r);
        party_wait_event(&p, NX_SEED_JOINED, i + 1);
    }
    for (size_t i = 0; i < 3; i++) {
        party_finish(&p.ranks[i]);
        assert_int_equal(p.ranks[i].err, NEXAR_OK);
    }
    (void)party_add(&other, 0);
    party_form(&other);
    assert_int_equal(nx_loop_background_start(p.ranks[1].loop), NEXAR_OK);
    view = nx_join_view(p.ranks[0].j);

    /* Rank 1 is at the address and shows its own certificate; the caller wanted rank 2. */
    assert_int_equal(dial(&p.ranks[0], &view->members[1], view->members[2].id), NEXAR_EAUTH);
    /* Dialled as itself it is accepted, and identifies the caller by its certificate. */
    assert_int_equal(dial(&p.ranks[0], &view->members[1], view->members[1].id), NEXAR_OK);
    assert_int_equal(atomic_load(&accepted), view->members[0].id);
    /* A member of another job is no member here, though its number may be equal. */
    assert_int_equal(dial(&other.ranks[0], &view->members[1], view->members[1].id), NEXAR_EAUTH);

    nx_loop_background_stop(p.ranks[1].loop);
    leave_all(&p);
    leave_all(&other);
    party_end(&p);
    party_end(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage_frames_are_refused_in_words),
        cmocka_unit_test(test_a_thousand_unauthenticated_peers_do_not_prevent_formation),
        cmocka_unit_test(test_garbage_datagrams_do_not_keep_a_world_from_forming),
        cmocka_unit_test(test_seeds_and_jobs_on_one_host_do_not_meet),
        cmocka_unit_test(test_a_member_cannot_pose_as_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
