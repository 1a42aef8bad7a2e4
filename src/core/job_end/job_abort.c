/* job_abort.c - ends the job, and this process when another rank ends the job. */
#include "core/job_end/job_abort.h"

#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/cancellation.h"
#include "base/os/sys.h"
#include "base/text/sentence.h"
#include "core/comm/comm.h"
#include "core/failure/failure.h"
#include "core/job_end/job_abort_frame.h"
#include "core/world/fork_guard.h"
#include "core/world/transport_choice.h"
#include "msg/control.h"

/* How long nexar_abort() waits for the lock of the world. */
#define LOCK_NS UINT64_C(200000000)

static atomic_bool ends;

bool nx_process_ends(void)
{
    return atomic_load_explicit(&ends, memory_order_relaxed);
}

static void on_ending(nx_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    _exit(nx_list_entry(timer, nx_ending, timer)->code);
}

void nx_ending_begin(nx_world *world, int code, uint64_t after_ns)
{
    nx_ending *e = &world->ending;

    if (e->code != 0) {
        return;
    }
    *e = (nx_ending){.code = code, .timer = {.on_expire = on_ending}};
    atomic_store(&ends, true);
    if (nx_loop_timer_set(world->loop, &e->timer, nx_loop_refresh(world->loop) + after_ns) !=
        NEXAR_OK) {
        _exit(code);
    }
}

/* ---- notification -------------------------------------------------------------------- */

/* An unreachable peer has failed or left. */
static void tell(nx_world *world, uint32_t slot, const nx_writer *frame)
{
    if (slot != world->self) {
        (void)!nx_msg_send_control(world->msg, slot, frame->data, frame->len);
    }
}

static void tell_linked(nx_world *world, const nx_writer *frame)
{
    for (uint32_t slot = 0; slot < world->slots; slot++) {
        if ((slot != world->self) && (nx_msg_link(world->msg, slot) != NULL)) {
            tell(world, slot, frame);
        }
    }
}

/* The first live rank at |distance| after this one, or further. */
static uint32_t living_after(const nx_world *world, uint32_t distance)
{
    const nx_view *view = world->view;
    const uint32_t self = nx_world_rank(world, world->self);

    for (uint32_t d = distance; d < view->size; d++) {
        const uint32_t slot = view->members[(self + d) % view->size].slot;
        if (nx_failure_life(world, slot) != NX_LIFE_FAILED) {
            return slot;
        }
    }
    return world->self;
}

static void tell_following(nx_world *world, const nx_writer *frame)
{
    for (uint32_t d = 1; (world->view != NULL) && (d < world->view->size); d *= 2) {
        tell(world, living_after(world, d), frame);
    }
}

/* Continues stopped processes of this host: a stopped process cannot handle the notification. */
static void continue_stopped(const nx_world *world)
{
    for (uint32_t i = 0; (world->view != NULL) && (i < world->view->size); i++) {
        const nx_member *m = &world->view->members[i];
        int fd = -1;

        if ((m->slot != world->self) && nx_links_same_host(world, m)) {
            fd = nx_process_open(&m->process);
        }
        if (fd >= 0) {
            (void)nx_sys_pidfd_send_signal(fd, SIGCONT);
            (void)nx_sys_close(fd);
        }
    }
}

/* The process exits with the code in |a|, and the other ranks are notified; with the lock. */
static void end_job(nx_world *world, const nx_job_abort *a, bool first)
{
    uint8_t bytes[NX_JOB_ABORT_FRAME_MAX];
    nx_writer frame = nx_writer_make(bytes, sizeof(bytes));

    nx_ending_begin(world, a->code, NX_ENDING_NS);
    nx_job_abort_encode(&frame, a);
    if (first) {
        tell_linked(world, &frame);
    }
    tell_following(world, &frame);
    continue_stopped(world);
}

bool nx_job_abort_on_control(nx_world *world, uint32_t peer, const void *data, size_t len)
{
    nx_reader r = nx_reader_make(data, len);
    char text[NX_PEER_TEXT];
    nx_job_abort a;

    if (*(const uint8_t *)data != NX_CONTROL_END_JOB) {
        return false;
    }
    if ((nx_job_abort_decode(&r, &a) != NEXAR_OK) || (a.slot >= world->slots)) {
        nx_log(NX_LOG_WARN, "peer %" PRIu32 " sent a malformed frame that ends the job", peer);
    } else if (world->ending.code == 0) {
        nx_log_always("rank %" PRIu32 " ends with code %u: %s called nexar_abort%s%s",
                      nx_world_rank(world, world->self), a.code,
                      nx_world_peer_text(world, a.slot, text), (a.why[0] == '\0') ? "" : ": ",
                      a.why);
        end_job(world, &a, false);
    }
    return true;
}

/* ---- public -------------------------------------------------------------------------- */

/* Does not return: the timer ends the process. */
_Noreturn static void wait_for_exit(nx_world *world)
{
    nx_event never = {0};

    (void)nx_loop_wait(world->loop, &never, nx_loop_refresh(world->loop) + 2 * NX_ENDING_NS);
    _exit(world->ending.code);
}

void nexar_abort(nexar_comm *world, int code, const char *why)
{
    NX_NOT_CANCELLED;
    nx_world *w = ((world != NULL) && (world->world->forks == nx_forks)) ? world->world : NULL;
    nx_job_abort a = {
        .code = ((code >= 1) && (code <= NX_JOB_ABORT_CODE_MAX)) ? (uint8_t)code : 1,
        .slot = (w == NULL) ? 0 : w->self,
    };

    (void)nx_sentence(a.why, sizeof(a.why), "%s", (why == NULL) ? "" : why);
    if (w == NULL) {
        nx_log_always("nexar_abort ends this process with code %u%s%s", a.code,
                      (a.why[0] == '\0') ? "" : ": ", a.why);
        _exit(a.code);
    }
    if (!nx_loop_lock_within(w->loop, LOCK_NS)) {
        nx_log_always("slot %" PRIu32 " called nexar_abort, code %u, and cannot tell the others: "
                      "a function of the application keeps nexar busy%s%s",
                      w->self, a.code, (a.why[0] == '\0') ? "" : ": ", a.why);
        _exit(a.code);
    }
    if (w->ending.code == 0) {
        nx_log_always("rank %" PRIu32 " called nexar_abort, the job ends with code %u%s%s",
                      nx_world_rank(w, w->self), a.code, (a.why[0] == '\0') ? "" : ": ", a.why);
        end_job(w, &a, true);
    }
    wait_for_exit(w);
}
