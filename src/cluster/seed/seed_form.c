/* seed_form.c - the formation of a world, from its first member to START. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "base/text/text.h"
#include "cluster/seed/seed_inner.h"

/* Changes are sent to all joiners together, less often the more they are: at most 10 000 frames per
 * second, at most ten times per second. */
static const uint64_t PROGRESS_NS = UINT64_C(100000000);
static const uint64_t PROGRESS_EACH_NS = UINT64_C(100000);

/* The maximum number of names of members that have not confirmed the view. */
enum { SILENT_MAX = 8 };

static void progress_later(nx_seed_state *s, uint64_t now_ns)
{
    const uint64_t each = s->roster.joined * PROGRESS_EACH_NS;

    if (s->progress_by_ns == UINT64_MAX) {
        s->progress_by_ns = now_ns + ((each > PROGRESS_NS) ? each : PROGRESS_NS);
    }
}

/* The missing ranks; if none is missing, those that have not confirmed the view. */
static const char *situation(const nx_seed_state *s, char text[NX_REASON_MAX])
{
    nx_text silent = {0};
    const char *names;
    unsigned n = 0;

    if ((s->phase != NX_SEED_OFFERED) || (s->view == NULL)) {
        return nx_member_table_text(&s->roster, text, NX_REASON_MAX);
    }
    nx_list_for_each (at, &s->clients) {
        const nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);
        char who[NX_MEMBER_TEXT];

        if ((c->role != NX_SEED_FORMING) || c->ready) {
            continue;
        }
        if (n++ < SILENT_MAX) {
            const nx_member *m = nx_view_member(s->view, c->id);

            nx_text_addf(&silent, "%s%s", (n == 1) ? "" : ", ", nx_member_text(m, who));
        }
    }
    names = nx_text_str(&silent);
    (void)nx_sentence(text, NX_REASON_MAX,
                      "all %" PRIu32 " ranks have joined, but %u of them did not confirm the view: "
                      "%s%s",
                      s->view->size, n, (names == NULL) ? "" : names,
                      (n > SILENT_MAX) ? ", ..." : "");
    nx_text_fini(&silent);
    return text;
}

bool nx_seed_state_situation(const nx_seed_state *s, char *text, size_t size)
{
    char now[NX_REASON_MAX];

    if ((s->phase != NX_SEED_GATHERING) && (s->phase != NX_SEED_OFFERED)) {
        return false;
    }
    (void)nx_sentence(text, size, "%s", situation(s, now));
    return true;
}

static void encode_progress(const nx_seed_state *s, nx_writer *w)
{
    char text[NX_REASON_MAX];

    nx_join_progress_encode(w, s->roster.joined, s->roster.size, situation(s, text));
}

static void send_to_all(nx_seed_state *s, const nx_writer *w)
{
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        if (c->role == NX_SEED_FORMING) {
            nx_seed_send(s, c, w);
        }
    }
}

/* ---- the offer ----------------------------------------------------------------------- */

void nx_seed_offer_withdraw(nx_seed_state *s)
{
    nx_view_destroy(s->view);
    nx_frame_pieces_drop(&s->encoded);
    nx_free(s->seats);
    s->view = NULL;
    s->seats = NULL;
    s->unready = 0;
}

bool nx_seed_encode(nx_seed_state *s)
{
    return (s->encoded.data != NULL) || (nx_frame_pieces_make(&s->encoded, s->view) == NEXAR_OK);
}

void nx_seed_send_piece(nx_seed_state *s, nx_seed_client *c)
{
    uint8_t frame[NX_VIEW_PIECE + 64];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_frame_pieces_send(&s->encoded, &c->view_sent, &w);
    nx_seed_send(s, c, &w);
}

/* The view of all present members; false: out of memory. */
static bool make_offer(nx_seed_state *s)
{
    nx_view *view = NULL;

    if (nx_member_table_view(&s->roster, &s->rules.job, s->epoch + 1, &view) != NEXAR_OK) {
        return false;
    }
    s->view = view;
    s->seats = nx_calloc(view->size, sizeof(*s->seats));
    return (s->seats != NULL) && nx_seed_encode(s);
}

/* Makes the view and sends its beginning to all. Without memory, notifies them and retries. */
static void offer(nx_seed_state *s, uint64_t now_ns)
{
    if (!make_offer(s)) {
        nx_seed_offer_withdraw(s);
        progress_later(s, now_ns);
        return;
    }
    s->epoch++;
    s->phase = NX_SEED_OFFERED;
    s->unready = s->view->size;
    progress_later(s, now_ns);
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        if (c->role == NX_SEED_FORMING) {
            c->view_sent = 0;
            c->ready = false;
            nx_seed_send_piece(s, c);
        }
    }
}

void nx_seed_form_ready(nx_seed_state *s)
{
    char text[96];
    const uint32_t size = s->view->size;

    s->stall_by_ns = UINT64_MAX;
    nx_seed_run_begin(s);
    if (size < s->roster.size) {
        (void)snprintf(text, sizeof(text),
                       "the world has formed with %" PRIu32 " of %" PRIu32 " ranks", size,
                       s->roster.size);
    } else {
        (void)snprintf(text, sizeof(text), "the world of %" PRIu32 " %s has formed", size,
                       (size == 1) ? "rank" : "ranks");
    }
    nx_seed_notify(s, NX_SEED_FORMED, NULL, text);
}

/* ---- members ------------------------------------------------------------------------- */

void nx_seed_form_joined(nx_seed_state *s, nx_seed_client *c, uint64_t now_ns)
{
    uint8_t frame[NX_REASON_MAX + 32];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    char who[NX_MEMBER_TEXT], text[NX_MEMBER_TEXT + 128];

    if ((s->formation_by_ns == UINT64_MAX) && (s->rules.formation_timeout_ns > 0)) {
        s->formation_by_ns = now_ns + s->rules.formation_timeout_ns;
    }
    if ((s->stall_by_ns == UINT64_MAX) && (s->rules.stall_report_ns > 0)) {
        s->first_ns = now_ns;
        s->stall_by_ns = now_ns + s->rules.stall_report_ns;
    }
    (void)snprintf(text, sizeof(text), "%s at %s has joined: %" PRIu32 " of %" PRIu32,
                   nx_member_text(c->place, who), c->address, s->roster.joined, s->roster.size);
    nx_seed_notify(s, NX_SEED_JOINED, c->place, text);
    if (s->roster.joined == s->roster.size) {
        offer(s, now_ns);
    } else {
        encode_progress(s, &w);
        nx_seed_send(s, c, &w);
        progress_later(s, now_ns);
    }
}

void nx_seed_form_gone(nx_seed_state *s, nx_seed_client *c, const char *why, uint64_t now_ns)
{
    nx_member_table_remove(&s->roster, c->place, why);
    c->place = NULL;
    c->role = NX_SEED_OUTSIDER;
    if (s->phase == NX_SEED_OFFERED) {
        nx_seed_offer_withdraw(s);
        s->phase = NX_SEED_GATHERING;
    }
    progress_later(s, now_ns);
    if (s->roster.joined == 0) {
        s->formation_by_ns = s->stall_by_ns = UINT64_MAX;
    }
}

void nx_seed_form_fill(nx_seed_state *s, uint64_t now_ns)
{
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        if ((s->phase != NX_SEED_GATHERING) || s->rules.ranked ||
            (s->roster.joined == s->roster.size)) {
            return;
        }
        if ((c->role == NX_SEED_WAITER) &&
            (nx_member_table_add(&s->roster, nx_seed_record(s, c), &c->place) == NEXAR_OK)) {
            c->role = NX_SEED_FORMING;
            nx_seed_wait_remove(s, c->id, now_ns);
            nx_seed_form_joined(s, c, now_ns);
        }
    }
}

/* ---- frames -------------------------------------------------------------------------- */

/* Whether |c| is to be sent the view of |epoch|. */
static bool is_offered(const nx_seed_state *s, const nx_seed_client *c, uint64_t epoch)
{
    const bool offered = ((s->phase == NX_SEED_OFFERED) && (c->role == NX_SEED_FORMING)) ||
                         ((s->phase == NX_SEED_RUNNING) && (c->role == NX_SEED_MEMBER) &&
                          (c->epoch == 0) && (s->encoded.data != NULL));

    return offered && (epoch == s->view->epoch);
}

static void on_want(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns)
{
    uint64_t epoch;
    uint32_t off;

    if (nx_want_decode(r, &epoch, &off) != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "a malformed frame", now_ns);
        return;
    }
    /* The client sent this before it knew that the offer is void. */
    if (!is_offered(s, c, epoch)) {
        return;
    }
    /* Each piece once and in order, so that no client makes the seed send endlessly. */
    if ((off != c->view_sent) || (off == s->encoded.total)) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "it requests a piece out of order", now_ns);
        return;
    }
    nx_seed_send_piece(s, c);
}

static void on_have(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns)
{
    uint64_t epoch;

    if (nx_epoch_decode(r, &epoch) != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "a malformed frame", now_ns);
        return;
    }
    if (!is_offered(s, c, epoch)) {
        return;
    }
    if (c->ready || (c->view_sent != s->encoded.total)) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "it confirms a view that it has not received",
                          now_ns);
        return;
    }
    c->ready = true;
    s->unready--;
    if (s->phase == NX_SEED_RUNNING) {
        nx_seed_run_start(s);
    } else if (s->unready == 0) {
        nx_seed_form_ready(s);
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
    /* Precedes the answer: after the answer the process may exit at once. */
    nx_seed_gone(s, c, NX_SEED_LEFT, true, bye.text, now_ns);
    nx_bye_encode(&w, "");
    nx_seed_send(s, c, &w);
    nx_seed_close(s, c);
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
    case NX_JOIN_ADVANCE:
        nx_seed_run_advance(s, c, &r, now_ns);
        break;
    case NX_JOIN_VIEW:
        nx_seed_run_view(s, c, &r, now_ns);
        break;
    case NX_JOIN_URGE:
        nx_seed_run_urge(s, c, &r, now_ns);
        break;
    case NX_JOIN_MISSED:
        nx_seed_run_missed(s, c, &r, now_ns);
        break;
    case NX_JOIN_HELLO:
    case NX_JOIN_RETURN:
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "a second hello", now_ns);
        break;
    default:
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "a frame that no member sends", now_ns);
        break;
    }
}

/* ---- timing -------------------------------------------------------------------------- */

/* Notifies all joiners of the missing ranks, and begins anew. */
static void time_out(nx_seed_state *s, uint64_t now_ns)
{
    uint8_t frame[NX_REASON_MAX + 16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    char now[NX_REASON_MAX], text[NX_REASON_MAX + 96], limit[NX_NUMBER_ROOM];

    (void)nx_sentence(text, sizeof(text), "the world did not form within %s: %s",
                      nx_format_duration(s->rules.formation_timeout_ns, limit), situation(s, now));
    nx_refused_encode(&w, NX_REFUSAL_TIMEOUT, text);
    send_to_all(s, &w);
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        if (c->role == NX_SEED_FORMING) {
            nx_seed_close(s, c);
        }
    }
    nx_seed_offer_withdraw(s);
    s->phase = NX_SEED_GATHERING;
    s->formation_by_ns = s->progress_by_ns = s->stall_by_ns = UINT64_MAX;
    nx_seed_notify(s, NX_SEED_TIMEOUT, NULL, text);
    nx_member_table_clear(&s->roster);
    nx_seed_form_fill(s, now_ns);
}

/* Stops waiting for joiners that have not confirmed the view. */
static void drop_silent(nx_seed_state *s, uint64_t now_ns)
{
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        c->silent = (c->role == NX_SEED_FORMING) && !c->ready;
    }
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        if (c->silent) {
            nx_seed_turn_away(s, c, NX_REFUSAL_TIMEOUT, "it did not confirm the view in time",
                              now_ns);
        }
    }
}

/* The time-out has passed: begins if enough joiners are there. */
static void begin_or_time_out(nx_seed_state *s, uint64_t now_ns)
{
    const bool offered = (s->phase == NX_SEED_OFFERED);
    const uint32_t sure = offered ? s->view->size - s->unready : s->roster.joined;

    if ((s->rules.min_world == 0) || (sure < s->rules.min_world)) {
        time_out(s, now_ns);
        return;
    }
    s->formation_by_ns = now_ns + s->rules.formation_timeout_ns;
    if (offered) {
        drop_silent(s, now_ns);
    }
    if (s->phase == NX_SEED_GATHERING) {
        offer(s, now_ns);
    }
}

/* Later after twice the time each, like the stall reports of ranks. */
static void tell_stalled(nx_seed_state *s, uint64_t now_ns)
{
    const uint64_t waited = now_ns - s->first_ns;
    char now[NX_REASON_MAX], text[NX_REASON_MAX + 64];

    (void)nx_sentence(text, sizeof(text), "the world has not formed after %.1f s: %s",
                      (double)waited / 1e9, situation(s, now));
    s->stall_by_ns = now_ns + waited;
    nx_seed_notify(s, NX_SEED_STALLED, NULL, text);
}

void nx_seed_form_tick(nx_seed_state *s, uint64_t now_ns)
{
    if (now_ns >= s->formation_by_ns) {
        begin_or_time_out(s, now_ns);
    }
    if (now_ns >= s->stall_by_ns) {
        tell_stalled(s, now_ns);
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
