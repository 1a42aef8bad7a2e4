/* creation.c - calls that create a communicator from a list, and their outcome. */
#include "cluster/creation/creation.h"

#include <stdio.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "cluster/creation/creation_inner.h"

/* ---- life ---------------------------------------------------------------------------- */

nexar_err nx_creations_create(nx_creations **out, uint32_t self, nx_early *early,
                              const nx_creation_ops *ops, void *ctx)
{
    nx_creations *cs = nx_zalloc(sizeof(*cs));

    if (cs == NULL) {
        return nx_fail_nomem("creations of communicators");
    }
    cs->self = self;
    cs->early = early;
    cs->ops = ops;
    cs->ctx = ctx;
    nx_list_init(&cs->running);
    nx_list_init(&cs->refusals);
    *out = cs;
    return NEXAR_OK;
}

void nx_creations_destroy(nx_creations *cs)
{
    if (cs != NULL) {
        nx_creation_refusals_free(cs);
        nx_free(cs);
    }
}

nx_creation *nx_creation_find(const nx_creations *cs, const nx_creation_key *key)
{
    for (const nx_list *at = cs->running.next; at != &cs->running; at = at->next) {
        nx_creation *c = nx_list_entry(at, nx_creation, link);

        if ((c->key.parent == key->parent) && (c->key.tag == key->tag) &&
            (c->state <= NX_CREATION_READY)) {
            return c;
        }
    }
    return NULL;
}

static bool leads(const nx_creations *cs, const nx_creation *c)
{
    return c->leader == cs->self;
}

/* ---- frames -------------------------------------------------------------------------- */

void nx_creation_send(const nx_creations *cs, uint32_t to, const nx_creation_frame *f)
{
    uint8_t buf[NX_CREATION_FRAME_MAX];
    const bool vouch = (f->form == NX_CREATION_LACK) || (f->err == NEXAR_EPEER);

    cs->ops->send(cs->ctx, to, vouch, buf, nx_creation_encode(f, buf, sizeof(buf)));
}

static void send_error(const nx_creations *cs, uint32_t to, nx_creation_form form,
                       const nx_creation_key *key, nexar_err err, const char *why)
{
    nx_creation_frame f = {.form = form, .key = *key, .err = err};

    (void)nx_sentence(f.why, sizeof(f.why), "%s", why);
    nx_creation_send(cs, to, &f);
}

void nx_creation_tell(const nx_creations *cs, uint32_t to, const nx_creation_key *key,
                      nexar_err err, const char *why)
{
    send_error(cs, to, NX_CREATION_FAIL, key, err, why);
}

/* ---- the outcome --------------------------------------------------------------------- */

static void set_failed(nx_creation *c, nexar_err err, const char *why)
{
    c->state = NX_CREATION_FAILED;
    c->err = err;
    (void)nx_sentence(c->why, sizeof(c->why), "%s", why);
}

/* The creation with the other list, which a member of |c| has called with, cannot end either. */
static void refuse_rival(nx_creations *cs, const nx_creation *c)
{
    nx_creation_key key = c->key;

    key.print = c->rival;
    if ((c->rival != 0) && (c->err == NEXAR_EMISMATCH) &&
        (nx_creation_refuse(cs, &key, c->err, c->why, &c->joined, 0, false) == NEXAR_OK)) {
        nx_creation_replay(cs, &key, 0);
        (void)nx_creation_refused(cs, &key, c->culprit); /* no other rank tells it */
    }
}

void nx_creation_over(nx_creations *cs, nx_creation *c, nexar_err err, const char *why)
{
    set_failed(c, err, why);
    if (leads(cs, c)) {
        /* Without memory for the refusal, members that have not joined wait until their
         * time-out. */
        (void)!nx_creation_refuse(cs, &c->key, err, c->why, &c->joined, c->n, false);
        for (uint32_t i = 0; (i = nx_rankset_next(&c->joined, i)) < c->joined.n; i++) {
            if (i != cs->self) {
                nx_creation_tell(cs, i, &c->key, err, c->why);
            }
        }
    }
    refuse_rival(cs, c);
    cs->ops->changed(cs->ctx, c);
}

void nx_creation_orphaned(nx_creations *cs, nx_creation *c, const char *why)
{
    const nx_creation_frame f = {.form = NX_CREATION_LACK, .key = c->key};

    set_failed(c, NEXAR_EPEER, why);
    for (uint32_t i = 0; !leads(cs, c) && (i < c->n); i++) {
        if ((c->slots[i] != cs->self) && (c->slots[i] != c->leader)) {
            nx_creation_send(cs, c->slots[i], &f);
        }
    }
    cs->ops->changed(cs->ctx, c);
}

void nx_creation_joined(nx_creations *cs, nx_creation *c, uint32_t from, uint32_t offered)
{
    (void)nx_rankset_add(&c->joined, from);
    c->id = (c->id == 0) ? offered : c->id;
    if (c->joined.count == c->n) {
        c->state = NX_CREATION_READY;
        cs->ops->changed(cs->ctx, c);
    }
}

void nx_creation_commit(nx_creations *cs, nx_creation *c, uint32_t id)
{
    const nx_creation_frame f = {.form = NX_CREATION_DONE, .key = c->key, .id = id, .n = c->n};

    c->state = NX_CREATION_MADE;
    c->id = id;
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->slots[i] != cs->self) {
            nx_creation_send(cs, c->slots[i], &f);
        }
    }
}

void nx_creation_fail(nx_creations *cs, nx_creation *c, nexar_err err, const char *why)
{
    if (c->state > NX_CREATION_READY) {
        return;
    }
    if (leads(cs, c)) {
        nx_creation_over(cs, c, err, why);
    } else {
        send_error(cs, c->leader, NX_CREATION_WITHDRAW, &c->key, err, why);
    }
}

/* ---- calls --------------------------------------------------------------------------- */

static nexar_err begin(nx_creation *c)
{
    uint32_t last = 0;
    nexar_err err;

    c->leader = UINT32_MAX;
    for (uint32_t i = 0; i < c->n; i++) {
        last = (c->slots[i] > last) ? c->slots[i] : last;
        c->leader = (c->slots[i] < c->leader) ? c->slots[i] : c->leader;
    }
    c->key = (nx_creation_key){c->parent, c->tag, nx_creation_print(c->slots, c->n)};
    c->members = c->joined = (nx_rankset){0};
    err = nx_rankset_init(&c->members, last + 1);
    if (err == NEXAR_OK) {
        err = nx_rankset_init(&c->joined, last + 1);
    }
    if (err != NEXAR_OK) {
        nx_rankset_fini(&c->members);
        return err;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        (void)nx_rankset_add(&c->members, c->slots[i]);
    }
    return NEXAR_OK;
}

/* The call is registered.  Notifies the other members, and handles frames that arrived before
 * it. */
static void join(nx_creations *cs, nx_creation *c, uint64_t now_ns)
{
    const nx_creation_frame f = {.form = NX_CREATION_JOIN, .key = c->key, .id = c->id, .n = c->n};

    if (nx_creation_refused_here(cs, &c->key, &c->err, c->why)) {
        c->state = NX_CREATION_FAILED;
        return;
    }
    if (leads(cs, c)) {
        nx_creation_joined(cs, c, cs->self, c->id);
    } else {
        nx_creation_send(cs, c->leader, &f);
    }
    nx_creation_replay(cs, &c->key, now_ns);
}

nexar_err nx_creation_start(nx_creations *cs, nx_creation *c, uint64_t now_ns)
{
    const nx_creation_key key = {.parent = c->parent, .tag = c->tag};
    nexar_err err;

    if (nx_creation_find(cs, &key) != NULL) {
        return nx_fail(NEXAR_EINVAL, "another thread creates a communicator with this tag");
    }
    err = begin(c);
    if (err == NEXAR_OK) {
        c->state = NX_CREATION_WAITS;
        c->rival = 0;
        c->lacking = false;
        c->why[0] = '\0';
        nx_list_push_back(&cs->running, &c->link);
        join(cs, c, now_ns);
    }
    return err;
}

void nx_creation_end(nx_creations *cs, nx_creation *c)
{
    (void)cs;
    nx_list_remove(&c->link);
    nx_rankset_fini(&c->members);
    nx_rankset_fini(&c->joined);
}

void nx_creation_remind(nx_creations *cs, const nx_creation *c,
                        void (*waits_for)(void *ctx, uint32_t slot))
{
    const bool differs = (c->rival != 0) && !leads(cs, c); /* the leader may have called since */
    nx_creation_frame f = {
        .form = differs ? NX_CREATION_DIFFERS : NX_CREATION_ASK, .key = c->key, .id = c->culprit};

    (void)nx_sentence(f.why, sizeof(f.why), "%s", c->why);
    for (uint32_t i = 0; (c->state == NX_CREATION_WAITS) && (i < c->n); i++) {
        const uint32_t slot = c->slots[i];

        if (leads(cs, c) ? !nx_rankset_has(&c->joined, slot) : (slot == c->leader)) {
            nx_creation_send(cs, slot, &f);
            waits_for(cs->ctx, slot);
        }
    }
}

/* ---- failed ranks -------------------------------------------------------------------- */

void nx_creations_gone(nx_creations *cs, uint32_t slot, const char *why)
{
    nx_list_for_each (at, &cs->running) {
        nx_creation *c = nx_list_entry(at, nx_creation, link);

        if ((c->state > NX_CREATION_READY) || !nx_rankset_has(&c->members, slot)) {
            continue;
        }
        if ((slot == cs->self) || (slot == c->leader)) {
            nx_creation_orphaned(cs, c, why);
        } else {
            nx_creation_fail(cs, c, NEXAR_EPEER, why);
        }
    }
}

void nx_creations_revoked(nx_creations *cs, uint32_t parent, const char *why)
{
    nx_list_for_each (at, &cs->running) {
        nx_creation *c = nx_list_entry(at, nx_creation, link);

        if (c->parent == parent) {
            nx_creation_fail(cs, c, NEXAR_EREVOKED, why);
        }
    }
}
