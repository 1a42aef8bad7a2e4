/*
 * run_inner.h - what the files of a run share, and who does what.
 *
 *   run.c         steps, as their time comes; life and end
 *   transfers.c  the messages: made, handed to msg, ended, taken back; who is waited for
 *   run_device.c  steps on device memory
 *   bind.c        the memory: where the spaces of the program lie
 */
#ifndef NX_RUN_INNER_H
#define NX_RUN_INNER_H

#include "coll/run/run.h"

/* What a step on device memory needs; run_device.c. */
typedef struct nx_dev_flight nx_dev_flight;

/* A message of a run, while msg or the device holds it. */
typedef struct nx_transfer {
    nx_req req;
    nx_list link; /* run->flying, run->orphans or group->flights; none: the device has it */
    nx_run *run;
    nx_step_id step;
    bool cancelled;
    bool said;          /* to the rank it waits for, what we are in */
    nx_bytes *many;     /* owned: the stretches of a send, when there are several */
    void *landing;      /* owned: the bytes of a receive that are taken when all are there */
    nx_dev_flight *dev; /* owned; NULL: host memory */
} nx_transfer;

/* Everything that touches a run from outside is between these; the last one out
 * starts what is ready and ends the run. */
void nx_run_enter(nx_run *run);
void nx_run_leave(nx_run *run);

static inline const nx_step *nx_run_step(const nx_run *run, nx_step_id id)
{
    return &run->program->sched.steps[id];
}

/* Whatever is to be done first is done: steps that wait for nothing are ready. */
void nx_run_start_all(nx_run *run);
/* Step |id| is done. */
void nx_run_finish_step(nx_run *run, nx_step_id id);

/* ---- transfers.c ------------------------------------------------------------- */

/* The message of step |id|: sends it, or posts its receive; where there is no memory for it, the
 * run fails. */
void nx_transfer_start(nx_run *run, nx_step_id id);
/* Asks msg for everything back. */
void nx_transfer_cancel_all(nx_run *run);
/* The message |f| has ended, with what its request says. */
void nx_transfer_over(nx_transfer *f);
void nx_transfer_give_back(nx_transfer *f);
/* Hands |n| stretches to msg as the message |f|; or posts its receive.  If |total| is more than
 * they have, they are one, the first of a stream (nx_msg_send_stream); 0: they are all. */
void nx_transfer_send(nx_transfer *f, const nx_bytes *bytes, size_t n, uint64_t total);
void nx_transfer_receive(nx_transfer *f, const nx_sink *sink);

/* ---- run_device.c ------------------------------------------------------------- */

/* Whether |step| is one for the device. */
bool nx_run_on_device(const nx_run *run, const nx_step *step);
/* Sends |f| as it is staged; or receives it. */
void nx_run_dev_send(nx_transfer *f);
/* msg is done with the send |f|; nx_transfer_over comes when the device is, too. */
void nx_run_dev_sent(nx_transfer *f);
void nx_run_dev_receive(nx_transfer *f);
/* The message of a receive |f| on the device has ended; nx_transfer_over comes when the
 * device has it all. */
void nx_run_dev_received(nx_transfer *f);
/* Runs the local step |id|. */
void nx_run_dev_local(nx_run *run, nx_step_id id);
void nx_run_dev_free(nx_run *run, nx_dev_flight *dev);
/* What the device has done longest; it does something. */
void nx_run_dev_error(const nx_run *run, nx_snag *out);
/* Packs the tensors, then starts the steps; or unpacks them, and the run is done. */
void nx_run_dev_pack(nx_run *run);
void nx_run_dev_unpack(nx_run *run);

#endif /* NX_RUN_INNER_H */
