/*
 * run_inner.h - shared by the files that implement run.h.
 *
 *   run.c         starts steps as they become ready; life and end
 *   transfers.c   messages: created, passed to msg, completed, cancelled, listed while pending
 *   run_device.c  steps on device memory
 *   bind.c        maps the spaces of the schedule to memory
 */
#ifndef NX_RUN_INNER_H
#define NX_RUN_INNER_H

#include "coll/run/run.h"

/* State of a step on device memory; run_device.c. */
typedef struct nx_dev_flight nx_dev_flight;

/* A message of a run, while msg or the device holds it. */
typedef struct nx_transfer {
    nx_req req;
    nx_list link; /* in run->flying, run->orphans or group->flights; unlinked: the device has it */
    nx_run *run;
    nx_step_id step;
    bool cancelled;
    bool said;          /* the operation was announced to the rank that this waits for */
    nx_bytes *many;     /* owned: the pieces of a send, if several */
    void *landing;      /* owned: buffer of a receive that is consumed as a whole */
    nx_dev_flight *dev; /* owned; NULL: host memory */
} nx_transfer;

/* Bracket every access to a run from outside. The outermost leave starts ready steps and ends the
 * run. */
void nx_run_enter(nx_run *run);
void nx_run_leave(nx_run *run);

static inline const nx_step *nx_run_step(const nx_run *run, nx_step_id id)
{
    return &run->program->sched.steps[id];
}

/* The preparation is done: steps without dependencies become ready. */
void nx_run_start_all(nx_run *run);
/* Step |id| is done. */
void nx_run_finish_step(nx_run *run, nx_step_id id);

/* ---- transfers.c --------------------------------------------------------------------- */

/* Sends the message of step |id|, or posts its receive. Without memory, the run fails. */
void nx_transfer_start(nx_run *run, nx_step_id id);
/* Cancels all messages that msg holds. */
void nx_transfer_cancel_all(nx_run *run);
/* The message |f| has completed, with the status of its request. */
void nx_transfer_over(nx_transfer *f);
void nx_transfer_give_back(nx_transfer *f);
/* Passes |n| pieces to msg as the message |f|, or posts its receive. If |total| exceeds their size,
 * they are one piece, the first of a stream (nx_msg_send_stream); 0: they are complete. */
void nx_transfer_send(nx_transfer *f, const nx_bytes *bytes, size_t n, uint64_t total);
void nx_transfer_receive(nx_transfer *f, const nx_sink *sink);

/* ---- run_device.c -------------------------------------------------------------------- */

/* Whether |step| runs on the device. */
bool nx_run_on_device(const nx_run *run, const nx_step *step);
/* Sends |f| while it is staged, or receives it. */
void nx_run_dev_send(nx_transfer *f);
/* msg has completed the send |f|; nx_transfer_over follows when the device is done, too. */
void nx_run_dev_sent(nx_transfer *f);
void nx_run_dev_receive(nx_transfer *f);
/* The message of a receive |f| on the device has arrived; nx_transfer_over follows when the device
 * has all of it. */
void nx_run_dev_received(nx_transfer *f);
/* Runs the local step |id|. */
void nx_run_dev_local(nx_run *run, nx_step_id id);
void nx_run_dev_free(nx_run *run, nx_dev_flight *dev);
/* The oldest device operation; there is one. */
void nx_run_dev_wait(const nx_run *run, nx_local_wait *out);
/* Packs the tensors and starts the steps; or unpacks the result and ends the run. */
void nx_run_dev_pack(nx_run *run);
void nx_run_dev_unpack(nx_run *run);

#endif /* NX_RUN_INNER_H */
