/* consensus_msg.c - values, their combination, and the frames that carry them. */
#include "consensus_msg.h"
#include "msg/control.h"

#include <string.h>

#include "base/alloc.h"

_Static_assert(NX_CONSENSUS_HEAD_MAX + NX_CONSENSUS_NUMBERS_MAX + 4 * (1 + NX_WORLD_MAX / 8) +
                       NX_CONSENSUS_PAYLOAD_MAX <=
                   NX_FRAME_MAX,
               "the largest message of the largest world is one frame");

nexar_err nx_consensus_value_init(nx_consensus_value *v, uint32_t size, uint32_t room)
{
    *v = (nx_consensus_value){.payload_room = room};
    if (room > 0) {
        v->payload = nx_zalloc(room);
        if (v->payload == NULL) {
            return nx_fail_nomem("the payload of an agreement");
        }
    }
    if ((nx_rankset_init(&v->failed, size) != NEXAR_OK) ||
        (nx_rankset_init(&v->leavers, size) != NEXAR_OK)) {
        nx_consensus_value_fini(v);
        return NEXAR_ENOMEM;
    }
    nx_consensus_value_reset(v);
    return NEXAR_OK;
}

void nx_consensus_value_fini(nx_consensus_value *v)
{
    nx_rankset_fini(&v->failed);
    nx_rankset_fini(&v->leavers);
    nx_free(v->payload);
    *v = (nx_consensus_value){0};
}

void nx_consensus_value_reset(nx_consensus_value *v)
{
    v->ballot = 0;
    v->flags = UINT64_MAX;
    v->highest = 0;
    nx_rankset_clear(&v->failed);
    nx_rankset_clear(&v->leavers);
    v->author = NX_CONSENSUS_NOBODY;
    v->payload_len = 0;
}

static void copy_payload(nx_consensus_value *to, const nx_consensus_value *from)
{
    to->author = from->author;
    to->payload_len = from->payload_len;
    if (from->payload_len > 0) {
        memcpy(to->payload, from->payload, from->payload_len);
    }
}

void nx_consensus_value_copy(nx_consensus_value *to, const nx_consensus_value *from)
{
    to->ballot = from->ballot;
    to->flags = from->flags;
    to->highest = from->highest;
    nx_rankset_copy(&to->failed, &from->failed);
    nx_rankset_copy(&to->leavers, &from->leavers);
    copy_payload(to, from);
}

void nx_consensus_value_merge(nx_consensus_value *to, const nx_consensus_value *from)
{
    if (from->ballot > to->ballot) {
        nx_consensus_value_copy(to, from);
        return;
    }
    if (to->ballot > 0) {
        return;
    }
    to->flags &= from->flags;
    to->highest = (from->highest > to->highest) ? from->highest : to->highest;
    (void)nx_rankset_unite(&to->leavers, &from->leavers);
    if (from->author < to->author) {
        copy_payload(to, from);
    }
}

static void value_encode(nx_writer *w, const nx_consensus_value *v)
{
    const bool authored = (v->author != NX_CONSENSUS_NOBODY);

    nx_write_varint(w, v->ballot);
    nx_write_u64(w, v->flags);
    nx_write_u64(w, v->highest);
    nx_rankset_encode(w, &v->failed);
    nx_rankset_encode(w, &v->leavers);
    nx_write_varint(w, authored ? (uint64_t)v->author + 1 : 0);
    if (authored) {
        nx_write_blob(w, v->payload, v->payload_len);
    }
}

static void value_decode(nx_reader *r, nx_consensus_value *v)
{
    const uint32_t size = v->failed.n;
    const uint64_t ballot = nx_read_varint(r);
    uint64_t author;
    const uint8_t *payload;
    size_t len = 0;

    nx_consensus_value_reset(v);
    v->flags = nx_read_u64(r);
    v->highest = nx_read_u64(r);
    nx_rankset_decode(r, &v->failed);
    nx_rankset_decode(r, &v->leavers);
    author = nx_read_varint(r);
    /* A ballot leaves at least one rank alive; a value that was not proposed excludes no rank. */
    if (r->failed || (ballot > size) || (author > size) ||
        ((ballot == 0) ? (v->failed.count > 0) : (v->failed.count >= ballot))) {
        r->failed = true;
        return;
    }
    v->ballot = (uint32_t)ballot;
    if (author == 0) {
        return;
    }
    payload = nx_read_blob(r, v->payload_room, &len);
    v->author = (uint32_t)(author - 1);
    v->payload_len = (uint32_t)len;
    if (len > 0) {
        memcpy(v->payload, payload, len);
    }
}

void nx_consensus_msg_encode(nx_writer *w, const nx_consensus_msg *m)
{
    nx_write_u8(w, NX_CONTROL_AGREE);
    nx_write_varint(w, m->comm);
    nx_write_u8(w, (uint8_t)m->kind);
    nx_write_varint(w, m->seq);
    nx_rankset_encode(w, m->dead);
    nx_rankset_encode(w, m->left);
    if (nx_consensus_has_value(m->kind)) {
        value_encode(w, m->value);
    }
}

nexar_err nx_consensus_msg_comm(const void *frame, size_t len, uint64_t *comm)
{
    nx_reader r = nx_reader_make(frame, len);
    const uint8_t type = nx_read_u8(&r);
    const uint64_t c = nx_read_varint(&r);

    if (r.failed || (type != NX_CONTROL_AGREE)) {
        return nx_fail(NEXAR_EPROTO, "a malformed frame about an agreement");
    }
    *comm = c;
    return NEXAR_OK;
}

bool nx_consensus_msg_is_up(const void *frame, size_t len)
{
    nx_reader r = nx_reader_make(frame, len);

    (void)nx_read_u8(&r);
    (void)nx_read_varint(&r);
    return (nx_read_u8(&r) == NX_CONSENSUS_UP) && !r.failed;
}

/* No rank has accepted a value of a ballot larger than its own; a proposal has the ballot of its
 * sender; only a proposed value is decided. */
static bool ballot_fits(const nx_consensus_msg *m)
{
    const uint32_t own = 1 + m->dead->count;

    if ((m->kind == NX_CONSENSUS_DECIDE) && (m->value->ballot == 0)) {
        return false;
    }
    return (m->kind == NX_CONSENSUS_PROPOSE) ? (m->value->ballot == own)
                                             : (m->value->ballot <= own);
}

/* A rank that has left is in the ballot. */
static bool left_fits(const nx_consensus_msg *m)
{
    for (uint32_t rank = 0; (rank = nx_rankset_next(m->left, rank)) < m->left->n; rank++) {
        if (!nx_rankset_has(m->dead, rank)) {
            return false;
        }
    }
    return true;
}

nexar_err nx_consensus_msg_decode(const void *frame, size_t len, nx_rankset *dead, nx_rankset *left,
                                  nx_consensus_value *value, nx_consensus_msg *m)
{
    nx_reader r = nx_reader_make(frame, len);
    const uint8_t type = nx_read_u8(&r);
    nx_consensus_msg got = {.comm = nx_read_varint(&r)};
    const uint8_t kind = nx_read_u8(&r);

    got.seq = nx_read_varint(&r);
    nx_rankset_decode(&r, dead);
    nx_rankset_decode(&r, left);
    got.dead = dead;
    got.left = left;
    if ((type != NX_CONTROL_AGREE) || (kind < NX_CONSENSUS_UP) || (kind >= NX_CONSENSUS_KINDS)) {
        r.failed = true;
    }
    got.kind = (nx_consensus_kind)kind;
    if (!r.failed && nx_consensus_has_value(got.kind)) {
        value_decode(&r, value);
        got.value = value;
    }
    if (!nx_reader_done(&r) || !left_fits(&got) || ((got.value != NULL) && !ballot_fits(&got))) {
        return nx_fail(NEXAR_EPROTO, "a malformed frame about an agreement");
    }
    *m = got;
    return NEXAR_OK;
}
