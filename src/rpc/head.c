/* head.c - encodes and decodes heads, and assembles bodies. */
#include "rpc/head.h"

#include <string.h>

#include "base/alloc.h"
#include "wire/wire.h"

/* ---- heads --------------------------------------------------------------------------- */

void nx_rpc_call_encode(const nx_rpc_call_head *h, uint8_t out[NX_RPC_HEAD])
{
    nx_writer w = nx_writer_make(out, NX_RPC_HEAD);

    nx_write_u32(&w, h->comm);
    nx_write_u16(&w, h->fn);
    nx_write_u16(&w, 0);
}

bool nx_rpc_call_decode(const uint8_t in[NX_RPC_HEAD], nx_rpc_call_head *h)
{
    nx_reader r = nx_reader_make(in, NX_RPC_HEAD);

    h->comm = nx_read_u32(&r);
    h->fn = nx_read_u16(&r);
    return nx_read_u16(&r) == 0;
}

void nx_rpc_reply_encode(const nx_rpc_reply_head *h, uint8_t out[NX_RPC_HEAD])
{
    nx_writer w = nx_writer_make(out, NX_RPC_HEAD);

    nx_write_u32(&w, (uint32_t)h->outcome << 24);
    nx_write_u32(&w, (uint32_t)h->code);
}

bool nx_rpc_reply_decode(const uint8_t in[NX_RPC_HEAD], nx_rpc_reply_head *h)
{
    nx_reader r = nx_reader_make(in, NX_RPC_HEAD);
    uint32_t first = nx_read_u32(&r);
    bool coded;

    h->code = (int32_t)nx_read_u32(&r);
    if (((first & 0xffffff) != 0) || ((first >> 24) >= NX_RPC_OUTCOMES)) {
        return false;
    }
    h->outcome = (nx_rpc_outcome)(first >> 24);
    coded = (h->outcome == NX_RPC_FAILED) || (h->outcome == NX_RPC_REFUSED);
    return coded == (h->code != 0);
}

/* ---- bodies -------------------------------------------------------------------------- */

void nx_rpc_body_begin(nx_rpc_body *b, uint64_t total, bool drop)
{
    b->begun = true;
    b->headless = (total < NX_RPC_HEAD);
    b->len = b->headless ? 0 : total - NX_RPC_HEAD;
    b->dropped = drop || b->headless;
    if (!b->dropped) {
        b->data = (b->len > SIZE_MAX) ? NULL : nx_grow(NULL, (size_t)b->len, 1);
        b->nomem = (b->data == NULL);
    }
}

void nx_rpc_body_put(nx_rpc_body *b, uint64_t off, const void *data, size_t len)
{
    const uint8_t *from = data;

    if (b->headless) {
        return;
    }
    if (off < NX_RPC_HEAD) {
        size_t n = NX_RPC_HEAD - (size_t)off;

        n = (len < n) ? len : n;
        memcpy(b->head + off, from, n);
        from += n;
        off += n;
        len -= n;
    }
    if ((b->data != NULL) && (len > 0)) {
        memcpy(b->data + (off - NX_RPC_HEAD), from, len);
    }
}

void nx_rpc_body_drop(nx_rpc_body *b)
{
    b->dropped = true;
    nx_free(b->data);
    b->data = NULL;
}
