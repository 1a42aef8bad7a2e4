/* seed_state.c - the seed's clients: connection, frames, silence, end. */
#include "cluster/seed/seed_state.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "cluster/seed/seed_inner.h"

nexar_err nx_seed_state_create(nx_seed_state **out, const nx_seed_rules *rules,
                               const nx_seed_ops *ops, void *ctx)
{
    nx_seed_state *s;
    nexar_err err;

    if ((rules->world_size == 0) || (rules->world_size > NX_WORLD_MAX)) {
        return nx_fail(NEXAR_EINVAL, "a world has 1 to %d ranks, not %u", (int)NX_WORLD_MAX,
                       (unsigned)rules->world_size);
    }
    if (rules->min_world > rules->world_size) {
        return nx_fail(NEXAR_EINVAL, "a world of %u ranks cannot have at least %u",
                       (unsigned)rules->world_size, (unsigned)rules->min_world);
    }
    s = nx_zalloc(sizeof(*s));
    if (s == NULL) {
        return nx_fail_nomem("the seed");
    }
    err = nx_member_table_init(&s->roster, rules->world_size);
    if (err != NEXAR_OK) {
        nx_free(s);
        return err;
    }
    s->rules = *rules;
    s->ops = ops;
    s->ctx = ctx;
    s->formation_by_ns = s->progress_by_ns = s->tell_by_ns = s->stall_by_ns = UINT64_MAX;
    s->end_by_ns = s->retry_by_ns = s->sync.by_ns = UINT64_MAX;
    nx_list_init(&s->pending);
    nx_list_init(&s->clients);
    *out = s;
    return NEXAR_OK;
}

static void free_clients(nx_list *head)
{
    nx_list *at;

    while ((at = nx_list_pop(head)) != NULL) {
        nx_free(nx_list_entry(at, nx_seed_client, link));
    }
}

void nx_seed_state_destroy(nx_seed_state *s)
{
    if (s == NULL) {
        return;
    }
    free_clients(&s->pending);
    free_clients(&s->clients);
    nx_seed_run_fini(s);
    nx_seed_wait_fini(s);
    nx_seed_offer_withdraw(s);
    nx_member_table_fini(&s->roster);
    explicit_bzero(&s->rules.token, sizeof(s->rules.token));
    nx_free(s);
}

bool nx_seed_state_formed(const nx_seed_state *s)
{
    return s->phase == NX_SEED_RUNNING;
}

bool nx_seed_state_ended(const nx_seed_state *s)
{
    return s->phase == NX_SEED_OVER;
}

/* ---- names and logs ------------------------------------------------------------------ */

void nx_seed_notify(nx_seed_state *s, nx_seed_event_kind kind, const nx_member *m, const char *text)
{
    const bool running = (s->phase == NX_SEED_RUNNING);
    const nx_seed_event event = {.kind = kind,
                                 .member = m,
                                 .joined = running ? s->here : s->roster.joined,
                                 .world = running ? s->view->size : s->roster.size,
                                 .text = text};

    s->ops->notify(s->ctx, &event);
}

static void tell_held_back(nx_seed_state *s, uint64_t now_ns)
{
    const unsigned n = nx_log_limit_missing(&s->refusals, now_ns);
    char line[64];

    if (n > 0) {
        (void)snprintf(line, sizeof(line), "%u more were rejected in that second", n);
        nx_seed_notify(s, NX_SEED_REFUSED, NULL, line);
    }
}

/* Logs every rejection, but limited: any host that can reach the port could otherwise fill the
 * disk. */
static void tell_refusal(nx_seed_state *s, const char *address, const char *text, uint64_t now_ns)
{
    char line[NX_REASON_MAX + 96];

    tell_held_back(s, now_ns);
    if (!nx_log_limit_allows(&s->refusals, now_ns)) {
        return;
    }
    (void)snprintf(line, sizeof(line), "rejected %s: %s", address, text);
    nx_seed_notify(s, NX_SEED_REFUSED, NULL, line);
}

void nx_seed_send(nx_seed_state *s, nx_seed_client *c, const nx_writer *w)
{
    if (c->broken) {
        return;
    }
    if (w->failed || (s->ops->send(s->ctx, c->conn, w->data, w->len) != NEXAR_OK)) {
        c->broken = true;
        s->nbroken++;
    }
}

/* ---- removal of clients -------------------------------------------------------------- */

void nx_seed_forget(nx_seed_state *s, nx_seed_client *c)
{
    s->npending -= (c->role == NX_SEED_STRANGER) ? 1 : 0;
    s->nbroken -= c->broken ? 1 : 0;
    nx_list_remove(&c->link);
    nx_free(c);
}

void nx_seed_close(nx_seed_state *s, nx_seed_client *c)
{
    s->ops->close(s->ctx, c->conn);
    nx_seed_forget(s, c);
}

nexar_err nx_seed_save(nx_seed_state *s)
{
    return s->rules.lasting ? s->ops->save(s->ctx) : NEXAR_OK;
}

const nx_member *nx_seed_record(const nx_seed_state *s, const nx_seed_client *c)
{
    switch (c->role) {
    case NX_SEED_FORMING:
        return c->place;
    case NX_SEED_WAITER:
        return nx_join_queue_find(&s->waiting, c->id);
    case NX_SEED_MEMBER:
        return &s->view->members[c->rank];
    case NX_SEED_STRANGER:
    case NX_SEED_OUTSIDER:
        break;
    }
    return NULL;
}

static void tell_gone(nx_seed_state *s, const nx_member *m, nx_seed_event_kind kind,
                      const char *when, const char *why)
{
    char who[NX_MEMBER_TEXT], text[NX_MEMBER_TEXT + NX_REASON_MAX + 64];

    (void)nx_sentence(text, sizeof(text), "%s %s%s%s%s", nx_member_text(m, who),
                      (kind == NX_SEED_LEFT) ? "has left" : "was lost", when,
                      (why[0] == '\0') ? "" : ": ", why);
    nx_seed_notify(s, kind, m, text);
}

void nx_seed_gone(nx_seed_state *s, nx_seed_client *c, nx_seed_event_kind kind, bool ended,
                  const char *why, uint64_t now_ns)
{
    const nx_member *record = nx_seed_record(s, c);
    nx_farewell how = ended ? NX_FAREWELL_NONE : NX_FAREWELL_UNKNOWN;
    nx_member m = {0};

    if (record != NULL) {
        m = *record; /* |text| does not outlive the removal */
    }
    switch (c->role) {
    case NX_SEED_FORMING:
        nx_seed_form_gone(s, c, why, now_ns);
        tell_gone(s, &m, kind, " before the world formed", why);
        nx_seed_form_fill(s, now_ns);
        break;
    case NX_SEED_WAITER:
        c->role = NX_SEED_OUTSIDER;
        nx_seed_wait_remove(s, c->id, now_ns);
        tell_gone(s, &m, kind, " while it waited", why);
        break;
    case NX_SEED_MEMBER:
        how = (kind == NX_SEED_LEFT) ? NX_FAREWELL_SAID : how;
        nx_seed_run_gone(s, c, how, now_ns);
        tell_gone(s, &m, kind, "", why);
        nx_seed_run_check_end(s, now_ns);
        break;
    case NX_SEED_STRANGER:
        break;
    case NX_SEED_OUTSIDER:
        nx_seed_run_unask(s, c, now_ns);
        break;
    }
}

void nx_seed_turn_away(nx_seed_state *s, nx_seed_client *c, nx_refusal why, const char *text,
                       uint64_t now_ns)
{
    uint8_t frame[NX_REASON_MAX + 16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_refused_encode(&w, why, text);
    nx_seed_send(s, c, &w);
    tell_refusal(s, c->address, text, now_ns);
    nx_seed_gone(s, c, NX_SEED_LOST, false, text, now_ns);
    nx_seed_close(s, c);
}

static nx_seed_client *first_broken(nx_list *head)
{
    nx_list_for_each (at, head) {
        nx_seed_client *c = nx_list_entry(at, nx_seed_client, link);

        if (c->broken) {
            return c;
        }
    }
    return NULL;
}

/* Removes clients with a failed send: they would wait for the frame. */
static void sweep(nx_seed_state *s, uint64_t now_ns)
{
    while (s->nbroken > 0) {
        nx_seed_client *c = first_broken(&s->clients);

        c = (c == NULL) ? first_broken(&s->pending) : c;
        nx_seed_gone(s, c, NX_SEED_LOST, false, "nothing can be sent to it", now_ns);
        nx_seed_close(s, c);
    }
}

/* ---- events -------------------------------------------------------------------------- */

nexar_err nx_seed_state_connected(nx_seed_state *s, const nx_seed_caller *caller, uint64_t now_ns,
                                  nx_seed_client **out)
{
    nx_seed_client *c = nx_zalloc(sizeof(*c));

    if (c == NULL) {
        return nx_fail_nomem("a client of the seed");
    }
    if (s->npending == NX_SEED_PENDING_MAX) {
        nx_seed_turn_away(s, nx_list_entry(s->pending.next, nx_seed_client, link),
                          NX_REFUSAL_PROTOCOL, "no hello, and too many are waiting", now_ns);
    }
    c->conn = caller->conn;
    c->certified = caller->certified;
    /* A number that the authority has signed was assigned, even if an old copy of the state lacks
     * it. */
    if (c->certified > s->last_member) {
        s->last_member = c->certified;
    }
    (void)snprintf(c->address, sizeof(c->address), "%s", caller->address);
    memcpy(c->exporter, caller->exporter, sizeof(c->exporter));
    c->hello_by_ns = now_ns + NX_SEED_HELLO_TIMEOUT_NS;
    nx_list_push_back(&s->pending, &c->link);
    s->npending++;
    *out = c;
    return NEXAR_OK;
}

void nx_seed_state_frame(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                         uint64_t now_ns)
{
    if (c->role == NX_SEED_STRANGER) {
        nx_seed_admit(s, c, data, len, now_ns);
    } else {
        nx_seed_member_frame(s, c, data, len, now_ns);
    }
    sweep(s, now_ns);
}

void nx_seed_state_misbehaved(nx_seed_state *s, nx_seed_client *c, const char *what,
                              uint64_t now_ns)
{
    nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, what, now_ns);
    sweep(s, now_ns);
}

void nx_seed_state_closed(nx_seed_state *s, nx_seed_client *c, bool ended, const char *why,
                          uint64_t now_ns)
{
    if (c->role == NX_SEED_STRANGER) {
        char text[NX_REASON_MAX];

        (void)nx_sentence(text, sizeof(text), "it hung up before its hello: %s", why);
        tell_refusal(s, c->address, text, now_ns);
    }
    nx_seed_gone(s, c, NX_SEED_LOST, ended, why, now_ns);
    nx_seed_forget(s, c);
    sweep(s, now_ns);
}

uint64_t nx_seed_state_due(const nx_seed_state *s)
{
    uint64_t due = nx_seed_run_due(s);

    due = (s->formation_by_ns < due) ? s->formation_by_ns : due;
    due = (s->progress_by_ns < due) ? s->progress_by_ns : due;
    due = (s->stall_by_ns < due) ? s->stall_by_ns : due;
    if (!nx_list_empty(&s->pending)) {
        const nx_seed_client *oldest = nx_list_entry(s->pending.next, nx_seed_client, link);

        due = (oldest->hello_by_ns < due) ? oldest->hello_by_ns : due;
    }
    return (nx_log_limit_due(&s->refusals) < due) ? nx_log_limit_due(&s->refusals) : due;
}

void nx_seed_state_tick(nx_seed_state *s, uint64_t now_ns)
{
    while (!nx_list_empty(&s->pending)) {
        nx_seed_client *oldest = nx_list_entry(s->pending.next, nx_seed_client, link);

        if (oldest->hello_by_ns > now_ns) {
            break;
        }
        nx_seed_turn_away(s, oldest, NX_REFUSAL_PROTOCOL, "no hello within 10 s", now_ns);
    }
    nx_seed_form_tick(s, now_ns);
    nx_seed_run_tick(s, now_ns);
    nx_seed_wait_tick(s, now_ns);
    tell_held_back(s, now_ns);
    sweep(s, now_ns);
}
