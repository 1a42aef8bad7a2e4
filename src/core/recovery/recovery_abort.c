/* recovery_abort.c - recovery=abort: the process exits when a rank has failed. */
#include "base/log.h"
#include "core/job_end/job_abort.h"
#include "core/report/pending.h"
#include "recovery.h"

/* The exit is delayed by this time, so that the other ranks learn of the first failure before they
 * lose this rank too. */
#define ABORT_NS UINT64_C(10000000)

void nx_recovery_abort(nx_world *world, const char *sentence)
{
    char what[NX_WHAT_TEXT] = "no call";
    nx_pending p;

    if ((nx_config_choice(world->config, NX_SET_RECOVERY) != NX_RECOVERY_ABORT) || world->closing ||
        (world->ending.code != 0)) {
        return;
    }
    nx_ending_begin(world, NX_ABORT_CODE, ABORT_NS);
    if (nx_pending_oldest(world, 0, &p)) {
        (void)nx_what_text(&p.what, what);
    }
    /* As a log line, which waits for no reader: the process must exit. */
    nx_log_always("rank %u ends with code %d, since %s; it was in %s (recovery=abort)",
                  nx_world_rank(world, world->self), NX_ABORT_CODE, sentence, what);
}
