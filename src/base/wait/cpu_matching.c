/* cpu_matching.c - bipartite matching by augmenting paths, and migration to the least load. */
#include "base/wait/cpu_matching.h"

#include "base/alloc.h"
#include "base/wait/cpu.h"

enum { NOBODY = -1 };

typedef struct matching {
    const cpu_set_t *sets;
    int64_t user[CPU_SETSIZE]; /* the rank that has the core; NOBODY: free */
    bool seen[CPU_SETSIZE];    /* visited by the search for one rank */
} matching;

/* Finds a core for |rank|: a free core, or a core whose rank finds another one. The depth is at
 * most the number of cores, since each core is visited once. */
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

bool nx_cpu_matching_exists(const cpu_set_t *sets, uint32_t n)
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

void nx_cpu_load_add(nx_cpu_load *load, long pid)
{
    uint32_t core;

    if (nx_cpu_of(pid, &core) && (core < CPU_SETSIZE)) {
        load->ranks[core]++;
    }
}

static unsigned ranks_at(const void *ctx, uint32_t core)
{
    return (core < CPU_SETSIZE) ? ((const nx_cpu_load *)ctx)->ranks[core] : 0;
}

bool nx_cpu_rebalance(const nx_cpu_load *load)
{
    const uint32_t here = nx_cpu_current();
    const uint32_t to = nx_cpu_least_loaded(here, ranks_at, load);

    return (to != here) && (ranks_at(load, here) > ranks_at(load, to)) && nx_cpu_migrate(to);
}
