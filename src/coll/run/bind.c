/* bind.c - the memory of a run. */
#include "base/alloc.h"
#include "coll/run/run.h"

enum { SCRATCH_ALIGN = 64 };
/* Fresh pages cost more than the reduction that fills them: a few MiB are kept for reuse. */
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
    run->tensors = (nx_area){.regions = run->regions, .n = n};
    run->binding.areas[NX_SPACE_RECV] = run->tensors;
    return NEXAR_OK;
}

/* Whether the tensors of |call| are to be packed. */
static bool packs(const nx_run *run, const nx_coll_call *call)
{
    const size_t least = (run->mem.device != NULL) ? NX_CALL_DEVICE_SHORT : NX_CALL_SHORT;

    return (run->group->size > 1) && (call->coll.count != 0) && nx_call_scattered(call, least) &&
           (call->coll.count <= NX_RUN_PACKED / run->binding.elem_size);
}

/* Elements of scratch before the packed elements. */
static size_t packed_at(const nx_run *run)
{
    const size_t line = SCRATCH_ALIGN / run->binding.elem_size;

    return (run->program->sched.scratch + line - 1) / line * line;
}

static nexar_err bind_scratch(nx_run *run)
{
    nx_group *g = run->group;
    const size_t size = run->binding.elem_size;
    const size_t elems = run->packed ? packed_at(run) + run->count : run->program->sched.scratch;

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
    run->packed = packs(run, call);
    run->count = run->packed ? call->coll.count : 0;
    if (err == NEXAR_OK) {
        err = bind_scratch(run);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    bind_one(run, NX_SPACE_SCRATCH, run->scratch);
    if (run->packed) {
        run->left++;
        bind_one(run, NX_SPACE_RECV,
                 (char *)run->scratch + packed_at(run) * run->binding.elem_size);
    }
    return NEXAR_OK;
}

void nx_run_unbind(nx_run *run)
{
    nx_group *g = run->group;

    if ((g->hub != NULL) && (run->scratch != NULL) && (run->scratch_size <= SCRATCH_KEPT) &&
        ((g->scratch == NULL) || (g->scratch_size < run->scratch_size))) {
        nx_free(g->scratch);
        g->scratch = run->scratch;
        g->scratch_size = run->scratch_size;
    } else {
        nx_free(run->scratch);
    }
    nx_free(run->regions);
}
