/* memory.c - regions and guards in one arena. */
#include "memory.h"

#include <stdlib.h>
#include <string.h>

#include "sched_plan.h"

enum { GUARD = 0xC5, GUARD_LEN = 16 };

/* Adds a region at the arena's end. The arena is allocated later, which sets the addresses. */
static void add_region(nxt_memory *m, size_t off, size_t len, size_t elem_size, size_t skew)
{
    if (m->nregions == m->room) {
        m->room = (2 * m->room) + 16;
        m->regions = realloc(m->regions, m->room * sizeof(*m->regions));
        m->starts = realloc(m->starts, m->room * sizeof(*m->starts));
        if ((m->regions == NULL) || (m->starts == NULL)) {
            abort();
        }
    }
    m->bytes += GUARD_LEN + skew;
    m->starts[m->nregions] = m->bytes;
    m->regions[m->nregions++] = (nx_region){.off = off, .len = len};
    m->bytes += len * elem_size;
}

static size_t add_space(nxt_memory *m, size_t room, size_t elem_size, size_t cut, nxt_rand *rand)
{
    size_t before = m->nregions;
    size_t off = 0;

    while (off < room) {
        size_t len = (cut == 0) ? room : nxt_below(rand, cut + 1);

        len = (len < room - off) ? len : room - off;
        add_region(m, off, len, elem_size, nxt_below(rand, 8));
        off += len;
    }
    return m->nregions - before;
}

void nxt_memory_init(nxt_memory *m, uint32_t size, size_t elem_size,
                     const size_t (*rooms)[NX_SPACES], size_t cut, nxt_rand *rand)
{
    size_t at = 0;

    *m = (nxt_memory){.size = size, .bindings = nxt_calloc(size, sizeof(nx_binding))};
    for (uint32_t r = 0; r < size; r++) {
        m->bindings[r].elem_size = elem_size;
        for (uint32_t s = 0; s < NX_SPACES; s++) {
            m->bindings[r].areas[s].n = add_space(m, rooms[r][s], elem_size, cut, rand);
        }
    }
    m->bytes += GUARD_LEN;
    m->arena = nxt_calloc(m->bytes, 1);
    memset(m->arena, GUARD, m->bytes);
    for (size_t i = 0; i < m->nregions; i++) {
        m->regions[i].ptr = m->arena + m->starts[i];
    }
    for (uint32_t r = 0; r < size; r++) {
        for (uint32_t s = 0; s < NX_SPACES; s++) {
            m->bindings[r].areas[s].regions = m->regions + at;
            at += m->bindings[r].areas[s].n;
        }
    }
}

void nxt_memory_fini(nxt_memory *m)
{
    free(m->bindings);
    free(m->regions);
    free(m->starts);
    free(m->arena);
    *m = (nxt_memory){0};
}

void nxt_memory_write(nxt_memory *m, uint32_t rank, nx_space space, const char *from)
{
    const nx_area *area = &m->bindings[rank].areas[space];
    size_t elem_size = m->bindings[rank].elem_size;

    for (size_t i = 0; i < area->n; i++) {
        memcpy(area->regions[i].ptr, from + (area->regions[i].off * elem_size),
               area->regions[i].len * elem_size);
    }
}

void nxt_memory_read(const nxt_memory *m, uint32_t rank, nx_space space, char *to)
{
    const nx_area *area = &m->bindings[rank].areas[space];
    size_t elem_size = m->bindings[rank].elem_size;

    for (size_t i = 0; i < area->n; i++) {
        memcpy(to + (area->regions[i].off * elem_size), area->regions[i].ptr,
               area->regions[i].len * elem_size);
    }
}

void nxt_memory_poison(nxt_memory *m, uint32_t rank, nx_space space, unsigned char byte)
{
    const nx_area *area = &m->bindings[rank].areas[space];

    for (size_t i = 0; i < area->n; i++) {
        memset(area->regions[i].ptr, byte, area->regions[i].len * m->bindings[rank].elem_size);
    }
}

bool nxt_memory_guarded(const nxt_memory *m)
{
    const char *at = m->arena;
    size_t elem_size = m->bindings[0].elem_size;

    for (size_t i = 0; i <= m->nregions; i++) {
        const char *end = (i < m->nregions) ? m->regions[i].ptr : m->arena + m->bytes;

        for (; at < end; at++) {
            if ((unsigned char)*at != GUARD) {
                return false;
            }
        }
        at = (i < m->nregions) ? end + (m->regions[i].len * elem_size) : end;
    }
    return true;
}
