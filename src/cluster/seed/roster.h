/*
 * roster.h - the members of a world that is forming: places, ranks, the missing ones.
 *
 * A member requests a rank or any rank. A requested rank is assigned at once. The others are
 * assigned when the world is complete, in order of arrival, so that no early member takes a rank
 * that a later one requests.
 */
#ifndef NX_MEMBER_TABLE_H
#define NX_MEMBER_TABLE_H

#include "base/containers/list.h"
#include "cluster/join/frames.h"
#include "cluster/view.h"

enum { NX_GONE_MAX = 8, NX_MEMBER_TEXT = 128 };

/* A member that has left again. */
typedef struct nx_gone {
    uint32_t rank; /* requested rank */
    char text[NX_MEMBER_TEXT + 96];
} nx_gone;

/* Invariant: asked[r] is the member with rank r; |joined| members are in the list, in order of
 * arrival, at most |size|. */
typedef struct nx_member_table {
    uint32_t size, joined;
    nx_list places;
    nx_member **asked;
    nx_gone gone[NX_GONE_MAX]; /* the last leavers whose place is still empty */
    size_t ngone;
} nx_member_table;

/* NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_member_table_init(nx_member_table *r, uint32_t size);
void nx_member_table_fini(nx_member_table *r);
/* Removes and forgets all members. */
void nx_member_table_clear(nx_member_table *r);

/* Whether there is a place for a member that requests |rank|: NEXAR_OK, or NEXAR_EINVAL with a
 * message, and |*why| set. */
NX_MUST_CHECK nexar_err nx_member_table_check(const nx_member_table *r, uint32_t rank,
                                              nx_refusal *why);

/* Adds a copy of |m|, accepted by nx_member_table_check; |*out| belongs to the table until removed.
 * NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_member_table_add(nx_member_table *r, const nx_member *m,
                                            nx_member **out);
/* Frees the place of |m|; |why| is kept for nx_member_table_text. */
void nx_member_table_remove(nx_member_table *r, nx_member *m, const char *why);

/* A view of the present members, with all ranks assigned; ranks close up if some are missing. Owned
 * by the caller.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_member_table_view(const nx_member_table *r, const nx_job_id *job,
                                             uint64_t epoch, nx_view **out);

/* "2 of 4 ranks have joined; missing: ranks 1, 3; gone: ...; here: ..." in |size| bytes, cut if
 * longer; returns |buf|. */
const char *nx_member_table_text(const nx_member_table *r, char *buf, size_t size);

/* "rank 3 (host7 pid 12)" or "host7 pid 12" if it requested none; |buf| has NX_MEMBER_TEXT bytes;
 * returns |buf|. */
const char *nx_member_text(const nx_member *m, char *buf);

#endif /* NX_MEMBER_TABLE_H */
