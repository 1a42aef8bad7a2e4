/* bind.c - the memory of a run. */
#include "base/alloc.h"
#include "coll/run.h"

enum { SCRATCH_ALIGN = 64 };
/* Fresh pages cost more than the reduction that fills them: a few MiB are kept. */
enum { SCRATCH_KEPT = 16 << 20 };

static nexar_err bind_tensors(nx_run *run, const nx_coll_call *call)
{
    size_t off = 0, n = 0;

    run->regions = nx_calloc(call->ntensors + 1, sizeof(*run->regions));
    if (run->regions == NULL) {
        return nx_fail_nomem("the tensors of a bucket");
    }
    for (size_t i = 0; i < call->ntensors; i++) {
        if (call->tensors[i].count != 0) {
            run->regions[n++] =
                (nx_region){.ptr = call->tensors[i].ptr, .off = off, .len = call->tensors[i].count};
            off += call->tensors[i].count;
        }
    }
    run->binding.areas[NX_SPACE_RECV] = (nx_area){.regions = run->regions, .n = n};
    return NEXAR_OK;
}

static nexar_err bind_scratch(nx_run *run)
{
    nx_group *g = run->group;
    const size_t elems = run->program->sched.scratch, size = run->binding.elem_size;

    if (elems == 0) {
        return NEXAR_OK;
    }
    if ((g->scratch != NULL) && (g->scratch_size / size >= elems)) {
        run->scratch = g->scratch;
        run->scratch_size = g->scratch_size;
        g->scratch = NULL;
        return NEXAR_OK;
    }
    if (elems > SIZE_MAX / size) {
        return nx_fail_nomem("scratch");
    }
    run->scratch = nx_alloc_aligned(SCRATCH_ALIGN, elems * size);
    run->scratch_size = elems * size;
    return (run->scratch == NULL) ? nx_fail_nomem("scratch") : NEXAR_OK;
}

/* |space| is one piece at |ptr|. */
static void bind_one(nx_run *run, nx_space space, void *ptr)
{
    run->one[space] = (nx_region){.ptr = ptr, .len = SIZE_MAX};
    run->binding.areas[space] = (nx_area){.regions = &run->one[space], .n = 1};
}

nexar_err nx_run_bind(nx_run *run, const nx_coll_call *call)
{
    nexar_err err = NEXAR_OK;

    run->binding.elem_size = nexar_dtype_size(call->dtype);
    bind_one(run, NX_SPACE_SEND, (void *)(uintptr_t)call->send);
    if (call->tensors != NULL) {
        err = bind_tensors(run, call);
    } else {
        bind_one(run, NX_SPACE_RECV, call->recv);
    }
    if (err == NEXAR_OK) {
        err = bind_scratch(run);
    }
    bind_one(run, NX_SPACE_SCRATCH, run->scratch);
    return err;
}

void nx_run_unbind(nx_run *run)
{
    nx_group *g = run->group;

    if ((run->scratch != NULL) && (run->scratch_size <= SCRATCH_KEPT) &&
        ((g->scratch == NULL) || (g->scratch_size < run->scratch_size))) {
        nx_free(g->scratch);
        g->scratch = run->scratch;
        g->scratch_size = run->scratch_size;
    } else {
        nx_free(run->scratch);
    }
    nx_free(run->regions);
}
