/* run.c - starts steps when they become ready, and ends the run. */
#include "coll/run/run.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/alloc.h"
#include "coll/distribution/distribution.h"
#include "coll/run/run_inner.h"

/* Local steps process at most this many bytes before the loop polls the network. */
enum { TURN_BYTES = 4 << 20 };

/* ---- steps --------------------------------------------------------------------------- */

void nx_run_finish_step(nx_run *run, nx_step_id id)
{
    const nx_compiled *p = run->program;

    for (uint32_t i = p->first[id]; i < p->first[id + 1]; i++) {
        if (--run->waits[p->follow[i]] == 0) {
            run->ready[run->tail++] = p->follow[i];
        }
    }
    run->left--;
}

static void start_hook(nx_run *run, nx_step_id id)
{
    const nx_step *step = nx_run_step(run, id);
    nx_cursor c = nx_cursor_start(&run->binding, step->dst, step->len);
    nx_piece piece = {0};

    run->calling = id + 1;
    run->called_ns = nx_loop_now(nx_registry_config_of(run->group->hub)->loop);
    (void)nx_cursor_next(&c, SIZE_MAX, &piece);
    run->on_shard(run, piece.ptr, step->dst.off, step->len);
}

/* Starts ready steps; called at the outermost level. */
static void pump(nx_run *run)
{
    size_t done = 0;

    while ((run->head < run->tail) && (run->err == NEXAR_OK)) {
        const nx_step_id id = run->ready[run->head];
        const nx_step *step = nx_run_step(run, id);

        if (done > TURN_BYTES) {
            nx_loop_defer(nx_registry_config_of(run->group->hub)->loop, &run->task);
            return;
        }
        run->head++;
        if (step->kind <= NX_STEP_RECV_REDUCE) {
            nx_transfer_start(run, id);
        } else if (step->kind == NX_STEP_CALL) {
            start_hook(run, id);
        } else if (nx_run_on_device(run, step)) {
            nx_run_dev_local(run, id);
        } else {
            nx_step_run_local(step, &run->binding, run->dtype, run->op, run->group->size);
            done += step->len * run->binding.elem_size;
            nx_run_finish_step(run, id);
        }
    }
}

/* ---- entering and ending ------------------------------------------------------------- */

static void end(nx_run *run)
{
    nx_group *g = run->group;
    nx_loop *loop = nx_registry_config_of(g->hub)->loop;

    while (!nx_list_empty(&run->orphans)) {
        nx_transfer_give_back(nx_list_entry(run->orphans.next, nx_transfer, link));
    }
    nx_loop_undefer(&run->task);
    nx_loop_timer_cancel(loop, &run->timer);
    nx_group_end(g, run);
    run->on_done(run);
}

void nx_run_enter(nx_run *run)
{
    run->depth++;
}

/* Unpacks after all steps of a packed run are done. */
static void unpack(nx_run *run)
{
    if (run->mem.device != NULL) {
        run->unpacking = true;
        nx_run_dev_unpack(run);
        return;
    }
    nx_area_write(&run->tensors, run->binding.elem_size, 0, run->count,
                  run->one[NX_SPACE_RECV].ptr);
    run->left = 0;
}

void nx_run_leave(nx_run *run)
{
    if (run->depth > 1) {
        run->depth--;
        return;
    }
    pump(run); /* runs the steps that nested entries have made ready */
    if (run->packed && (run->left == 1) && (run->err == NEXAR_OK) && !run->unpacking) {
        unpack(run);
    }
    run->depth--;
    if ((run->left == 0) || ((run->err != NEXAR_OK) && nx_list_empty(&run->flying) &&
                             (run->calling == 0) && (run->working == 0))) {
        end(run);
    }
}

static void go_on(nx_task *task)
{
    nx_run *run = nx_list_entry(task, nx_run, task);

    nx_run_enter(run);
    nx_run_leave(run);
}

static void on_timeout(nx_timer *timer, uint64_t now_ns)
{
    nx_run *run = nx_list_entry(timer, nx_run, timer);

    (void)now_ns;
    nx_run_enter(run);
    nx_run_fail(run, true, NEXAR_ETIMEDOUT, "rank %u: not done after %.1f s (collective_timeout)",
                run->group->rank, (double)run->timeout_ns / 1e9);
    nx_run_leave(run);
}

bool nx_run_open(const nx_run *run)
{
    /* A run is done when no step is left; a run without steps is done as soon as it begins. */
    return (run->err == NEXAR_OK) && ((run->left != 0) || (run->program->sched.nsteps == 0));
}

void nx_run_fail(nx_run *run, bool tell, nexar_err err, const char *format, ...)
{
    va_list args;

    if (!nx_run_open(run)) {
        return;
    }
    nx_run_enter(run);
    run->err = err;
    va_start(args, format);
    (void)vsnprintf(run->why, sizeof(run->why), format, args);
    va_end(args);
    if (run->begun) {
        nx_transfer_cancel_all(run);
        if (tell) {
            nx_group_tell(run->group, run->number, run->part, err, run->why);
        }
    }
    nx_run_leave(run);
}

void nx_run_called(nx_run *run, nexar_err err)
{
    const nx_step_id id = run->calling - 1;

    nx_run_enter(run);
    run->calling = 0;
    if (err != NEXAR_OK) {
        nx_run_fail(run, true, nx_shard_error(err), "on_shard of rank %u returned %d (%s)",
                    run->group->rank, (int)err, nexar_strerror(err));
    } else if (run->err == NEXAR_OK) {
        nx_run_finish_step(run, id);
    }
    nx_run_leave(run);
}

/* ---- life ---------------------------------------------------------------------------- */

nexar_err nx_run_make(nx_run **out, nx_group *group, const nx_coll_call *call, uint32_t number)
{
    const nx_registry_config *hub = nx_registry_config_of(group->hub);
    const size_t size = nexar_dtype_size(call->dtype);
    nx_coll coll = call->coll;
    nx_compiled *program;
    nx_choice choice;
    nexar_err err;
    nx_run *run;

    coll.rank = group->rank;
    coll.size = group->size;
    coll.hosts = group->hosts;
    if (coll.distribution != NULL) {
        choice =
            (nx_choice){.algorithm = &nx_distribution_algorithm, .segment = hub->segment / size};
    } else {
        choice =
            nx_select(hub->rules, &coll, size, nx_hosts_n(group->hosts, group->size), hub->segment);
    }
    err = nx_compiled_cache_get(&group->programs, &coll, &choice, hub->verify, &program);
    if (err != NEXAR_OK) {
        return err;
    }
    run = nx_zalloc(sizeof(*run) + 2 * sizeof(uint32_t) * (size_t)program->sched.nsteps);
    if (run == NULL) {
        nx_compiled_release(program);
        return nx_fail_nomem("a collective");
    }
    run->group = group;
    run->program = program;
    run->left = program->sched.nsteps;
    run->ready = run->waits + program->sched.nsteps;
    run->dtype = call->dtype;
    run->op = call->op;
    run->mem = call->mem;
    run->worker = call->worker;
    if (run->mem.device != NULL) {
        nx_device_hold(run->mem.device);
    }
    run->mark = nx_call_mark(call, &choice, hub->verify);
    nx_list_init(&run->link);
    nx_list_init(&run->flying);
    nx_list_init(&run->orphans);
    nx_list_init(&run->at_device);
    nx_task_init(&run->task, go_on);
    run->timer.on_expire = on_timeout;
    err = nx_run_bind(run, call);
    if (err != NEXAR_OK) {
        nx_run_destroy(run);
        return err;
    }
    run->number = (number != 0) ? number : nx_group_take_number(group);
    *out = run;
    return NEXAR_OK;
}

void nx_run_start_all(nx_run *run)
{
    const nx_sched *s = &run->program->sched;

    for (nx_step_id id = 0; id < s->nsteps; id++) {
        run->waits[id] = s->steps[id].ndeps;
        if (run->waits[id] == 0) {
            run->ready[run->tail++] = id;
        }
    }
}

void nx_run_begin(nx_run *run)
{
    const nx_registry_config *hub = nx_registry_config_of(run->group->hub);
    nexar_err err = NEXAR_OK;

    nx_run_enter(run);
    run->begun = true;
    run->begun_ns = nx_loop_now(hub->loop);
    if (run->packed && (run->mem.device != NULL)) {
        nx_run_dev_pack(run);
    } else {
        nx_area_read(&run->tensors, run->binding.elem_size, 0, run->count,
                     run->one[NX_SPACE_RECV].ptr);
        nx_run_start_all(run);
    }
    run->timeout_ns = nx_group_timeout(run->group);
    if (run->timeout_ns != 0) {
        err =
            nx_loop_timer_set(hub->loop, &run->timer, nx_loop_refresh(hub->loop) + run->timeout_ns);
    }
    if (err == NEXAR_OK) {
        err = nx_group_begin(run->group, run);
    }
    if (err != NEXAR_OK) {
        nx_run_fail(run, true, err, "rank %u: %s", run->group->rank, nexar_strerror(err));
    }
    nx_run_leave(run);
}

void nx_run_destroy(nx_run *run)
{
    nx_run_unbind(run);
    nx_device_release(run->mem.device);
    nx_compiled_release(run->program);
    nx_free(run);
}

nx_local_wait nx_run_error(const nx_run *run)
{
    nx_local_wait wait = {0};

    if (run->calling != 0) {
        return (nx_local_wait){.kind = NX_LOCAL_WAIT_HOOK, .begun_ns = run->called_ns};
    }
    if (!nx_list_empty(&run->at_device)) {
        nx_run_dev_wait(run, &wait);
    }
    return wait;
}
