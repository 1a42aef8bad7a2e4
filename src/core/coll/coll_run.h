/* coll_run.h - running a checked collective for the application. */
#ifndef NX_COLL_RUN_H
#define NX_COLL_RUN_H

#include "core/coll/coll_args.h"
#include "core/request.h"

/* Checks |a|, runs it and waits for its end. */
nexar_err nx_coll_wait(const nx_coll_args *a, void *shard_arg);
/* The same, with a request. */
nexar_err nx_coll_start(const nx_coll_args *a, void *shard_arg, nexar_request **req);

#endif /* NX_COLL_RUN_H */
