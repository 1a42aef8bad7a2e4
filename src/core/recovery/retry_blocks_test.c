/*
 * retry_blocks_test.c - retry=on and collectives with a block for each rank, or with state of the
 * caller.  Ranks are processes; one or two kill themselves during a collective, step by step until
 * two are left.  Each result must equal, bit for bit, the result of the same contributions on all
 * ranks.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <nexar.h>

#include "core/coll/coll_run.h"
#include "crew.h"
#include "fewer.h"
#include "local_world.h"
#include "rand.h"
#include "sim_device.h"
#include "unit.h"

enum { MOST = 7, STEPS = 5, ROOM = 32 << 20 };

/* Cases: the kinds with blocks, then compressed allreduces. */
enum { F16 = NXT_FEWER_KINDS, RANDOMK, NONE, CASES };
/* This many seeds make each of them run again, whatever the timing. */
enum { EACH = CASES };

typedef struct board {
    _Atomic uint64_t history[MOST];
    _Atomic int again[CASES]; /* number of repeated operations of a rank */
    _Atomic int refused;      /* number of times that the root was gone */
} board;

typedef struct plan {
    const char *name;
    int victims;  /* in each step: 1 or 2 */
    bool chained; /* the second one exits when it learns of the first */
    bool device;  /* every second rank has one */
    bool late;    /* all have a device, and a victim exits when it gets its result */
    uint64_t seed;
    const char *verify;
} plan;

/* The ranks of the communicator; and those of them that exit in a step. */
typedef struct crew {
    nxt_crew who;
    unsigned victims; /* ranks, as bits */
    int chained;      /* the one of them that exits after the other; or -1 */
} crew;

static board *shared;
static const plan *current;
static const char *transport;
static int own;
static nxt_sim_device *device;
static nxt_rand delay;             /* until this process dies */
static atomic_bool dies_late;      /* when its device is written to */
static atomic_int heard;           /* number of failures */
static atomic_int dies_after = -1; /* it exits when it knows of more; -1: never */

/* ---- exits -------------------------------------------------------------------------------- */

static void *die(void *arg)
{
    static const uint32_t spans_us[] = {40, 400, 4000};
    const uint32_t us = nxt_below(&delay, spans_us[nxt_below(&delay, 3)]);
    const struct timespec span = {.tv_nsec = (long)us * 1000};

    (void)arg;
    (void)nanosleep(&span, NULL); /* at any point of the work: none is special */
    (void)raise(SIGKILL);
    return NULL;
}

static void die_soon(nexar_comm *w)
{
    pthread_t killer;

    delay.state = current->seed * MOST + (uint64_t)own;
    NXT_IS(w, pthread_create(&killer, NULL, die, NULL) == 0);
}

static nexar_err deadly_to_device(void *ctx, void *dev, const void *host, size_t bytes,
                                  void *stream)
{
    if (atomic_load(&dies_late)) {
        (void)raise(SIGKILL);
    }
    return nxt_sim_device_table(device)->to_device(ctx, dev, host, bytes, stream);
}

static void die_if_heard(nexar_comm *w)
{
    int after = atomic_load(&dies_after);

    if ((after >= 0) && (atomic_load(&heard) > after) &&
        atomic_compare_exchange_strong(&dies_after, &after, -1)) {
        die_soon(w);
    }
}

static void on_failure(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)rank;
    (void)why;
    (void)arg;
    (void)atomic_fetch_add(&heard, 1);
    die_if_heard(comm);
}

/* ---- blocks ----------------------------------------------------------------------------- */

static nexar_err call_blocks(nexar_comm *w, nxt_fewer *f)
{
    const size_t sent = f->call.send_len[f->me] * sizeof(uint32_t);
    const size_t received = f->call.recv_len[f->me] * sizeof(uint32_t);
    nx_coll_args a = nxt_fewer_args(f, w, f->send, f->recv);
    void *send, *recv;
    nexar_err err;

    if (device == NULL) {
        return nx_coll_wait(&a, NULL);
    }
    send = nxt_sim_device_alloc(device, sent + 1);
    recv = nxt_sim_device_alloc(device, received + 1);
    NXT_IS(w, (send != NULL) && (recv != NULL));
    nxt_sim_device_load(device, send, f->send, sent);
    nxt_sim_device_load(device, recv, f->recv, received);
    a = nxt_fewer_args(f, w, send, recv);
    err = nx_coll_wait(&a, NULL);
    nxt_sim_device_store(device, f->send, send, sent);
    nxt_sim_device_store(device, f->recv, recv, received);
    nxt_sim_device_reset(device);
    return err;
}

/* ---- compressed ------------------------------------------------------------------------- */

enum { LENGTH = 3000 };

static float input(uint64_t seed, int id, size_t i)
{
    return (float)((int)(nxt_hash(seed, (uint64_t)id, i) % 200) - 100);
}

static float residual(uint64_t seed, int id, size_t i)
{
    return (float)((int)(nxt_hash(seed + 1, (uint64_t)id, i) % 50) - 25);
}

typedef struct squeezed {
    uint64_t seed;
    int how;
    float buf[LENGTH], left[LENGTH];
} squeezed;

static nexar_err call_compressed(nexar_comm *w, squeezed *z)
{
    static const nexar_compression methods[] = {NEXAR_COMPRESS_F16, NEXAR_COMPRESS_RANDOMK,
                                                NEXAR_COMPRESS_NONE};
    const nexar_compression how = methods[z->how - F16];
    float *buf = z->buf, *left = (z->how == NONE) ? NULL : z->left;
    nexar_err err;

    for (size_t i = 0; i < LENGTH; i++) {
        z->buf[i] = input(z->seed, own, i);
        z->left[i] = residual(z->seed, own, i);
    }
    if (device == NULL) {
        return nexar_allreduce_compressed(w, buf, LENGTH, NEXAR_F32, NEXAR_SUM, how, 0.5, left);
    }
    buf = nxt_sim_device_alloc(device, sizeof(z->buf));
    left = nxt_sim_device_alloc(device, sizeof(z->left));
    nxt_sim_device_load(device, buf, z->buf, sizeof(z->buf));
    nxt_sim_device_load(device, left, z->left, sizeof(z->left));
    err = nexar_allreduce_compressed(w, buf, LENGTH, NEXAR_F32, NEXAR_SUM, how, 0.5,
                                     (z->how == NONE) ? NULL : left);
    nxt_sim_device_store(device, z->buf, buf, sizeof(z->buf));
    nxt_sim_device_store(device, z->left, left, sizeof(z->left));
    nxt_sim_device_reset(device);
    return err;
}

/* All numbers are small integers, so every code is exact: a contribution is included as a whole,
 * from all of |who|, or not at all. */
static bool is_squeezed_right(const squeezed *z, const crew *c, uint64_t who)
{
    size_t sent = 0;

    for (size_t i = 0; i < LENGTH; i++) {
        const float mine = input(z->seed, own, i) + residual(z->seed, own, i);
        float sum = 0;

        for (int r = 0; r < c->who.n; r++) {
            if ((who >> r & 1) != 0) {
                sum += input(z->seed, c->who.ids[r], i);
                sum += (z->how == NONE) ? 0 : residual(z->seed, c->who.ids[r], i);
            }
        }
        if ((z->buf[i] == sum) && ((z->left[i] == 0) || (z->how == NONE))) {
            sent++;
        } else if ((z->how != RANDOMK) || (z->buf[i] != 0) || (z->left[i] != mine)) {
            return false;
        }
    }
    return (z->how != RANDOMK) || (sent >= LENGTH / 2);
}

/* ---- a step ----------------------------------------------------------------------------- */

/* Whether victims of |step| never call. */
static bool is_abrupt(uint64_t step)
{
    return nxt_hash(current->seed, step, 0) % 2 == 0;
}

/* The call in |step| by the crew |c|. */
typedef struct work {
    int what;
    nxt_fewer_plan plan;
    nxt_fewer f;
    squeezed z;
} work;

static void draw(work *k, const crew *c, uint64_t step)
{
    static const size_t counts[] = {1, 40, 700, 5000, 40000};
    nxt_rand rand = {.state = nxt_mix(current->seed * 977 + step)};

    k->what = (int)((current->seed * STEPS + step) % CASES);
    k->z = (squeezed){.how = k->what, .seed = nxt_next(&rand)};
    k->plan = (nxt_fewer_plan){.kind = nxt_fewer_kind((unsigned)k->what % NXT_FEWER_KINDS),
                               .size = (uint32_t)c->who.n,
                               .root = nxt_below(&rand, (uint64_t)c->who.n),
                               .count = counts[nxt_below(&rand, 5)],
                               .place = (nxt_place)nxt_below(&rand, NXT_PLACES),
                               .seed = nxt_next(&rand)};
    if (is_abrupt(step) && (current->victims == 1) && ((c->victims >> k->plan.root & 1) != 0)) {
        k->plan.root = (k->plan.root + 1) % k->plan.size; /* otherwise it would surely fail */
    }
}

static bool is_right(const work *k, const crew *c, uint64_t who)
{
    return (k->what < F16) ? nxt_fewer_is_right(&k->f, who) : is_squeezed_right(&k->z, c, who);
}

/* The set of contributing ranks: |left| of them, and only victims are missing.  0: no such set
 * gives this result. */
static uint64_t find_who(const work *k, const crew *c, int left)
{
    const uint64_t all = (UINT64_C(1) << c->who.n) - 1;

    for (uint64_t gone = 0; gone <= c->victims; gone++) {
        if (((gone & ~(uint64_t)c->victims) == 0) &&
            (__builtin_popcountll(gone) == c->who.n - left) && is_right(k, c, all & ~gone)) {
            return all & ~gone;
        }
    }
    return 0;
}

/* Makes the call, and records its result in the history. */
static uint64_t run_step(nexar_comm *w, const crew *c, uint64_t step)
{
    static work k;
    bool rooted;
    nexar_err err;
    uint64_t who;
    int left;

    draw(&k, c, step);
    rooted = (k.what < F16) && nx_coll_rooted(k.plan.kind);
    if (k.what < F16) {
        nxt_fewer_init(&k.f, &k.plan, (uint32_t)nexar_rank(w));
        err = call_blocks(w, &k.f);
    } else {
        err = call_compressed(w, &k.z);
    }
    left = nexar_size(w);
    if (err != NEXAR_OK) {
        NXT_SAYS(w, err, NEXAR_EPEER, "not run again: its root has failed");
        NXT_IS(w, rooted && ((c->victims >> k.plan.root & 1) != 0) && (left < c->who.n));
        atomic_fetch_add(&shared->refused, 1);
        who = 1;
    } else {
        who = find_who(&k, c, left);
        if (who == 0) {
            (void)fprintf(stderr,
                          "seed %llu step %llu: case %d, count %zu, place %d; %d of %d left, "
                          "victims %#x\n",
                          (unsigned long long)current->seed, (unsigned long long)step, k.what,
                          k.plan.count, (int)k.plan.place, left, c->who.n, c->victims);
        }
        NXT_IS(w, who != 0);
        atomic_fetch_add(&shared->again[k.what], left < c->who.n);
        who = rooted ? 2 : who; /* not all ranks can tell */
    }
    if (k.what < F16) {
        nxt_fewer_fini(&k.f);
    }
    return nxt_mix(who * 64 + (uint64_t)left);
}

/* ---- ranks ------------------------------------------------------------------------------ */

/* The victims of a step: the first, the last, one in the middle; and the next one too. */
static void choose(crew *c, uint64_t step)
{
    const int at[] = {0, c->who.n - 1, c->who.n / 2};
    const int first = at[(current->seed + step) % 3];

    c->victims = 1U << first;
    c->chained = -1;
    if (current->victims == 2) {
        c->victims |= 1U << ((first + 1) % c->who.n);
        c->chained = current->chained ? (first + 1) % c->who.n : -1;
    }
}

static void lose_victims(crew *c)
{
    nxt_crew_lose(&c->who, c->victims);
}

static bool goes_on(const crew *c)
{
    return c->who.n - current->victims >= 2;
}

/* One step of this rank, with its outcome. */
static uint64_t take_step(nexar_comm *w, crew *c, uint64_t step)
{
    const int me = nexar_rank(w);
    uint64_t outcome;

    choose(c, step);
    NXT_OK(w, nexar_barrier(w));
    if (me == c->chained) {
        atomic_store(&dies_after, MOST - c->who.n);
        die_if_heard(w);
    } else if ((c->victims >> me & 1) != 0) {
        if (is_abrupt(step) && !current->late) {
            (void)raise(SIGKILL);
        } else if (!current->late) {
            die_soon(w);
        }
        atomic_store(&dies_late, current->late);
    }
    outcome = run_step(w, c, step);
    if (atomic_load(&dies_late)) {
        (void)raise(SIGKILL);
    }
    nxt_crew_await(w, c->who.n - current->victims);
    lose_victims(c);
    return outcome;
}

static void attach(nexar_comm *w)
{
    const nxt_sim_options options = {.bytes = ROOM, .optional = current->late ? 0 : NXT_SIM_ALL};
    nexar_device table;

    device = nxt_sim_device_create(&options);
    NXT_IS(w, device != NULL);
    table = *nxt_sim_device_table(device);
    table.to_device = deadly_to_device;
    NXT_OK(w, nexar_comm_set_device(w, &table));
}

static void child(int rank, int join_fd, void *arg)
{
    const char *const settings[] = {"recovery",      "automatic",         "retry", "on", "verify",
                                    current->verify, "heartbeat_timeout", "1m",    NULL};
    uint64_t history = 0;
    nexar_comm *w;
    crew c = {0};

    (void)arg;
    own = rank;
    nxt_crew_man(&c.who, MOST);
    w = nxt_procs_join(rank, join_fd, settings);
    NXT_OK(w, nexar_on_failure(w, on_failure, NULL));
    if (current->late || (current->device && (rank % 2 == 0))) {
        attach(w);
    }
    for (uint64_t step = 0; goes_on(&c); step++) {
        history = nxt_mix(history + take_step(w, &c, step));
    }
    atomic_store(&shared->history[own], history);
    (void)nexar_finalize(w);
    if (device != NULL) {
        nxt_sim_device_destroy(device);
    }
}

static void run_plan(const plan *p)
{
    crew c = {0};

    current = p;
    nxt_crew_man(&c.who, MOST);
    for (uint64_t step = 0; goes_on(&c); step++) {
        choose(&c, step);
        lose_victims(&c);
    }
    nxt_crew_run(MOST, child, &c.who, shared->history);
}

static void run_plans(const plan *like, uint64_t seeds)
{
    plan p = *like;

    shared = nxt_share(sizeof(*shared));
    for (p.seed = like->seed; p.seed < like->seed + seeds; p.seed++) {
        p.verify = (p.seed % 2 == 0) ? "on" : "off";
        run_plan(&p);
    }
    printf("%-5s %-22s run again, on ranks:", transport, p.name);
    for (int i = 0; i < CASES; i++) {
        static const char *const names[] = {"f16", "randomk", "none"};

        printf(" %s %d", (i < F16) ? nx_coll_name(nxt_fewer_kind((unsigned)i)) : names[i - F16],
               (int)shared->again[i]);
    }
    printf("; root gone %d\n", (int)shared->refused);
    for (int i = 0; (i < CASES) && (seeds >= EACH); i++) {
        assert_true(shared->again[i] > 0);
    }
    nxt_unshare(shared, sizeof(*shared));
}

/* ---- tests ------------------------------------------------------------------------------ */

static void test_one_after_the_other_dies(void **state)
{
    (void)state;
    run_plans(&(plan){.name = "one in each step", .victims = 1}, EACH);
}

static void test_two_die_at_once(void **state)
{
    (void)state;
    run_plans(&(plan){.name = "two in each step", .victims = 2, .seed = 100}, 6);
}

static void test_one_dies_when_it_is_run_again(void **state)
{
    (void)state;
    run_plans(&(plan){.name = "the second in a rerun", .victims = 2, .chained = true, .seed = 200},
              8);
}

static void test_memory_of_devices(void **state)
{
    (void)state;
    run_plans(&(plan){.name = "devices", .victims = 1, .device = true, .seed = 300}, 5);
}

static void test_one_dies_with_the_result_in_its_hands(void **state)
{
    (void)state;
    run_plans(&(plan){.name = "late", .victims = 1, .late = true, .seed = 400}, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_after_the_other_dies),
        cmocka_unit_test(test_two_die_at_once),
        cmocka_unit_test(test_one_dies_when_it_is_run_again),
        cmocka_unit_test(test_memory_of_devices),
        cmocka_unit_test(test_one_dies_with_the_result_in_its_hands),
    };

    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet
    transport = getenv("NEXAR_TRANSPORTS");
    transport = (transport == NULL) ? "auto" : transport;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
