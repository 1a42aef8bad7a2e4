/*
 * retry_queue_test.c - requests with retry=on, several in flight.  Ranks are processes; one or two
 * kill themselves after some of their calls, step by step until two are left.  Calls that a victim
 * has not made must run again without it, each kind of collective at each position.  Results must
 * equal, bit for bit, those of the same contributions on all ranks, and the ranks reported to the
 * application must be the contributing ranks.
 */
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

enum { MOST = 6, BATCH = 5, LONGEST = 60000, ROOM = 64 << 20 };

/* The calls: collectives of whole vectors, then those in blocks. */
typedef enum what {
    ALLREDUCE,
    IN_PLACE,
    BUCKETED,
    REDUCE,
    SCAN,
    BROADCAST,
    BARRIER,
    COMPRESSED,
    RS_AG,
    BLOCKS,
    KINDS = BLOCKS + NXT_FEWER_KINDS
} what;

/* How a batch is completed. */
typedef enum ending { IN_ORDER, BACKWARDS, ANY, TESTED, ALL, ENDINGS } ending;

typedef struct board {
    _Atomic uint64_t history[MOST];
    _Atomic int again[KINDS]; /* number of repeated operations of a rank */
    _Atomic int refused;      /* number that could not be repeated */
} board;

typedef struct plan {
    const char *name;
    int victims; /* in each step: 1 or 2 */
    bool device; /* every second rank has one */
    bool mixed;  /* some of a batch are blocking */
    uint64_t seed;
} plan;

/* The ranks of the communicator, and the number of calls of each in a step. */
typedef struct crew {
    nxt_crew who;
    int calls[MOST];
} crew;

/* One call of this rank. */
typedef struct op {
    crew crew; /* the ranks that it is for */
    int me;    /* this rank among them */
    what what;
    int root;
    size_t count;
    uint32_t *send, *recv;
    float *buf, *residual;
    nxt_fewer f;
    bool in_blocks, blocking;
    void *dev_send, *dev_recv; /* on the device, if there is one */
    nexar_request *req;
    nexar_err err;
    char why[512];
    int size; /* of the communicator when it was claimed */
} op;

static board *shared;
static const plan *current;
static const char *transport;
static int own;
static nxt_sim_device *device;

static bool is_rooted(const op *o)
{
    return (o->what == REDUCE) || (o->what == BROADCAST) ||
           (o->in_blocks && nx_coll_rooted(o->f.call.kind));
}

/* ---- calls ------------------------------------------------------------------------------ */

/* Ranks that exit in this step, as bits; and ranks that did not call |i|. */
static uint64_t victims(const crew *c, int i)
{
    uint64_t who = 0;

    for (int r = 0; r < c->who.n; r++) {
        who |= (c->calls[r] <= i) ? UINT64_C(1) << r : 0;
    }
    return who;
}

/* A crew without ranks that do not make all calls. */
static void lose_victims(crew *c)
{
    nxt_crew_lose(&c->who, victims(c, BATCH - 1));
    for (int r = 0; r < MOST; r++) {
        c->calls[r] = BATCH;
    }
}

/* Call |i| of |step| for the crew |c|, of which |size| are left: a blocking call may have reported
 * a failure. */
static void draw(op *o, const crew *c, uint64_t step, int i, int size)
{
    static const size_t counts[] = {1, 40, 3000, LONGEST};
    nxt_rand rand = {.state = nxt_mix(current->seed * 977 + step * 31 + (uint64_t)i)};
    const uint64_t number = (current->seed * MOST + step) * 7 + (uint64_t)i * 4;

    *o = (op){.crew = *c, .what = (what)(number % KINDS), .in_blocks = (number % KINDS) >= BLOCKS};
    if (size < c->who.n) {
        lose_victims(&o->crew);
        c = &o->crew;
    }
    while (c->who.ids[o->me] != own) {
        o->me++;
    }
    o->root = (int)nxt_below(&rand, (uint64_t)c->who.n);
    o->count = counts[nxt_below(&rand, 4)];
    o->blocking = current->mixed && nxt_one_in(&rand, 3);
    if (o->in_blocks) {
        const nxt_fewer_plan p = {.kind = nxt_fewer_kind((unsigned)o->what - BLOCKS),
                                  .size = (uint32_t)c->who.n,
                                  .root = (uint32_t)o->root,
                                  .count = (o->count > 5000) ? 5000 : o->count,
                                  .place = (nxt_place)nxt_below(&rand, NXT_PLACES),
                                  .seed = nxt_next(&rand)};

        nxt_fewer_init(&o->f, &p, (uint32_t)o->me);
        return;
    }
    o->send = calloc(o->count, sizeof(*o->send));
    o->recv = calloc(o->count, sizeof(*o->recv));
    o->buf = calloc(o->count, sizeof(*o->buf));
    o->residual = calloc(o->count, sizeof(*o->residual));
    for (size_t k = 0; k < o->count; k++) {
        const bool root = (o->what == BROADCAST) && (c->who.ids[o->root] == own);

        o->send[k] = 1U << own;
        o->recv[k] = root ? 1000 + (uint32_t)own : (o->what == BROADCAST) ? 7 : 1U << own;
        o->buf[k] = (float)(1U << own);
    }
}

static void drop(op *o)
{
    if (o->in_blocks) {
        nxt_fewer_fini(&o->f);
    }
    free(o->send);
    free(o->recv);
    free(o->buf);
    free(o->residual);
}

/* Makes the call |a|; only its buffers exist afterwards. */
static nexar_err call_blocks(const op *o, const nx_coll_args *a, nexar_request **req)
{
    const size_t *given[] = {a->counts, a->displs, a->send_counts, a->send_displs};
    nx_coll_args args = *a;
    size_t *copies[4];
    nexar_err err;

    if (o->blocking) {
        return nx_coll_wait(a, NULL);
    }
    for (int i = 0; i < 4; i++) {
        copies[i] = (given[i] == NULL) ? NULL : malloc(o->f.call.size * sizeof(size_t));
        if (copies[i] != NULL) {
            memcpy(copies[i], given[i], o->f.call.size * sizeof(size_t));
        }
    }
    args.counts = copies[0];
    args.displs = copies[1];
    args.send_counts = copies[2];
    args.send_displs = copies[3];
    err = nx_coll_start(&args, NULL, req);
    for (int i = 0; i < 4; i++) {
        free(copies[i]);
    }
    return err;
}

/* Copies the buffers of |o| to the device, if there is one. */
static void load(op *o)
{
    const size_t sent = o->in_blocks ? o->f.call.send_len[o->f.me] : o->count;
    const size_t received = o->in_blocks ? o->f.call.recv_len[o->f.me] : o->count;

    o->dev_send = nxt_sim_device_alloc(device, (sent + 1) * sizeof(uint32_t));
    o->dev_recv = nxt_sim_device_alloc(device, (received + 1) * sizeof(uint32_t));
    if ((o->dev_send == NULL) || (o->dev_recv == NULL)) {
        abort();
    }
    if (o->what == COMPRESSED) {
        nxt_sim_device_load(device, o->dev_send, o->residual, sent * sizeof(float));
        nxt_sim_device_load(device, o->dev_recv, o->buf, received * sizeof(float));
        return;
    }
    nxt_sim_device_load(device, o->dev_send, o->in_blocks ? o->f.send : o->send, sent * 4);
    nxt_sim_device_load(device, o->dev_recv, o->in_blocks ? o->f.recv : o->recv, received * 4);
}

static void store(op *o)
{
    const size_t sent = o->in_blocks ? o->f.call.send_len[o->f.me] : o->count;
    const size_t received = o->in_blocks ? o->f.call.recv_len[o->f.me] : o->count;

    if (o->what == COMPRESSED) {
        nxt_sim_device_store(device, o->residual, o->dev_send, sent * sizeof(float));
        nxt_sim_device_store(device, o->buf, o->dev_recv, received * sizeof(float));
        return;
    }
    nxt_sim_device_store(device, o->in_blocks ? o->f.send : o->send, o->dev_send, sent * 4);
    nxt_sim_device_store(device, o->in_blocks ? o->f.recv : o->recv, o->dev_recv, received * 4);
}

static nexar_err bucketed(nexar_comm *w, const op *o, uint32_t *recv, nexar_request **req)
{
    nexar_tensor t[] = {{recv, o->count / 3}, {recv + o->count / 3, o->count - o->count / 3}};
    const nexar_err err = o->blocking
                              ? nexar_allreduce_bucketed(w, t, 2, NEXAR_U32, NEXAR_BOR)
                              : nexar_iallreduce_bucketed(w, t, 2, NEXAR_U32, NEXAR_BOR, req);

    memset(t, 0xff, sizeof(t));
    return err;
}

static nexar_err compressed(nexar_comm *w, const op *o, float *buf, float *residual,
                            nexar_request **req)
{
    return o->blocking ? nexar_allreduce_compressed(w, buf, o->count, NEXAR_F32, NEXAR_SUM,
                                                    NEXAR_COMPRESS_F16, 0, residual)
                       : nexar_iallreduce_compressed(w, buf, o->count, NEXAR_F32, NEXAR_SUM,
                                                     NEXAR_COMPRESS_F16, 0, residual, req);
}

static nexar_err call_one_piece(nexar_comm *w, const op *o, nexar_request **req)
{
    uint32_t *send = (o->dev_send == NULL) ? o->send : o->dev_send;
    uint32_t *recv = (o->dev_recv == NULL) ? o->recv : o->dev_recv;
    nx_coll_args a = {.name = "of the test",
                      .comm = w,
                      .send = send,
                      .recv = recv,
                      .count = o->count,
                      .dtype = NEXAR_U32,
                      .op = NEXAR_BOR,
                      .root = o->root};

    switch ((int)o->what) {
    case BUCKETED:
        return bucketed(w, o, recv, req);
    case COMPRESSED:
        return compressed(w, o, (o->dev_recv == NULL) ? o->buf : o->dev_recv,
                          (o->dev_send == NULL) ? o->residual : o->dev_send, req);
    case RS_AG:
        return o->blocking
                   ? nexar_allreduce_rs_ag(w, recv, o->count, NEXAR_U32, NEXAR_BOR, NULL, NULL)
                   : nexar_iallreduce_rs_ag(w, recv, o->count, NEXAR_U32, NEXAR_BOR, NULL, NULL,
                                            req);
    case ALLREDUCE:
        a.kind = NX_ALLREDUCE;
        break;
    case IN_PLACE:
        a.kind = NX_ALLREDUCE;
        a.send = NEXAR_IN_PLACE; // NOLINT(performance-no-int-to-ptr)
        break;
    case REDUCE:
        a.kind = NX_REDUCE;
        break;
    case SCAN:
        a.kind = NX_SCAN;
        break;
    case BROADCAST:
        a.kind = NX_BROADCAST;
        break;
    default:
        a.kind = NX_BARRIER;
        break;
    }
    return o->blocking ? nx_coll_wait(&a, NULL) : nx_coll_start(&a, NULL, req);
}

/* |err| is the result of |o|. */
static void note(nexar_comm *w, op *o, nexar_err err)
{
    o->err = err;
    o->size = nexar_size(w);
    (void)snprintf(o->why, sizeof(o->why), "%s", nexar_last_error());
    if (device != NULL) {
        store(o);
    }
}

static void call(nexar_comm *w, op *o)
{
    nexar_err err;

    if (device != NULL) {
        load(o);
    }
    if (o->in_blocks) {
        const nx_coll_args a = nxt_fewer_args(&o->f, w, (device == NULL) ? o->f.send : o->dev_send,
                                              (device == NULL) ? o->f.recv : o->dev_recv);

        err = call_blocks(o, &a, &o->req);
    } else {
        err = call_one_piece(w, o, &o->req);
    }
    if (o->blocking) {
        note(w, o, err);
    } else {
        NXT_IS(w, (err == NEXAR_OK) && (o->req != NULL));
        NXT_IS(w, nexar_cancel(o->req) == NEXAR_ENOTSUP);
    }
}

/* ---- completion ------------------------------------------------------------------------- */

static void wait_any(nexar_comm *w, op *ops)
{
    nexar_request *reqs[BATCH];
    size_t index;
    nexar_err err;
    int open = 0;

    for (int i = 0; i < BATCH; i++) {
        reqs[i] = ops[i].req;
        open += (reqs[i] != NULL);
    }
    for (; open > 0; open--) {
        err = nexar_wait_any(BATCH, reqs, &index, NULL);
        NXT_IS(w, (index < BATCH) && (reqs[index] == NULL));
        ops[index].req = NULL;
        note(w, &ops[index], err);
    }
}

/* Without a pause: nexar_test yields to other threads. */
static void test_all(nexar_comm *w, op *ops)
{
    int open = BATCH;

    while (open > 0) {
        open = 0;
        for (int i = BATCH - 1; i >= 0; i--) {
            bool done = false;
            nexar_err err;

            if (ops[i].req == NULL) {
                continue;
            }
            err = nexar_test(&ops[i].req, &done, NULL);
            if (done) {
                note(w, &ops[i], err);
            }
            open += !done;
        }
    }
}

/* The first error is that of all; the rest is read from the buffers. */
static void wait_all(nexar_comm *w, op *ops)
{
    nexar_request *reqs[BATCH];
    nexar_err err;

    for (int i = 0; i < BATCH; i++) {
        reqs[i] = ops[i].req;
    }
    err = nexar_wait_all(BATCH, reqs);
    for (int i = 0; i < BATCH; i++) {
        if (ops[i].req != NULL) {
            ops[i].req = NULL;
            note(w, &ops[i], err);
        }
    }
}

static void complete(nexar_comm *w, op *ops, ending how)
{
    if (how == ANY) {
        wait_any(w, ops);
    } else if (how == TESTED) {
        test_all(w, ops);
    } else if (how == ALL) {
        wait_all(w, ops);
    }
    for (int i = 0; (i < BATCH) && (how <= BACKWARDS); i++) {
        op *o = &ops[(how == IN_ORDER) ? i : BATCH - 1 - i];

        if (o->req != NULL) {
            note(w, o, nexar_wait(&o->req, NULL));
        }
    }
}

/* ---- results ------------------------------------------------------------------------------ */

static bool all_are(const uint32_t *v, size_t n, uint32_t word)
{
    bool same = true;

    for (size_t i = 0; i < n; i++) {
        same = same && (v[i] == word);
    }
    return same;
}

static bool is_squeezed(const op *o, float sum)
{
    bool same = true;

    for (size_t i = 0; i < o->count; i++) {
        same = same && (o->buf[i] == sum) && (o->residual[i] == 0);
    }
    return same;
}

/* The ids of |ranks|, as bits; only those up to |most|. */
static uint32_t ids_of(const crew *c, uint64_t ranks, int most)
{
    uint32_t ids = 0;

    for (int r = 0; r <= most; r++) {
        ids |= ((ranks >> r & 1) != 0) ? 1U << c->who.ids[r] : 0;
    }
    return ids;
}

/* Whether the result of |o| on rank |me| has the contributions of |who|. */
static bool is_right(const op *o, const crew *c, int me, uint64_t who)
{
    const uint32_t ids = ids_of(c, who, c->who.n - 1);

    if (o->in_blocks) {
        return nxt_fewer_is_right(&o->f, who);
    }
    switch ((int)o->what) {
    case BARRIER:
        return true;
    case COMPRESSED:
        return is_squeezed(o, (float)ids);
    case BROADCAST:
        return all_are(o->recv, o->count, 1000 + (uint32_t)c->who.ids[o->root]);
    case SCAN:
        return all_are(o->recv, o->count, ids_of(c, who, me));
    case REDUCE:
        return (me != o->root) || all_are(o->recv, o->count, ids);
    default:
        return all_are(o->recv, o->count, ids);
    }
}

/* The contributors, |left| of them unless it is 0: only victims are missing, and all that did not
 * call it are.  0: no such set gives this result. */
static uint64_t find_who(const op *o, const crew *c, int me, int i, int left)
{
    const uint64_t all = (UINT64_C(1) << c->who.n) - 1, may = victims(c, BATCH - 1);
    const uint64_t must = victims(c, i);

    for (uint64_t gone = 0; gone <= may; gone++) {
        if (((gone & ~may) == 0) && ((must & ~gone) == 0) &&
            ((left == 0) || (__builtin_popcountll(gone) == c->who.n - left)) &&
            is_right(o, c, me, all & ~gone)) {
            return all & ~gone;
        }
    }
    return 0;
}

/* Whether all ranks can determine the contributors of |o|: blocks may be empty. */
static bool tells(const op *o)
{
    return !o->in_blocks && !is_rooted(o) && (o->what != BARRIER) && (o->what != SCAN);
}

static bool may_be_refused(const op *o, const crew *c)
{
    return (o->what == RS_AG) || (is_rooted(o) && ((victims(c, BATCH - 1) >> o->root & 1) != 0));
}

/* The result of call |i|, for the history. */
static uint64_t judge(nexar_comm *w, const op *o, int i, ending how)
{
    const crew *c = &o->crew;
    const bool refused = (o->err != NEXAR_OK);
    const bool blind = refused && (how == ALL) && !o->blocking; /* it may be another rank's error */
    uint64_t who = 0;

    if (refused && !blind) {
        NXT_IS(w, (o->err == NEXAR_EPEER) && (strstr(o->why, "not run again") != NULL));
        NXT_IS(w, may_be_refused(o, c));
        atomic_fetch_add(&shared->refused, 1);
        return 1;
    }
    if (blind && may_be_refused(o, c)) {
        return 2;
    }
    /* Claimed in order, the application sees the ranks that have contributed: R2 of retry.h. */
    who = find_who(o, c, o->me, i, ((how == IN_ORDER) && !current->mixed) ? o->size : 0);
    NXT_IS(w, who != 0);
    who = tells(o) ? who : 3;
    atomic_fetch_add(&shared->again[o->what], victims(c, i) != 0);
    return nxt_mix(who * 64 + ((how == IN_ORDER) ? (uint64_t)o->size : 0));
}

/* ---- ranks ------------------------------------------------------------------------------ */

/* The victims of a step, the first, the last or one in the middle, and the next one; and the number
 * of their calls. */
static void choose(crew *c, uint64_t step)
{
    const int at[] = {0, c->who.n - 1, c->who.n / 2};
    const int first = at[(current->seed + step) % 3];

    for (int r = 0; r < MOST; r++) {
        c->calls[r] = BATCH;
    }
    c->calls[first] = (int)((current->seed / 3 + step) % BATCH);
    if (current->victims == 2) {
        c->calls[(first + 1) % c->who.n] = (int)(nxt_hash(current->seed, step, 1) % BATCH);
    }
}

static bool goes_on(const crew *c)
{
    return c->who.n - current->victims >= 2;
}

static void die(uint64_t step)
{
    nxt_rand r = {.state = current->seed * 64 + step * MOST + (uint64_t)own};
    const struct timespec span = {.tv_nsec = (long)nxt_below(&r, 3000000)};

    if (nxt_one_in(&r, 2)) { /* or at once */
        (void)nanosleep(&span, NULL);
    }
    (void)raise(SIGKILL);
}

static uint64_t take_step(nexar_comm *w, crew *c, uint64_t step)
{
    static op ops[BATCH];
    const ending how = (ending)((current->seed + step) % ENDINGS);
    const int me = nexar_rank(w);
    uint64_t outcome = 0;

    choose(c, step);
    NXT_OK(w, nexar_barrier(w));
    for (int i = 0; i < BATCH; i++) {
        if (i == c->calls[me]) {
            die(step);
        }
        draw(&ops[i], c, step, i, nexar_size(w));
        call(w, &ops[i]);
    }
    complete(w, ops, how);
    for (int i = 0; i < BATCH; i++) {
        outcome = nxt_mix(outcome + judge(w, &ops[i], i, how));
        drop(&ops[i]);
    }
    if (device != NULL) {
        nxt_sim_device_reset(device);
    }
    nxt_crew_await(w, c->who.n - current->victims);
    lose_victims(c);
    return outcome;
}

static void child(int rank, int join_fd, void *arg)
{
    const char *const settings[] = {"recovery",
                                    "automatic",
                                    "retry",
                                    "on",
                                    "verify",
                                    (current->seed % 2 == 0) ? "on" : "off",
                                    "heartbeat_timeout",
                                    "1m",
                                    NULL};
    const nxt_sim_options options = {.bytes = ROOM, .optional = NXT_SIM_ALL};
    uint64_t history = 0;
    nexar_comm *w;
    crew c = {0};

    (void)arg;
    own = rank;
    nxt_crew_man(&c.who, MOST);
    w = nxt_procs_join(rank, join_fd, settings);
    if (current->device && (rank % 2 == 0)) {
        device = nxt_sim_device_create(&options);
        NXT_IS(w, device != NULL);
        NXT_OK(w, nexar_comm_set_device(w, nxt_sim_device_table(device)));
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

static void run_plans(const plan *like, uint64_t seeds, bool each)
{
    plan p = *like;

    shared = nxt_share(sizeof(*shared));
    for (p.seed = like->seed; p.seed < like->seed + seeds; p.seed++) {
        run_plan(&p);
    }
    printf("%-5s %-18s run again, on ranks:", transport, p.name);
    for (int i = 0; i < KINDS; i++) {
        static const char *const names[] = {"allreduce", "in place", "bucketed",   "reduce", "scan",
                                            "broadcast", "barrier",  "compressed", "rs_ag"};

        printf(" %s %d",
               (i < BLOCKS) ? names[i] : nx_coll_name(nxt_fewer_kind((unsigned)i - BLOCKS)),
               (int)shared->again[i]);
        if (each && (i != RS_AG)) {
            assert_true(shared->again[i] > 0);
        }
    }
    printf("; refused %d\n", (int)shared->refused);
    nxt_unshare(shared, sizeof(*shared));
}

/* ---- tests ------------------------------------------------------------------------------ */

static void test_one_dies_among_its_requests(void **state)
{
    (void)state;
    run_plans(&(plan){.name = "one in each step", .victims = 1}, 19, true);
}

static void test_two_die_among_their_requests(void **state)
{
    (void)state;
    run_plans(&(plan){.name = "two in each step", .victims = 2, .seed = 100}, 6, false);
}

static void test_requests_and_blocking_calls_keep_their_order(void **state)
{
    (void)state;
    run_plans(&(plan){.name = "mixed", .victims = 1, .mixed = true, .seed = 200}, 6, false);
}

static void test_memory_of_devices(void **state)
{
    (void)state;
    run_plans(&(plan){.name = "devices", .victims = 1, .device = true, .seed = 300}, 5, false);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_dies_among_its_requests),
        cmocka_unit_test(test_two_die_among_their_requests),
        cmocka_unit_test(test_requests_and_blocking_calls_keep_their_order),
        cmocka_unit_test(test_memory_of_devices),
    };

    // NOLINTNEXTLINE(concurrency-mt-unsafe): there are no threads yet
    transport = getenv("NEXAR_TRANSPORTS");
    transport = (transport == NULL) ? "auto" : transport;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
