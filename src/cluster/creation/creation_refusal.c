/* creation_refusal.c - creations that have failed, for members that call later. */
#include <stdio.h>

#include "base/alloc.h"
#include "cluster/creation/creation_inner.h"

/* The oldest refusal of |key| that |slot| was not notified of; NULL: none.  A list may have failed
 * several times. */
static nx_creation_refusal *find_refusal(const nx_creations *cs, const nx_creation_key *key,
                                         uint32_t slot)
{
    nx_list_for_each (at, &cs->refusals) {
        nx_creation_refusal *r = nx_list_entry(at, nx_creation_refusal, link);

        if (nx_creation_key_equal(&r->key, key) && !nx_rankset_has(&r->told, slot)) {
            return r;
        }
    }
    return NULL;
}

static void forget(nx_creations *cs, nx_creation_refusal *r)
{
    nx_list_remove(&r->link);
    nx_rankset_fini(&r->told);
    nx_free(r);
    cs->nrefusals--;
}

static nexar_err make(nx_creations *cs, const nx_creation_key *key, uint32_t slots,
                      nx_creation_refusal **out)
{
    nx_creation_refusal *r = nx_zalloc(sizeof(*r));

    if ((r == NULL) || (nx_rankset_init(&r->told, slots) != NEXAR_OK)) {
        nx_free(r);
        return nx_fail_nomem("a creation that has failed");
    }
    r->key = *key;
    nx_list_push_back(&cs->refusals, &r->link);
    if (++cs->nrefusals > NX_CREATION_REFUSALS) {
        forget(cs, nx_list_entry(cs->refusals.next, nx_creation_refusal, link));
    }
    *out = r;
    return NEXAR_OK;
}

static void set_told(nx_creation_refusal *r, uint32_t slot)
{
    if ((slot < r->told.n) || (nx_rankset_grow(&r->told, slot + 1) == NEXAR_OK)) {
        (void)nx_rankset_add(&r->told, slot);
    }
}

/* Drops a refusal that all members know. */
static void end_refusal(nx_creations *cs, nx_creation_refusal *r)
{
    if ((r->n != 0) && (r->told.count >= r->n)) {
        forget(cs, r);
    }
}

nexar_err nx_creation_refuse(nx_creations *cs, const nx_creation_key *key, nexar_err err,
                             const char *why, const nx_rankset *told, uint32_t n, bool own)
{
    nx_creation_refusal *r = NULL;
    const nexar_err made = make(cs, key, (told == NULL) ? cs->self + 1 : told->n, &r);

    if ((made != NEXAR_OK) || (r == NULL)) {
        return made;
    }
    r->err = err;
    r->own = own;
    r->n = n;
    (void)snprintf(r->why, sizeof(r->why), "%s", why);
    for (uint32_t i = 0; (told != NULL) && (i = nx_rankset_next(told, i)) < told->n; i++) {
        set_told(r, i);
    }
    end_refusal(cs, r);
    return NEXAR_OK;
}

static bool same_calls(const nx_creation_refusal *r, const nx_creation_key *key)
{
    return (r->key.parent == key->parent) && (r->key.tag == key->tag);
}

void nx_creation_answered(nx_creations *cs, const nx_creation_key *key, uint32_t slot)
{
    nx_list_for_each (at, &cs->refusals) {
        nx_creation_refusal *r = nx_list_entry(at, nx_creation_refusal, link);

        if (same_calls(r, key) && (r->err == NEXAR_EMISMATCH)) {
            set_told(r, slot);
            end_refusal(cs, r);
        }
    }
}

bool nx_creation_refused(nx_creations *cs, const nx_creation_key *key, uint32_t from)
{
    nx_creation_refusal *r = find_refusal(cs, key, from);

    if (r == NULL) {
        return false;
    }
    set_told(r, from);
    nx_creation_tell(cs, from, &r->key, r->err, r->why);
    if (r->err == NEXAR_EMISMATCH) {
        nx_creation_answered(cs, key, from);
    } else {
        end_refusal(cs, r);
    }
    return true;
}

bool nx_creation_refused_list(nx_creations *cs, const nx_creation_key *key, uint32_t from)
{
    const nx_creation_refusal *r = find_refusal(cs, key, from);

    return (r != NULL) && (r->err == NEXAR_EMISMATCH) && nx_creation_refused(cs, key, from);
}

bool nx_creation_refused_here(nx_creations *cs, const nx_creation_key *key, nexar_err *err,
                              char why[NX_CREATION_WHY])
{
    bool refused = false;

    nx_list_for_each (at, &cs->refusals) {
        nx_creation_refusal *r = nx_list_entry(at, nx_creation_refusal, link);

        if (!refused && r->own && nx_creation_key_equal(&r->key, key)) {
            r->own = false;
            refused = true;
            *err = r->err;
            (void)snprintf(why, NX_CREATION_WHY, "%s", r->why);
            set_told(r, cs->self);
            end_refusal(cs, r);
        } else if (same_calls(r, key) && (r->err == NEXAR_EMISMATCH)) {
            forget(cs, r);
        }
    }
    return refused;
}

void nx_creation_refusals_free(nx_creations *cs)
{
    while (!nx_list_empty(&cs->refusals)) {
        forget(cs, nx_list_entry(cs->refusals.next, nx_creation_refusal, link));
    }
}
