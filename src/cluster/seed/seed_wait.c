/*
 * seed_wait.c - joiners that wait to enter a formed world, and their announcement to its members:
 * changes, batched and rate-limited.
 */
#include <string.h>

#include "base/alloc.h"
#include "cluster/seed/seed_inner.h"

/* As for progress (seed_form.c), but shorter: a joiner waits for it. */
static const uint64_t TELL_NS = UINT64_C(10000000);
static const uint64_t TELL_EACH_NS = UINT64_C(100000);

enum { GONE_ROOM = 64 };

static void tell_later(nx_seed_state *s, uint64_t now_ns)
{
    if (s->tell_by_ns == UINT64_MAX) {
        s->tell_by_ns = now_ns + TELL_NS + s->here * TELL_EACH_NS;
    }
}

nexar_err nx_seed_wait_add(nx_seed_state *s, const nx_member *m, uint64_t now_ns)
{
    nexar_err err = nx_join_queue_add(&s->waiting, m);

    if (err != NEXAR_OK) {
        return err;
    }
    /* Without the memory for the changes, announces all joiners again. */
    s->retell = (nx_join_queue_add(&s->news, m) != NEXAR_OK) || s->retell;
    tell_later(s, now_ns);
    return NEXAR_OK;
}

static bool note_gone(nx_seed_state *s, uint64_t id)
{
    if (s->gone == NULL) {
        s->gone = nx_calloc(GONE_ROOM, sizeof(*s->gone));
    }
    if ((s->gone == NULL) || (s->ngone == GONE_ROOM)) {
        return false;
    }
    s->gone[s->ngone++] = id;
    return true;
}

void nx_seed_wait_remove(nx_seed_state *s, uint64_t id, uint64_t now_ns)
{
    if (!nx_join_queue_remove(&s->waiting, id)) {
        return;
    }
    /* Announced or not: a returned member may have been notified before the others. */
    (void)nx_join_queue_remove(&s->news, id);
    s->retell = !note_gone(s, id) || s->retell;
    tell_later(s, now_ns);
}

/* ---- notification of members --------------------------------------------------------- */

static void send_to_members(nx_seed_state *s, const nx_writer *w)
{
    for (uint32_t i = 0; i < s->view->size; i++) {
        nx_seed_client *c = s->seats[i].client;

        if ((c != NULL) && (c->epoch != 0)) {
            nx_seed_send(s, c, w);
        }
    }
}

/* The frames that together carry |reset|, the joiners that have gone, and |list|; to |only|, or to
 * all members. */
static void send_told(nx_seed_state *s, nx_seed_client *only, bool reset, const nx_join_queue *list)
{
    uint8_t *frame = nx_zalloc(NX_FRAME_MAX);
    nx_join_queue rest = *list;
    uint32_t ngone = reset ? 0 : s->ngone;

    if (frame == NULL) {
        s->retell = true;
        return;
    }
    do {
        nx_writer w = nx_writer_make(frame, NX_FRAME_MAX);
        const uint32_t n = nx_tell_encode(&w, reset, s->gone, ngone, &rest);

        if (only != NULL) {
            nx_seed_send(s, only, &w);
        } else {
            send_to_members(s, &w);
        }
        rest.list += n;
        rest.n -= n;
        reset = false;
        ngone = 0;
    } while (rest.n > 0);
    nx_free(frame);
}

void nx_seed_wait_poke(nx_seed_state *s, nx_seed_client *c)
{
    static const nx_join_queue nobody;
    uint8_t frame[32];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    (void)nx_tell_encode(&w, false, NULL, 0, &nobody);
    nx_seed_send(s, c, &w);
}

void nx_seed_wait_announce(nx_seed_state *s, nx_seed_client *c)
{
    if (s->waiting.n > 0) {
        send_told(s, c, true, &s->waiting);
        s->tell_by_ns = s->retell ? 0 : s->tell_by_ns;
    }
}

void nx_seed_wait_tick(nx_seed_state *s, uint64_t now_ns)
{
    if (now_ns < s->tell_by_ns) {
        return;
    }
    s->tell_by_ns = UINT64_MAX;
    if (s->phase == NX_SEED_RUNNING) {
        const bool all = s->retell;

        s->retell = false;
        send_told(s, NULL, all, all ? &s->waiting : &s->news);
        if (s->retell) { /* no memory */
            tell_later(s, now_ns);
            return;
        }
    }
    nx_join_queue_clear(&s->news);
    s->ngone = 0;
}

/* ---- end of the wait ----------------------------------------------------------------- */

void nx_seed_wait_status(nx_seed_state *s)
{
    const nx_world_status standing = nx_seed_status(s);
    uint8_t frame[16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_back_encode(&w, &standing);
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        if (c->role == NX_SEED_WAITER) {
            nx_seed_send(s, c, &w);
        }
    }
}

void nx_seed_wait_end(nx_seed_state *s, uint64_t now_ns)
{
    if (s->rules.keep) {
        nx_seed_wait_status(s);
        nx_seed_form_fill(s, now_ns);
        return;
    }
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        if (c->role == NX_SEED_WAITER) {
            nx_seed_turn_away(s, c, NX_REFUSAL_FORMED, "the job has ended while it waited", now_ns);
        }
    }
}

void nx_seed_wait_fini(nx_seed_state *s)
{
    nx_join_queue_fini(&s->waiting);
    nx_join_queue_fini(&s->news);
    nx_free(s->gone);
}
