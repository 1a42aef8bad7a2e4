/* creation_events.c - frames of creations. */
#include <inttypes.h>
#include <stdio.h>

#include "base/text/sentence.h"
#include "cluster/creation/creation_inner.h"

static const char freed[] = "a rank of the list has freed the parent, or it was revoked there";

/* ---- frames for creations that have not begun here ----------------------------------- */

/* The id under which frames of a parent and a tag are kept. */
static uint64_t early_id(const nx_creation_key *key)
{
    const uint32_t words[] = {key->parent, (uint32_t)(key->tag >> 32), (uint32_t)key->tag};

    return nx_creation_print(words, 3) | UINT64_C(1) << 63; /* not the id of any communicator */
}

static nexar_err keep(nx_creations *cs, uint32_t from, const nx_creation_frame *f, uint64_t now_ns)
{
    const nx_early_key at = {
        .kind = NX_EARLY_CREATION, .id = early_id(&f->key), .from = (uint64_t)from};
    uint8_t buf[NX_CREATION_FRAME_MAX];
    const nx_bytes bytes = {.ptr = buf, .len = nx_creation_encode(f, buf, sizeof(buf))};
    nexar_err err = nx_early_keep(cs->early, &at, &bytes, 1, now_ns);

    if (err == NEXAR_ENOMEM) { /* it fails for all members, including this rank's later call */
        err = nx_creation_refuse(cs, &f->key, err, "a rank of the list has no memory for it", NULL,
                                 f->n, true);
        if (err == NEXAR_OK) {
            (void)nx_creation_refused(cs, &f->key, from);
        }
    }
    return err;
}

/* The arguments of a replay. */
typedef struct replay {
    nx_creations *cs;
    uint64_t now_ns;
} replay;

static void again(void *ctx, const nx_early_frame *frame)
{
    const replay *r = ctx;

    /* Without memory its sender was notified, or detects that this rank is gone. */
    (void)!nx_creations_frame(r->cs, (uint32_t)frame->key.from, frame->data, frame->len,
                              (r->now_ns != 0) ? r->now_ns : frame->came_ns);
}

void nx_creation_replay(nx_creations *cs, const nx_creation_key *key, uint64_t now_ns)
{
    replay r = {.cs = cs, .now_ns = now_ns};

    nx_early_deliver(cs->early, NX_EARLY_CREATION, early_id(key), again, &r);
}

/* ---- differing lists ----------------------------------------------------------------- */

/* |from|, a member of |c|, has called with the list in |f|: neither creation can complete (C3). */
static void differ(nx_creations *cs, nx_creation *c, uint32_t from, const nx_creation_frame *f)
{
    nx_creation_frame report = {.form = NX_CREATION_DIFFERS, .key = c->key, .id = from, .n = f->n};
    char name[NX_CREATION_PEER], us[NX_CREATION_PEER];

    (void)cs->ops->name(cs->ctx, from, name);
    (void)cs->ops->name(cs->ctx, cs->self, us);
    if ((f->n == 0) || (f->n == c->n)) {
        (void)nx_sentence(report.why, sizeof(report.why), "the lists of %s and %s differ", name,
                          us);
    } else {
        (void)nx_sentence(report.why, sizeof(report.why),
                          "%s lists %" PRIu32 " ranks, %s lists %" PRIu32, name, f->n, us, c->n);
    }
    c->rival = f->key.print;
    c->culprit = from;
    if (c->leader == cs->self) {
        nx_creation_over(cs, c, NEXAR_EMISMATCH, report.why);
    } else {
        (void)nx_sentence(c->why, sizeof(c->why), "%s", report.why); /* until |c| has failed */
        nx_creation_send(cs, c->leader, &report);
    }
}

static bool is_rival(const nx_creation *c, uint32_t from, const nx_creation_key *key)
{
    return (c != NULL) && (c->state == NX_CREATION_WAITS) && (c->key.print != key->print) &&
           nx_rankset_has(&c->members, from);
}

/* ---- frames -------------------------------------------------------------------------- */

static nexar_err on_join(nx_creations *cs, uint32_t from, const nx_creation_frame *f,
                         uint64_t now_ns)
{
    nx_creation *c = nx_creation_find(cs, &f->key);
    nexar_err err;

    if ((c != NULL) && (c->key.print == f->key.print)) {
        if ((c->leader != cs->self) || !nx_rankset_has(&c->members, from)) {
            return nx_fail(NEXAR_EPROTO, "a rank joins a creation that is not led here");
        }
        if ((cs->nrefusals == 0) || !nx_creation_refused(cs, &f->key, from)) {
            nx_creation_joined(cs, c, from, f->id);
        }
        return NEXAR_OK;
    }
    if (nx_early_is_closed(cs->early, f->key.parent)) {
        nx_creation_tell(cs, from, &f->key, NEXAR_EREVOKED, freed);
        return NEXAR_OK;
    }
    if (nx_creation_refused(cs, &f->key, from)) {
        return NEXAR_OK;
    }
    err = keep(cs, from, f, now_ns);
    if (is_rival(c, from, &f->key)) {
        differ(cs, c, from, f);
    }
    return err;
}

/* Searches for a JOIN of |from| for |key| among the kept frames. */
typedef struct search {
    nx_creations *cs;
    uint32_t from;
    const nx_creation_key *key;
    uint32_t n; /* ranks in its list; 0: there is no JOIN */
} search;

static void look(void *ctx, const nx_early_frame *frame)
{
    search *s = ctx;
    nx_creation_frame f;

    if (nx_creation_decode(frame->data, frame->len, &f) == NEXAR_OK) {
        s->n = ((frame->key.from == s->from) && nx_creation_key_equal(&f.key, s->key)) ? f.n : s->n;
        (void)!keep(s->cs, (uint32_t)frame->key.from, &f, frame->came_ns);
    }
}

static uint32_t has_joined(nx_creations *cs, uint32_t from, const nx_creation_key *key)
{
    search s = {.cs = cs, .from = from, .key = key};

    nx_early_deliver(cs->early, NX_EARLY_CREATION, early_id(key), look, &s);
    return s.n;
}

/* Whether |c|, which this rank leads, is pending, and |from| has joined it.  A frame of a member
 * that has not joined concerns an earlier creation. */
static bool is_joined(const nx_creations *cs, const nx_creation *c, uint32_t from)
{
    return (c->state == NX_CREATION_WAITS) && (c->leader == cs->self) &&
           nx_rankset_has(&c->joined, from);
}

/* Fails the creation that runs here.  If none runs, and |from| still waits for this rank to call,
 * fails its JOIN and all other kept ones. */
static nexar_err on_withdraw(nx_creations *cs, uint32_t from, const nx_creation_frame *f)
{
    nx_creation *c = nx_creation_find(cs, &f->key);
    uint32_t n;
    nexar_err err;

    if ((c != NULL) && (c->key.print == f->key.print)) {
        if (is_joined(cs, c, from)) {
            nx_creation_over(cs, c, f->err, f->why);
        }
        return NEXAR_OK; /* DONE follows, or FAIL */
    }
    n = has_joined(cs, from, &f->key);
    if (n == 0) {
        return NEXAR_OK; /* it was notified meanwhile */
    }
    err = nx_creation_refuse(cs, &f->key, f->err, f->why, NULL, n, true);
    if (err == NEXAR_OK) {
        nx_creation_replay(cs, &f->key, 0);
    }
    return err;
}

static void on_fail(nx_creations *cs, uint32_t from, const nx_creation_frame *f)
{
    nx_creation *c = nx_creation_find(cs, &f->key);

    if ((c != NULL) && (c->key.print == f->key.print) && nx_rankset_has(&c->members, from)) {
        nx_creation_over(cs, c, f->err, f->why);
    }
}

static void lose_leader(nx_creations *cs, nx_creation *c)
{
    char name[NX_CREATION_PEER], why[NX_CREATION_WHY];

    (void)nx_sentence(why, sizeof(why), "%s, which leads the creation, is gone, says another",
                      cs->ops->name(cs->ctx, c->leader, name));
    nx_creation_orphaned(cs, c, why);
}

static void on_done(nx_creations *cs, uint32_t from, const nx_creation_frame *f)
{
    nx_creation *c = nx_creation_find(cs, &f->key);

    if ((c != NULL) && (c->key.print == f->key.print) && (from == c->leader) &&
        (c->leader != cs->self)) {
        c->id = f->id;
        if (c->lacking) {
            lose_leader(cs, c);
            return;
        }
        c->state = NX_CREATION_MADE;
        cs->ops->changed(cs->ctx, c);
    }
}

static void on_differs(nx_creations *cs, uint32_t from, const nx_creation_frame *f)
{
    nx_creation *c = nx_creation_find(cs, &f->key);

    if ((c != NULL) && (c->key.print == f->key.print) && is_joined(cs, c, from)) {
        nx_creation_over(cs, c, NEXAR_EMISMATCH, f->why);
        nx_creation_answered(cs, &c->key, f->id);
    }
}

static void on_ask(nx_creations *cs, uint32_t from, const nx_creation_frame *f)
{
    nx_creation *c = nx_creation_find(cs, &f->key);

    if (nx_early_is_closed(cs->early, f->key.parent)) {
        nx_creation_tell(cs, from, &f->key, NEXAR_EREVOKED, freed);
    } else if (!nx_creation_refused_list(cs, &f->key, from) && is_rival(c, from, &f->key)) {
        differ(cs, c, from, f);
    }
}

/* The creation of |key| that has not returned yet, in any state; NULL: none. */
static nx_creation *find_any(const nx_creations *cs, const nx_creation_key *key)
{
    nx_list_for_each (at, &cs->running) {
        nx_creation *c = nx_list_entry(at, nx_creation, link);

        if (nx_creation_key_equal(&c->key, key)) {
            return c;
        }
    }
    return NULL;
}

/* The next creation of that list may be running.  A waiting follower still receives what its leader
 * has sent, or detects that the leader is gone: LACK concerns no later call. */
static void on_lack(nx_creations *cs, uint32_t from, const nx_creation_frame *f)
{
    nx_creation *c = find_any(cs, &f->key);

    cs->ops->lacks(cs->ctx, from, &f->key);
    if ((c != NULL) && (c->leader != cs->self)) {
        c->lacking = true;
        if (c->state == NX_CREATION_MADE) {
            lose_leader(cs, c);
        }
    }
}

/* A communicator that is being made here ends by itself. */
static void on_have(nx_creations *cs, const nx_creation_frame *f)
{
    nx_list_for_each (at, &cs->running) {
        const nx_creation *c = nx_list_entry(at, nx_creation, link);

        if ((c->state == NX_CREATION_MADE) && (c->id == f->id)) {
            return;
        }
    }
    cs->ops->have(cs->ctx, f);
}

nexar_err nx_creations_frame(nx_creations *cs, uint32_t from, const void *data, size_t len,
                             uint64_t now_ns)
{
    nx_creation_frame f;
    nexar_err err = nx_creation_decode(data, len, &f);

    if (err != NEXAR_OK) {
        return err;
    }
    switch (f.form) {
    case NX_CREATION_JOIN:
        return on_join(cs, from, &f, now_ns);
    case NX_CREATION_WITHDRAW:
        return on_withdraw(cs, from, &f);
    case NX_CREATION_DONE:
        on_done(cs, from, &f);
        break;
    case NX_CREATION_FAIL:
        on_fail(cs, from, &f);
        break;
    case NX_CREATION_DIFFERS:
        on_differs(cs, from, &f);
        break;
    case NX_CREATION_ASK:
        on_ask(cs, from, &f);
        break;
    case NX_CREATION_LACK:
        on_lack(cs, from, &f);
        break;
    case NX_CREATION_HAVE:
        on_have(cs, &f);
        break;
    case NX_CREATION_FORMS:
        break;
    }
    return NEXAR_OK;
}
