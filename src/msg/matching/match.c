/* match.c - queues of equal keys, hashed; a sequence number decides between forms. */
#include "match.h"

#include "base/alloc.h"

/* ---- keys ---------------------------------------------------------------------------- */

unsigned nx_key_form(const nx_key *key)
{
    return ((key->peer == NX_ANY_PEER) ? NX_OPEN_PEER : 0U) |
           ((key->tag == NX_ANY_TAG) ? NX_OPEN_TAG : 0U);
}

/* Whether |a| and |b| are equal in the fields that |form| compares. */
static inline bool equal(const nx_key *a, const nx_key *b, unsigned form)
{
    return (a->context == b->context) && ((form & NX_OPEN_TAG) || (a->tag == b->tag)) &&
           ((form & NX_OPEN_PEER) || (a->peer == b->peer));
}

bool nx_key_fits(const nx_key *want, const nx_key *have)
{
    return equal(want, have, nx_key_form(want));
}

/* Two rounds of multiply and fold, so that consecutive tags and contexts that differ in one bit
 * spread equally. The odd constants are those of splitmix64. */
static inline size_t hash(const nx_key *key, unsigned form, uint64_t seed)
{
    uint64_t h = key->context ^ seed;

    if (!(form & NX_OPEN_PEER)) {
        h += (uint64_t)key->peer << 42;
    }
    h = (h ^ (h >> 31)) * UINT64_C(0xbf58476d1ce4e5b9);
    if (!(form & NX_OPEN_TAG)) {
        h = (h ^ (h >> 29)) + key->tag;
    }
    h = (h ^ (h >> 30)) * UINT64_C(0x94d049bb133111eb);
    return (size_t)(h ^ (h >> 32));
}

/* ---- one table ----------------------------------------------------------------------- */

static void table_init(nx_match_table *t, unsigned form, size_t offset)
{
    *t = (nx_match_table){.nchains = NX_TABLE_FIRST, .form = form, .offset = offset};
    t->chains = t->first;
}

/* Items begin with their key. */
static inline const nx_key *slot_key(const nx_match_table *t, const nx_match_slot *slot)
{
    return (const nx_key *)(const void *)((const char *)slot - t->offset);
}

static inline nx_match_slot **chain_of(const nx_match_table *t, const nx_key *key, uint64_t seed)
{
    return &t->chains[hash(key, t->form, seed) & (t->nchains - 1)];
}

static inline void chain_in(nx_match_slot **chain, nx_match_slot *slot)
{
    slot->next = *chain;
    slot->at = chain;
    if (*chain != NULL) {
        (*chain)->at = &slot->next;
    }
    *chain = slot;
}

static inline void chain_out(nx_match_slot *slot)
{
    *slot->at = slot->next;
    if (slot->next != NULL) {
        slot->next->at = slot->at;
    }
    slot->at = NULL;
}

/* The oldest with |key|; NULL: none. */
static inline nx_match_slot *table_find(const nx_match_table *t, const nx_key *key, uint64_t seed)
{
    nx_match_slot *slot;

    if (t->keys == 0) {
        return NULL;
    }
    slot = *chain_of(t, key, seed);
    while ((slot != NULL) && !equal(slot_key(t, slot), key, t->form)) {
        slot = slot->next;
    }
    return slot;
}

static void table_grow(nx_match_table *t, uint64_t seed)
{
    nx_match_table larger = *t;

    larger.nchains = 4 * t->nchains;
    larger.chains = nx_calloc(larger.nchains, sizeof(nx_match_slot *));
    if (larger.chains == NULL) {
        return; /* longer chains do the same work */
    }
    for (size_t i = 0; i < t->nchains; i++) {
        while (t->chains[i] != NULL) {
            nx_match_slot *slot = t->chains[i];

            chain_out(slot);
            chain_in(chain_of(&larger, slot_key(t, slot), seed), slot);
        }
    }
    if (t->chains != t->first) {
        nx_free(t->chains);
    }
    t->chains = larger.chains;
    t->nchains = larger.nchains;
}

static void table_add(nx_match_table *t, nx_match_slot *slot, uint64_t seed)
{
    const nx_key *key = slot_key(t, slot);
    nx_match_slot *oldest = table_find(t, key, seed);

    slot->at = NULL;
    nx_list_init(&slot->same);
    if (oldest != NULL) {
        nx_list_push_back(&oldest->same, &slot->same); /* before the oldest, that is at the end of
                                                          the ring */
        return;
    }
    if (t->keys >= 2 * t->nchains) {
        table_grow(t, seed);
    }
    chain_in(chain_of(t, key, seed), slot);
    t->keys++;
}

static void table_remove(nx_match_table *t, nx_match_slot *slot)
{
    nx_match_slot *heir = nx_list_entry(slot->same.next, nx_match_slot, same);

    if (slot->at == NULL) { /* a follower */
        nx_list_remove(&slot->same);
        return;
    }
    if (heir == slot) {
        chain_out(slot);
        t->keys--;
        return;
    }
    nx_list_remove(&slot->same);
    heir->at = slot->at;
    heir->next = slot->next;
    *heir->at = heir;
    if (heir->next != NULL) {
        heir->next->at = &heir->next;
    }
    slot->at = NULL;
}

/* ---- the two sets -------------------------------------------------------------------- */

void nx_match_init(nx_match *m, uint64_t seed)
{
    *m = (nx_match){.seed = seed, .indexed = 1U << 0};
    nx_list_init(&m->held);
    for (unsigned form = 0; form < NX_FORMS; form++) {
        table_init(&m->posted[form], form, offsetof(nx_posted, slot));
        table_init(&m->held_by[form], form,
                   offsetof(nx_held, slots[0]) + form * sizeof(nx_match_slot));
    }
}

void nx_match_fini(nx_match *m)
{
    for (unsigned form = 0; form < NX_FORMS; form++) {
        if (m->posted[form].chains != m->posted[form].first) {
            nx_free(m->posted[form].chains);
        }
        if (m->held_by[form].chains != m->held_by[form].first) {
            nx_free(m->held_by[form].chains);
        }
    }
}

void nx_match_post(nx_match *m, nx_posted *r)
{
    r->seq = ++m->seq;
    table_add(&m->posted[nx_key_form(&r->key)], &r->slot, m->seed);
    m->nposted++;
}

void nx_match_unpost(nx_match *m, nx_posted *r)
{
    table_remove(&m->posted[nx_key_form(&r->key)], &r->slot);
    m->nposted--;
}

nx_posted *nx_match_arrive(const nx_match *m, const nx_key *key)
{
    nx_posted *best = NULL;

    for (unsigned form = 0; form < NX_FORMS; form++) {
        nx_match_slot *slot = table_find(&m->posted[form], key, m->seed);
        nx_posted *r = (slot == NULL) ? NULL : nx_list_entry(slot, nx_posted, slot);

        if ((r != NULL) && ((best == NULL) || (r->seq < best->seq))) {
            best = r;
        }
    }
    return best;
}

void nx_match_hold(nx_match *m, nx_held *h)
{
    for (unsigned form = 0; form < NX_FORMS; form++) {
        if (m->indexed & (1U << form)) {
            table_add(&m->held_by[form], &h->slots[form], m->seed);
        }
    }
    nx_list_push_back(&m->held, &h->order);
    m->nheld++;
}

void nx_match_drop(nx_match *m, nx_held *h)
{
    for (unsigned form = 0; form < NX_FORMS; form++) {
        if (m->indexed & (1U << form)) {
            table_remove(&m->held_by[form], &h->slots[form]);
        }
    }
    nx_list_remove(&h->order);
    m->nheld--;
}

nx_held *nx_match_find(nx_match *m, const nx_key *key)
{
    unsigned form = nx_key_form(key);
    nx_match_table *t = &m->held_by[form];
    nx_match_slot *slot;

    if (!(m->indexed & (1U << form))) {
        nx_list_for_each (at, &m->held) {
            table_add(t, &nx_list_entry(at, nx_held, order)->slots[form], m->seed);
        }
        m->indexed |= 1U << form;
    }
    slot = table_find(t, key, m->seed);
    return (slot == NULL) ? NULL : nx_list_entry(slot - form, nx_held, slots[0]);
}
