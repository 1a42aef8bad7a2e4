/* map.c - linear probing. A removal moves the following entries back, so the table has no
 * tombstones and searches do not slow down over time. */
#include "map.h"

#include "base/alloc.h"

enum { FIRST_ROOM = 16 };

/* The home slot of |key|. Ids count upwards; the multiplication (Fibonacci hashing) spreads
 * them, its upper bits best. */
static size_t home(const nx_map *m, uint64_t key)
{
    return (size_t)((key * UINT64_C(0x9e3779b97f4a7c15)) >> 32) & (m->room - 1);
}

/* The slot that holds |key|, or the free slot where an insertion would store it. The table is
 * never full. */
static nx_map_slot *probe(const nx_map *m, uint64_t key)
{
    size_t i = home(m, key);

    while ((m->slots[i].value != NULL) && (m->slots[i].key != key)) {
        i = (i + 1) & (m->room - 1);
    }
    return &m->slots[i];
}

static bool grow(nx_map *m)
{
    nx_map larger = {.n = m->n, .room = (m->room == 0) ? FIRST_ROOM : 2 * m->room};

    larger.slots = nx_calloc(larger.room, sizeof(*larger.slots));
    if (larger.slots == NULL) {
        return false;
    }
    for (size_t i = 0; i < m->room; i++) {
        if (m->slots[i].value != NULL) {
            *probe(&larger, m->slots[i].key) = m->slots[i];
        }
    }
    nx_free(m->slots);
    *m = larger;
    return true;
}

void nx_map_fini(nx_map *m)
{
    nx_free(m->slots);
    *m = (nx_map){0};
}

nexar_err nx_map_put(nx_map *m, uint64_t key, void *value)
{
    nx_map_slot *slot = (m->room == 0) ? NULL : probe(m, key);

    if ((slot != NULL) && (slot->value != NULL)) {
        slot->value = value;
        return NEXAR_OK;
    }
    if ((slot == NULL) || (m->n + 1 > m->room / 4 * 3)) {
        if (!grow(m)) {
            return nx_fail_nomem("a map");
        }
        slot = probe(m, key);
    }
    *slot = (nx_map_slot){.key = key, .value = value};
    m->n++;
    return NEXAR_OK;
}

void *nx_map_get(const nx_map *m, uint64_t key)
{
    return (m->room == 0) ? NULL : probe(m, key)->value;
}

void *nx_map_take(nx_map *m, uint64_t key)
{
    nx_map_slot *slot = (m->room == 0) ? NULL : probe(m, key);
    void *value = (slot == NULL) ? NULL : slot->value;
    size_t hole, mask = m->room - 1;

    if (value == NULL) {
        return NULL;
    }
    hole = (size_t)(slot - m->slots);
    for (size_t i = (hole + 1) & mask; m->slots[i].value != NULL; i = (i + 1) & mask) {
        /* An entry may move into the hole unless its home slot lies behind the hole. */
        if (((i - home(m, m->slots[i].key)) & mask) >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole].value = NULL;
    m->n--;
    return value;
}

void *nx_map_next(const nx_map *m, size_t *at)
{
    while (*at < m->room) {
        void *value = m->slots[(*at)++].value;

        if (value != NULL) {
            return value;
        }
    }
    return NULL;
}
