/*
 * rpc_fuzz.c - any bytes as heads of calls and replies, and as fragments of a body: an accepted
 * head is encoded to the same bytes; every byte is stored at its offset and nowhere else.
 *
 * Input: a head, a byte for the length of the message, one for the length of its eager part; then
 * the lengths of the fragments of either part, alternating.
 */
#include <string.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "rpc/head.h"

static void heads(const uint8_t in[NX_RPC_HEAD])
{
    uint8_t back[NX_RPC_HEAD];
    nx_rpc_call_head call;
    nx_rpc_reply_head reply;

    if (nx_rpc_call_decode(in, &call)) {
        nx_rpc_call_encode(&call, back);
        nxt_must(memcmp(in, back, NX_RPC_HEAD) == 0);
    }
    if (nx_rpc_reply_decode(in, &reply)) {
        nxt_must(reply.outcome < NX_RPC_OUTCOMES);
        nx_rpc_reply_encode(&reply, back);
        nxt_must(memcmp(in, back, NX_RPC_HEAD) == 0);
    }
}

static void body(const uint8_t *in, size_t size)
{
    const size_t total = in[0], cut = (in[1] < total) ? in[1] : total;
    size_t at[2] = {0, cut};
    const size_t ends[2] = {cut, total};
    uint8_t message[256];
    nx_rpc_body b = {0};

    for (size_t i = 0; i < sizeof(message); i++) {
        message[i] = (uint8_t)(i * 31 + 7);
    }
    nx_rpc_body_begin(&b, total, false);
    for (size_t i = 2; i < size; i++) {
        const size_t part = i % 2, left = ends[part] - at[part];
        const size_t len = (in[i] < left) ? in[i] : left;

        nx_rpc_body_put(&b, at[part], message + at[part], len);
        at[part] += len;
    }
    nxt_must(b.headless == (total < NX_RPC_HEAD));
    if (!b.headless && (at[0] == cut) && (at[1] == total)) {
        nxt_must((b.len == total - NX_RPC_HEAD) && (b.data != NULL));
        nxt_must(memcmp(b.head, message, NX_RPC_HEAD) == 0);
        nxt_must(memcmp(b.data, message + NX_RPC_HEAD, (size_t)b.len) == 0);
    }
    nx_rpc_body_drop(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size >= NX_RPC_HEAD) {
        heads(data);
    }
    if (size >= NX_RPC_HEAD + 2) {
        body(data + NX_RPC_HEAD, size - NX_RPC_HEAD);
    }
    return 0;
}
