/* diagnosis.c - reports and answers of one world, with its loop and its links. */
#include "core/report/diagnosis.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/sys.h"
#include "coll/run/run.h"
#include "core/comm/comm.h"
#include "core/failure/failure.h"
#include "core/report/pending.h"
#include "core/report/report_signal.h"
#include "msg/control.h"

struct nx_diagnosis {
    nx_world *world;
    nx_stall *stall;
    nx_fd wish; /* an eventfd that the handler of |signal| writes; -1: none */
    int signal;
    unsigned seen; /* the signal's count when |wish| was last read */
};

/* ---- for the stall report ------------------------------------------------------------ */

static nexar_err send_frame(void *ctx, uint32_t peer, const void *data, size_t len)
{
    const nx_world *world = ctx;
    const uint32_t slot = nx_world_slot(world, peer);
    nexar_err err = nx_msg_send_control(world->msg, slot, data, len);

    if ((err != NEXAR_OK) && (nx_failure_life(world, slot) == NX_LIFE_FAILED)) {
        err = nx_fail(err, "%s", nx_failure_why(world, slot));
    }
    return err;
}

static const char *fate(void *ctx, uint32_t rank)
{
    const nx_world *world = ctx;
    const uint32_t slot = nx_world_slot(world, rank);

    const nx_life life = nx_failure_life(world, slot);

    return (life == NX_LIFE_FAILED) ? "has failed"
           : (life == NX_LIFE_LEFT) ? "called nexar_finalize"
                                    : "is gone";
}

static void print(void *ctx, nx_stall_voice voice, const char *line)
{
    const nx_world *world = ctx;

    if (voice == NX_STALL_DEMAND) {
        nx_log_always("report of rank %" PRIu32 ": %s", nx_world_rank(world, world->self), line);
    } else {
        nx_log((voice == NX_STALL_WARN) ? NX_LOG_WARN : NX_LOG_INFO,
               "stall seen by rank %" PRIu32 ": %s", nx_world_rank(world, world->self), line);
    }
}

/* ---- events -------------------------------------------------------------------------- */

void nx_diagnosis_on_end(void *ctx, nx_run *run)
{
    nx_world *world = ctx;
    const nx_what what = {.comm = run->group->comm, .number = run->number, .mark = run->mark};

    nx_oplog_ended(&world->log, &what, run->begun_ns, nx_loop_now(world->loop), run->err);
}

static void answer(nx_world *world, uint32_t peer, const nx_ask *ask)
{
    uint8_t frame[NX_DOING_ROOM];
    nx_doing doing;

    nx_pending_tell(world, ask, &doing);
    /* An unreachable rank asks no more. */
    (void)!nx_msg_send_control(world->msg, peer, frame, nx_doing_encode(&doing, frame));
}

bool nx_diagnosis_on_control(nx_world *world, uint32_t peer, const void *data, size_t len)
{
    const uint8_t kind = *(const uint8_t *)data;
    nx_doing doing;
    bool good;
    nx_ask ask;

    if (kind == NX_CONTROL_ASK) {
        good = nx_ask_decode(data, len, &ask);
        if (good) {
            answer(world, peer, &ask);
        }
    } else if (kind == NX_CONTROL_TELL) {
        good = nx_doing_decode(data, len, &doing);
        if (good && (world->diagnosis != NULL)) {
            nx_stall_on_answer(world->diagnosis->stall, nx_world_rank(world, peer), &doing);
        }
    } else {
        return false;
    }
    if (!good) {
        nx_log(NX_LOG_WARN, "peer %" PRIu32 " sent a report that makes no sense", peer);
    }
    return true;
}

void nx_diagnosis_on_down(nx_world *world, uint32_t peer, const char *why)
{
    if (world->diagnosis != NULL) {
        nx_stall_on_down(world->diagnosis->stall, nx_world_rank(world, peer), why);
    }
}

static bool take_wish(nx_diagnosis *d)
{
    const unsigned seen = nx_report_signal_count(d->signal);

    if (!nx_sys_event_clear(d->wish.fd)) {
        return false;
    }
    d->seen = seen;
    nx_report_print(d->world);
    (void)nx_stall_demand(d->stall);
    return true;
}

static void on_wish(nx_fd *self, uint32_t events)
{
    (void)events;
    (void)take_wish(nx_list_entry(self, nx_diagnosis, wish));
}

/* Polls that find nothing must not cost a system call each. */
static bool on_wish_spin(nx_fd *self)
{
    nx_diagnosis *d = nx_list_entry(self, nx_diagnosis, wish);

    return (nx_report_signal_count(d->signal) != d->seen) && take_wish(d);
}

/* ---- life ---------------------------------------------------------------------------- */

static nexar_err open_wish(nx_diagnosis *d)
{
    const size_t choice = nx_config_choice(d->world->config, NX_SET_REPORT_SIGNAL);
    nexar_err err;

    if (choice == NX_REPORT_NONE) {
        return NEXAR_OK;
    }
    d->signal = (choice == NX_REPORT_USR1) ? SIGUSR1 : SIGUSR2;
    d->seen = nx_report_signal_count(d->signal);
    d->wish.fd = nx_sys_eventfd(0);
    if (d->wish.fd < 0) {
        return nx_fail_sys("eventfd", "", errno);
    }
    err = nx_loop_fd_add(d->world->loop, &d->wish, EPOLLIN);
    if (err == NEXAR_OK) {
        nx_report_signal_add(d->signal, d->wish.fd);
    }
    return err;
}

nexar_err nx_diagnosis_start(nx_world *world)
{
    const nx_stall_config config = {
        .loop = world->loop,
        .self = world->comm->inc->rank,
        .size = world->comm->inc->size,
        .after_ns = nx_config_number(world->config, NX_SET_STALL_REPORT),
        .oldest = nx_pending_oldest,
        .whom = nx_pending_whom,
        .here = nx_pending_here,
        .note = nx_pending_note,
        .served = nx_pending_served,
        .fate = fate,
        .send = send_frame,
        .print = print,
        .ctx = world,
    };
    nx_diagnosis *d = nx_zalloc(sizeof(*d));
    nexar_err err;

    if (d == NULL) {
        return nx_fail_nomem("the diagnosis");
    }
    d->world = world;
    d->wish = (nx_fd){.fd = -1, .on_ready = on_wish, .on_spin = on_wish_spin};
    err = nx_stall_create(&d->stall, &config);
    if (err != NEXAR_OK) {
        nx_free(d);
        return err;
    }
    world->diagnosis = d; /* the end of the world stops it */
    return open_wish(d);
}

void nx_diagnosis_resize(nx_world *world)
{
    if (world->diagnosis != NULL) {
        nx_stall_resize(world->diagnosis->stall, world->comm->inc->rank, world->comm->inc->size);
    }
}

void nx_diagnosis_stop(nx_world *world)
{
    nx_diagnosis *d = world->diagnosis;

    if (d == NULL) {
        return;
    }
    world->diagnosis = NULL;
    if (d->wish.fd >= 0) {
        nx_report_signal_remove(d->wish.fd);
        nx_loop_fd_remove(world->loop, &d->wish);
        (void)nx_sys_close(d->wish.fd);
    }
    nx_stall_destroy(d->stall);
    nx_free(d);
}
