/*
 * join_member.c - a member of a formed world, and its seed: it learns which joiners wait, reports
 * changes of the world, sends its view on request, and leaves.
 */
#include <inttypes.h>

#include "base/alloc.h"
#include "cluster/join/join_inner.h"

/* ---- frames from the seed ------------------------------------------------------------ */

/* Applies a WAITING frame.  NEXAR_ENOMEM: not all of it was applied. */
static nexar_err take_told(nx_join_state *s, const nx_tell *f)
{
    nexar_err err = NEXAR_OK;

    if (f->reset) {
        nx_join_queue_clear(&s->waiting);
    }
    for (uint32_t i = 0; i < f->ngone; i++) {
        (void)nx_join_queue_remove(&s->waiting, f->gone[i]);
    }
    /* A joiner may be in the world before its waiting was announced. */
    for (uint32_t i = 0; (err == NEXAR_OK) && (i < f->njoined); i++) {
        if (nx_view_member(s->view, f->joined[i].id) == NULL) {
            err = nx_join_queue_add(&s->waiting, &f->joined[i]);
        }
    }
    return err;
}

static void on_tell(nx_join_state *s, nx_reader *r)
{
    nx_tell *f = nx_zalloc(sizeof(*f));
    nexar_err err;

    /* Without memory the frame is dropped: the members just do not admit a joiner that they do not
     * know of. */
    if (f == NULL) {
        return;
    }
    err = nx_tell_decode(r, f);
    if (err == NEXAR_OK) {
        err = take_told(s, f);
        nx_free(f->joined);
    }
    nx_free(f);
    if ((err != NEXAR_OK) && (err != NEXAR_ENOMEM)) {
        nx_join_state_fail(s, err, "the seed at %s sent %s", s->rules.seed, nexar_last_error());
    }
}

static void tell_piece(nx_join_state *s)
{
    uint8_t frame[NX_VIEW_PIECE + 64];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_frame_pieces_send(&s->telling, &s->telling.len, &w);
    nx_join_state_send(s, &w);
    if (s->telling.len == s->telling.total) {
        nx_frame_pieces_drop(&s->telling);
    }
}

/* The seed lacks this view.  If this rank has no memory, the seed asks another member. */
static void on_ask(nx_join_state *s, const nx_reader *r)
{
    if (nx_ask_view_decode(r) != NEXAR_OK) {
        nx_join_state_fail(s, NEXAR_EPROTO, "the seed at %s sent %s", s->rules.seed,
                           nexar_last_error());
        return;
    }
    nx_frame_pieces_drop(&s->telling);
    if (nx_frame_pieces_make(&s->telling, s->view) == NEXAR_OK) {
        tell_piece(s);
    }
}

static void on_want(nx_join_state *s, nx_reader *r)
{
    uint64_t epoch;
    uint32_t off;

    if ((nx_want_decode(r, &epoch, &off) != NEXAR_OK) || (s->telling.data == NULL) ||
        (epoch != s->telling.epoch) || (off != s->telling.len)) {
        nx_join_state_fail(s, NEXAR_EPROTO,
                           "the seed at %s requests a view that this process did not report",
                           s->rules.seed);
        return;
    }
    tell_piece(s);
}

static void on_farewell(nx_join_state *s, nx_reader *r)
{
    nx_farewell how;
    uint64_t member;

    if (nx_farewell_decode(r, &member, &how) != NEXAR_OK) {
        nx_join_state_fail(s, NEXAR_EPROTO, "the seed at %s sent %s", s->rules.seed,
                           nexar_last_error());
    } else {
        s->ops->farewell(s->ctx, member, how);
    }
}

bool nx_join_state_member_frame(nx_join_state *s, uint8_t type, nx_reader *r)
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
    case NX_JOIN_FAREWELL:
        on_farewell(s, r);
        return true;
    default:
        return false;
    }
}

bool nx_join_state_missed(nx_join_state *s, uint64_t member, bool ended)
{
    uint8_t frame[16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    const bool asks = (s->contact == NX_CONTACT_THERE) && (s->phase == NX_JOIN_FORMED);

    if (asks) {
        nx_unreachable_encode(&w, member, ended);
        nx_join_state_send(s, &w);
    }
    return asks;
}

void nx_join_state_urge(nx_join_state *s)
{
    uint8_t frame[16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    if ((s->contact == NX_CONTACT_THERE) && (s->phase == NX_JOIN_FORMED)) {
        nx_urge_encode(&w, s->view->epoch);
        nx_join_state_send(s, &w);
    }
}

/* ---- leaving ------------------------------------------------------------------------- */

void nx_join_state_leave(nx_join_state *s)
{
    uint8_t frame[NX_REASON_MAX + 16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    if (s->phase != NX_JOIN_FORMED) {
        return;
    }
    s->phase = NX_JOIN_LEAVING;
    if (s->contact != NX_CONTACT_THERE) {
        nx_join_state_fail(s, NEXAR_ECONNECT, "the seed at %s is not there", s->rules.seed);
        return;
    }
    nx_bye_encode(&w, "");
    nx_join_state_send(s, &w);
}

/* ---- changes of the world ------------------------------------------------------------ */

const nx_join_queue *nx_join_state_waiting(const nx_join_state *s)
{
    return &s->waiting;
}

uint64_t nx_join_state_started(const nx_join_state *s)
{
    return s->started;
}

/* The frame for the seed, |*len| bytes owned by the caller; NULL: out of memory. */
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

/* Makes the next view and its frame: both, or nothing. */
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
        return nx_fail(NEXAR_EINVAL, "this process is among the leaving ranks");
    }
    if (n > NX_JOIN_QUEUE_LIST_MAX) {
        return nx_fail(NEXAR_EINVAL, "%" PRIu32 " join at once; %d may", n,
                       (int)NX_JOIN_QUEUE_LIST_MAX);
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
        (void)nx_join_queue_remove(&s->waiting, joined[i].id);
    }
    nx_view_destroy(s->view);
    s->view = view;
    s->rank = nx_view_member(view, s->member)->rank;
    /* Also after RETURN, which carries the earlier state. */
    if ((s->contact != NX_CONTACT_NONE) && (s->phase == NX_JOIN_FORMED)) {
        nx_join_state_send(s, &w);
    }
    nx_free(w.data);
    return NEXAR_OK;
}
