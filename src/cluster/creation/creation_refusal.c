/* creation_refusal.c - creations that have failed, for members that call later. */
#include <stdio.h>

#include "base/alloc.h"
#include "cluster/creation/creation_inner.h"

static nx_creation_refusal *find_refusal(const nx_creations *cs, const nx_creation_key *key)
{
    for (const nx_list *at = cs->refusals.next; at != &cs->refusals; at = at->next) {
        nx_creation_refusal *r = nx_list_entry(at, nx_creation_refusal, link);

        if (nx_creation_key_equal(&r->key, key)) {
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

nexar_err nx_creation_refuse(nx_creations *cs, const nx_creation_key *key, nexar_err err,
                             const char *why, const nx_rankset *told, bool own)
{
    nx_creation_refusal *r = find_refusal(cs, key);

    if (r == NULL) {
        const nexar_err made = make(cs, key, (told == NULL) ? cs->self + 1 : told->n, &r);

        if (made != NEXAR_OK) {
            return made;
        }
    }
    r->err = err;
    r->own = own;
    (void)snprintf(r->why, sizeof(r->why), "%s", why);
    for (uint32_t i = 0; (told != NULL) && (i = nx_rankset_next(told, i)) < told->n; i++) {
        set_told(r, i);
    }
    return NEXAR_OK;
}

void nx_creation_answered(nx_creations *cs, const nx_creation_key *key, uint32_t slot)
{
    nx_list_for_each (at, &cs->refusals) {
        nx_creation_refusal *r = nx_list_entry(at, nx_creation_refusal, link);

        if ((r->key.parent == key->parent) && (r->key.tag == key->tag)) {
            set_told(r, slot);
        }
    }
}

bool nx_creation_refused(nx_creations *cs, const nx_creation_key *key, uint32_t from)
{
    nx_creation_refusal *r = find_refusal(cs, key);

    if ((r == NULL) || nx_rankset_has(&r->told, from)) {
        return false;
    }
    nx_creation_answered(cs, key, from);
    nx_creation_tell(cs, from, &r->key, r->err, r->why);
    return true;
}

bool nx_creation_refused_here(nx_creations *cs, const nx_creation_key *key, nexar_err *err,
                              char why[NX_CREATION_WHY])
{
    bool refused = false;

    nx_list_for_each (at, &cs->refusals) {
        nx_creation_refusal *r = nx_list_entry(at, nx_creation_refusal, link);

        if ((r->key.parent != key->parent) || (r->key.tag != key->tag)) {
            continue;
        }
        if (r->own && (r->key.print == key->print)) {
            r->own = false;
            refused = true;
            *err = r->err;
            (void)snprintf(why, NX_CREATION_WHY, "%s", r->why);
        } else {
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
