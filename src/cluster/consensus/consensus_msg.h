/*
 * consensus_msg.h - the values and the frames of consensus.
 *
 * docs/internals/consensus.md describes the protocol; consensus.h is the machine.
 *
 *     UP       to the parent    the contributions of a subtree, all in this ballot
 *     PROPOSE  to the children  the proposed value
 *     ACK      to the parent    the subtree has accepted it
 *     DECIDE   to any rank      the decision
 *     NEWS     to any rank      failed ranks that the receiver does not know, or it is one of them
 *     DONE     to the parent    the subtree will never ask again
 *     ASK      to the children  the sender is done: are you, or have you forgotten already?
 *     FORGET   to the children  no rank will ask
 */
#ifndef NX_CONSENSUS_MSG_H
#define NX_CONSENSUS_MSG_H

#include "cluster/rankset.h"
#include "cluster/view.h"
#include "transport/transport.h"
#include "wire/wire.h"

typedef enum nx_consensus_kind {
    NX_CONSENSUS_UP = 1,
    NX_CONSENSUS_PROPOSE,
    NX_CONSENSUS_ACK,
    NX_CONSENSUS_DECIDE,
    NX_CONSENSUS_NEWS,
    NX_CONSENSUS_DONE,
    NX_CONSENSUS_ASK,
    NX_CONSENSUS_FORGET,
    NX_CONSENSUS_KINDS
} nx_consensus_kind;

enum { NX_CONSENSUS_PAYLOAD_MAX = 16384 };
#define NX_CONSENSUS_NOBODY UINT32_MAX

/*
 * A value. Ranks are those of the communicator. nx_consensus_value_init allocates all memory.
 *
 * A ballot is the set of failed ranks under which ranks agree. |ballot| is 0 for a value that was
 * only gathered, and 1 + the size of that set for a proposed one.
 */
typedef struct nx_consensus_value {
    uint32_t ballot;
    uint64_t flags;     /* bitwise and over ranks that are not in |failed| */
    uint64_t highest;   /* the maximum over them */
    nx_rankset failed;  /* left out; empty while ballot is 0 */
    nx_rankset leavers; /* ranks that asked to leave */
    uint32_t author;    /* whose payload it is: the lowest rank that brought one */
    uint32_t payload_len, payload_room;
    uint8_t *payload;
} nx_consensus_value;

/* NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_consensus_value_init(nx_consensus_value *v, uint32_t size,
                                                uint32_t room);
void nx_consensus_value_fini(nx_consensus_value *v); /* also of a zeroed one */
/* Resets to: nothing gathered yet. */
void nx_consensus_value_reset(nx_consensus_value *v);
/* |to| has room for the payload of |from|. */
void nx_consensus_value_copy(nx_consensus_value *to, const nx_consensus_value *from);
/* Merges |from| into |to|: the value proposed in the larger ballot wins; if neither was proposed,
 * both are combined. */
void nx_consensus_value_merge(nx_consensus_value *to, const nx_consensus_value *from);

typedef struct nx_consensus_msg {
    uint64_t comm, seq;
    nx_consensus_kind kind;
    const nx_rankset *dead;          /* ranks that the sender knows as failed: its ballot */
    const nx_rankset *left;          /* those among them that it knows as left */
    const nx_consensus_value *value; /* UP, PROPOSE, DECIDE; NULL otherwise */
} nx_consensus_msg;

static inline bool nx_consensus_has_value(nx_consensus_kind kind)
{
    return (kind == NX_CONSENSUS_UP) || (kind == NX_CONSENSUS_PROPOSE) ||
           (kind == NX_CONSENSUS_DECIDE);
}

/* Type, kind, three numbers of the head, and the value's. */
enum { NX_CONSENSUS_HEAD_MAX = 1 + 1 + 8 + 8, NX_CONSENSUS_NUMBERS_MAX = 8 + 8 + 8 + 8 + 8 };
static inline size_t nx_consensus_encoded_max(uint32_t size, uint32_t room)
{
    return (size_t)NX_CONSENSUS_HEAD_MAX + NX_CONSENSUS_NUMBERS_MAX +
           4 * nx_rankset_encoded_max(size) + room;
}

void nx_consensus_msg_encode(nx_writer *w, const nx_consensus_msg *m);

/* The communicator of an encoded message, which must decode it.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_consensus_msg_comm(const void *frame, size_t len, uint64_t *comm);
/* Whether it is UP, which its sender waits to be answered. */
bool nx_consensus_msg_is_up(const void *frame, size_t len);
/* Decodes into |dead|, |left| and |value|, which are of the communicator's size; |*m| points
 * to them.  NEXAR_EPROTO: malformed, or a payload larger than |value| takes. */
NX_MUST_CHECK nexar_err nx_consensus_msg_decode(const void *frame, size_t len, nx_rankset *dead,
                                                nx_rankset *left, nx_consensus_value *value,
                                                nx_consensus_msg *m);

#endif /* NX_CONSENSUS_MSG_H */
