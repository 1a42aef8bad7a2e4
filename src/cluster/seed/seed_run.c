/*
 * seed_run.c - a formed world: its members, its changes, its end.
 *
 * The members decide; the seed follows. The first ADVANCE for the next epoch makes its view
 * (identical to theirs, by nx_view_next); further ones only report that their sender has it too.
 * For a later epoch, or one with a member that the seed does not know, the seed requests the
 * whole view.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/seed/seed_inner.h"

static const uint64_t RETRY_NS = UINT64_C(100000000);

static void retry_later(nx_seed_state *s, uint64_t now_ns)
{
    if (s->retry_by_ns == UINT64_MAX) {
        s->retry_by_ns = now_ns + RETRY_NS;
    }
}

static void drop_sync(nx_seed_state *s)
{
    nx_frame_pieces_drop(&s->sync.pieces);
    s->sync = (nx_seed_sync){.by_ns = UINT64_MAX};
}

void nx_seed_run_unask(nx_seed_state *s, nx_seed_client *c, uint64_t now_ns)
{
    c->epoch = 0;
    if (s->sync.from == c) {
        drop_sync(s);
        nx_seed_run_catch_up(s, now_ns);
    }
}

void nx_seed_run_fini(nx_seed_state *s)
{
    drop_sync(s);
    s->here = s->left = 0;
    s->starting = false;
    s->end_by_ns = s->retry_by_ns = UINT64_MAX;
}

/* ---- the view and START -------------------------------------------------------------- */

/* Whether |c| has no view, and was not offered this one. */
static bool is_to_be_shown(const nx_seed_state *s, const nx_seed_client *c)
{
    return (c != NULL) && (c->epoch == 0) && (c->offered != s->view->epoch);
}

/* Sends the view to clients that have none; the others are ready. A transfer in progress
 * continues. */
static void begin_start(nx_seed_state *s, uint64_t now_ns)
{
    bool some = false;

    s->starting = true;
    s->unready = 0;
    for (uint32_t i = 0; i < s->view->size; i++) {
        nx_seed_client *c = s->seats[i].client;

        if (c != NULL) {
            c->ready = (c->epoch >= s->view->epoch) ||
                       (c->ready && (c->epoch == 0) && (c->offered == s->view->epoch));
            s->unready += c->ready ? 0 : 1;
            some = some || is_to_be_shown(s, c);
        }
    }
    if (!some) {
        return;
    }
    if (!nx_seed_encode(s)) {
        retry_later(s, now_ns);
        return;
    }
    for (uint32_t i = 0; i < s->view->size; i++) {
        nx_seed_client *c = s->seats[i].client;

        if (is_to_be_shown(s, c)) {
            c->offered = s->view->epoch;
            c->view_sent = 0;
            nx_seed_send_piece(s, c);
        }
    }
}

void nx_seed_run_start(nx_seed_state *s)
{
    uint8_t frame[16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    if (!s->starting || (s->unready > 0)) {
        return;
    }
    s->starting = false;
    nx_frame_pieces_drop(&s->encoded);
    nx_start_encode(&w, s->view->epoch);
    for (uint32_t i = 0; i < s->view->size; i++) {
        nx_seed_client *c = s->seats[i].client;

        if (c != NULL) {
            const bool is_new = (c->epoch == 0);

            nx_seed_send(s, c, &w);
            c->epoch = (c->epoch > s->view->epoch) ? c->epoch : s->view->epoch;
            if (is_new) {
                nx_seed_wait_announce(s, c);
            }
        }
    }
}

void nx_seed_run_send_started(nx_seed_state *s, nx_seed_client *c)
{
    uint8_t frame[16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    if (!s->starting && (c->epoch == s->view->epoch)) {
        nx_start_encode(&w, s->view->epoch);
        nx_seed_send(s, c, &w);
    }
}

/* ---- seats --------------------------------------------------------------------------- */

/* Permanently: the member will not return. */
static bool has_left(const nx_seed_seat *seat)
{
    return (seat->client == NULL) && (seat->went != NX_FAREWELL_UNKNOWN);
}

void nx_seed_run_begin(nx_seed_state *s)
{
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        if (c->role == NX_SEED_FORMING) {
            c->rank = nx_view_member(s->view, c->id)->rank;
            c->role = NX_SEED_MEMBER;
            c->epoch = 0;
            c->place = NULL;
            s->seats[c->rank] = (nx_seed_seat){.client = c};
            s->here++;
        }
    }
    nx_member_table_clear(&s->roster);
    s->phase = NX_SEED_RUNNING;
    s->formation_by_ns = s->progress_by_ns = UINT64_MAX;
    s->tell_by_ns = UINT64_MAX; /* START is followed by the waiting joiners */
    nx_join_queue_clear(&s->news);
    s->ngone = 0;
    s->starting = true;
    (void)!nx_seed_save(s); /* the seed continues if that fails */
    nx_seed_run_start(s);
    nx_seed_wait_status(s);
}

void nx_seed_run_seat(nx_seed_state *s, nx_seed_client *c, uint32_t rank, uint64_t now_ns)
{
    nx_seed_seat *seat = &s->seats[rank];

    if (seat->client != NULL) {
        nx_seed_client *old = seat->client;

        nx_seed_run_gone(s, old, NX_FAREWELL_UNKNOWN, now_ns);
        nx_seed_close(s, old);
    }
    s->left -= has_left(seat) ? 1 : 0;
    *seat = (nx_seed_seat){.client = c};
    c->role = NX_SEED_MEMBER;
    c->rank = rank;
    s->here++;
    s->end_by_ns = UINT64_MAX;
    if (c->epoch == 0) {
        begin_start(s, now_ns);
    } else {
        c->ready = !s->starting || (c->epoch >= s->view->epoch);
        s->unready += c->ready ? 0 : 1;
    }
}

/* No member is left. */
static void end(nx_seed_state *s, uint64_t now_ns)
{
    nx_seed_run_fini(s);
    nx_seed_offer_withdraw(s);
    s->phase = s->rules.keep ? NX_SEED_GATHERING : NX_SEED_OVER;
    (void)!nx_seed_save(s);
    nx_seed_notify(s, NX_SEED_ENDED, NULL, "the last member has gone");
    nx_seed_wait_end(s, now_ns);
}

void nx_seed_run_check_end(nx_seed_state *s, uint64_t now_ns)
{
    if ((s->phase != NX_SEED_RUNNING) || (s->here > 0)) {
        return;
    }
    if (s->left == s->view->size) {
        end(s, now_ns);
    } else if (s->end_by_ns == UINT64_MAX) {
        s->end_by_ns = now_ns + NX_SEED_RETURN_NS;
    }
}

void nx_seed_run_gone(nx_seed_state *s, nx_seed_client *c, nx_farewell how, uint64_t now_ns)
{
    nx_seed_seat *seat = &s->seats[c->rank];

    *seat = (nx_seed_seat){.went = how};
    s->left += has_left(seat) ? 1 : 0;
    s->here--;
    s->unready -= (s->starting && !c->ready) ? 1 : 0;
    c->role = NX_SEED_OUTSIDER;
    nx_seed_run_unask(s, c, now_ns);
    nx_seed_run_start(s);
}

/* ---- the next view ------------------------------------------------------------------- */

static void tell_change(nx_seed_state *s, uint32_t before)
{
    char text[128];
    uint32_t absent = 0;

    for (uint32_t i = 0; i < s->view->size; i++) {
        const bool is_new = (s->view->members[i].slot >= before);

        absent += (is_new && (s->seats[i].client == NULL)) ? 1 : 0;
    }
    (void)snprintf(text, sizeof(text),
                   "the world has %" PRIu32 " %s now, %" PRIu32 " of them new (epoch %" PRIu64 ")",
                   s->view->size, (s->view->size == 1) ? "rank" : "ranks", s->view->slots - before,
                   s->view->epoch);
    nx_seed_notify(s, NX_SEED_CHANGED, NULL, text);
    if (absent > 0) {
        (void)snprintf(text, sizeof(text),
                       "%" PRIu32 " of the new ranks %s not here any more: the others will find "
                       "%s dead",
                       absent, (absent == 1) ? "is" : "are", (absent == 1) ? "it" : "them");
        nx_seed_notify(s, NX_SEED_CHANGED, NULL, text);
    }
}

/* The seat of |c| in |next|; NULL: none. */
static const nx_member *find_in(const nx_seed_state *s, const nx_view *next,
                                const nx_seed_client *c)
{
    const nx_member *m;

    if (c->role != NX_SEED_MEMBER) {
        return ((c->role == NX_SEED_WAITER) || (c->role == NX_SEED_OUTSIDER))
                   ? nx_view_member(next, c->id)
                   : NULL;
    }
    m = nx_view_slot(next, s->view->members[c->rank].slot);
    return ((m != NULL) && (m->id == c->id)) ? m : NULL;
}

/* Keeps how each absent member has left. */
static void carry_went(const nx_seed_state *s, const nx_view *next, nx_seed_seat *seats)
{
    for (uint32_t i = 0; i < s->view->size; i++) {
        const nx_member *m = nx_view_slot(next, s->view->members[i].slot);

        if ((m != NULL) && (s->seats[i].client == NULL)) {
            seats[m->rank].went = s->seats[i].went;
        }
    }
}

static void reseat(nx_seed_state *s, const nx_view *next, nx_seed_seat *seats, uint64_t now_ns)
{
    s->here = s->left = 0;
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);
        const nx_member *m = find_in(s, next, c);

        if (m != NULL) {
            if (c->role == NX_SEED_WAITER) {
                nx_seed_wait_remove(s, c->id, now_ns);
                c->epoch = 0;
            }
            c->role = NX_SEED_MEMBER;
            c->rank = m->rank;
            seats[m->rank] = (nx_seed_seat){.client = c};
            s->here++;
        } else if (c->role == NX_SEED_MEMBER) {
            c->role = NX_SEED_OUTSIDER;
            c->epoch = 0; /* such a view is not of this world */
        }
    }
    for (uint32_t i = 0; i < next->size; i++) {
        s->left += has_left(&seats[i]) ? 1 : 0;
    }
}

/* The world has advanced to |next|, whose ownership is taken.  NEXAR_ENOMEM: ownership stays with
 * the caller. */
static nexar_err adopt(nx_seed_state *s, nx_view *next, uint64_t now_ns)
{
    const uint32_t before = s->view->slots;
    nx_seed_seat *seats = nx_calloc(next->size, sizeof(*seats));

    if (seats == NULL) {
        return nx_fail_nomem("a view");
    }
    carry_went(s, next, seats);
    reseat(s, next, seats, now_ns);
    nx_seed_offer_withdraw(s);
    s->seats = seats;
    s->view = next;
    s->epoch = next->epoch;
    (void)!nx_seed_save(s); /* members resend it to a seed that has lost it */
    tell_change(s, before);
    begin_start(s, now_ns);
    nx_seed_run_start(s);
    return NEXAR_OK;
}

/* ---- ADVANCE ------------------------------------------------------------------------- */

/* The records of the joining members; false: one is unknown, or out of memory. */
static bool find_joined(const nx_seed_state *s, const nx_advance *f, nx_member **out)
{
    nx_member *joined = nx_calloc((f->njoined == 0) ? 1 : f->njoined, sizeof(*joined));

    for (uint32_t i = 0; (joined != NULL) && (i < f->njoined); i++) {
        const nx_member *m = nx_join_queue_find(&s->waiting, f->joined[i]);

        if (m == NULL) {
            nx_free(joined);
            return false;
        }
        joined[i] = *m;
    }
    *out = joined;
    return joined != NULL;
}

/* The next view according to |c|; NULL: it cannot be derived, and must be requested.  NEXAR_EPROTO,
 * NEXAR_EINVAL: the frame is invalid. */
static nexar_err next_view(const nx_seed_state *s, const nx_seed_client *c, nx_reader *r,
                           nx_view **out)
{
    nx_advance *f = nx_zalloc(sizeof(*f));
    nx_member *joined = NULL;
    nexar_err err = NEXAR_OK;

    *out = NULL;
    if (f == NULL) {
        return NEXAR_OK;
    }
    if (nx_rankset_init(&f->gone, s->view->size) == NEXAR_OK) {
        err = nx_advance_decode(r, f);
        if ((err == NEXAR_OK) && nx_rankset_has(&f->gone, c->rank)) {
            err = nx_fail(NEXAR_EPROTO, "it reports itself as gone");
        }
        if ((err == NEXAR_OK) && find_joined(s, f, &joined)) {
            err = nx_view_next(s->view, &f->gone, joined, f->njoined, f->world, out);
            nx_free(joined);
        }
        nx_rankset_fini(&f->gone);
    }
    nx_free(f);
    return (err == NEXAR_ENOMEM) ? NEXAR_OK : err;
}

void nx_seed_run_advance(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns)
{
    uint64_t epoch;
    nx_view *next = NULL;

    if ((c->role == NX_SEED_MEMBER) && (c->epoch == 0) && s->starting && c->ready) {
        c->epoch = s->view->epoch; /* a peer was faster than START */
    }
    if (((c->role != NX_SEED_MEMBER) && (c->role != NX_SEED_OUTSIDER)) ||
        ((c->role == NX_SEED_MEMBER) && (c->epoch == 0)) ||
        (nx_advance_epoch(r, &epoch) != NEXAR_OK)) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "an ADVANCE that is not due", now_ns);
        return;
    }
    c->epoch = ((c->epoch != 0) && (epoch > c->epoch)) ? epoch : c->epoch;
    if (c->role == NX_SEED_OUTSIDER) {
        return; /* it does not count, unless others report it as a member */
    }
    if ((epoch == s->view->epoch + 1) && (next_view(s, c, r, &next) != NEXAR_OK)) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "an invalid ADVANCE", now_ns);
        return;
    }
    if ((next != NULL) && (adopt(s, next, now_ns) != NEXAR_OK)) {
        nx_view_destroy(next);
    }
    if (!s->starting) {
        nx_seed_run_send_started(s, c); /* it was absent, and is late */
    } else if (!c->ready && (c->epoch >= s->view->epoch)) {
        c->ready = true;
        s->unready--;
        nx_seed_run_start(s);
    }
    nx_seed_run_catch_up(s, now_ns);
}

/* ---- HURRY --------------------------------------------------------------------------- */

/* A member has waited for START for as long as for any sign of life. Joining members without the
 * view are not admitted; the others will declare an absent member failed. */
void nx_seed_run_urge(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns)
{
    uint64_t epoch;

    if ((c->role != NX_SEED_MEMBER) || (nx_epoch_decode(r, &epoch) != NEXAR_OK)) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "a HURRY that is not due", now_ns);
        return;
    }
    if (!s->starting || (epoch != s->view->epoch)) {
        return; /* START is in flight */
    }
    for (uint32_t i = 0; s->starting && (i < s->view->size); i++) {
        nx_seed_client *late = s->seats[i].client;

        if ((late == NULL) || late->ready) {
            continue;
        }
        if (late->epoch == 0) {
            nx_seed_turn_away(s, late, NX_REFUSAL_TIMEOUT,
                              "it did not answer when the world admitted it", now_ns);
        } else {
            late->ready = true;
            s->unready--;
        }
    }
    nx_seed_run_start(s);
}

/* ---- MISSED -------------------------------------------------------------------------- */

/* A member has found no listener at the address of another, with which it never had a link. Only
 * ranks with a link to that member know whether it left or failed. A member about to leave may have
 * closed its socket already, and one that is merely unreachable from the asker may be alive. So
 * unless its process is known to have exited, the seed sends to it: if it has exited, its host
 * answers. */
static nx_farewell look_for(nx_seed_state *s, uint64_t id, bool ended)
{
    const nx_member *m = (s->phase == NX_SEED_RUNNING) ? nx_view_member(s->view, id) : NULL;
    const nx_seed_seat *seat = (m == NULL) ? NULL : &s->seats[m->rank];

    if (seat == NULL) {
        return NX_FAREWELL_UNKNOWN;
    }
    if (seat->client == NULL) {
        return seat->went;
    }
    if (ended) {
        return NX_FAREWELL_NONE;
    }
    if (seat->client->epoch != 0) {
        nx_seed_wait_poke(s, seat->client);
    }
    return NX_FAREWELL_HERE;
}

void nx_seed_run_missed(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns)
{
    uint8_t frame[16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    bool ended;
    uint64_t id;

    if ((nx_unreachable_decode(r, &id, &ended) != NEXAR_OK) ||
        ((c->role != NX_SEED_MEMBER) && (c->role != NX_SEED_OUTSIDER))) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "a malformed MISSED frame", now_ns);
        return;
    }
    nx_farewell_encode(&w, id, look_for(s, id, ended));
    nx_seed_send(s, c, &w);
}

/* ---- missed views -------------------------------------------------------------------- */

void nx_seed_run_catch_up(nx_seed_state *s, uint64_t now_ns)
{
    uint8_t frame[4];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    if ((s->phase != NX_SEED_RUNNING) || (s->sync.from != NULL)) {
        return;
    }
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        if (!c->broken && (c->role == NX_SEED_MEMBER) && (c->epoch > s->view->epoch)) {
            nx_ask_view_encode(&w);
            nx_seed_send(s, c, &w);
            s->sync = (nx_seed_sync){
                .from = c, .said = c->epoch, .by_ns = now_ns + NX_SEED_ASK_TIMEOUT_NS};
            return;
        }
    }
}

/* Whether |m| may be in a later view than the known one: in a new slot, or in its present slot. */
static bool may_follow(const nx_seed_state *s, const nx_member *m)
{
    const nx_member *now = nx_view_slot(s->view, m->slot);

    if (m->slot < s->view->slots) {
        return (now != NULL) && (now->id == m->id);
    }
    return (m->id <= s->last_member) && (nx_view_member(s->view, m->id) == NULL);
}

/* Whether |view| may follow the known one, according to |c|, which is in both. */
static bool may_be(const nx_seed_state *s, const nx_seed_client *c, const nx_view *view)
{
    bool good = (memcmp(&view->job, &s->rules.job, sizeof(view->job)) == 0) &&
                (view->slots >= s->view->slots) && (c->role == NX_SEED_MEMBER) &&
                (find_in(s, view, c) != NULL);

    for (uint32_t i = 0; good && (i < view->size); i++) {
        good = may_follow(s, &view->members[i]);
    }
    return good;
}

static nexar_err take_view(nx_seed_state *s, nx_seed_client *c, uint64_t now_ns)
{
    nx_reader r = nx_reader_make(s->sync.pieces.data, s->sync.pieces.total);
    nx_view *view = NULL;
    const uint64_t said = s->sync.said;
    nexar_err err = nx_view_decode(&r, &view);
    bool late;

    drop_sync(s);
    if (err != NEXAR_OK) {
        return err;
    }
    /* Another ADVANCE may have arrived meanwhile. But the reported view must be sent, or it would
     * be requested endlessly. */
    late = (view->epoch <= s->view->epoch);
    if (!nx_reader_done(&r) || (view->epoch < said) || (!late && !may_be(s, c, view))) {
        err = nx_fail(NEXAR_EPROTO, "an invalid view");
    }
    if ((err == NEXAR_OK) && !late) {
        err = adopt(s, view, now_ns);
    }
    if ((err != NEXAR_OK) || late) {
        nx_view_destroy(view);
    }
    return err;
}

void nx_seed_run_view(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns)
{
    uint8_t frame[32];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    nx_view_piece piece;
    nexar_err err = nx_view_piece_decode(r, &piece);

    if ((err == NEXAR_OK) && (s->sync.from != c)) {
        err = nx_fail(NEXAR_EPROTO, "a view that was not requested");
    }
    err = (err == NEXAR_OK) ? nx_frame_pieces_take(&s->sync.pieces, &piece) : err;
    if ((err == NEXAR_OK) && (s->sync.pieces.len < s->sync.pieces.total)) {
        s->sync.by_ns = now_ns + NX_SEED_ASK_TIMEOUT_NS;
        nx_want_encode(&w, piece.epoch, (uint32_t)s->sync.pieces.len);
        nx_seed_send(s, c, &w);
        return;
    }
    err = (err == NEXAR_OK) ? take_view(s, c, now_ns) : err;
    if (err == NEXAR_ENOMEM) {
        drop_sync(s);
        retry_later(s, now_ns);
    } else if (err != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "an invalid view", now_ns);
    } else {
        nx_seed_run_catch_up(s, now_ns);
    }
}

/* ---- timing -------------------------------------------------------------------------- */

uint64_t nx_seed_run_due(const nx_seed_state *s)
{
    uint64_t due = (s->end_by_ns < s->retry_by_ns) ? s->end_by_ns : s->retry_by_ns;

    due = (s->sync.by_ns < due) ? s->sync.by_ns : due;
    return (s->tell_by_ns < due) ? s->tell_by_ns : due;
}

void nx_seed_run_tick(nx_seed_state *s, uint64_t now_ns)
{
    if (now_ns >= s->sync.by_ns) {
        nx_seed_turn_away(s, s->sync.from, NX_REFUSAL_PROTOCOL,
                          "it did not answer a request for its view", now_ns);
    }
    if (now_ns >= s->retry_by_ns) {
        s->retry_by_ns = UINT64_MAX;
        if ((s->phase == NX_SEED_RUNNING) && s->starting && (s->encoded.data == NULL)) {
            begin_start(s, now_ns);
        }
        nx_seed_run_catch_up(s, now_ns);
    }
    if (now_ns >= s->end_by_ns) {
        end(s, now_ns);
    }
}

/* ---- memory -------------------------------------------------------------------------- */

void nx_seed_state_memory(const nx_seed_state *s, nx_seed_memory *memory)
{
    *memory = (nx_seed_memory){.member_limit = s->member_limit,
                               .epoch = s->epoch,
                               .view = (s->phase == NX_SEED_RUNNING) ? s->view : NULL};
}

nexar_err nx_seed_state_restore(nx_seed_state *s, const nx_seed_memory *memory, uint64_t now_ns)
{
    s->last_member = (memory->member_limit == 0) ? 0 : memory->member_limit - 1;
    s->member_limit = memory->member_limit;
    s->epoch = memory->epoch;
    if (memory->view == NULL) {
        return NEXAR_OK;
    }
    s->view = nx_view_create(memory->view->size);
    s->seats = nx_calloc(memory->view->size, sizeof(*s->seats));
    if ((s->view == NULL) || (s->seats == NULL)) {
        return nx_fail_nomem("the seed's view");
    }
    memcpy(s->view, memory->view,
           sizeof(*s->view) + memory->view->size * sizeof(s->view->members[0]));
    s->phase = NX_SEED_RUNNING;
    s->end_by_ns = now_ns + NX_SEED_RETURN_NS;
    return NEXAR_OK;
}
