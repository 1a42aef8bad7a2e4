/*
 * msg_random_test.c - random programs of two to five peers, over many seeds.
 *
 * Every message identifies itself in its bytes. The oracle applies MPI's rules. Each message is
 * received once. Of two messages from one sender with one name (with any name, if nothing was
 * pulled) the older goes to the older receive. Wildcards take what fits. No sent message is lost
 * when all receives that could take it have been posted.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fake_net.h"
#include "msg/msg.h"
#include "unit.h"

enum {
    MESSAGES = 250,
    RECEIVES = 2 * MESSAGES,
    LONGEST = 300000,
    SHORT_TAG = 1000, /* too short to identify themselves: a tag of their own */
};

typedef struct message {
    nx_req req;
    uint32_t from, to;
    nx_context context;
    uint64_t tag;
    size_t len;
    uint8_t *data;
    bool cancelled; /* the cancel succeeded */
    int receive;    /* the receive that took it; -1 */
} message;

typedef struct receive {
    nx_req req;
    uint32_t at, from;
    nx_context context;
    uint64_t tag;
    uint8_t *data;
    size_t room;
    bool probe, checked;
    nx_req match; /* a matched probe first: */
    bool matches; /* it is posted, or ... */
    bool taken;   /* ... |req| receives the message it has found */
    int message;  /* -1 */
} receive;

typedef struct world {
    nxt_net *net;
    nx_random_seeded random;
    uint32_t nodes;
    size_t pool, inline_max, eager_max;
    message messages[MESSAGES];
    receive receives[RECEIVES];
    int nmessages, nreceives;
    bool cancels, pulled;
    bool hasty;       /* short messages, received as soon as they are sent */
    bool ends;        /* a found message is received immediately */
    uint64_t shorts;  /* messages taken without a request */
    uint64_t matched; /* messages found by a probe first */
} world;

static uint64_t below(world *w, uint64_t limit)
{
    return nx_random_below(&w->random.random, limit);
}

static uint8_t byte_of(int which, size_t at)
{
    if (at < 4) {
        return (uint8_t)((unsigned)which >> (8 * at));
    }
    return (uint8_t)((unsigned)which * 131 + at * 17 + at / 255);
}

static nx_context any_context(world *w)
{
    nx_class class = w->hasty ? NX_CLASS_USER : (nx_class)below(w, 2);

    return (nx_context){.comm = 5 + (uint32_t)below(w, 2), .kind = (uint8_t) class, .class = class};
}

static size_t any_length(world *w)
{
    size_t near[] = {0, w->inline_max, w->eager_max, 4, 32};

    if (w->hasty) {
        return (size_t)below(w, w->inline_max + 1);
    }
    switch (below(w, 8)) {
    case 0:
    case 1:
    case 2:
        return (size_t)below(w, 200);
    case 3:
    case 4:
    case 5:
        return near[below(w, 5)] + (size_t)below(w, 3);
    case 6:
        return (size_t)below(w, 40000);
    default:
        return (size_t)below(w, LONGEST);
    }
}

static void start_send(world *w)
{
    int i = w->nmessages++;
    message *m = &w->messages[i];
    nx_bytes bytes;

    m->from = (uint32_t)below(w, w->nodes);
    m->to = (uint32_t)below(w, w->nodes);
    m->context = any_context(w);
    m->len = any_length(w);
    m->tag = (m->len < 4) ? SHORT_TAG + (uint64_t)i : below(w, 4);
    m->receive = -1;
    m->data = nx_grow(NULL, m->len + 1, 1);
    assert_non_null(m->data);
    for (size_t k = 0; k < m->len; k++) {
        m->data[k] = byte_of(i, k);
    }
    bytes = (nx_bytes){.ptr = m->data, .len = m->len};
    nx_msg_send(nxt_net_msg(w->net, m->from), &m->req, m->to, m->context, m->tag, &bytes, 1);
}

/* Every other receive with a named source and tag first tries the fast path. */
static bool take_short(world *w, receive *r, nx_iov_span span)
{
    size_t got = 0;

    if ((r->from == NX_ANY_PEER) || (r->tag == NX_ANY_TAG) || (r->context.class == NX_CLASS_COLL) ||
        (below(w, 2) == 0) ||
        !nx_msg_recv_short(nxt_net_msg(w->net, r->at), r->from, r->context, r->tag, false, span,
                           &got)) {
        return false;
    }
    r->req.done = true;
    r->req.peer = r->from;
    r->req.tag = r->tag;
    r->req.bytes = got;
    w->shorts++;
    return true;
}

static void post(world *w, uint32_t at, uint32_t from, nx_context context, uint64_t tag, bool probe)
{
    receive *r = &w->receives[w->nreceives++];
    nx_iov_span span;

    r->at = at;
    r->from = from;
    r->context = context;
    r->tag = tag;
    r->message = -1;
    r->probe = probe;
    if (probe) {
        nx_msg_probe(nxt_net_msg(w->net, at), &r->req, from, context, tag);
        return;
    }
    r->room = LONGEST + 64;
    r->data = nx_grow(NULL, r->room, 1);
    assert_non_null(r->data);
    span = (nx_iov_span){.ptr = r->data, .len = r->room};
    if (take_short(w, r, span)) {
        return;
    }
    if (below(w, 4) == 0) {
        r->matches = true;
        nx_msg_match(nxt_net_msg(w->net, at), &r->match, from, context, tag);
        return;
    }
    nx_msg_recv(nxt_net_msg(w->net, at), &r->req, from, context, tag,
                &(nx_sink){.iov = &span, .niov = 1, .room = r->room});
}

/* Receives the message that the match of |r| has found, perhaps later. */
static void take_match(world *w, receive *r)
{
    const nx_iov_span span = {.ptr = r->data, .len = r->room};

    if (!r->matches || !r->match.done || (!w->ends && (below(w, 3) != 0))) {
        return;
    }
    r->matches = false;
    if (r->match.err != NEXAR_OK) {
        r->req.done = true;
        r->req.err = r->match.err;
        return;
    }
    r->taken = true;
    w->matched++;
    nx_msg_take(nxt_net_msg(w->net, r->at), &r->req, r->match.peer, r->context,
                r->match.recv.number, &(nx_sink){.iov = &span, .niov = 1, .room = r->room});
}

/* Requests the cancellation of |r|, which is not done. */
static void cancel_receive(world *w, receive *r)
{
    nx_msg *m = nxt_net_msg(w->net, r->at);

    if (!r->matches) {
        (void)nx_msg_cancel(m, &r->req);
    } else if (!r->match.done) {
        (void)nx_msg_cancel(m, &r->match);
    }
}

static void start_receive(world *w)
{
    uint64_t tag = below(w, 5);

    if ((w->nmessages >= 4) && (below(w, w->hasty ? 2 : 4) == 0)) { /* just sent */
        const message *m = &w->messages[(uint64_t)w->nmessages - 1 - below(w, 4)];

        post(w, m->to, m->from, m->context, m->tag, false);
        return;
    }
    if ((tag == 4) && (w->nmessages > 0)) {
        tag = w->messages[below(w, (uint64_t)w->nmessages)].tag;
    }
    post(w, (uint32_t)below(w, w->nodes),
         (below(w, 4) == 0) ? NX_ANY_PEER : (uint32_t)below(w, w->nodes), any_context(w),
         (below(w, 4) == 0) ? NX_ANY_TAG : tag, below(w, 8) == 0);
}

static void cancel_one(world *w)
{
    if ((w->nmessages > 0) && (below(w, 2) == 0)) {
        message *m = &w->messages[below(w, (uint64_t)w->nmessages)];

        if (!m->req.done) {
            m->cancelled = nx_msg_cancel(nxt_net_msg(w->net, m->from), &m->req) || m->cancelled;
        }
    } else if (w->nreceives > 0) {
        receive *r = &w->receives[below(w, (uint64_t)w->nreceives)];

        if (!r->req.done) {
            cancel_receive(w, r);
        }
    }
}

/* ---- the oracle ---------------------------------------------------------------------- */

static bool fits(const receive *r, const message *m)
{
    return (r->at == m->to) && (r->context.comm == m->context.comm) &&
           (r->context.kind == m->context.kind) &&
           ((r->from == NX_ANY_PEER) || (r->from == m->from)) &&
           ((r->tag == NX_ANY_TAG) || (r->tag == m->tag));
}

/* Which message |r| holds, checked byte by byte. */
static void identify(world *w, receive *r, int index)
{
    int i = 0;
    message *m;

    if (r->req.tag >= SHORT_TAG) {
        i = (int)(r->req.tag - SHORT_TAG);
    } else {
        assert_true(r->req.bytes >= 4);
        memcpy(&i, r->data, 4);
    }
    assert_true((i >= 0) && (i < w->nmessages));
    m = &w->messages[i];
    assert_true(fits(r, m));
    assert_true((r->req.peer == m->from) && (r->req.tag == m->tag) && (r->req.bytes == m->len));
    assert_memory_equal(r->data, m->data, m->len);
    assert_int_equal(m->receive, -1); /* once */
    assert_false(m->cancelled);
    m->receive = index;
    r->message = i;
}

static void check_receives(world *w)
{
    for (int i = 0; i < w->nreceives; i++) {
        receive *r = &w->receives[i];

        take_match(w, r);
        if (r->req.done && !r->checked) {
            r->checked = true;
            r->req.tag = r->taken ? r->match.tag : r->req.tag;
            if (r->req.err != NEXAR_OK) {
                assert_int_equal(r->req.err, NEXAR_ECANCELED);
            } else if (!r->probe) {
                identify(w, r, i);
            }
            nx_free(r->data);
            r->data = NULL;
        }
    }
}

/* Of two receives that fit two messages of one sender and one name, the older receive has the older
 * message. */
static void check_pair(const world *w, const receive *first, const receive *second)
{
    const message *m, *older;

    if ((first->message <= second->message) || (second->message < 0)) {
        return;
    }
    m = &w->messages[first->message];
    older = &w->messages[second->message];
    if ((m->from == older->from) && fits(first, older) && ((m->tag == older->tag) || !w->pulled)) {
        fail_msg("message %d (tag %d) was received before message %d (tag %d)", first->message,
                 (int)m->tag, second->message, (int)older->tag);
    }
}

static void check_order(const world *w)
{
    for (int a = 0; a < w->nreceives; a++) {
        for (int b = a + 1; b < w->nreceives; b++) {
            check_pair(w, &w->receives[a], &w->receives[b]);
        }
    }
}

static void watch_pools(nxt_net *net)
{
    world *w = nxt_net_ctx(net);

    for (uint32_t i = 0; i < w->nodes; i++) {
        nx_msg_stats stats;

        nx_msg_stats_get(nxt_net_msg(net, i), &stats);
        assert_true((stats.pool_used <= w->pool) && (stats.pool_peak <= w->pool));
        w->pulled = w->pulled || (stats.pulled > 0);
    }
}

/* Posts a receive for every remaining message, of any tag, from any source. */
static void drain(world *w)
{
    for (int round = 0; round < MESSAGES; round++) {
        bool all = true;

        nxt_net_run(w->net);
        check_receives(w);
        for (int i = 0; i < w->nmessages; i++) {
            message *m = &w->messages[i];

            if ((m->receive < 0) && !m->cancelled && (w->nreceives < RECEIVES)) {
                all = false;
                post(w, m->to, m->from, m->context, m->tag, false);
                nxt_net_run(w->net);
                check_receives(w);
            }
        }
        if (all) {
            return;
        }
        assert_true(w->nreceives < RECEIVES);
    }
}

static void check_end(world *w)
{
    for (int i = 0; i < w->nmessages; i++) {
        message *m = &w->messages[i];

        assert_true(m->req.done);
        assert_int_equal(m->req.err, m->cancelled ? NEXAR_ECANCELED : NEXAR_OK);
        assert_true(m->cancelled || (m->receive >= 0));
    }
    check_order(w);
    for (uint32_t i = 0; i < w->nodes; i++) {
        nx_msg_stats stats;

        nx_msg_stats_get(nxt_net_msg(w->net, i), &stats);
        assert_true((stats.pool_used == 0) && (stats.unexpected == 0) && (stats.waiting == 0));
    }
}

/* Statistics of the programs, so that a test can assert that each case occurred. */
typedef struct done {
    uint64_t pulled; /* programs in which messages were fetched by name */
    uint64_t shorts, matched;
} done;

static void run(uint64_t seed, done *d)
{
    static const size_t inlines[] = {0, 31, 500, 8000}, eagers[] = {0, 1000, 8192, 65536};
    world *w = nx_zalloc(sizeof(*w));
    int program = 0;

    assert_non_null(w);
    nx_random_seeded_init(&w->random, seed);
    w->nodes = 2 + (uint32_t)below(w, 4);
    w->inline_max = inlines[below(w, 4)];
    w->eager_max = eagers[below(w, 4)];
    /* From a pool so small that nearly everything is pulled, to a large one. */
    w->pool = w->nodes * NX_CLASSES * (768 + (size_t)below(w, (seed % 3 == 0) ? 2000 : 200000));
    w->cancels = (seed % 2 == 0);
    w->hasty = (seed % 4 == 1);
    w->net = nxt_net_create(&(nxt_net_config){.nodes = w->nodes,
                                              .seed = seed,
                                              .pool = w->pool,
                                              .inline_max = w->inline_max,
                                              .eager_max = w->eager_max,
                                              .fragment_max = 1 + (size_t)below(w, 70000),
                                              .ctx = w});
    assert_non_null(w->net);
    nxt_net_watch(w->net, watch_pools);
    while ((w->nmessages < MESSAGES) && (program++ < 4000)) {
        uint64_t dice = below(w, 12);

        if (dice < 2) {
            start_send(w);
        } else if ((dice < 4) && (w->nreceives < MESSAGES)) {
            start_receive(w);
        } else if ((dice < 5) && w->cancels) {
            cancel_one(w);
        } else {
            for (uint64_t i = below(w, w->hasty ? 3 : 12); i > 0; i--) {
                (void)nxt_net_step(w->net);
            }
            check_receives(w);
        }
    }
    /* Receives that wait for absent messages would take messages that others need. */
    nxt_net_run(w->net);
    w->ends = true;
    for (int i = 0; i < w->nreceives; i++) {
        if (!w->receives[i].req.done) {
            cancel_receive(w, &w->receives[i]);
        }
    }
    drain(w);
    check_end(w);
    nxt_net_destroy(w->net);
    for (int i = 0; i < w->nmessages; i++) {
        nx_free(w->messages[i].data);
    }
    for (int i = 0; i < w->nreceives; i++) {
        nx_free(w->receives[i].data);
    }
    d->pulled += w->pulled ? 1 : 0;
    d->shorts += w->shorts;
    d->matched += w->matched;
    nx_free(w);
}

enum { SEEDS = 120 };
static uint64_t first_seed, seeds = SEEDS;

static void test_random_programs_lose_nothing_and_keep_the_order(void **state)
{
    done d = {0};

    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + seeds; seed++) {
        run(seed, &d);
    }

    assert_true((seeds < SEEDS) || ((d.shorts > seeds / 4) && (d.matched > seeds)));
    assert_true((seeds < SEEDS) || ((d.pulled > seeds / 10) && (d.pulled < seeds / 10 * 9)));
}

/* msg_random_test [SEEDS [FIRST]]: other seeds, by hand. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_programs_lose_nothing_and_keep_the_order),
    };

    seeds = (argc > 1) ? strtoull(argv[1], NULL, 10) : SEEDS;
    first_seed = (argc > 2) ? strtoull(argv[2], NULL, 10) : 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
