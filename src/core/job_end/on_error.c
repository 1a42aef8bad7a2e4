/* on_error.c - the setting on_error, and the calls of a process that is about to end. */
#include "core/job_end/on_error.h"

#include <stdatomic.h>

#include "base/os/sys.h"
#include "core/job_end/job_abort.h"

static atomic_bool aborts;
static _Atomic(nexar_comm *) last; /* the world that was made last; NULL: it has ended */

void nx_on_error_set(bool abort)
{
    atomic_store(&aborts, abort);
}

void nx_on_error_open(nexar_comm *world)
{
    atomic_store(&last, world);
}

void nx_on_error_close(const nexar_comm *world)
{
    nexar_comm *expected = atomic_load(&last);

    if (expected == world) {
        (void)atomic_compare_exchange_strong(&last, &expected, NULL);
    }
}

static bool is_fatal(nexar_err err)
{
    const nexar_scope scope = nexar_err_scope(err);

    return (err == NEXAR_EINVAL) || (scope == NEXAR_SCOPE_COMM) || (scope == NEXAR_SCOPE_LIB);
}

nexar_err nx_on_error(nexar_err err)
{
    while (nx_process_ends()) {
        nx_sys_nap(UINT64_C(100000000));
    }
    if (atomic_load_explicit(&aborts, memory_order_relaxed) && is_fatal(err)) {
        nexar_abort(atomic_load(&last), NX_ON_ERROR_CODE, nexar_last_error());
    }
    return err;
}
