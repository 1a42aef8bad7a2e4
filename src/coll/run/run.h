/*
 * run.h - one collective on its way: a program on bound memory, over msg.
 *
 * A step starts when what it waits for is done.  Receives are posted as soon as
 * their target may be written, so fragments go straight into it, reduced on
 * arrival; sends read the bound memory.  Local steps run between messages, a few
 * MiB at a time, so that a long copy does not keep the network waiting.
 *
 * Ending.  A run ends once, by its last step or by its first error.  After an
 * error what is pending is cancelled, and the run ends when msg has let go of all
 * of it: the application's memory is its own again, in either case.  The outputs of
 * a run that failed are undefined.
 *
 * Device memory.  Where the caller's memory is a device's (nx_coll_call.mem), a send
 * is staged first, what is received goes there by way of an inflow, and local steps are
 * jobs: all by threads of the call's worker, without the lock.  The schedule is
 * the same.  A run that failed ends when these are done, too.
 *
 * Packed.  Short tensors of a bucket (nx_call_scattered), NX_RUN_PACKED bytes in all at most,
 * are copied into scratch before the first step, the schedule runs on that in host memory,
 * and its result is spread over them before the run ends well.
 *
 * Everything here runs with the loop's lock held.
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
    /* A shard is ready for the caller's hook (nx_coll.hook): |count| elements at
     * |shard|, element |off| of the vector.  Answered by nx_run_called, once, in
     * the call or later. */
    void (*on_shard)(nx_run *run, void *shard, size_t off, size_t count);
    void *owner;
    uint32_t part; /* of the operation, where that was reserved */

    /* The outcome, when done. */
    nexar_err err;
    char why[NX_RUN_WHY]; /* without the operation */

    /* For those who report. */
    nx_group *group;
    uint32_t number; /* of the operation on its communicator, from 1 */
    nx_mark mark;
    uint64_t begun_ns; /* on the loop's clock */

    /* The run's own. */
    nx_list link; /* in the group's list of runs */
    nx_compiled *program;
    nx_binding binding;
    nx_region one[NX_SPACES];
    nx_region *regions; /* of many tensors */
    nx_area tensors;    /* packed: where they are; NX_SPACE_RECV is in scratch then */
    size_t count;       /* of their elements */
    bool packed;
    bool unpacking; /* the device has the result */
    void *scratch;
    size_t scratch_size;
    nexar_dtype dtype;
    nexar_op op;
    nx_devmem mem; /* held; no device: host memory */
    nx_worker *worker;
    uint32_t working;  /* jobs and inflows of the device ... */
    nx_list at_device; /* ... oldest first */
    nx_list flying;    /* messages that msg holds */
    nx_list orphans;   /* receives whose sender took the message back */
    uint32_t left;     /* steps that are not done; packed: one more, to unpack */
    uint32_t depth;    /* entries that have not left */
    uint32_t calling;  /* the step of a hook that has not returned, + 1 */
    uint64_t called_ns;
    bool begun;
    bool differs;   /* a message came with a fingerprint ... */
    nx_mark its;    /* ... that is not ours */
    uint32_t other; /* whose */
    nx_task task;   /* goes on with local steps */
    nx_timer timer;
    uint32_t head, tail; /* of ready */
    nx_step_id *ready;   /* each step once, in the order it may start */
    uint32_t waits[];    /* per step: what it still waits for */
};

/*
 * A run of |call| on |group|, with the next number of its operations, or |number|
 * if that was reserved (nx_group_reserve; 0: the next).  Not begun.
 *
 * NEXAR_ENOMEM, NEXAR_EINVAL as nx_sched_seal(); the number is not used then.
 */
NX_MUST_CHECK nexar_err nx_run_make(nx_run **out, nx_group *group, const nx_coll_call *call,
                                    uint32_t number);
/* Starts it; it may be done when this returns. */
void nx_run_begin(nx_run *run);
/* The hook has returned |err|. */
void nx_run_called(nx_run *run, nexar_err err);

/* Ends it with |err| and a sentence; with |tell| on the other ranks as well.  The
 * first error counts. */
void nx_run_fail(nx_run *run, bool tell, nexar_err err, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Whether it can still fail: it has not, and is not done. */
bool nx_run_open(const nx_run *run);

/* Frees it: it is done, or was never begun. */
void nx_run_destroy(nx_run *run);

/* Calls |each| with every message that it waits for: |rank| of the group, whether
 * it is to be received, how many bytes. */
void nx_run_waiting(const nx_run *run,
                    void (*each)(void *ctx, uint32_t rank, bool receiving, uint64_t bytes),
                    void *ctx);

/* Whether there is a |*rank| for whose message |run| waits and that was not told what it
 * waits in; it is now. */
bool nx_run_untold(nx_run *run, uint32_t *rank);

/* What a run waits for on its own rank: the longest of what its device does, or its hook. */
typedef enum nx_error_kind {
    NX_SNAG_NONE,
    NX_SNAG_SEND,    /* a copy from the device, for |rank| */
    NX_SNAG_RECV,    /* what |rank| has sent is brought to the device */
    NX_SNAG_LOCAL,   /* a step on the device */
    NX_SNAG_GATHER,  /* tensors are packed from the device ... */
    NX_SNAG_SCATTER, /* ... and back */
    NX_SNAG_HOOK     /* the caller's function */
} nx_error_kind;

typedef struct nx_snag {
    nx_error_kind kind;
    uint32_t rank;  /* of the group */
    uint64_t bytes; /* not of a hook */
    uint64_t begun_ns;
    uint32_t more; /* that the device does beside it */
} nx_snag;
nx_snag nx_run_error(const nx_run *run);

/* Whether it waits for a message that |rank| has taken back. */
bool nx_run_orphaned(const nx_run *run, uint32_t rank);
/* Frees what a group keeps for its next messages. */
void nx_run_free_flights(nx_list *flights);

/* ---- bind.c -------------------------------------------------------------------- */

/* Lays the spaces of |run| over the memory of |call|, and scratch.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_run_bind(nx_run *run, const nx_coll_call *call);
void nx_run_unbind(nx_run *run);

#endif /* NX_RUN_H */
