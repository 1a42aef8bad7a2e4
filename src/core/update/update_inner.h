/*
 * update_inner.h - shared by the files of an update.
 *
 *   update.c         the calls: is there a change, and the agreement
 *   update_apply.c   makes the next world from the decision, locally
 *   update_events.c  events of joiners and of the seed meanwhile
 *
 * With the loop's lock held.
 */
#ifndef NX_UPDATE_INNER_H
#define NX_UPDATE_INNER_H

#include "core/agreement/agreement.h"
#include "core/comm/comm.h"
#include "update.h"

/* The call's name, for messages. */
#define NX_UPDATE_NAME "comm_update"

/* An update that proceeds to the agreement. */
typedef struct nx_update {
    nx_world *world;
    nx_incarnation *inc; /* the old one, with a reference */
    bool whole;          /* the fast path has not failed here */
    nx_consensus_value value;
    nx_rankset gone;   /* ranks of |comm|: failed ones and leavers */
    nx_member *joined; /* the first |njoined| of them */
    uint32_t njoined;
    uint32_t id; /* of the new communicator */
} nx_update;

/* The joiners in the payload of |v|; |*most| is the largest size of the world.  The caller frees
 * |*joined|.  NEXAR_ENOMEM, NEXAR_EPROTO */
NX_MUST_CHECK nexar_err nx_update_read(const nx_consensus_value *v, uint32_t *most,
                                       nx_member **joined, uint32_t *n);
/* This rank stays, and the world becomes what |u| describes.  An error: that is impossible. */
NX_MUST_CHECK nexar_err nx_update_apply(const nx_update *u);

/* How the world changes, for this rank, which is in |now|; NULL: it leaves.  |change| may be NULL.
 */
void nx_update_change(nexar_change *change, const nx_update *u, const nx_incarnation *now);

#endif /* NX_UPDATE_INNER_H */
