/* seed_form.c - from the first member to the formed world, and to its end. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text.h"
#include "cluster/seed_inner.h"

/* Everybody is told of changes together, the more rarely the more they are: at
 * most 10 000 frames in a second, at best ten times. */
static const uint64_t PROGRESS_NS = UINT64_C(100000000);
static const uint64_t PROGRESS_EACH_NS = UINT64_C(100000);

/* How many that have not confirmed the view are named. */
enum { SILENT_MAX = 8 };

static void progress_later(nx_seed_state *s, uint64_t now_ns)
{
    const uint64_t each = s->roster.joined * PROGRESS_EACH_NS;

    if (s->progress_by_ns == UINT64_MAX) {
        s->progress_by_ns = now_ns + ((each > PROGRESS_NS) ? each : PROGRESS_NS);
    }
}

/* Who is missing; if nobody is, who has not confirmed the view. */
static const char *situation(const nx_seed_state *s, char text[NX_REASON_MAX])
{
    nx_text silent = {0};
    const char *names;
    unsigned n = 0;

    if (s->phase != NX_SEED_OFFERED) {
        return nx_roster_text(&s->roster, text, NX_REASON_MAX);
    }
    nx_list_for_each (at, &s->members) {
        const nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);
        char who[NX_MEMBER_TEXT];

        if (!c->have && (n < SILENT_MAX)) {
            const nx_member *m = nx_view_member(s->view, c->member->id);

            nx_text_addf(&silent, "%s%s", (n == 0) ? "" : ", ", nx_member_text(m, who));
        }
        n += c->have ? 0 : 1;
    }
    names = nx_text_str(&silent);
    (void)snprintf(text, NX_REASON_MAX,
                   "all %" PRIu32 " ranks have joined, but %u of them did not confirm the view: "
                   "%s%s",
                   s->roster.size, n, (names == NULL) ? "" : names,
                   (n > SILENT_MAX) ? ", ..." : "");
    nx_text_fini(&silent);
    return text;
}

static void encode_progress(const nx_seed_state *s, nx_writer *w)
{
    char text[NX_REASON_MAX];

    nx_progress_encode(w, s->roster.joined, s->roster.size, situation(s, text));
}

static void send_to_all(nx_seed_state *s, const nx_writer *w)
{
    nx_list_for_each (at, &s->members) {
        nx_seed_send(s, nx_list_entry(at, nx_seed_client, link), w);
    }
}

/* ---- the offer ------------------------------------------------------------------ */

void nx_seed_offer_withdraw(nx_seed_state *s)
{
    nx_view_destroy(s->view);
    nx_free(s->encoded);
    s->view = NULL;
    s->encoded = NULL;
    s->encoded_len = 0;
    s->have = 0;
}

static void send_piece(nx_seed_state *s, nx_seed_client *c)
{
    uint8_t frame[NX_VIEW_PIECE + 64];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    const size_t left = s->encoded_len - c->view_sent;
    const nx_view_piece piece = {.epoch = s->epoch,
                                 .total = (uint32_t)s->encoded_len,
                                 .off = (uint32_t)c->view_sent,
                                 .data = s->encoded + c->view_sent,
                                 .len = (left < NX_VIEW_PIECE) ? left : NX_VIEW_PIECE};

    nx_view_piece_encode(&w, &piece);
    c->view_sent += piece.len;
    nx_seed_send(s, c, &w);
}

/* All are there: makes the view and shows everybody its beginning.  Without the
 * memory for it they are told so, and it is tried again. */
static void offer(nx_seed_state *s, uint64_t now_ns)
{
    const size_t room = nx_view_encoded_max(s->roster.size);
    nx_writer w;

    if ((nx_roster_view(&s->roster, &s->rules.job, s->epoch + 1, &s->view) != NEXAR_OK) ||
        ((s->encoded = nx_zalloc(room)) == NULL)) {
        nx_seed_offer_withdraw(s);
        progress_later(s, now_ns);
        return;
    }
    w = nx_writer_make(s->encoded, room);
    nx_view_encode(&w, s->view);
    s->encoded_len = w.len;
    s->epoch++;
    s->phase = NX_SEED_OFFERED;
    progress_later(s, now_ns);
    nx_list_for_each (at, &s->members) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        c->view_sent = 0;
        c->have = false;
        send_piece(s, c);
    }
}

static void form(nx_seed_state *s)
{
    uint8_t frame[16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    char text[64];

    nx_start_encode(&w, s->epoch);
    send_to_all(s, &w);
    nx_roster_settle(&s->roster, s->view);
    nx_seed_offer_withdraw(s);
    s->phase = NX_SEED_RUNNING;
    s->formation_by_ns = s->progress_by_ns = UINT64_MAX;
    (void)snprintf(text, sizeof(text), "the world of %" PRIu32 " %s has formed", s->roster.size,
                   (s->roster.size == 1) ? "rank" : "ranks");
    nx_seed_notify(s, NX_SEED_FORMED, NULL, text);
}

/* ---- members -------------------------------------------------------------------- */

void nx_seed_member_joined(nx_seed_state *s, nx_seed_client *c, uint64_t now_ns)
{
    uint8_t frame[NX_REASON_MAX + 32];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    char who[NX_MEMBER_TEXT], text[NX_MEMBER_TEXT + 128];

    if ((s->formation_by_ns == UINT64_MAX) && (s->rules.formation_timeout_ns > 0)) {
        s->formation_by_ns = now_ns + s->rules.formation_timeout_ns;
    }
    (void)snprintf(text, sizeof(text), "%s at %s has joined: %" PRIu32 " of %" PRIu32,
                   nx_member_text(c->member, who), c->address, s->roster.joined, s->roster.size);
    nx_seed_notify(s, NX_SEED_JOINED, c->member, text);
    if (s->roster.joined == s->roster.size) {
        offer(s, now_ns);
    } else {
        encode_progress(s, &w);
        nx_seed_send(s, c, &w);
        progress_later(s, now_ns);
    }
}

/* The world is empty. */
static void end(nx_seed_state *s)
{
    nx_roster_clear(&s->roster);
    s->phase = s->rules.keep ? NX_SEED_GATHERING : NX_SEED_OVER;
    nx_seed_notify(s, NX_SEED_ENDED, NULL, "the last member has gone");
}

void nx_seed_member_gone(nx_seed_state *s, nx_seed_client *c, nx_seed_event_kind kind,
                         const char *why, uint64_t now_ns)
{
    const nx_member member = *c->member;
    const bool running = (s->phase == NX_SEED_RUNNING);
    char who[NX_MEMBER_TEXT], text[NX_MEMBER_TEXT + NX_REASON_MAX + 64];

    nx_roster_remove(&s->roster, c->member, why);
    (void)snprintf(text, sizeof(text), "%s %s%s%s%s", nx_member_text(&member, who),
                   (kind == NX_SEED_LEFT) ? "has left" : "was lost",
                   running ? "" : " before the world formed", (why[0] == '\0') ? "" : ": ", why);
    if (s->phase == NX_SEED_OFFERED) {
        nx_seed_offer_withdraw(s);
        s->phase = NX_SEED_GATHERING;
    }
    if (!running) {
        progress_later(s, now_ns);
        s->formation_by_ns = (s->roster.joined == 0) ? UINT64_MAX : s->formation_by_ns;
    }
    nx_seed_notify(s, kind, &member, text);
    if (running && (s->roster.joined == 0)) {
        end(s);
    }
}

static void on_want(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns)
{
    uint64_t epoch;
    uint32_t off;

    if (nx_want_decode(r, &epoch, &off) != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "a malformed frame", now_ns);
        return;
    }
    /* What was asked before it knew that the offer is void. */
    if ((s->phase != NX_SEED_OFFERED) || (epoch != s->epoch)) {
        return;
    }
    /* Once and in order, so that nobody makes the seed send without end. */
    if ((off != c->view_sent) || (off == s->encoded_len)) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "it asks for a piece out of order", now_ns);
        return;
    }
    send_piece(s, c);
}

static void on_have(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns)
{
    uint64_t epoch;

    if (nx_epoch_decode(r, &epoch) != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "a malformed frame", now_ns);
        return;
    }
    if ((s->phase != NX_SEED_OFFERED) || (epoch != s->epoch)) {
        return;
    }
    if (c->have || (c->view_sent != s->encoded_len)) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "it confirms what it has not got", now_ns);
        return;
    }
    c->have = true;
    s->have++;
    if (s->have == s->roster.size) {
        form(s);
    }
}

static void on_bye(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns)
{
    uint8_t frame[NX_REASON_MAX + 16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    nx_bye bye;

    if (nx_bye_decode(r, &bye) != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "a malformed frame", now_ns);
        return;
    }
    nx_bye_encode(&w, "");
    nx_seed_send(s, c, &w);
    nx_seed_member_gone(s, c, NX_SEED_LEFT, bye.text, now_ns);
    s->ops->close(s->ctx, c->conn);
    nx_seed_forget(s, c);
}

void nx_seed_member_frame(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                          uint64_t now_ns)
{
    nx_reader r = nx_reader_make(data, len);

    switch (nx_read_u8(&r)) {
    case NX_JOIN_WANT:
        on_want(s, c, &r, now_ns);
        break;
    case NX_JOIN_HAVE:
        on_have(s, c, &r, now_ns);
        break;
    case NX_JOIN_BYE:
        on_bye(s, c, &r, now_ns);
        break;
    case NX_JOIN_HELLO:
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "a second hello", now_ns);
        break;
    default:
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "a frame that no member sends", now_ns);
        break;
    }
}

/* ---- time --------------------------------------------------------------------- */

/* Everybody is told who is missing, and the seed begins anew. */
static void time_out(nx_seed_state *s)
{
    uint8_t frame[NX_REASON_MAX + 16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    char now[NX_REASON_MAX], text[NX_REASON_MAX + 96], limit[NX_NUMBER_ROOM];

    (void)snprintf(text, sizeof(text), "the world did not form within %s: %s",
                   nx_format_duration(s->rules.formation_timeout_ns, limit), situation(s, now));
    nx_refused_encode(&w, NX_REFUSAL_TIMEOUT, text);
    send_to_all(s, &w);
    nx_list_for_each (at, &s->members) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        s->ops->close(s->ctx, c->conn);
        nx_seed_forget(s, c);
    }
    nx_seed_offer_withdraw(s);
    s->phase = NX_SEED_GATHERING;
    s->formation_by_ns = s->progress_by_ns = UINT64_MAX;
    nx_seed_notify(s, NX_SEED_TIMEOUT, NULL, text);
    nx_roster_clear(&s->roster);
}

void nx_seed_form_tick(nx_seed_state *s, uint64_t now_ns)
{
    if (now_ns >= s->formation_by_ns) {
        time_out(s);
    }
    if (now_ns >= s->progress_by_ns) {
        uint8_t frame[NX_REASON_MAX + 32];
        nx_writer w = nx_writer_make(frame, sizeof(frame));

        s->progress_by_ns = UINT64_MAX;
        encode_progress(s, &w);
        send_to_all(s, &w);
        if ((s->phase == NX_SEED_GATHERING) && (s->roster.joined == s->roster.size)) {
            offer(s, now_ns);
        }
    }
}
