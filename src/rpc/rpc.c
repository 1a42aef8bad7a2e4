/* rpc.c - creation and shutdown. */
#include "rpc/rpc.h"

#include "base/alloc.h"
#include "rpc_inner.h"

static void refill(nx_task *task)
{
    nx_rpc *rpc = nx_list_entry(task, nx_rpc, refill);

    nx_rpc_inbox_open(rpc);
    nx_rpc_serve_open(rpc);
}

nexar_err nx_rpc_create(nx_rpc **out, const nx_rpc_config *config)
{
    nx_rpc *rpc = nx_zalloc(sizeof(*rpc));
    nexar_err err;

    if (rpc == NULL) {
        return nx_fail_nomem("remote calls");
    }
    rpc->config = *config;
    nx_task_init(&rpc->refill, refill);
    nx_list_init(&rpc->all);
    nx_list_init(&rpc->mine);
    nx_list_init(&rpc->inboxes);
    for (unsigned i = 0; i < NX_RPC_LEVELS; i++) {
        nx_list_init(&rpc->levels[i].ready);
    }
    err = nx_worker_create(&rpc->worker, config->loop, config->threads * NX_RPC_LEVELS);
    if (err != NEXAR_OK) {
        goto fail_free;
    }
    err = nx_rpc_serve_init(rpc);
    if (err != NEXAR_OK) {
        goto fail_worker;
    }
    *out = rpc;
    return NEXAR_OK;

fail_worker:
    nx_worker_destroy(rpc->worker); /* the worker has no threads yet */
fail_free:
    nx_free(rpc);
    return err;
}

void nx_rpc_close(nx_rpc *rpc, nx_event *done)
{
    rpc->closing = true;
    rpc->closed = done;
    nx_rpc_serve_close(rpc);
}

void nx_rpc_stop(nx_rpc *rpc)
{
    if (rpc != NULL) {
        nx_worker_destroy(rpc->worker);
        rpc->worker = NULL;
    }
}

void nx_rpc_destroy(nx_rpc *rpc)
{
    nx_list *at;

    if (rpc == NULL) {
        return;
    }
    nx_loop_undefer(&rpc->refill);
    nx_rpc_serve_free(rpc);
    while ((at = nx_list_pop(&rpc->inboxes)) != NULL) {
        nx_free(nx_list_entry(at, nx_rpc_inbox, link));
    }
    nx_rpc_entries_free(rpc);
    nx_map_fini(&rpc->calls);
    nx_free(rpc);
}

void nx_rpc_stats_get(const nx_rpc *rpc, nx_rpc_stats *out)
{
    *out = rpc->stats;
}
