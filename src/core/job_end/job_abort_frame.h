/*
 * job_abort_frame.h - the control frame that ends the job.
 *
 *   u8 NX_CONTROL_END_JOB, u8 code, u32 slot of the rank that ends the job, message
 */
#ifndef NX_JOB_ABORT_FRAME_H
#define NX_JOB_ABORT_FRAME_H

#include "base/error.h"
#include "wire/wire.h"

enum {
    NX_JOB_ABORT_WHY = 256,
    NX_JOB_ABORT_FRAME_MAX = 1 + 1 + 4 + 2 + NX_JOB_ABORT_WHY,
    NX_JOB_ABORT_CODE_MAX = 125, /* shells reserve higher codes */
};

typedef struct nx_job_abort {
    uint8_t code;  /* 1 to NX_JOB_ABORT_CODE_MAX */
    uint32_t slot; /* of the rank that ends the job */
    char why[NX_JOB_ABORT_WHY];
} nx_job_abort;

/* |w| has room for NX_JOB_ABORT_FRAME_MAX. */
void nx_job_abort_encode(nx_writer *w, const nx_job_abort *a);
/* NEXAR_EPROTO: malformed. */
NX_MUST_CHECK nexar_err nx_job_abort_decode(nx_reader *r, nx_job_abort *a);

#endif /* NX_JOB_ABORT_FRAME_H */
