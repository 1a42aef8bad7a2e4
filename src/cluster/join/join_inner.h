/*
 * join_inner.h - the joiner's state, shared by join_state.c (until it is in a world, and the
 * connection) and join_member.c (the frames of a member).
 */
#ifndef NX_JOIN_INNER_H
#define NX_JOIN_INNER_H

#include "cluster/join/join_state.h"
#include "frame_pieces.h"

/* The connection to the seed. */
typedef enum nx_contact {
    NX_CONTACT_NONE, /* an attempt runs or will be made */
    NX_CONTACT_SAID, /* connected; HELLO or RETURN was sent */
    NX_CONTACT_THERE /* the seed has answered */
} nx_contact;

/*
 * Invariants: |member| is set from WAITING on; |view| is complete from OFFERED on; |partial| exists
 * while pieces of one do; |telling| while the seed asks for this view; |waiting| is empty unless
 * the contact is NX_CONTACT_THERE.
 */
struct nx_join_state {
    nx_join_rules rules;
    const nx_join_ops *ops;
    void *ctx;
    nx_join_phase phase;
    nx_contact contact;
    uint64_t deadline_ns, redial_ns, redial_after_ns;
    uint64_t begun_ns, report_by_ns;
    char last_failure[128]; /* of the last attempt */

    uint64_t member;
    nx_job_id job;
    nx_world_status standing;
    nx_join_progress progress;

    nx_frame_pieces partial;
    nx_view *view;
    uint32_t rank;
    nx_join_queue waiting;
    uint64_t started;
    nx_frame_pieces telling; /* |len| bytes of it were sent */

    nexar_err err;
    char text[NX_ERROR_ROOM];
};

/* The state becomes FAILED, or GONE for a member. */
void nx_join_state_fail(nx_join_state *s, nexar_err err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void nx_join_state_send(nx_join_state *s, const nx_writer *w);

/* join_member.c: a frame for members only; false: it is none, or this is no member. */
bool nx_join_state_member_frame(nx_join_state *s, uint8_t type, nx_reader *r);

#endif /* NX_JOIN_INNER_H */
