/* core_count.c - ranks and the cores they may use: a matching. */
#include "core_count.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/os/cpu.h"
#include "core/world/transport_choice.h"

enum { NOBODY = -1 };

typedef struct matching {
    const cpu_set_t *sets;
    int64_t user[CPU_SETSIZE]; /* the rank that has the core; NOBODY */
    bool seen[CPU_SETSIZE];    /* by the search for one rank */
} matching;

/* A core for |rank|: a free one, or one whose user finds another.  Not deeper than there
 * are cores, since each is looked at once. */
static bool find_core(matching *m, int64_t rank) // NOLINT(misc-no-recursion)
{
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (!CPU_ISSET(core, &m->sets[rank]) || m->seen[core]) {
            continue;
        }
        m->seen[core] = true;
        if ((m->user[core] == NOBODY) || find_core(m, m->user[core])) {
            m->user[core] = rank;
            return true;
        }
    }
    return false;
}

bool nx_core_count_suffice(const cpu_set_t *sets, uint32_t n)
{
    matching *m = (n <= CPU_SETSIZE) ? nx_zalloc(sizeof(*m)) : NULL;
    bool found = (m != NULL);

    for (size_t core = 0; found && (core < CPU_SETSIZE); core++) {
        m->user[core] = NOBODY;
    }
    for (uint32_t rank = 0; found && (rank < n); rank++) {
        m->sets = sets;
        for (size_t core = 0; core < CPU_SETSIZE; core++) {
            m->seen[core] = false;
        }
        found = find_core(m, rank);
    }
    nx_free(m);
    return found;
}

bool nx_core_count_for_all(const nx_world *world)
{
    const uint32_t n = nx_links_neighbours(world);
    const uint32_t size = (world->view == NULL) ? 0 : world->view->size;
    cpu_set_t *sets = nx_calloc(n, sizeof(*sets)), own;
    uint32_t at = 0;
    bool enough = (sets != NULL) && (sched_getaffinity(0, sizeof(own), &own) == 0);

    if (enough && (world->view == NULL)) {
        sets[at++] = own;
    }
    for (uint32_t rank = 0; enough && (at < n) && (rank < size); rank++) {
        const nx_member *m = &world->view->members[rank];

        if (nx_links_same_host(world, m)) {
            sets[at] = own;
            if (m->slot != world->self) {
                (void)sched_getaffinity((pid_t)m->process.pid, sizeof(sets[at]), &sets[at]);
            }
            at++;
        }
    }
    enough = enough && nx_core_count_suffice(sets, n);
    nx_free(sets);
    return enough;
}

/* ---- departure -------------------------------------------------------------------- */

typedef struct crowd {
    uint16_t ranks[CPU_SETSIZE]; /* that run there, or would like to */
} crowd;

static unsigned ranks_at(const void *ctx, uint32_t core)
{
    return (core < CPU_SETSIZE) ? ((const crowd *)ctx)->ranks[core] : 0;
}

bool nx_core_count_part(void *of)
{
    const nx_world *world = of;
    const uint32_t here = nx_cpu_here(), size = (world->view == NULL) ? 0 : world->view->size;
    crowd c = {{0}};
    uint32_t to, core;

    for (uint32_t rank = 0; rank < size; rank++) {
        const nx_member *m = &world->view->members[rank];

        /* Of ranks that are threads of one process nothing is known. */
        if ((m->process.pid != (uint32_t)getpid()) && nx_links_same_host(world, m) &&
            nx_cpu_of((long)m->process.pid, &core) && (core < CPU_SETSIZE)) {
            c.ranks[core]++;
        }
    }
    to = nx_cpu_least(here, ranks_at, &c);
    /* And this one besides. */
    return (to != here) && (ranks_at(&c, here) > ranks_at(&c, to)) && nx_cpu_go(to);
}
