/*
 * update_inner.h - what the files of an update share.
 *
 *   update.c         the calls: is there a change, what is agreed on
 *   update_apply.c   the next world, made from that, by each rank alone
 *   update_events.c  what is heard of joiners and of the seed meanwhile
 *
 * With the loop's lock held.
 */
#ifndef NX_UPDATE_INNER_H
#define NX_UPDATE_INNER_H

#include "core/agreement/agreement.h"
#include "core/comm/comm.h"
#include "update.h"

/* In sentences. */
#define NX_UPDATE_NAME "comm_update"

/* An update that goes on to the agreement. */
typedef struct nx_update {
    nx_world *world;
    nx_incarnation *inc; /* the old one, held */
    bool whole;          /* the fast way has not failed here */
    nx_consensus_value value;
    nx_rankset gone;   /* ranks of |comm|: the failed and the leavers */
    nx_member *joined; /* the first |njoined| of them */
    uint32_t njoined;
    uint32_t id; /* of the new communicator */
} nx_update;

/* Who may join, in the payload of |v|; |*most| is to how many the world may grow.  The
 * caller frees |*joined|.  NEXAR_ENOMEM, NEXAR_EPROTO */
NX_MUST_CHECK nexar_err nx_update_read(const nx_consensus_value *v, uint32_t *most,
                                       nx_member **joined, uint32_t *n);
/* This rank stays, and the world becomes what |u| says.  An error: it cannot. */
NX_MUST_CHECK nexar_err nx_update_apply(const nx_update *u);

/* How the world changes, for this rank, which is in |now|; NULL: it leaves.  |change| may be NULL.
 */
void nx_update_change(nexar_change *change, const nx_update *u, const nx_incarnation *now);

#endif /* NX_UPDATE_INNER_H */
