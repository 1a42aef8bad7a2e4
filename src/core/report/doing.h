/*
 * doing.h - what a rank is doing, as it answers ranks that wait for it.
 *
 * Frames of the control lane, answered by the loop of the asked rank, also while its application
 * computes:
 *
 *     ASK   kind 1, question 4, communicator 4, number 4
 *     TELL  kind 1, question 4, flags 1, operation now, operation last,
 *           ranks that it waits for: varint how many, byte how many are listed, 4 each,
 *           blob what else it waits for (empty: nothing)
 *     operation   blob text (empty: none), communicator 4, number 4, age varint (ns)
 */
#ifndef NX_DOING_H
#define NX_DOING_H

#include "core/report/oplog.h"

typedef struct nx_ask {
    uint32_t question;     /* for the answer to name */
    uint32_t comm, number; /* the operation that the asker is in; number 0: a message */
} nx_ask;

typedef struct nx_doing_op {
    char text[NX_WHAT_TEXT]; /* empty: none */
    uint32_t comm, number;
    uint64_t age_ns; /* since it began, or since it ended */
} nx_doing_op;

enum { NX_DOING_LISTED = 8, NX_DOING_HERE = 192 };

typedef struct nx_doing {
    uint32_t question;
    bool waits;   /* a thread of it is in a call that waits */
    bool closing; /* it is in finalize */
    nx_doing_op now, last;
    uint32_t nfor;                 /* how many ranks |now| waits for */
    uint32_t listed;               /* the first of them, at most NX_DOING_LISTED */
    uint32_t who[NX_DOING_LISTED]; /* ranks of the world */
    char here[NX_DOING_HERE];      /* what |now| waits for on the rank itself; empty: nothing */
} nx_doing;

enum {
    NX_ASK_SIZE = 13,
    NX_DOING_ROOM = 2 * (NX_WHAT_TEXT + 18) + 16 + 4 * NX_DOING_LISTED + NX_DOING_HERE + 2
};

/* Encode into |buf| of NX_ASK_SIZE or NX_DOING_ROOM bytes; return the length. */
size_t nx_ask_encode(const nx_ask *ask, uint8_t *buf);
size_t nx_doing_encode(const nx_doing *d, uint8_t *buf);

/* False: malformed; |out| is undefined then. */
NX_MUST_CHECK bool nx_ask_decode(const void *data, size_t len, nx_ask *out);
NX_MUST_CHECK bool nx_doing_decode(const void *data, size_t len, nx_doing *out);

/* For messages, after the rank: "is in #5 allreduce(1024 x f32, sum) for 12.3 s, waiting for rank
 * 1", "last finished #6 barrier 4.1 s ago and is in user code". */
enum { NX_DOING_TEXT = 680 };
const char *nx_doing_text(const nx_doing *d, char *buf);

/* What is waited for, with a prefix: ", waiting for " and ranks as below, or |here|, or "rank 1,
 * and for device sim to copy ..."; "" if nothing. */
enum { NX_WAITS_TEXT = 416 };
const char *nx_waits_text(const char *before, const uint32_t *ranks, uint32_t n, const char *here,
                          char *buf);

/* "rank 1, rank 4 and 57 more": |listed| ranks of |n|. */
enum { NX_RANKS_TEXT = 192 };
const char *nx_ranks_text(const uint32_t *ranks, uint32_t listed, uint32_t n, char *buf);

#endif /* NX_DOING_H */
