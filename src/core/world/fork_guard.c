/* fork_guard.c - the owner of a world. */
#include "fork_guard.h"

#include <pthread.h>

unsigned nx_forks; /* written in a child, which has a single thread so far */

static void on_child(void)
{
    nx_forks++;
}

static void watch(void)
{
    /* Without memory for the handler forks go undetected, as without this check. */
    (void)pthread_atfork(NULL, NULL, on_child);
}

void nx_fork_guard_watch(nx_world *world)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    (void)pthread_once(&once, watch);
    world->forks = nx_forks;
}

nexar_err nx_fork_guard_fail(const char *name)
{
    return nx_fail(NEXAR_EINVAL,
                   "%s: this process was forked from the rank; only the rank itself may use its "
                   "world and what was made from it",
                   name);
}
