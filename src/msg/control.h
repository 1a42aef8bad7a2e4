/*
 * control.h - the kinds of control frames that are not msg's own: their first byte.
 *
 * All of them stand here, since they share one number space; what follows the first
 * byte is told where they are written.
 */
#ifndef NX_CONTROL_H
#define NX_CONTROL_H

#include "msg/msg.h"

enum {
    NX_CONTROL_ABORT = NX_FRAME_OTHER,    /* a collective has failed: coll/group/group.h */
    NX_CONTROL_ASK = NX_FRAME_OTHER + 1,  /* what are you doing?: core/report/doing.h */
    NX_CONTROL_TELL = NX_FRAME_OTHER + 2, /* the answer */
    NX_CONTROL_PING = NX_FRAME_OTHER + 3, /* cluster/failure_detector.h */
    NX_CONTROL_PONG = NX_FRAME_OTHER + 4,
    NX_CONTROL_RBCAST = NX_FRAME_OTHER + 5, /* cluster/reliable_broadcast.h */
    NX_CONTROL_AGREE = NX_FRAME_OTHER + 6,  /* cluster/consensus/consensus_msg.h */
    NX_CONTROL_BOARD =
        NX_FRAME_OTHER + 7, /* says nothing: it makes a link: core/coll/host_boards.h */
    NX_CONTROL_CONFIRM = NX_FRAME_OTHER + 8,   /* cluster/commit.h */
    NX_CONTROL_VERDICT = NX_FRAME_OTHER + 9,   /* cluster/failure_detector.h */
    NX_CONTROL_CALLED = NX_FRAME_OTHER + 10,   /* what a rank waits in: coll/group/group.h */
    NX_CONTROL_DEPARTED = NX_FRAME_OTHER + 11, /* a rank begins nothing more: coll/group/group.h */
    NX_CONTROL_WAITS = NX_FRAME_OTHER + 12,    /* have you parted?: coll/group/group.h */
    NX_CONTROL_END_JOB = NX_FRAME_OTHER + 13,  /* core/job_end/job_abort_frame.h */
};

#endif /* NX_CONTROL_H */
