/* membership.c - the state transitions of slots, and the notification of subscribers. */
#include "cluster/membership/membership.h"

#include <string.h>

#include "base/alloc.h"
#include "base/containers/list.h"

/* A failure in a slot that is not known yet. */
typedef struct early {
    nx_list link;
    nx_life_event event;
    char why[];
} early;

struct nx_membership {
    nx_membership_config config; /* among the current slots */
    nx_life_record *records;
    nx_rankset gone; /* left, failed, and self */
    nx_rankset due;  /* recorded, but no subscriber was notified yet */
    nx_list early;
    uint64_t events;
    uint32_t failures;
    bool closed, expelled;
};

/* ---- life --------------------------------------------------------------------------------- */

nexar_err nx_membership_grow(nx_membership *m, uint32_t slots)
{
    nx_life_record *records = nx_grow(m->records, slots, sizeof(*records));

    if (records == NULL) {
        return nx_fail_nomem("the membership");
    }
    m->records = records;
    if ((nx_rankset_grow(&m->due, slots) != NEXAR_OK) ||
        (nx_rankset_grow(&m->gone, slots) != NEXAR_OK)) {
        return NEXAR_ENOMEM;
    }
    for (uint32_t slot = m->config.slots; slot < slots; slot++) {
        records[slot] = (nx_life_record){.life = NX_LIFE_ALIVE};
    }
    m->config.slots = slots;
    return NEXAR_OK;
}

nexar_err nx_membership_create(nx_membership **out, const nx_membership_config *config)
{
    nx_membership *m = nx_zalloc(sizeof(*m));

    if (m == NULL) {
        return nx_fail_nomem("the membership");
    }
    m->config = *config;
    m->config.slots = 0;
    nx_list_init(&m->early);
    if ((nx_rankset_init(&m->gone, config->slots) != NEXAR_OK) ||
        (nx_rankset_init(&m->due, config->slots) != NEXAR_OK) ||
        (nx_membership_grow(m, config->slots) != NEXAR_OK)) {
        nx_membership_destroy(m);
        return NEXAR_ENOMEM;
    }
    (void)nx_rankset_add(&m->gone, config->self);
    *out = m;
    return NEXAR_OK;
}

void nx_membership_destroy(nx_membership *m)
{
    nx_list *at;

    if (m == NULL) {
        return;
    }
    while ((at = nx_list_pop(&m->early)) != NULL) {
        nx_free(nx_list_entry(at, early, link));
    }
    for (uint32_t slot = 0; slot < m->config.slots; slot++) {
        nx_free(m->records[slot].why);
    }
    nx_rankset_fini(&m->gone);
    nx_rankset_fini(&m->due);
    nx_free(m->records);
    nx_free(m);
}

void nx_membership_close(nx_membership *m)
{
    m->closed = true;
}

/* ---- events ------------------------------------------------------------------------------- */

/* Without memory the failure is detected by silence instead. */
static void keep_early(nx_membership *m, const nx_life_event *event)
{
    const size_t len = (event->why == NULL) ? 0 : strlen(event->why);
    early *e = m->closed ? NULL : nx_zalloc(sizeof(*e) + len + 1);

    if (e != NULL) {
        e->event = *event;
        if (len > 0) {
            memcpy(e->why, event->why, len);
        }
        e->event.why = e->why;
        nx_list_push_back(&m->early, &e->link);
    }
}

void nx_membership_replay(nx_membership *m, uint64_t now_ns)
{
    nx_list *last = m->early.prev, *at = &m->early;

    while ((at != last) && ((at = nx_list_pop(&m->early)) != NULL)) {
        early *e = nx_list_entry(at, early, link);

        (void)nx_membership_report(m, &e->event, now_ns);
        nx_free(e);
    }
}

/* Whether M2 and M5 admit |event|. */
static bool admits(const nx_membership *m, const nx_life_event *event)
{
    const nx_life_record *r = &m->records[event->slot];

    if (m->closed || (m->records[m->config.self].life == NX_LIFE_FAILED)) {
        return false;
    }
    if (event->slot == m->config.self) {
        return event->life == NX_LIFE_FAILED;
    }
    if (event->life == NX_LIFE_SUSPECT) {
        return (r->life == NX_LIFE_ALIVE) ||
               ((r->life == NX_LIFE_SUSPECT) && (r->source != event->source));
    }
    return (r->life < NX_LIFE_LEFT) ||
           ((r->life == NX_LIFE_LEFT) && r->presumed && !event->presumed);
}

bool nx_membership_report(nx_membership *m, const nx_life_event *event, uint64_t now_ns)
{
    nx_life_record *r;
    bool news;

    if (event->slot >= m->config.slots) {
        if (event->life == NX_LIFE_FAILED) {
            keep_early(m, event);
        }
        return false;
    }
    if (!admits(m, event)) {
        return false;
    }
    r = &m->records[event->slot];
    news = (r->life != event->life) || (event->life == NX_LIFE_SUSPECT);
    nx_free(r->why);
    *r = (nx_life_record){.life = event->life,
                          .source = event->source,
                          .presumed = event->presumed,
                          .since_ns = now_ns,
                          .number = ++m->events,
                          .why = (event->why == NULL) ? NULL : nx_strdup(event->why)};
    if (event->life >= NX_LIFE_LEFT) {
        (void)nx_rankset_add(&m->gone, event->slot);
    }
    m->failures += (event->life == NX_LIFE_FAILED);
    if (news && nx_rankset_add(&m->due, event->slot) && (m->due.count == 1)) {
        m->config.on_due(m->config.ctx);
    }
    return true;
}

bool nx_membership_retire(nx_membership *m, uint32_t slot)
{
    nx_life_record *r = &m->records[slot];

    if (r->life >= NX_LIFE_LEFT) {
        r->presumed = false;
        return false;
    }
    r->life = NX_LIFE_LEFT;
    (void)nx_rankset_add(&m->gone, slot);
    (void)nx_rankset_remove(&m->due, slot);
    return true;
}

void nx_membership_forget_why(nx_membership *m, uint32_t slot)
{
    nx_free(m->records[slot].why);
    m->records[slot].why = NULL;
}

/* ---- notifications ------------------------------------------------------------------------ */

static void notify_one(const nx_membership *m, const nx_life_subscriber *s, uint32_t slot,
                       nx_life life)
{
    void (*const notify)(void *ctx, uint32_t slot) = (life == NX_LIFE_SUSPECT) ? s->on_suspect
                                                     : (life == NX_LIFE_LEFT)  ? s->on_left
                                                                               : s->on_failed;

    if (notify != NULL) {
        notify(m->config.ctx, slot);
    }
}

void nx_membership_notify(nx_membership *m)
{
    while (!m->closed && (m->due.count > 0)) {
        const bool self = nx_rankset_has(&m->due, m->config.self);
        const uint32_t slot = self ? m->config.self : nx_rankset_next(&m->due, 0);
        const nx_life life = m->records[slot].life;

        (void)nx_rankset_remove(&m->due, slot);
        if (self) {
            nx_rankset_clear(&m->due);
            m->expelled = true;
            m->config.on_expelled(m->config.ctx);
            return;
        }
        for (size_t i = 0; !m->expelled && (i < m->config.nsubscribers); i++) {
            notify_one(m, &m->config.subscribers[i], slot, life);
        }
    }
}

/* ---- queries ------------------------------------------------------------------------------ */

const nx_life_record *nx_membership_of(const nx_membership *m, uint32_t slot)
{
    static const nx_life_record unknown = {.life = NX_LIFE_UNKNOWN};

    return (slot < m->config.slots) ? &m->records[slot] : &unknown;
}

bool nx_membership_settled(const nx_membership *m, uint32_t slot)
{
    return (nx_membership_life(m, slot) >= NX_LIFE_LEFT) && !nx_rankset_has(&m->due, slot);
}

const nx_rankset *nx_membership_gone(const nx_membership *m)
{
    return &m->gone;
}

uint32_t nx_membership_failures(const nx_membership *m)
{
    return m->failures;
}

bool nx_membership_expelled(const nx_membership *m)
{
    return m->expelled;
}
