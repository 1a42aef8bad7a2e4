/* state_parts.c - runs collectives one after another, and waits for each. */
#include "core/state/state_parts.h"

#include "base/text/sentence.h"
#include "coll/run/run.h"
#include "core/recovery/recovery.h"

/* A part that is running. */
typedef struct part {
    nx_event event;
    nx_loop *loop;
    bool done;
} part;

nexar_err nx_state_parts_begin(nx_state_parts *p, nx_incarnation *inc)
{
    nexar_err err;

    *p = (nx_state_parts){.inc = inc};
    nx_loop_lock(inc->world->loop);
    err = nx_group_reserve(&inc->group, NX_CALL_PARTS, &p->number);
    if (err == NEXAR_OK) {
        nx_world_begin(inc->world);
        nx_recovery_enter(inc);
    } else {
        err = nx_comm_give_up(inc, 0, err);
        nx_loop_kick(inc->world->loop);
    }
    nx_loop_unlock(inc->world->loop);
    return err;
}

void nx_state_parts_end(nx_state_parts *p)
{
    nx_world *world = p->inc->world;

    nx_loop_lock(world->loop);
    nx_group_unreserve(&p->inc->group, p->number, NX_CALL_PARTS);
    nx_world_end(world);
    nx_recovery_leave(p->inc);
    nx_loop_unlock(world->loop);
}

/* With the lock. */
static void call_off(const nx_state_parts *p, nexar_err err, const char *why)
{
    if (p->at < NX_CALL_PARTS) {
        nx_group_tell(&p->inc->group, p->number, p->at, err, why);
    }
}

nexar_err nx_state_parts_give_up(nx_state_parts *p, nexar_err err)
{
    nx_loop *loop = p->inc->world->loop;
    char why[NX_ERROR_ROOM];

    (void)nx_sentence(why, sizeof(why), "rank %u: %s", p->inc->rank, nexar_last_error());
    nx_loop_lock(loop);
    call_off(p, err, why);
    nx_loop_kick(loop);
    nx_loop_unlock(loop);
    return nx_fail(err, "state_sync #%u: %s", p->number, why);
}

static void on_part_done(nx_run *run)
{
    part *w = run->owner;

    w->done = true;
    nx_event_set(w->loop, &w->event);
}

/* Runs |run| to its end, with the lock. */
static nexar_err run_to_end(nx_state_parts *p, nx_run *run)
{
    nx_world *world = p->inc->world;
    part w = {.loop = world->loop};
    nexar_err err;

    run->part = p->at++;
    run->owner = &w; /* cppcheck-suppress autoVariables */
    run->on_done = on_part_done;
    nx_run_begin(run);
    while (!w.done) {
        w.event.set = false;
        nx_oplog_enter(&world->log);
        (void)nx_loop_wait(world->loop, &w.event, UINT64_MAX);
        nx_oplog_leave(&world->log);
    }
    err = run->err;
    if (err != NEXAR_OK) {
        call_off(p, err, run->why); /* a rank may have completed this part */
        (void)nx_fail(err, "state_sync #%u: %s", p->number, run->why);
    }
    nx_run_destroy(run);
    return err;
}

nexar_err nx_state_error(nexar_err err, const char *why)
{
    return (err == NEXAR_OK) ? NEXAR_OK : nx_fail(err, "%s", why);
}

nexar_err nx_state_parts_run(nx_state_parts *p, nx_coll_call *call)
{
    nx_loop *loop = p->inc->world->loop;
    char why[NX_ERROR_ROOM];
    nexar_err err;
    nx_run *run;

    call->guise = NX_VARIANT_STATE_SYNC;
    nx_loop_lock(loop);
    call->worker = p->inc->world->device_worker;
    err = nx_run_make(&run, &p->inc->group, call, p->number);
    if (err == NEXAR_OK) {
        err = run_to_end(p, run);
        (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
        nx_loop_kick(loop);
        nx_loop_unlock(loop);
        return nx_state_error(err, why);
    }
    nx_loop_unlock(loop);
    return nx_state_parts_give_up(p, err);
}
