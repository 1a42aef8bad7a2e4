/* core_count.c - the ranks of this host, and the cores that they may use. */
#include "core_count.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/wait/cpu_matching.h"
#include "core/world/transport_choice.h"

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
    enough = enough && nx_cpu_matching_exists(sets, n);
    nx_free(sets);
    return enough;
}

bool nx_core_count_rebalance(void *of)
{
    const nx_world *world = of;
    const uint32_t size = (world->view == NULL) ? 0 : world->view->size;
    nx_cpu_load load = {{0}};

    for (uint32_t rank = 0; rank < size; rank++) {
        const nx_member *m = &world->view->members[rank];

        /* If ranks are threads of one process, their cores are unknown. */
        if ((m->process.pid != (uint32_t)getpid()) && nx_links_same_host(world, m)) {
            nx_cpu_load_add(&load, (long)m->process.pid);
        }
    }
    return nx_cpu_rebalance(&load);
}
