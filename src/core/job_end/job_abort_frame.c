/* job_abort_frame.c - encodes and decodes the frame END_JOB. */
#include "core/job_end/job_abort_frame.h"

#include "msg/control.h"

void nx_job_abort_encode(nx_writer *w, const nx_job_abort *a)
{
    nx_write_u8(w, NX_CONTROL_END_JOB);
    nx_write_u8(w, a->code);
    nx_write_u32(w, a->slot);
    nx_write_sentence(w, a->why, sizeof(a->why));
}

nexar_err nx_job_abort_decode(nx_reader *r, nx_job_abort *a)
{
    const uint8_t kind = nx_read_u8(r);
    nx_job_abort got = {.code = nx_read_u8(r), .slot = nx_read_u32(r)};

    nx_read_sentence(r, got.why, sizeof(got.why));
    if (!nx_reader_done(r) || (kind != NX_CONTROL_END_JOB) || (got.code == 0) ||
        (got.code > NX_JOB_ABORT_CODE_MAX)) {
        return nx_fail(NEXAR_EPROTO, "malformed frame that ends the job");
    }
    *a = got;
    return NEXAR_OK;
}
