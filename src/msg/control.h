/*
 * control.h - the kinds of control frames of layers above msg: their first byte.
 *
 * All of them are listed here, since they share one number space. The format of each is described
 * where the frame is written.
 */
#ifndef NX_CONTROL_H
#define NX_CONTROL_H

#include "msg/msg.h"

enum {
    NX_CONTROL_ABORT = NX_FRAME_OTHER,    /* a collective has failed: coll/group/group.h */
    NX_CONTROL_ASK = NX_FRAME_OTHER + 1,  /* asks what a rank waits for: core/report/doing.h */
    NX_CONTROL_TELL = NX_FRAME_OTHER + 2, /* the answer */
    NX_CONTROL_PING = NX_FRAME_OTHER + 3, /* cluster/membership/failure_detector.h */
    NX_CONTROL_PONG = NX_FRAME_OTHER + 4,
    NX_CONTROL_RBCAST = NX_FRAME_OTHER + 5,    /* cluster/membership/reliable_broadcast.h */
    NX_CONTROL_AGREE = NX_FRAME_OTHER + 6,     /* cluster/consensus/consensus_msg.h */
    NX_CONTROL_BOARD = NX_FRAME_OTHER + 7,     /* empty; opens a link: core/coll/host_boards.h */
    NX_CONTROL_CONFIRM = NX_FRAME_OTHER + 8,   /* cluster/commit.h */
    NX_CONTROL_VERDICT = NX_FRAME_OTHER + 9,   /* cluster/membership/failure_detector.h */
    NX_CONTROL_CALLED = NX_FRAME_OTHER + 10,   /* announces the collective that a rank waits in:
                                                  coll/group/group.h */
    NX_CONTROL_DETACHED = NX_FRAME_OTHER + 11, /* a rank starts nothing more: coll/group/group.h */
    NX_CONTROL_WAITS = NX_FRAME_OTHER + 12,    /* asks whether the receiver has detached:
                                                  coll/group/group.h */
    NX_CONTROL_END_JOB = NX_FRAME_OTHER + 13,  /* core/job_end/job_abort_frame.h */
    NX_CONTROL_CREATE = NX_FRAME_OTHER + 14,   /* cluster/creation/creation_frame.h */
};

#endif /* NX_CONTROL_H */
