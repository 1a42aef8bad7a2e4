/* Once admitted, a joiner waits this much longer than its time-out. The seed's time-out, usually
 * the same, began a little later and ends all waits at once, with the same message. Otherwise the
 * first to give up would free its place, and the seed would wait on. */
#include "cluster/join/join_state.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "base/text/text.h"
#include "cluster/join/join_inner.h"

/* Interval between attempts to reach the seed. */
static const uint64_t REDIAL_FIRST_NS = UINT64_C(50000000);
static const uint64_t REDIAL_MOST_NS = UINT64_C(2000000000);

/* Longer for a member: it is not urgent, and thousands of members may dial at once. */
static const uint64_t RETURN_FIRST_NS = UINT64_C(1000000000);
static const uint64_t RETURN_MOST_NS = UINT64_C(6500000000);

/* A seed whose host has answered nothing for this long, in at least two attempts, is behind a
 * firewall or down: a joiner gives up. */
static const uint64_t UNREACHED_NS = UINT64_C(7000000000);

/* Once admitted, a joiner waits this much longer than its time-out.  The seed's time-out, usually
 * equal, began a little later and ends all waits at once, with the same message.  Otherwise the
 * first joiner to give up would free its place, and the seed would continue to wait. */
static const uint64_t SEED_FIRST_NS = UINT64_C(1000000000);

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
    s->begun_ns = now_ns;
    s->report_by_ns = (rules->report_ns == 0) ? UINT64_MAX : now_ns + rules->report_ns;
    s->redial_ns = UINT64_MAX;
    s->redial_after_ns = REDIAL_FIRST_NS;
    *out = s;
    ops->dial(ctx);
    return NEXAR_OK;
}

void nx_join_state_destroy(nx_join_state *s)
{
    if (s == NULL) {
        return;
    }
    nx_frame_pieces_drop(&s->partial);
    nx_frame_pieces_drop(&s->telling);
    nx_view_destroy(s->view);
    nx_join_queue_fini(&s->waiting);
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

uint32_t nx_join_state_peers(const nx_join_state *s)
{
    if (s->view != NULL) {
        return s->view->size - 1;
    }
    if (s->standing.world_size == 0) {
        return 0;
    }
    return s->standing.formed ? s->standing.world_size : s->standing.world_size - 1;
}

bool nx_join_state_there(const nx_join_state *s)
{
    return s->contact == NX_CONTACT_THERE;
}

bool nx_join_state_hung_up(const nx_join_state *s)
{
    return (s->contact == NX_CONTACT_NONE) && (s->redial_ns != UINT64_MAX);
}

/* Drops the state of the connection. */
static void drop_contact(nx_join_state *s)
{
    s->contact = NX_CONTACT_NONE;
    nx_join_queue_clear(&s->waiting);
    nx_frame_pieces_drop(&s->telling);
}

void nx_join_state_fail(nx_join_state *s, nexar_err err, const char *format, ...)
{
    const bool formed = (s->phase == NX_JOIN_FORMED) || (s->phase == NX_JOIN_LEAVING);
    va_list args;

    /* A formed world continues without the seed. */
    s->phase = formed ? NX_JOIN_GONE : NX_JOIN_FAILED;
    s->err = err;
    drop_contact(s);
    va_start(args, format);
    (void)vsnprintf(s->text, sizeof(s->text), format, args);
    va_end(args);
}

void nx_join_state_send(nx_join_state *s, const nx_writer *w)
{
    s->ops->send(s->ctx, w->data, w->len);
}

/* ---- connecting ---------------------------------------------------------------------- */

/* The first frame of a connection: NEXAR_EINTERNAL if there is none. */
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
    nx_return f = {
        .protocol = NX_JOIN_PROTOCOL, .self = s->rules.hello.self, .hinted = s->rules.hello.hinted};

    f.epoch = (s->phase == NX_JOIN_FORMED) ? s->view->epoch : 0;
    f.self.id = s->member;
    nx_return_encode(w, &f);
}

void nx_join_state_connected(nx_join_state *s, const uint8_t exporter[32], uint64_t now_ns)
{
    uint8_t frame[NX_HELLO_MAX];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    (void)now_ns;
    if ((s->contact != NX_CONTACT_NONE) || (s->phase == NX_JOIN_FAILED) ||
        (s->phase == NX_JOIN_GONE)) {
        return;
    }
    if (s->member != 0) {
        encode_return(s, &w);
    } else if (encode_hello(s, exporter, &w) != NEXAR_OK) {
        nx_join_state_fail(s, NEXAR_EINTERNAL, "no proof of the token: %s", nexar_last_error());
        return;
    }
    if (w.failed) {
        nx_join_state_fail(s, NEXAR_EINTERNAL, "the hello does not fit its frame");
        return;
    }
    s->contact = NX_CONTACT_SAID;
    s->phase = (s->member == 0) ? NX_JOIN_GREETED : s->phase;
    nx_join_state_send(s, &w);
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

/* A joiner has lost the seed before its world has formed. */
static void lost_early(nx_join_state *s, const char *why, uint64_t now_ns)
{
    if (!s->standing.lasting) {
        nx_join_state_fail(
            s, NEXAR_ECONNECT, "the seed at %s has gone before the world %s (%s); by then %s",
            s->rules.seed, s->standing.formed ? "let this process in" : "formed", why,
            (s->progress.text[0] == '\0') ? "not all had joined" : s->progress.text);
        return;
    }
    /* The partial view may be void when the seed is back: the seed sends it again. */
    nx_frame_pieces_drop(&s->partial);
    nx_view_destroy(s->view);
    s->view = NULL;
    s->phase = NX_JOIN_WAITING;
    redial_later(s, why, now_ns);
}

/* A member has lost the seed; |ended|: the seed's process has exited. */
static void lost_late(nx_join_state *s, nexar_err err, bool ended, const char *why, uint64_t now_ns)
{
    if ((s->phase == NX_JOIN_LEAVING) || (ended && !s->standing.lasting)) {
        nx_join_state_fail(s, err, "the seed at %s has gone: %s", s->rules.seed, why);
        return;
    }
    s->err = err;
    (void)snprintf(s->text, sizeof(s->text), "the seed at %s has gone: %s", s->rules.seed, why);
    redial_later(s, why, now_ns);
}

void nx_join_state_closed(nx_join_state *s, nexar_err err, bool ended, const char *why,
                          uint64_t now_ns)
{
    if (s->contact == NX_CONTACT_THERE) {
        s->redial_after_ns = (s->phase == NX_JOIN_FORMED) ? RETURN_FIRST_NS : REDIAL_FIRST_NS;
    }
    drop_contact(s);
    switch (s->phase) {
    case NX_JOIN_DIALLING:
    case NX_JOIN_GREETED:
        /* A wrong key or another protocol version is permanent. */
        if ((err == NEXAR_EAUTH) || (err == NEXAR_EPROTO) || (err == NEXAR_EINVAL)) {
            nx_join_state_fail(s, err, "the seed at %s: %s", s->rules.seed, why);
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

void nx_join_state_unreached(nx_join_state *s, const char *why, uint64_t now_ns)
{
    if ((s->phase == NX_JOIN_DIALLING) && (s->rules.timeout_ns != 0) &&
        (now_ns - s->begun_ns >= UNREACHED_NS)) {
        nx_join_state_fail(s, NEXAR_ECONNECT, "the seed does not answer at %s: %s", s->rules.seed,
                           why);
        return;
    }
    nx_join_state_closed(s, NEXAR_ECONNECT, false, why, now_ns);
}

/* ---- frames --------------------------------------------------------------------- */

static void on_welcome(nx_join_state *s, nx_reader *r)
{
    nx_welcome welcome;
    nexar_err err;

    if ((s->phase != NX_JOIN_GREETED) || (nx_welcome_decode(r, &welcome) != NEXAR_OK)) {
        nx_join_state_fail(s, NEXAR_EPROTO, "the seed at %s sent a wrong welcome", s->rules.seed);
        return;
    }
    err = s->ops->adopt(s->ctx, &welcome);
    if (err != NEXAR_OK) {
        nx_join_state_fail(s, err, "the certificate from the seed at %s: %s", s->rules.seed,
                           nexar_last_error());
        return;
    }
    s->member = welcome.member;
    s->job = welcome.job;
    s->standing = welcome.standing;
    s->contact = NX_CONTACT_THERE;
    s->phase = NX_JOIN_WAITING;
    if (s->deadline_ns < UINT64_MAX - SEED_FIRST_NS) {
        s->deadline_ns += SEED_FIRST_NS;
    }
}

static void on_refused(nx_join_state *s, nx_reader *r, uint64_t now_ns)
{
    nx_refused refused;

    if (nx_refused_decode(r, &refused) != NEXAR_OK) {
        nx_join_state_fail(s, NEXAR_EPROTO, "the seed at %s sent a malformed refusal",
                           s->rules.seed);
        return;
    }
    /* A member remains a member, unless the seed reports otherwise. */
    if ((s->phase == NX_JOIN_FORMED) && (refused.why != NX_REFUSAL_FORMED)) {
        nx_join_state_closed(s, nx_refusal_error(refused.why), false, refused.text, now_ns);
        return;
    }
    if ((refused.why == NX_REFUSAL_SETTING) && (s->rules.launcher != NULL)) {
        nx_join_state_fail(
            s, NEXAR_EINVAL,
            "refused by the seed: %s (its rank is from %s; with NEXAR_RANK=auto that "
            "does not count)",
            refused.text, s->rules.launcher);
        return;
    }
    nx_join_state_fail(
        s, nx_refusal_error(refused.why), "%s%s",
        (refused.why == NX_REFUSAL_TIMEOUT) ? "" : "refused by the seed: ", refused.text);
}

static void on_progress(nx_join_state *s, nx_reader *r)
{
    if (nx_join_progress_decode(r, &s->progress) != NEXAR_OK) {
        nx_join_state_fail(s, NEXAR_EPROTO, "the seed at %s sent a malformed progress",
                           s->rules.seed);
    }
}

/* A complete view: it must be valid, and contain this process. */
static nexar_err take_view(nx_join_state *s)
{
    nx_reader r = nx_reader_make(s->partial.data, s->partial.total);
    nx_view *view;
    const nx_member *self;
    nexar_err err = nx_view_decode(&r, &view);

    if (err != NEXAR_OK) {
        return err;
    }
    self = nx_view_member(view, s->member);
    /* Ranks move down when the world forms without some of them, so no rank exceeds the requested
     * one. */
    if (!nx_reader_done(&r) || (self == NULL) || (view->epoch != s->partial.epoch) ||
        (memcmp(&view->job, &s->job, sizeof(s->job)) != 0) ||
        (!s->rules.hello.hinted && (self->rank > s->rules.hello.self.rank))) {
        nx_view_destroy(view);
        return nx_fail(NEXAR_EPROTO, "a view that is not of this world or without this process");
    }
    nx_view_destroy(s->view);
    s->view = view;
    s->rank = self->rank;
    return NEXAR_OK;
}

/* The first piece of another view voids the received pieces. */
static nexar_err add_piece(nx_join_state *s, const nx_view_piece *piece)
{
    if (piece->off == 0) {
        nx_frame_pieces_drop(&s->partial);
        s->phase = NX_JOIN_WAITING;
    }
    return nx_frame_pieces_take(&s->partial, piece);
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
    if ((err == NEXAR_OK) && (s->partial.len == s->partial.total)) {
        err = take_view(s);
        nx_frame_pieces_drop(&s->partial);
        if (err == NEXAR_OK) {
            s->phase = NX_JOIN_OFFERED;
            nx_have_encode(&w, piece.epoch);
            nx_join_state_send(s, &w);
            return;
        }
    }
    if (err != NEXAR_OK) {
        nx_join_state_fail(s, err, "the seed at %s sent %s", s->rules.seed, nexar_last_error());
        return;
    }
    nx_want_encode(&w, piece.epoch, (uint32_t)s->partial.len);
    nx_join_state_send(s, &w);
}

static void on_start(nx_join_state *s, nx_reader *r)
{
    uint64_t epoch;

    /* A member may receive the START of a view that it has already replaced. */
    if ((nx_epoch_decode(r, &epoch) != NEXAR_OK) || (s->view == NULL) || (epoch > s->view->epoch) ||
        ((epoch != s->view->epoch) && (s->phase == NX_JOIN_OFFERED))) {
        nx_join_state_fail(s, NEXAR_EPROTO, "the seed at %s sent a start of another world",
                           s->rules.seed);
        return;
    }
    s->started = (epoch > s->started) ? epoch : s->started;
    /* A peer may have connected before START arrived: see nx_join_state_peer. */
    if (s->phase == NX_JOIN_OFFERED) {
        s->phase = NX_JOIN_FORMED;
    }
}

/* ---- a world that has formed --------------------------------------------------------- */

/* An answer to RETURN; for a waiting joiner, the current status. */
static void on_back(nx_join_state *s, nx_reader *r)
{
    if ((s->member == 0) || (nx_back_decode(r, &s->standing) != NEXAR_OK)) {
        nx_join_state_fail(s, NEXAR_EPROTO, "the seed at %s sent a wrong word of welcome",
                           s->rules.seed);
        return;
    }
    if (!s->standing.formed) {
        s->progress.text[0] = '\0';
    }
    s->contact = NX_CONTACT_THERE;
}

void nx_join_state_frame(nx_join_state *s, const void *data, size_t len, uint64_t now_ns)
{
    nx_reader r = nx_reader_make(data, len);
    const uint8_t type = nx_read_u8(&r);

    if (s->contact == NX_CONTACT_NONE) {
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
        if (!nx_join_state_member_frame(s, type, &r)) {
            nx_join_state_fail(s, NEXAR_EPROTO, "the seed at %s sent a frame that no seed sends",
                               s->rules.seed);
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

/* ---- timing -------------------------------------------------------------------------- */

uint64_t nx_join_state_due(const nx_join_state *s)
{
    uint64_t due;

    switch (s->phase) {
    case NX_JOIN_DIALLING:
    case NX_JOIN_GREETED:
    case NX_JOIN_WAITING:
    case NX_JOIN_OFFERED:
        due = (s->redial_ns < s->deadline_ns) ? s->redial_ns : s->deadline_ns;
        return (s->report_by_ns < due) ? s->report_by_ns : due;
    case NX_JOIN_FORMED:
        return s->redial_ns;
    case NX_JOIN_LEAVING:
    case NX_JOIN_GONE:
    case NX_JOIN_FAILED:
        break;
    }
    return UINT64_MAX;
}

/* Notifies the seed, so that the seed can notify the others. */
static void give_up_waiting(nx_join_state *s, const char *limit)
{
    uint8_t frame[NX_REASON_MAX + 16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    char why[64];

    (void)nx_sentence(why, sizeof(why), "it gave up waiting after %s", limit);
    nx_bye_encode(&w, why);
    if (s->contact == NX_CONTACT_THERE) {
        nx_join_state_send(s, &w);
    } else {
        nx_join_state_fail(s, NEXAR_ECONNECT,
                           "the seed at %s has gone and was not back within %s: %s", s->rules.seed,
                           limit, s->last_failure);
        return;
    }
    if (s->standing.formed) {
        nx_join_state_fail(
            s, NEXAR_ETIMEDOUT,
            "this process was not let in within %s: the world has formed and its ranks have not "
            "called nexar_comm_update since",
            limit);
        return;
    }
    nx_join_state_fail(s, NEXAR_ETIMEDOUT, "the world did not form within %s: %s", limit,
                       (s->progress.text[0] == '\0') ? "the seed has not said who is missing"
                                                     : s->progress.text);
}

static void time_out(nx_join_state *s)
{
    char limit[NX_NUMBER_ROOM];

    (void)nx_format_duration(s->rules.timeout_ns, limit);
    if (s->phase == NX_JOIN_DIALLING) {
        nx_join_state_fail(s, NEXAR_ECONNECT, "the seed does not answer at %s within %s%s%s",
                           s->rules.seed, limit, (s->last_failure[0] == '\0') ? "" : ": ",
                           s->last_failure);
    } else if (s->phase == NX_JOIN_GREETED) {
        nx_join_state_fail(s, NEXAR_ETIMEDOUT, "the seed at %s did not answer the hello within %s",
                           s->rules.seed, limit);
    } else {
        give_up_waiting(s, limit);
    }
}

static void report(nx_join_state *s, uint64_t now_ns)
{
    const uint64_t waited = now_ns - s->begun_ns;
    const double seconds = (double)waited / 1e9;
    char text[NX_ERROR_ROOM];

    if (s->contact != NX_CONTACT_THERE) {
        (void)snprintf(text, sizeof(text), "the seed at %s has not answered for %.1f s%s%s",
                       s->rules.seed, seconds, (s->last_failure[0] == '\0') ? "" : ": ",
                       s->last_failure);
    } else if (s->standing.formed) {
        (void)snprintf(text, sizeof(text),
                       "this process has waited for %.1f s to be let in: the world has formed and "
                       "its ranks have not called nexar_comm_update since",
                       seconds);
    } else {
        (void)snprintf(text, sizeof(text), "the world has not formed after %.1f s%s%s", seconds,
                       (s->progress.text[0] == '\0') ? "" : ": ", s->progress.text);
    }
    s->report_by_ns = now_ns + waited;
    s->ops->report(s->ctx, text);
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
    if ((now_ns >= s->report_by_ns) && (s->phase != NX_JOIN_FORMED)) {
        report(s, now_ns);
    }
    if (now_ns >= s->redial_ns) {
        s->redial_ns = UINT64_MAX;
        s->ops->dial(s->ctx);
    }
}
