/* join_state.c - the joiner's side of joining. */
#include "cluster/join_state.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"

/* Between attempts to reach the seed. */
static const uint64_t REDIAL_FIRST_NS = UINT64_C(50000000);
static const uint64_t REDIAL_MOST_NS = UINT64_C(2000000000);

/* For a member it is not urgent, and there may be thousands of them. */
static const uint64_t RETURN_FIRST_NS = UINT64_C(1000000000);
static const uint64_t RETURN_MOST_NS = UINT64_C(6500000000);

/* Once admitted, a joiner waits so much longer than its time-out: that of the seed,
 * mostly the same, began a little later, and ends the wait of all at once, with the
 * same words.  Otherwise the first to give up would free its place, and the seed would
 * wait on. */
static const uint64_t SEED_FIRST_NS = UINT64_C(1000000000);

/* The connection to the seed. */
typedef enum contact {
    NONE, /* an attempt is under way or will be */
    SAID, /* connected; HELLO or RETURN was sent */
    THERE /* the seed has answered */
} contact;

/*
 * Invariants: |member| is set from WAITING on; |view| is a whole one from OFFERED on;
 * |partial| is there while pieces of one are; |telling| while the seed asks for ours;
 * nobody is |waiting| unless the contact is THERE.
 */
struct nx_join_state {
    nx_join_rules rules;
    const nx_join_ops *ops;
    void *ctx;
    nx_join_phase phase;
    contact contact;
    uint64_t deadline_ns, redial_ns, redial_after_ns;
    char last_failure[128]; /* of the last attempt */

    uint64_t member;
    nx_job_id job;
    nx_standing standing;
    nx_progress progress;

    uint8_t *partial;
    size_t partial_len, partial_total;
    uint64_t partial_epoch;
    nx_view *view;
    uint32_t rank;
    nx_waiting waiting;
    uint64_t started;
    uint8_t *telling;
    size_t telling_len, telling_sent;
    uint64_t telling_epoch;

    nexar_err err;
    char text[NX_ERROR_ROOM];
};

nexar_err nx_join_state_create(nx_join_state **out, const nx_join_rules *rules,
                               const nx_join_ops *ops, void *ctx, uint64_t now_ns)
{
    nx_join_state *s = nx_zalloc(sizeof(*s));

    if (s == NULL) {
        return nx_fail_nomem("joining");
    }
    s->rules = *rules;
    s->ops = ops;
    s->ctx = ctx;
    s->deadline_ns = (rules->timeout_ns == 0) ? UINT64_MAX : now_ns + rules->timeout_ns;
    s->redial_ns = UINT64_MAX;
    s->redial_after_ns = REDIAL_FIRST_NS;
    *out = s;
    ops->dial(ctx);
    return NEXAR_OK;
}

static void drop_partial(nx_join_state *s)
{
    nx_free(s->partial);
    s->partial = NULL;
    s->partial_len = s->partial_total = 0;
}

void nx_join_state_destroy(nx_join_state *s)
{
    if (s == NULL) {
        return;
    }
    drop_partial(s);
    nx_free(s->telling);
    nx_view_destroy(s->view);
    nx_waiting_fini(&s->waiting);
    explicit_bzero(&s->rules.token, sizeof(s->rules.token));
    nx_free(s);
}

nx_join_phase nx_join_state_phase(const nx_join_state *s)
{
    return s->phase;
}

nexar_err nx_join_state_error(const nx_join_state *s, const char **text)
{
    *text = s->text;
    return s->err;
}

const nx_view *nx_join_state_view(const nx_join_state *s, uint32_t *rank)
{
    if ((s->phase != NX_JOIN_FORMED) && (s->phase != NX_JOIN_LEAVING) &&
        (s->phase != NX_JOIN_GONE)) {
        return NULL;
    }
    *rank = s->rank;
    return s->view;
}

bool nx_join_state_there(const nx_join_state *s)
{
    return s->contact == THERE;
}

bool nx_join_state_hung_up(const nx_join_state *s)
{
    return (s->contact == NONE) && (s->redial_ns != UINT64_MAX);
}

/* What the connection had is of no use any more. */
static void drop_contact(nx_join_state *s)
{
    s->contact = NONE;
    nx_waiting_clear(&s->waiting);
    nx_free(s->telling);
    s->telling = NULL;
}

static void fail(nx_join_state *s, nexar_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void fail(nx_join_state *s, nexar_err err, const char *format, ...)
{
    const bool formed = (s->phase == NX_JOIN_FORMED) || (s->phase == NX_JOIN_LEAVING);
    va_list args;

    /* A world that has formed runs on without the seed, whatever becomes of it. */
    s->phase = formed ? NX_JOIN_GONE : NX_JOIN_FAILED;
    s->err = err;
    drop_contact(s);
    va_start(args, format);
    (void)vsnprintf(s->text, sizeof(s->text), format, args);
    va_end(args);
}

static void say(nx_join_state *s, const nx_writer *w)
{
    s->ops->send(s->ctx, w->data, w->len);
}

/* ---- connecting ------------------------------------------------------------------ */

/* The first word of a connection: NEXAR_EINTERNAL if there is none. */
static nexar_err encode_hello(const nx_join_state *s, const uint8_t exporter[32], nx_writer *w)
{
    uint8_t proof[NX_JOIN_PROOF_SIZE];
    const nx_hello_head head = {.protocol = NX_JOIN_PROTOCOL,
                                .proof = proof,
                                .csr = s->rules.csr.data,
                                .csr_len = s->rules.csr.len};
    nexar_err err = nx_join_proof(&s->rules.token, exporter, head.csr, head.csr_len, proof);

    if (err == NEXAR_OK) {
        nx_hello_encode(w, &head, &s->rules.hello);
    }
    return err;
}

static void encode_return(const nx_join_state *s, nx_writer *w)
{
    nx_return f = {.protocol = NX_JOIN_PROTOCOL, .self = s->rules.hello.self};

    f.epoch = (s->phase == NX_JOIN_FORMED) ? s->view->epoch : 0;
    f.self.id = s->member;
    nx_return_encode(w, &f);
}

void nx_join_state_connected(nx_join_state *s, const uint8_t exporter[32], uint64_t now_ns)
{
    uint8_t frame[NX_HELLO_MAX];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    (void)now_ns;
    if ((s->contact != NONE) || (s->phase == NX_JOIN_FAILED) || (s->phase == NX_JOIN_GONE)) {
        return;
    }
    if (s->member != 0) {
        encode_return(s, &w);
    } else if (encode_hello(s, exporter, &w) != NEXAR_OK) {
        fail(s, NEXAR_EINTERNAL, "no proof of the token: %s", nexar_last_error());
        return;
    }
    if (w.failed) {
        fail(s, NEXAR_EINTERNAL, "the hello does not fit its frame");
        return;
    }
    s->contact = SAID;
    s->phase = (s->member == 0) ? NX_JOIN_GREETED : s->phase;
    say(s, &w);
}

static uint64_t doubled(uint64_t ns, uint64_t most)
{
    return (2 * ns < most) ? 2 * ns : most;
}

static void redial_later(nx_join_state *s, const char *why, uint64_t now_ns)
{
    (void)snprintf(s->last_failure, sizeof(s->last_failure), "%s", why);
    if (s->phase == NX_JOIN_FORMED) {
        const uint64_t after = s->redial_after_ns;

        s->redial_ns = now_ns + after + nx_random_below(s->rules.random, after / 2 + 1);
        s->redial_after_ns = doubled(after, RETURN_MOST_NS);
    } else {
        s->redial_ns = now_ns + s->redial_after_ns;
        s->redial_after_ns = doubled(s->redial_after_ns, REDIAL_MOST_NS);
    }
}

/* A joiner has lost its seed before it was in the world. */
static void lost_early(nx_join_state *s, const char *why, uint64_t now_ns)
{
    if (!s->standing.lasting) {
        fail(s, NEXAR_ECONNECT, "the seed at %s has gone before the world %s (%s); by then %s",
             s->rules.seed, s->standing.formed ? "let this process in" : "formed", why,
             (s->progress.text[0] == '\0') ? "not all had joined" : s->progress.text);
        return;
    }
    /* What it held may be void when the seed is back: it is told anew. */
    drop_partial(s);
    nx_view_destroy(s->view);
    s->view = NULL;
    s->phase = NX_JOIN_WAITING;
    redial_later(s, why, now_ns);
}

/* A member has lost its seed: |ended|, its process is no more. */
static void lost_late(nx_join_state *s, nexar_err err, bool ended, const char *why, uint64_t now_ns)
{
    if ((s->phase == NX_JOIN_LEAVING) || (ended && !s->standing.lasting)) {
        fail(s, err, "the seed at %s has gone: %s", s->rules.seed, why);
        return;
    }
    s->err = err;
    (void)snprintf(s->text, sizeof(s->text), "the seed at %s has gone: %s", s->rules.seed, why);
    redial_later(s, why, now_ns);
}

void nx_join_state_closed(nx_join_state *s, nexar_err err, bool ended, const char *why,
                          uint64_t now_ns)
{
    if (s->contact == THERE) {
        s->redial_after_ns = (s->phase == NX_JOIN_FORMED) ? RETURN_FIRST_NS : REDIAL_FIRST_NS;
    }
    drop_contact(s);
    switch (s->phase) {
    case NX_JOIN_DIALLING:
    case NX_JOIN_GREETED:
        /* A wrong key or another protocol will not be better next time. */
        if ((err == NEXAR_EAUTH) || (err == NEXAR_EPROTO) || (err == NEXAR_EINVAL)) {
            fail(s, err, "the seed at %s: %s", s->rules.seed, why);
        } else {
            s->phase = NX_JOIN_DIALLING;
            redial_later(s, why, now_ns);
        }
        break;
    case NX_JOIN_WAITING:
    case NX_JOIN_OFFERED:
        lost_early(s, why, now_ns);
        break;
    case NX_JOIN_FORMED:
    case NX_JOIN_LEAVING:
        lost_late(s, err, ended, why, now_ns);
        break;
    case NX_JOIN_GONE:
    case NX_JOIN_FAILED:
        break;
    }
}

/* ---- frames --------------------------------------------------------------------- */

static void on_welcome(nx_join_state *s, nx_reader *r)
{
    nx_welcome welcome;
    nexar_err err;

    if ((s->phase != NX_JOIN_GREETED) || (nx_welcome_decode(r, &welcome) != NEXAR_OK)) {
        fail(s, NEXAR_EPROTO, "the seed at %s sent a wrong welcome", s->rules.seed);
        return;
    }
    err = s->ops->adopt(s->ctx, &welcome);
    if (err != NEXAR_OK) {
        fail(s, err, "the certificate from the seed at %s: %s", s->rules.seed, nexar_last_error());
        return;
    }
    s->member = welcome.member;
    s->job = welcome.job;
    s->standing = welcome.standing;
    s->contact = THERE;
    s->phase = NX_JOIN_WAITING;
    if (s->deadline_ns < UINT64_MAX - SEED_FIRST_NS) {
        s->deadline_ns += SEED_FIRST_NS;
    }
}

static void on_refused(nx_join_state *s, nx_reader *r, uint64_t now_ns)
{
    nx_refused refused;

    if (nx_refused_decode(r, &refused) != NEXAR_OK) {
        fail(s, NEXAR_EPROTO, "the seed at %s sent a malformed refusal", s->rules.seed);
        return;
    }
    /* One who is a member is so still, unless the seed knows better. */
    if ((s->phase == NX_JOIN_FORMED) && (refused.why != NX_REFUSAL_FORMED)) {
        nx_join_state_closed(s, nx_refusal_error(refused.why), false, refused.text, now_ns);
        return;
    }
    fail(s, nx_refusal_error(refused.why), "%s%s",
         (refused.why == NX_REFUSAL_TIMEOUT) ? "" : "refused by the seed: ", refused.text);
}

static void on_progress(nx_join_state *s, nx_reader *r)
{
    if (nx_progress_decode(r, &s->progress) != NEXAR_OK) {
        fail(s, NEXAR_EPROTO, "the seed at %s sent a malformed progress", s->rules.seed);
    }
}

/* A whole view: it must be one with us in it. */
static nexar_err take_view(nx_join_state *s)
{
    nx_reader r = nx_reader_make(s->partial, s->partial_total);
    nx_view *view;
    const nx_member *self;
    nexar_err err = nx_view_decode(&r, &view);

    if (err != NEXAR_OK) {
        return err;
    }
    self = nx_view_member(view, s->member);
    /* Ranks close up when the world forms without some; none is above what was asked. */
    if (!nx_reader_done(&r) || (self == NULL) || (view->epoch != s->partial_epoch) ||
        (memcmp(&view->job, &s->job, sizeof(s->job)) != 0) ||
        (self->rank > s->rules.hello.self.rank)) {
        nx_view_destroy(view);
        return nx_fail(NEXAR_EPROTO, "a view that is not of this world or without this process");
    }
    nx_view_destroy(s->view);
    s->view = view;
    s->rank = self->rank;
    return NEXAR_OK;
}

/* Puts a piece where it belongs; a new epoch voids what there was. */
static nexar_err add_piece(nx_join_state *s, const nx_view_piece *piece)
{
    if (piece->off == 0) {
        drop_partial(s);
        s->partial = nx_zalloc(piece->total);
        if (s->partial == NULL) {
            return nx_fail_nomem("a view");
        }
        s->partial_total = piece->total;
        s->partial_epoch = piece->epoch;
        s->phase = NX_JOIN_WAITING;
    }
    if ((s->partial == NULL) || (piece->epoch != s->partial_epoch) ||
        (piece->total != s->partial_total) || (piece->off != s->partial_len)) {
        return nx_fail(NEXAR_EPROTO, "pieces of a view out of order");
    }
    memcpy(s->partial + piece->off, piece->data, piece->len);
    s->partial_len += piece->len;
    return NEXAR_OK;
}

static void on_view(nx_join_state *s, nx_reader *r)
{
    uint8_t frame[32];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    nx_view_piece piece;
    nexar_err err = nx_view_piece_decode(r, &piece);

    if ((s->phase != NX_JOIN_WAITING) && (s->phase != NX_JOIN_OFFERED)) {
        err = nx_fail(NEXAR_EPROTO, "a view that was not due");
    }
    err = (err == NEXAR_OK) ? add_piece(s, &piece) : err;
    if ((err == NEXAR_OK) && (s->partial_len == s->partial_total)) {
        err = take_view(s);
        drop_partial(s);
        if (err == NEXAR_OK) {
            s->phase = NX_JOIN_OFFERED;
            nx_have_encode(&w, piece.epoch);
            say(s, &w);
            return;
        }
    }
    if (err != NEXAR_OK) {
        fail(s, err, "the seed at %s sent %s", s->rules.seed, nexar_last_error());
        return;
    }
    nx_want_encode(&w, piece.epoch, (uint32_t)s->partial_len);
    say(s, &w);
}

static void on_start(nx_join_state *s, nx_reader *r)
{
    uint64_t epoch;

    /* To a member it may be of a view that it has gone on from. */
    if ((nx_epoch_decode(r, &epoch) != NEXAR_OK) || (s->view == NULL) || (epoch > s->view->epoch) ||
        ((epoch != s->view->epoch) && (s->phase == NX_JOIN_OFFERED))) {
        fail(s, NEXAR_EPROTO, "the seed at %s sent a start of another world", s->rules.seed);
        return;
    }
    s->started = (epoch > s->started) ? epoch : s->started;
    /* A peer may have been faster: see nx_join_state_peer. */
    if (s->phase == NX_JOIN_OFFERED) {
        s->phase = NX_JOIN_FORMED;
    }
}

/* ---- a world that has formed ---------------------------------------------------------- */

/* An answer to RETURN; or, to one who waits, how things stand now. */
static void on_back(nx_join_state *s, nx_reader *r)
{
    if ((s->member == 0) || (nx_back_decode(r, &s->standing) != NEXAR_OK)) {
        fail(s, NEXAR_EPROTO, "the seed at %s sent a wrong word of welcome", s->rules.seed);
        return;
    }
    if (!s->standing.formed) {
        s->progress.text[0] = '\0';
    }
    s->contact = THERE;
}

static void on_tell(nx_join_state *s, nx_reader *r)
{
    nx_tell *f = nx_zalloc(sizeof(*f));
    nexar_err err = (f == NULL) ? nx_fail_nomem("those who wait") : nx_tell_decode(r, f);

    if (err == NEXAR_OK) {
        if (f->reset) {
            nx_waiting_clear(&s->waiting);
        }
        for (uint32_t i = 0; i < f->ngone; i++) {
            (void)nx_waiting_remove(&s->waiting, f->gone[i]);
        }
        /* Who is in the world already has not waited long enough to be told of. */
        for (uint32_t i = 0; (err == NEXAR_OK) && (i < f->njoined); i++) {
            if (nx_view_member(s->view, f->joined[i].id) == NULL) {
                err = nx_waiting_add(&s->waiting, &f->joined[i]);
            }
        }
        nx_free(f->joined);
    }
    nx_free(f);
    /* One that is not known to wait is not let in: no more than that is lost. */
    if ((err != NEXAR_OK) && (err != NEXAR_ENOMEM)) {
        fail(s, err, "the seed at %s sent %s", s->rules.seed, nexar_last_error());
    }
}

static void tell_piece(nx_join_state *s)
{
    uint8_t frame[NX_VIEW_PIECE + 64];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    const size_t left = s->telling_len - s->telling_sent;
    const nx_view_piece piece = {.epoch = s->telling_epoch,
                                 .total = (uint32_t)s->telling_len,
                                 .off = (uint32_t)s->telling_sent,
                                 .data = s->telling + s->telling_sent,
                                 .len = (left < NX_VIEW_PIECE) ? left : NX_VIEW_PIECE};

    nx_view_piece_encode(&w, &piece);
    s->telling_sent += piece.len;
    say(s, &w);
    if (s->telling_sent == s->telling_len) {
        nx_free(s->telling);
        s->telling = NULL;
    }
}

/* The seed has missed something.  Without memory it asks somebody else. */
static void on_ask(nx_join_state *s, const nx_reader *r)
{
    const size_t room = nx_view_encoded_max(s->view->size);
    nx_writer w;

    if (nx_ask_view_decode(r) != NEXAR_OK) {
        fail(s, NEXAR_EPROTO, "the seed at %s sent %s", s->rules.seed, nexar_last_error());
        return;
    }
    nx_free(s->telling);
    s->telling = nx_zalloc(room);
    if (s->telling == NULL) {
        return;
    }
    w = nx_writer_make(s->telling, room);
    nx_view_encode(&w, s->view);
    s->telling_len = w.len;
    s->telling_sent = 0;
    s->telling_epoch = s->view->epoch;
    tell_piece(s);
}

static void on_want(nx_join_state *s, nx_reader *r)
{
    uint64_t epoch;
    uint32_t off;

    if ((nx_want_decode(r, &epoch, &off) != NEXAR_OK) || (s->telling == NULL) ||
        (epoch != s->telling_epoch) || (off != s->telling_sent)) {
        fail(s, NEXAR_EPROTO, "the seed at %s wants what it was not told of", s->rules.seed);
        return;
    }
    tell_piece(s);
}

/* Frames that only a member gets. */
static bool member_frame(nx_join_state *s, uint8_t type, nx_reader *r)
{
    if ((s->phase != NX_JOIN_FORMED) && (s->phase != NX_JOIN_LEAVING)) {
        return false;
    }
    switch (type) {
    case NX_JOIN_TELL:
        on_tell(s, r);
        return true;
    case NX_JOIN_ASK:
        on_ask(s, r);
        return true;
    case NX_JOIN_WANT:
        on_want(s, r);
        return true;
    default:
        return false;
    }
}

void nx_join_state_frame(nx_join_state *s, const void *data, size_t len, uint64_t now_ns)
{
    nx_reader r = nx_reader_make(data, len);
    const uint8_t type = nx_read_u8(&r);

    if (s->contact == NONE) {
        return;
    }
    switch (type) {
    case NX_JOIN_WELCOME:
        on_welcome(s, &r);
        break;
    case NX_JOIN_REFUSED:
        on_refused(s, &r, now_ns);
        break;
    case NX_JOIN_PROGRESS:
        on_progress(s, &r);
        break;
    case NX_JOIN_VIEW:
        on_view(s, &r);
        break;
    case NX_JOIN_START:
        on_start(s, &r);
        break;
    case NX_JOIN_BACK:
        on_back(s, &r);
        break;
    case NX_JOIN_BYE:
        nx_join_state_closed(s, NEXAR_OK, true, "it said good-bye", now_ns);
        break;
    default:
        if (!member_frame(s, type, &r)) {
            fail(s, NEXAR_EPROTO, "the seed at %s sent a frame that no seed sends", s->rules.seed);
        }
        break;
    }
}

bool nx_join_state_peer(nx_join_state *s, uint64_t id)
{
    uint32_t rank;
    const nx_view *view;

    if ((s->phase == NX_JOIN_OFFERED) && (nx_view_member(s->view, id) != NULL)) {
        s->phase = NX_JOIN_FORMED;
    }
    view = nx_join_state_view(s, &rank);
    return (view != NULL) && (id != s->member) && (nx_view_member(view, id) != NULL);
}

void nx_join_state_leave(nx_join_state *s)
{
    uint8_t frame[NX_REASON_MAX + 16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    if (s->phase != NX_JOIN_FORMED) {
        return;
    }
    s->phase = NX_JOIN_LEAVING;
    if (s->contact != THERE) {
        fail(s, NEXAR_ECONNECT, "the seed at %s is not there", s->rules.seed);
        return;
    }
    nx_bye_encode(&w, "");
    say(s, &w);
}

/* ---- changes of the world ---------------------------------------------------------- */

const nx_waiting *nx_join_state_waiting(const nx_join_state *s)
{
    return &s->waiting;
}

uint64_t nx_join_state_started(const nx_join_state *s)
{
    return s->started;
}

/* The frame for the seed, |*len| bytes in memory that is the caller's; NULL: none. */
static uint8_t *encode_advance(const nx_view *next, const nx_rankset *gone, const nx_member *joined,
                               uint32_t n, size_t *len)
{
    uint8_t *frame = nx_zalloc(NX_FRAME_MAX);
    nx_writer w = nx_writer_make(frame, NX_FRAME_MAX);

    if (frame != NULL) {
        nx_advance_encode(&w, next, gone, joined, n);
        *len = w.len;
    }
    return frame;
}

/* The next view and the frame that says so; all of it or nothing. */
static nexar_err make_advance(const nx_view *old, const nx_rankset *gone, const nx_member *joined,
                              uint32_t n, nx_view *next, nx_writer *w)
{
    nx_rankset nobody = {0};
    nexar_err err = NEXAR_OK;

    if (gone == NULL) {
        err = nx_rankset_init(&nobody, old->size);
        gone = &nobody;
    }
    if (err == NEXAR_OK) {
        w->data = encode_advance(next, gone, joined, n, &w->len);
        err = (w->data == NULL) ? nx_fail_nomem("a change of the world") : NEXAR_OK;
    }
    nx_rankset_fini(&nobody);
    return err;
}

static nexar_err check_advance(const nx_join_state *s, const nx_rankset *gone, uint32_t n)
{
    uint32_t rank;

    if (nx_join_state_view(s, &rank) == NULL) {
        return nx_fail(NEXAR_EINVAL, "the world has not formed");
    }
    if ((gone != NULL) && nx_rankset_has(gone, rank)) {
        return nx_fail(NEXAR_EINVAL, "this process is among those that have gone");
    }
    if (n > NX_WAITING_LIST_MAX) {
        return nx_fail(NEXAR_EINVAL, "%" PRIu32 " join at once; %d may", n,
                       (int)NX_WAITING_LIST_MAX);
    }
    return NEXAR_OK;
}

nexar_err nx_join_state_advance(nx_join_state *s, const nx_rankset *gone, const nx_member *joined,
                                uint32_t n, uint32_t world)
{
    nx_writer w = {0};
    nx_view *view = NULL;
    nexar_err err = check_advance(s, gone, n);

    if (err == NEXAR_OK) {
        err = nx_view_next(s->view, gone, joined, n, world, &view);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    err = make_advance(s->view, gone, joined, n, view, &w);
    if (err != NEXAR_OK) {
        nx_view_destroy(view);
        return err;
    }
    for (uint32_t i = 0; i < n; i++) {
        (void)nx_waiting_remove(&s->waiting, joined[i].id);
    }
    nx_view_destroy(s->view);
    s->view = view;
    s->rank = nx_view_member(view, s->member)->rank;
    /* Behind RETURN, too: that says what was before. */
    if ((s->contact != NONE) && (s->phase == NX_JOIN_FORMED)) {
        say(s, &w);
    }
    nx_free(w.data);
    return NEXAR_OK;
}

/* ---- time --------------------------------------------------------------------- */

uint64_t nx_join_state_due(const nx_join_state *s)
{
    switch (s->phase) {
    case NX_JOIN_DIALLING:
    case NX_JOIN_GREETED:
    case NX_JOIN_WAITING:
    case NX_JOIN_OFFERED:
        return (s->redial_ns < s->deadline_ns) ? s->redial_ns : s->deadline_ns;
    case NX_JOIN_FORMED:
        return s->redial_ns;
    case NX_JOIN_LEAVING:
    case NX_JOIN_GONE:
    case NX_JOIN_FAILED:
        break;
    }
    return UINT64_MAX;
}

/* The seed is told, so that it can tell the others. */
static void give_up_waiting(nx_join_state *s, const char *limit)
{
    uint8_t frame[NX_REASON_MAX + 16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    char why[64];

    (void)snprintf(why, sizeof(why), "it gave up waiting after %s", limit);
    nx_bye_encode(&w, why);
    if (s->contact == THERE) {
        say(s, &w);
    } else {
        fail(s, NEXAR_ECONNECT, "the seed at %s has gone and was not back within %s: %s",
             s->rules.seed, limit, s->last_failure);
        return;
    }
    if (s->standing.formed) {
        fail(s, NEXAR_ETIMEDOUT,
             "this process was not let in within %s: the world has formed and its ranks have not "
             "called nexar_comm_update since",
             limit);
        return;
    }
    fail(s, NEXAR_ETIMEDOUT, "the world did not form within %s: %s", limit,
         (s->progress.text[0] == '\0') ? "the seed has not said who is missing" : s->progress.text);
}

static void time_out(nx_join_state *s)
{
    char limit[NX_NUMBER_ROOM];

    (void)nx_format_duration(s->rules.timeout_ns, limit);
    if (s->phase == NX_JOIN_DIALLING) {
        fail(s, NEXAR_ECONNECT, "the seed does not answer at %s within %s%s%s", s->rules.seed,
             limit, (s->last_failure[0] == '\0') ? "" : ": ", s->last_failure);
    } else if (s->phase == NX_JOIN_GREETED) {
        fail(s, NEXAR_ETIMEDOUT, "the seed at %s did not answer the hello within %s", s->rules.seed,
             limit);
    } else {
        give_up_waiting(s, limit);
    }
}

void nx_join_state_tick(nx_join_state *s, uint64_t now_ns)
{
    if (now_ns < nx_join_state_due(s)) {
        return;
    }
    if ((now_ns >= s->deadline_ns) && (s->phase != NX_JOIN_FORMED)) {
        time_out(s);
        return;
    }
    s->redial_ns = UINT64_MAX;
    s->ops->dial(s->ctx);
}
