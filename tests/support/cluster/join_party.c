/* join_party.c - a seed and ranks as threads, over the loopback. */
#include "join_party.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "unit.h"

static void on_event(void *ctx, const nx_seed_event *event)
{
    party *p = ctx;

    (void)pthread_mutex_lock(&p->lock);
    p->events[event->kind]++;
    (void)snprintf(p->last_text[event->kind], sizeof(p->last_text[0]), "%s", event->text);
    (void)pthread_cond_broadcast(&p->changed);
    (void)pthread_mutex_unlock(&p->lock);
}

void party_begin(party *p, uint32_t world, const char *listen, uint64_t timeout_ns)
{
    memset(p, 0, sizeof(*p));
    nx_log_set_level(NX_LOG_ERROR); /* rejections are expected here */
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->changed, NULL);
    p->config = (nx_seed_config){.world_size = world,
                                 .listen = listen,
                                 .formation_timeout_ns = timeout_ns,
                                 .on_event = on_event,
                                 .ctx = p};
    assert_int_equal(nx_seed_create(&p->seed, &p->config), NEXAR_OK);
    assert_int_equal(nx_seed_join_text(p->seed, p->join, sizeof(p->join)), NEXAR_OK);
}

void party_seed_dies(party *p)
{
    nx_seed_destroy(p->seed);
    p->seed = NULL;
}

void party_seed_again(party *p)
{
    char join[NX_JOIN_STRING_MAX];

    assert_int_equal(nx_seed_create(&p->seed, &p->config), NEXAR_OK);
    assert_int_equal(nx_seed_join_text(p->seed, join, sizeof(join)), NEXAR_OK);
    assert_string_equal(join, p->join);
}

void party_last(party *p, const char *path)
{
    party_seed_dies(p);
    p->config.state = path;
    assert_int_equal(nx_seed_create(&p->seed, &p->config), NEXAR_OK);
    assert_int_equal(nx_seed_join_text(p->seed, p->join, sizeof(p->join)), NEXAR_OK);
}

void party_end(party *p)
{
    nx_seed_destroy(p->seed);
    (void)pthread_cond_destroy(&p->changed);
    (void)pthread_mutex_destroy(&p->lock);
}

static void on_view(void *ctx, nx_join *j)
{
    party_rank *r = ctx;

    assert_non_null(nx_join_view(j));
    r->views++;
}

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    const party_rank *r = ctx;

    (void)member;
    assert_in_range(r->views, 0, 1);
    nx_link_close(link, false);
}

static void on_waiting(void *ctx, uint32_t n)
{
    party_rank *r = ctx;

    (void)pthread_mutex_lock(&r->owner->lock);
    r->waiting = n;
    (void)pthread_cond_broadcast(&r->owner->changed);
    (void)pthread_mutex_unlock(&r->owner->lock);
}

static void on_started(void *ctx, uint64_t epoch)
{
    party_rank *r = ctx;

    (void)pthread_mutex_lock(&r->owner->lock);
    r->started = epoch;
    (void)pthread_cond_broadcast(&r->owner->changed);
    (void)pthread_mutex_unlock(&r->owner->lock);
}

static void on_seed(void *ctx, bool there, const char *why)
{
    party_rank *r = ctx;

    (void)pthread_mutex_lock(&r->owner->lock);
    assert_true(there || (strlen(why) > 0));
    r->seed_lost += there ? 0 : 1;
    r->seed_back += there ? 1 : 0;
    (void)pthread_cond_broadcast(&r->owner->changed);
    (void)pthread_mutex_unlock(&r->owner->lock);
}

party_rank *party_add(party *p, uint32_t rank)
{
    party_rank *r = &p->ranks[p->n++];

    assert_true(p->n <= PARTY_MAX);
    r->owner = p;
    (void)snprintf(r->join, sizeof(r->join), "%s", p->join);
    r->config = (nx_join_config){.join = r->join,
                                 .rank = rank,
                                 .listen = (p->config.listen[0] == '[') ? "[::1]" : "127.0.0.1",
                                 .formation_timeout_ns = PARTY_PATIENCE,
                                 .on_view = on_view,
                                 .on_accept = on_accept,
                                 .on_waiting = on_waiting,
                                 .on_started = on_started,
                                 .on_seed = on_seed,
                                 .ctx = r};
    return r;
}

static void *run(void *ctx)
{
    party_rank *r = ctx;
    const uint64_t began = nx_now(&nx_clock_system);

    r->err = nx_loop_create(&r->loop, &nx_clock_system);
    if (r->err != NEXAR_OK) {
        return NULL;
    }
    r->config.loop = r->loop;
    nx_loop_lock(r->loop);
    r->err = nx_join_run(&r->j, &r->config);
    nx_loop_unlock(r->loop);
    r->took_ns = nx_now(&nx_clock_system) - began;
    if ((r->err == NEXAR_OK) && r->drive) {
        assert_int_equal(nx_loop_background_start(r->loop), NEXAR_OK);
    }
    if (r->err != NEXAR_OK) {
        (void)snprintf(r->text, sizeof(r->text), "%s", nexar_last_error());
        nx_loop_destroy(r->loop);
        r->loop = NULL;
    }
    return NULL;
}

void party_start(party_rank *r)
{
    assert_int_equal(pthread_create(&r->thread, NULL, run, r), 0);
}

void party_finish(party_rank *r)
{
    assert_int_equal(pthread_join(r->thread, NULL), 0);
    assert_true((r->err == NEXAR_OK) == (r->j != NULL));
}

void party_form(party *p)
{
    const nx_view *first = NULL;

    for (size_t i = 0; i < p->n; i++) {
        party_start(&p->ranks[i]);
    }
    for (size_t i = 0; i < p->n; i++) {
        party_finish(&p->ranks[i]);
    }
    for (size_t i = 0; i < p->n; i++) {
        const party_rank *r = &p->ranks[i];
        const nx_view *view;

        if (r->err != NEXAR_OK) {
            fail_msg("rank thread %zu: %s: %s", i, nexar_err_name(r->err), r->text);
        }
        view = nx_join_view(r->j);
        first = (first == NULL) ? view : first;
        assert_int_equal(r->views, 1);
        assert_int_equal(view->size, p->config.world_size);
        assert_memory_equal(view->members, first->members, view->size * sizeof(view->members[0]));
        assert_true(nx_join_rank(r->j) < view->size);
        assert_true((r->config.rank == NX_RANK_ANY) || (r->config.rank == nx_join_rank(r->j)));
        for (size_t k = 0; k < i; k++) {
            assert_true(nx_join_rank(p->ranks[k].j) != nx_join_rank(r->j));
        }
    }
}

void party_leave(party_rank *r, bool bye)
{
    nx_event done = {0};

    if (r->j == NULL) {
        return;
    }
    if (r->drive) {
        nx_loop_background_stop(r->loop);
    }
    nx_loop_lock(r->loop);
    if (bye) {
        nx_join_leave(r->j, &done);
        assert_true(nx_loop_wait(r->loop, &done, nx_loop_now(r->loop) + PARTY_PATIENCE));
    }
    nx_join_destroy(r->j);
    nx_loop_unlock(r->loop);
    nx_loop_destroy(r->loop);
    r->j = NULL;
}

static struct timespec patience(void)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += (time_t)(PARTY_PATIENCE / PARTY_SECOND);
    return until;
}

void party_wait_waiting(party_rank *r, uint32_t n)
{
    const struct timespec until = patience();

    (void)pthread_mutex_lock(&r->owner->lock);
    while (r->waiting != n) {
        assert_int_equal(pthread_cond_timedwait(&r->owner->changed, &r->owner->lock, &until), 0);
    }
    (void)pthread_mutex_unlock(&r->owner->lock);
}

void party_wait_started(party_rank *r, uint64_t epoch)
{
    const struct timespec until = patience();

    (void)pthread_mutex_lock(&r->owner->lock);
    while (r->started < epoch) {
        assert_int_equal(pthread_cond_timedwait(&r->owner->changed, &r->owner->lock, &until), 0);
    }
    (void)pthread_mutex_unlock(&r->owner->lock);
}

void party_wait_back(party_rank *r, unsigned n)
{
    const struct timespec until = patience();

    (void)pthread_mutex_lock(&r->owner->lock);
    while (r->seed_back < n) {
        assert_int_equal(pthread_cond_timedwait(&r->owner->changed, &r->owner->lock, &until), 0);
    }
    (void)pthread_mutex_unlock(&r->owner->lock);
}

void party_let_in(party_rank *const *members, size_t n)
{
    uint8_t bytes[16384];
    nx_writer w = nx_writer_make(bytes, sizeof(bytes));
    nx_member *joined = NULL;
    uint32_t count;
    nx_reader r;

    nx_loop_lock(members[0]->loop);
    assert_true(nx_join_waiting(members[0]->j, &w, UINT32_MAX) > 0);
    nx_loop_unlock(members[0]->loop);
    r = nx_reader_make(bytes, w.len);
    assert_int_equal(nx_join_queue_decode(&r, &joined, &count), NEXAR_OK);
    for (size_t i = 0; i < n; i++) {
        nx_loop_lock(members[i]->loop);
        assert_int_equal(nx_join_advance(members[i]->j, NULL, joined, count, 9), NEXAR_OK);
        nx_loop_unlock(members[i]->loop);
    }
    nx_free(joined);
}

void party_assert_same(const party_rank *a, const party_rank *b)
{
    const nx_view *x = nx_join_view(a->j), *y = nx_join_view(b->j);

    assert_int_equal(x->epoch, y->epoch);
    assert_int_equal(x->size, y->size);
    assert_int_equal(x->slots, y->slots);
    assert_int_equal(x->world, y->world);
    assert_memory_equal(x->members, y->members, x->size * sizeof(x->members[0]));
}

void party_wait_event(party *p, nx_seed_event_kind kind, unsigned n)
{
    const struct timespec until = patience();

    (void)pthread_mutex_lock(&p->lock);
    while (p->events[kind] < n) {
        assert_int_equal(pthread_cond_timedwait(&p->changed, &p->lock, &until), 0);
    }
    (void)pthread_mutex_unlock(&p->lock);
}

unsigned party_events(party *p, nx_seed_event_kind kind)
{
    unsigned n;

    (void)pthread_mutex_lock(&p->lock);
    n = p->events[kind];
    (void)pthread_mutex_unlock(&p->lock);
    return n;
}

bool party_said(party *p, nx_seed_event_kind kind, const char *words)
{
    bool said;

    (void)pthread_mutex_lock(&p->lock);
    said = strstr(p->last_text[kind], words) != NULL;
    (void)pthread_mutex_unlock(&p->lock);
    return said;
}

void party_assert_failed(const party_rank *r, nexar_err err, const char *words)
{
    if ((r->err != err) || (strstr(r->text, words) == NULL)) {
        fail_msg("%s \"%s\", expected %s \"%s\"", nexar_err_name(r->err), r->text,
                 nexar_err_name(err), words);
    }
}

struct sockaddr_storage party_address(const party *p)
{
    nx_join_string parsed;

    assert_int_equal(nx_join_string_parse(p->join, &parsed), NEXAR_OK);
    return parsed.addresses[0];
}
