/* job_abort_fuzz.c - the frame that ends the job: an accepted frame is encoded to the same
 * bytes. */
#include <string.h>

#include "core/job_end/job_abort_frame.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t bytes[NX_JOB_ABORT_FRAME_MAX];
    nx_reader r = nx_reader_make(data, size);
    nx_writer w = nx_writer_make(bytes, sizeof(bytes));
    nx_job_abort a, b;

    if (nx_job_abort_decode(&r, &a) != NEXAR_OK) {
        return 0;
    }
    nxt_must((a.code >= 1) && (a.code <= NX_JOB_ABORT_CODE_MAX));
    nxt_must(strlen(a.why) < sizeof(a.why));
    nx_job_abort_encode(&w, &a);
    nxt_must(!w.failed);
    r = nx_reader_make(bytes, w.len);
    nxt_must(nx_job_abort_decode(&r, &b) == NEXAR_OK);
    nxt_must((a.code == b.code) && (a.slot == b.slot) && (strcmp(a.why, b.why) == 0));
    return 0;
}
