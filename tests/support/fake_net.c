/* fake_net.c - queues between engines; a random number chooses the next delivery. */
#include "fake_net.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "unit.h"

/* Frames in flight, each preceded by its length, in one block of memory. */
typedef struct lane_queue {
    uint8_t *data;
    size_t head, tail, room;
    uint64_t sent;
} lane_queue;

/* One end of a link, with the queue of what it sends. */
typedef struct end {
    nx_link link; /* first */
    nxt_net *net;
    uint32_t node, peer;
    lane_queue lanes[NX_LANES];
    nx_list parts; /* nx_tx.link; queued: how much was delivered */
    nx_list sent;  /* delivered or cancelled, on_sent is due; stream: the error */
    uint64_t part_bytes;
    bool there;     /* exists */
    bool attached;  /* known to the engine */
    bool closed;    /* by its engine */
    bool draining;  /* closed, but queued data is still delivered */
    bool hangup;    /* the other end has closed: on_down is due after all deliveries */
    nexar_err down; /* the error of on_down */
} end;

struct nxt_net {
    nxt_net_config config;
    nx_clock_manual clock;
    nx_loop *loop;
    nx_random_seeded random;
    nx_msg *msgs[NXT_NODES];
    nexar_err refused[NXT_NODES];
    struct node {
        nxt_net *net;
        uint32_t index;
    } nodes[NXT_NODES];
    end ends[NXT_NODES][NXT_NODES];
    void (*watch)(nxt_net *net);
};

static end *other(const end *e)
{
    return &e->net->ends[e->peer][e->node];
}

/* ---- operations of a link ---------------------------------------------------------- */

static bool queue_room(lane_queue *q, size_t need)
{
    uint8_t *grown;

    if (q->room - q->tail >= need) {
        return true;
    }
    if ((q->head > q->room / 2) && (q->room - (q->tail - q->head) >= need)) {
        memmove(q->data, q->data + q->head, q->tail - q->head);
        q->tail -= q->head;
        q->head = 0;
        return true;
    }
    grown = nx_grow(q->data, 2 * (q->room + need), 1);
    if (grown == NULL) {
        return false;
    }
    q->data = grown;
    q->room = 2 * (q->room + need);
    return true;
}

static nexar_err op_send_frame(nx_link *link, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    end *e = (end *)(void *)link;
    lane_queue *q = &e->lanes[lane];
    size_t len = 0;

    assert(!e->closed);
    if (e->hangup) {
        return e->down;
    }
    for (size_t i = 0; i < n; i++) {
        len += bytes[i].len;
    }
    assert(len <= NX_FRAME_MAX);
    if (!queue_room(q, sizeof(len) + len)) {
        return NEXAR_ENOMEM;
    }
    memcpy(q->data + q->tail, &len, sizeof(len));
    q->tail += sizeof(len);
    for (size_t i = 0; i < n; i++) {
        if (bytes[i].len > 0) {
            memcpy(q->data + q->tail, bytes[i].ptr, bytes[i].len);
        }
        q->tail += bytes[i].len;
    }
    q->sent++;
    return NEXAR_OK;
}

static nexar_err op_send_part(nx_link *link, nx_tx *tx)
{
    end *e = (end *)(void *)link;
    uint64_t len = 0;

    assert(!e->closed);
    if (e->hangup) {
        return e->down;
    }
    for (size_t i = 0; i < tx->nbytes; i++) {
        len += tx->bytes[i].len;
    }
    assert((len == tx->len) && (len > 0));
    tx->queued = 0;
    nx_list_push_back(&e->parts, &tx->link);
    return NEXAR_OK;
}

static void retire(end *e, nx_tx *tx, nexar_err err)
{
    nx_list_remove(&tx->link);
    tx->stream = (uint64_t)(-(int64_t)err);
    nx_list_push_back(&e->sent, &tx->link);
}

static void op_cancel_part(nx_link *link, nx_tx *tx)
{
    end *e = (end *)(void *)link;

    nx_list_for_each (at, &e->parts) {
        if (at == &tx->link) {
            retire(e, tx, NEXAR_ECANCELED);
            return;
        }
    } /* otherwise its on_sent is already due */
}

static void drop_all(end *e, nexar_err err)
{
    while (!nx_list_empty(&e->parts)) {
        retire(e, nx_list_entry(e->parts.next, nx_tx, link), err);
    }
    for (int lane = 0; lane < NX_LANES; lane++) {
        e->lanes[lane].head = e->lanes[lane].tail = 0;
    }
}

static void op_close(nx_link *link, bool drain)
{
    end *e = (end *)(void *)link, *o = other(e);

    assert(!e->closed);
    e->closed = true;
    if (drain) {
        e->draining = true;
    } else {
        drop_all(e, NEXAR_ECANCELED);
    }
    if (!o->closed && !o->hangup) {
        o->hangup = true;
        o->down = NEXAR_EPEER;
    }
}

/* A frame that may arrive next: here any lane and part may, so it returns the next message. */
static bool op_peek_frame(nx_link *link, nx_bytes *frame)
{
    const end *e = (const end *)(const void *)link;
    const lane_queue *q = &other(e)->lanes[NX_LANE_MESSAGE];

    if (e->closed || (q->head == q->tail)) {
        return false;
    }
    memcpy(&frame->len, q->data + q->head, sizeof(frame->len));
    frame->ptr = q->data + q->head + sizeof(frame->len);
    return true;
}

static void op_drop_frame(nx_link *link)
{
    lane_queue *q = &other((const end *)(const void *)link)->lanes[NX_LANE_MESSAGE];
    size_t len;

    memcpy(&len, q->data + q->head, sizeof(len));
    q->head += sizeof(len) + len;
}

static void op_info(const nx_link *link, nx_link_info *info)
{
    (void)link;
    *info = (nx_link_info){.rtt_ns = 0};
}

static const nx_link_ops ops = {.name = "fake",
                                .send_frame = op_send_frame,
                                .send_part = op_send_part,
                                .cancel_part = op_cancel_part,
                                .close = op_close,
                                .info = op_info,
                                .peek_frame = op_peek_frame,
                                .drop_frame = op_drop_frame};

/* ---- creation ------------------------------------------------------------------------ */

static void end_init(nxt_net *net, uint32_t node, uint32_t peer)
{
    end *e = &net->ends[node][peer];

    e->link.ops = &ops;
    e->net = net;
    e->node = node;
    e->peer = peer;
    nx_list_init(&e->parts);
    nx_list_init(&e->sent);
    e->there = true;
}

static nexar_err do_connect(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                            nx_link **link)
{
    struct node *node = ctx;
    nxt_net *net = node->net;
    end *e = &net->ends[node->index][peer];

    if (net->refused[node->index] != NEXAR_OK) {
        return net->refused[node->index];
    }
    if ((net->msgs[peer] == NULL) || e->attached) {
        return NEXAR_ECONNECT;
    }
    if (!e->there) {
        end_init(net, node->index, peer);
        end_init(net, peer, node->index);
    }
    e->attached = true;
    e->link.up = up;
    e->link.up_ctx = up_ctx;
    e->link.frame_best = net->config.frame_best;
    *link = &e->link;
    return NEXAR_OK;
}

static void do_control(void *ctx, uint32_t peer, const void *data, size_t len)
{
    struct node *node = ctx;

    if (node->net->config.on_control != NULL) {
        node->net->config.on_control(node->net, node->index, peer, data, len);
    }
}

static bool do_peer_end(void *ctx, uint32_t peer, nx_end how, nexar_err err)
{
    const struct node *node = ctx;

    (void)peer;
    (void)how;
    (void)err;
    return node->net->config.holds;
}

static void do_peer_down(void *ctx, uint32_t peer, nexar_err err, const char *why)
{
    struct node *node = ctx;

    if (node->net->config.on_peer_down != NULL) {
        node->net->config.on_peer_down(node->net, node->index, peer, err, why);
    }
}

nxt_net *nxt_net_create(const nxt_net_config *config)
{
    nxt_net *net = calloc(1, sizeof(*net));

    assert(net != NULL);
    net->config = *config;
    net->config.fragment_max = (config->fragment_max == 0) ? 65536 : config->fragment_max;
    nx_random_seeded_init(&net->random, config->seed);
    nx_clock_manual_init(&net->clock, 1);
    if (nx_loop_create(&net->loop, &net->clock.clock) != NEXAR_OK) {
        free(net);
        return NULL;
    }
    for (uint32_t i = 0; i < config->nodes; i++) {
        nx_msg_config c = {.loop = net->loop,
                           .peers = (config->first == 0)  ? config->nodes
                                    : (config->first > i) ? config->first
                                                          : i + 1,
                           .grows = (config->first != 0),
                           .self = i,
                           .pool = config->pool,
                           .inline_max = config->inline_max,
                           .inline_auto = config->inline_auto,
                           .eager_max = config->eager_max,
                           .connect = do_connect,
                           .on_unexpected = config->on_unexpected,
                           .on_peer_end = do_peer_end,
                           .on_peer_down = do_peer_down,
                           .on_control = do_control,
                           .ctx = &net->nodes[i]};

        net->nodes[i] = (struct node){.net = net, .index = i};
        if (nx_msg_create(&net->msgs[i], &c) != NEXAR_OK) {
            nxt_net_destroy(net);
            return NULL;
        }
    }
    return net;
}

/* Calls on_sent for all parts of |e|. */
static void give_back(end *e)
{
    while (e->there && !nx_list_empty(&e->sent)) {
        nx_tx *tx = nx_list_entry(nx_list_pop(&e->sent), nx_tx, link);

        e->link.up->on_sent(e->link.up_ctx, &e->link, tx, (nexar_err)(-(int64_t)tx->stream));
    }
}

static void end_free(end *e)
{
    if (!e->there) {
        return;
    }
    drop_all(e, NEXAR_ECANCELED);
    give_back(e);
    for (int lane = 0; lane < NX_LANES; lane++) {
        nx_free(e->lanes[lane].data);
    }
}

nxt_net *nxt_net_plain(uint32_t nodes, uint64_t seed, size_t pool)
{
    nxt_net *net = nxt_net_create(&(nxt_net_config){.nodes = nodes,
                                                    .seed = seed,
                                                    .pool = pool,
                                                    .inline_max = NXT_NET_INLINE,
                                                    .eager_max = NXT_NET_EAGER,
                                                    .fragment_max = 5000});

    assert_non_null(net);
    return net;
}

void nxt_net_fill(uint8_t *data, size_t len, unsigned salt)
{
    for (size_t i = 0; i < len; i++) {
        data[i] = (uint8_t)(i * 7 + i / 253 + salt);
    }
}

void nxt_net_destroy(nxt_net *net)
{
    for (uint32_t i = 0; i < net->config.nodes; i++) {
        nx_msg_destroy(net->msgs[i]);
        net->msgs[i] = NULL;
        for (uint32_t k = 0; k < net->config.nodes; k++) {
            end_free(&net->ends[i][k]);
        }
    }
    nx_loop_destroy(net->loop);
    free(net);
}

nx_msg *nxt_net_msg(nxt_net *net, uint32_t node)
{
    return net->msgs[node];
}

void *nxt_net_ctx(nxt_net *net)
{
    return net->config.ctx;
}

void nxt_net_watch(nxt_net *net, void (*watch)(nxt_net *net))
{
    net->watch = watch;
}

/* ---- delivery ------------------------------------------------------------------------ */

/* Whether the engine at the far end can be called. */
static bool hears(const end *o)
{
    return o->attached && !o->closed && (o->node < NXT_NODES) && (o->net->msgs[o->node] != NULL);
}

/* Copies |data| to its own block, so that a sanitizer detects reads past its end; or returns
 * |data|, with |*copy| NULL. */
static const void *borrowed(const nxt_net *net, const void *data, size_t len, void **copy)
{
    *copy = NULL;
    if (net->config.plain) {
        return data;
    }
    *copy = malloc((len == 0) ? 1 : len);
    assert(*copy != NULL);
    memcpy(*copy, data, len);
    return *copy;
}

static void deliver_frame(end *e, nx_lane lane)
{
    lane_queue *q = &e->lanes[lane];
    end *o = other(e);
    size_t len;
    const void *data;
    void *copy;

    memcpy(&len, q->data + q->head, sizeof(len));
    data = borrowed(e->net, q->data + q->head + sizeof(len), len, &copy);
    q->head += sizeof(len) + len;
    if (q->head == q->tail) {
        q->head = q->tail = 0;
    }
    if (hears(o)) {
        o->link.up->on_frame(o->link.up_ctx, &o->link, lane, data, len);
    }
    free(copy);
}

/* The address of byte |off| of a part, and the number of contiguous bytes there. */
static const uint8_t *locate(const nx_tx *tx, uint64_t off, size_t *len)
{
    size_t i = 0;

    while (off >= tx->bytes[i].len) {
        off -= tx->bytes[i++].len;
        assert(i < tx->nbytes);
    }
    *len = tx->bytes[i].len - (size_t)off;
    return (const uint8_t *)tx->bytes[i].ptr + off;
}

static nx_tx *pick_part(end *e)
{
    nx_list *at = e->parts.next;

    if (!e->net->config.plain) {
        for (uint64_t n = nx_random_below(&e->net->random.random, 4); n > 0; n--) {
            at = (at->next == &e->parts) ? e->parts.next : at->next;
        }
    }
    return nx_list_entry(at, nx_tx, link);
}

static void deliver_data(end *e)
{
    nxt_net *net = e->net;
    nx_tx *tx = pick_part(e);
    end *o = other(e);
    size_t most, len = net->config.fragment_max;
    const uint8_t *at = locate(tx, tx->queued, &most);
    uint64_t id = tx->id, off = tx->off + tx->queued;
    const void *data;
    void *copy;

    if (!net->config.plain) {
        len = 1 + (size_t)nx_random_below(&net->random.random, len);
    }
    len = (len < most) ? len : most;
    data = borrowed(net, at, len, &copy);
    tx->queued += len;
    e->part_bytes += len;
    if (tx->queued == tx->len) {
        retire(e, tx, NEXAR_OK);
    }
    if (hears(o)) {
        o->link.up->on_data(o->link.up_ctx, &o->link, id, off, data, len);
    }
    free(copy);
}

static void deliver_sent(end *e)
{
    nx_tx *tx = nx_list_entry(nx_list_pop(&e->sent), nx_tx, link);

    e->link.up->on_sent(e->link.up_ctx, &e->link, tx, (nexar_err)(-(int64_t)tx->stream));
}

static bool has_traffic(const end *e)
{
    return !nx_list_empty(&e->parts) || (e->lanes[0].head < e->lanes[0].tail) ||
           (e->lanes[1].head < e->lanes[1].tail);
}

enum { MOVE_CONTROL, MOVE_MESSAGE, MOVE_DATA, MOVE_SENT, MOVE_DOWN, MOVE_ACCEPT, MOVES };

static bool can_move(const end *e, int move)
{
    const end *o = other(e);

    switch (move) {
    case MOVE_CONTROL:
    case MOVE_MESSAGE:
        return o->attached && (e->lanes[move].head < e->lanes[move].tail);
    case MOVE_DATA:
        return o->attached && !nx_list_empty(&e->parts);
    case MOVE_SENT:
        return e->attached && !nx_list_empty(&e->sent);
    case MOVE_DOWN: /* queued data of the other end comes first */
        return e->hangup && !e->closed && e->attached && !has_traffic(o);
    case MOVE_ACCEPT:
        return !e->attached && (e->net->msgs[e->node] != NULL) && o->attached;
    default:
        return false;
    }
}

static void go_down(end *e)
{
    drop_all(e, e->down);
    give_back(e);
    e->link.up->on_down(e->link.up_ctx, &e->link, e->down, "the other end has gone");
}

static void move(end *e, int what)
{
    nx_msg *m = e->net->msgs[e->node];

    switch (what) {
    case MOVE_CONTROL:
    case MOVE_MESSAGE:
        deliver_frame(e, (nx_lane)what);
        break;
    case MOVE_DATA:
        deliver_data(e);
        break;
    case MOVE_SENT:
        deliver_sent(e);
        break;
    case MOVE_DOWN:
        go_down(e);
        break;
    default:
        e->attached = true;
        e->link.up = nx_msg_up(m);
        e->link.up_ctx = nx_msg_up_ctx(m, e->peer);
        nx_msg_attach(m, e->peer, &e->link);
        break;
    }
}

typedef struct choice {
    end *who;
    int what;
} choice;

/* Appends the possible moves of |e| to the |n| choices; returns the new number. */
static size_t list_moves(end *e, choice *choices, size_t n)
{
    for (int m = 0; e->there && (m < MOVES); m++) {
        if (can_move(e, m)) {
            choices[n++] = (choice){.who = e, .what = m};
        }
    }
    return n;
}

bool nxt_net_step(nxt_net *net)
{
    choice choices[NXT_NODES * NXT_NODES * MOVES];
    size_t n = 0, pick;

    for (uint32_t i = 0; i < net->config.nodes; i++) {
        for (uint32_t k = 0; k < net->config.nodes; k++) {
            n = list_moves(&net->ends[i][k], choices, n);
        }
    }
    if (n == 0) {
        return false;
    }
    pick = net->config.plain ? 0 : (size_t)nx_random_below(&net->random.random, n);
    move(choices[pick].who, choices[pick].what);
    if (net->watch != NULL) {
        net->watch(net);
    }
    return true;
}

void nxt_net_run(nxt_net *net)
{
    while (nxt_net_step(net)) {
    }
}

/* ---- failures -------------------------------------------------------------------------- */

static void break_end(end *e)
{
    if (e->there && !e->closed) {
        drop_all(e, NEXAR_EPEER);
        e->hangup = true;
        e->down = NEXAR_EPEER;
    }
}

void nxt_net_cut(nxt_net *net, uint32_t a, uint32_t b)
{
    break_end(&net->ends[a][b]);
    break_end(&net->ends[b][a]);
}

void nxt_net_kill(nxt_net *net, uint32_t node)
{
    nx_msg *m = net->msgs[node];

    for (uint32_t k = 0; k < net->config.nodes; k++) {
        nxt_net_cut(net, node, k);
    }
    net->msgs[node] = NULL;
    nx_msg_destroy(m);
    for (uint32_t k = 0; k < net->config.nodes; k++) {
        give_back(&net->ends[node][k]);
    }
}

void nxt_net_refuse(nxt_net *net, uint32_t node, nexar_err err)
{
    net->refused[node] = err;
}

void nxt_net_inject_frame(nxt_net *net, uint32_t node, uint32_t peer, nx_lane lane,
                          const void *data, size_t len)
{
    end *e = &net->ends[node][peer];
    void *copy;

    data = borrowed(net, data, len, &copy);
    e->link.up->on_frame(e->link.up_ctx, &e->link, lane, data, len);
    free(copy);
}

void nxt_net_inject_data(nxt_net *net, uint32_t node, uint32_t peer, uint64_t id, uint64_t off,
                         const void *data, size_t len)
{
    end *e = &net->ends[node][peer];
    void *copy;

    data = borrowed(net, data, len, &copy);
    e->link.up->on_data(e->link.up_ctx, &e->link, id, off, data, len);
    free(copy);
}

uint64_t nxt_net_frames(const nxt_net *net, uint32_t node, uint32_t peer, nx_lane lane)
{
    return net->ends[node][peer].lanes[lane].sent;
}

uint64_t nxt_net_part_bytes(const nxt_net *net, uint32_t node, uint32_t peer)
{
    return net->ends[node][peer].part_bytes;
}
