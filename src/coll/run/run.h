/*
 * run.h - the execution of one collective: a compiled schedule on bound memory, over msg.
 *
 * A step starts when its dependencies are done. Receives are posted as soon as their target may be
 * written, so fragments go directly into it and are reduced on arrival. Sends read the bound
 * memory. Local steps run between messages, a few MiB at a time, so that a long copy does not delay
 * the network.
 *
 * End. A run ends once, by its last step or by its first error. After an error, pending messages
 * are cancelled. The run ends when msg has released all memory of the application. The outputs of a
 * failed run are undefined.
 *
 * Device memory. If the caller's memory is on a device (nx_coll_call.mem), a send is staged first,
 * received data goes there through an inflow, and local steps are jobs. Threads of the call's
 * worker do all this without the lock. The schedule is the same. A failed run ends when these are
 * done, too.
 *
 * Packed. Short tensors of a bucket (nx_call_scattered), at most NX_RUN_PACKED bytes in all, are
 * copied into scratch before the first step. The schedule runs on that in host memory, and its
 * result is copied back before the run succeeds.
 *
 * Every function here runs with the loop's lock held.
 */
#ifndef NX_RUN_H
#define NX_RUN_H

#include "coll/group/group.h"
#include "coll/run/binding.h"
#include "compiled_schedule.h"

enum { NX_RUN_WHY = 320, NX_RUN_PACKED = 16 << 20 };

struct nx_run {
    /* Set by the owner between make and begin. */
    void (*on_done)(nx_run *run); /* the last call; may destroy it */
    /* A shard is ready for the caller's hook (nx_coll.hook): |count| elements at |shard|, element
     * |off| of the vector. The owner answers once by nx_run_called, in the callback or later. */
    void (*on_shard)(nx_run *run, void *shard, size_t off, size_t count);
    void *owner;
    uint32_t part; /* of the operation, if reserved */

    /* The result, once done. */
    nexar_err err;
    char why[NX_RUN_WHY]; /* without the operation */

    /* For reports. */
    nx_group *group;
    uint32_t number; /* number of the operation on its communicator, from 1 */
    nx_mark mark;
    uint64_t begun_ns; /* on the loop's clock */

    /* Private. */
    nx_list link; /* in the group's list of runs */
    nx_compiled *program;
    nx_binding binding;
    nx_region one[NX_SPACES];
    nx_region *regions; /* of several tensors */
    nx_area tensors;    /* packed: the caller's tensors; NX_SPACE_RECV is in scratch */
    size_t count;       /* number of their elements */
    bool packed;
    bool unpacking; /* the result is being written to the device */
    void *scratch;
    size_t scratch_size;
    nexar_dtype dtype;
    nexar_op op;
    nx_devmem mem; /* a reference; no device: host memory */
    nx_worker *worker;
    uint32_t working;  /* running jobs and inflows of the device ... */
    nx_list at_device; /* ... oldest first */
    nx_list flying;    /* messages that msg holds */
    nx_list orphans;   /* receives whose sender cancelled the message */
    uint32_t left;     /* unfinished steps; packed: one more, to unpack */
    uint32_t depth;    /* nesting of nx_run_enter */
    uint32_t calling;  /* the step whose hook has not returned, + 1 */
    uint64_t called_ns;
    bool begun;
    bool differs;   /* a message had a fingerprint ... */
    nx_mark its;    /* ... other than this run's */
    uint32_t other; /* whose */
    nx_task task;   /* continues local steps */
    nx_timer timer;
    uint64_t timeout_ns; /* of this operation; 0: none */
    uint32_t head, tail; /* of ready */
    nx_step_id *ready;   /* each step once, in the order in which it becomes ready */
    uint32_t waits[];    /* per step: unfinished dependencies */
};

/*
 * Makes a run of |call| on |group|, with the next operation number, or with |number| if reserved
 * (nx_group_reserve; 0: the next). Does not begin it.
 *
 * NEXAR_ENOMEM, NEXAR_EINVAL as nx_sched_seal(); no number is used then.
 */
NX_MUST_CHECK nexar_err nx_run_make(nx_run **out, nx_group *group, const nx_coll_call *call,
                                    uint32_t number);
/* Starts it. It may be done on return. */
void nx_run_begin(nx_run *run);
/* The hook has returned |err|. */
void nx_run_called(nx_run *run, nexar_err err);

/* Fails the run with |err| and a message; with |tell| also on the other ranks. The first error
 * counts. */
void nx_run_fail(nx_run *run, bool tell, nexar_err err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Whether it can still fail: neither failed nor done. */
bool nx_run_open(const nx_run *run);

/* Frees a run that is done or never began. */
void nx_run_destroy(nx_run *run);

/* Calls |each| for every message that it waits for: |rank| of the group, direction, bytes. */
void nx_run_waiting(const nx_run *run,
                    void (*each)(void *ctx, uint32_t rank, bool receiving, uint64_t bytes),
                    void *ctx);

/* Finds a |*rank| for whose message |run| waits and to which the operation was not announced; marks
 * it as announced. */
bool nx_run_take_unannounced(nx_run *run, uint32_t *rank);

/* What a run waits for on its own rank: the oldest device operation, or the hook. */
typedef enum nx_local_wait_kind {
    NX_LOCAL_WAIT_NONE,
    NX_LOCAL_WAIT_SEND,    /* a copy from the device, for |rank| */
    NX_LOCAL_WAIT_RECV,    /* data from |rank| is copied to the device */
    NX_LOCAL_WAIT_STEP,    /* a step on the device */
    NX_LOCAL_WAIT_GATHER,  /* tensors are packed from the device ... */
    NX_LOCAL_WAIT_SCATTER, /* ... and back */
    NX_LOCAL_WAIT_HOOK     /* the caller's hook */
} nx_local_wait_kind;

typedef struct nx_local_wait {
    nx_local_wait_kind kind;
    uint32_t rank;  /* of the group */
    uint64_t bytes; /* not of a hook */
    uint64_t begun_ns;
    uint32_t more; /* further device operations */
} nx_local_wait;
nx_local_wait nx_run_error(const nx_run *run);

/* Whether it waits for a message that |rank| has cancelled. */
bool nx_run_waits_for_cancelled(const nx_run *run, uint32_t rank);
/* Frees the group's free list of transfers. */
void nx_run_free_flights(nx_list *flights);

/* ---- bind.c -------------------------------------------------------------------------- */

/* Maps the spaces of |run| to the memory of |call| and scratch.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_run_bind(nx_run *run, const nx_coll_call *call);
void nx_run_unbind(nx_run *run);

#endif /* NX_RUN_H */
