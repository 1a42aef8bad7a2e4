/*
 * head.h - encodes and decodes calls and replies: a head of fixed length, then the body.
 *
 *     call    comm u32, fn u16, 0 u16; then the caller's data
 *     reply   outcome u8, 0 u8 x 3, code u32; then the reply, or the error message
 *
 * The number of a call is the tag of its message and of its reply's.
 *
 * Both arrive as fragments in any order. nx_rpc_body assembles them in memory allocated for the
 * first fragment, when the length is known.
 */
#ifndef NX_RPC_HEAD_H
#define NX_RPC_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { NX_RPC_HEAD = 8 }; /* bytes of either */

typedef struct nx_rpc_call_head {
    uint32_t comm;
    uint16_t fn;
} nx_rpc_call_head;

typedef enum nx_rpc_outcome {
    NX_RPC_OK,         /* the body is the reply */
    NX_RPC_FAILED,     /* the handler returned |code|; its message */
    NX_RPC_NO_HANDLER, /* no handler is registered; no message */
    NX_RPC_REFUSED,    /* the handler was not called: |code|, a nexar_err, and a message */
    NX_RPC_OUTCOMES
} nx_rpc_outcome;

typedef struct nx_rpc_reply_head {
    nx_rpc_outcome outcome;
    int32_t code; /* 0 except for FAILED and REFUSED, where it is not 0 */
} nx_rpc_reply_head;

void nx_rpc_call_encode(const nx_rpc_call_head *h, uint8_t out[NX_RPC_HEAD]);
void nx_rpc_reply_encode(const nx_rpc_reply_head *h, uint8_t out[NX_RPC_HEAD]);

/* False: not a valid head. */
NX_MUST_CHECK bool nx_rpc_call_decode(const uint8_t in[NX_RPC_HEAD], nx_rpc_call_head *h);
NX_MUST_CHECK bool nx_rpc_reply_decode(const uint8_t in[NX_RPC_HEAD], nx_rpc_reply_head *h);

/* A message that is arriving. Zero-initialised: nothing has arrived. */
typedef struct nx_rpc_body {
    uint8_t head[NX_RPC_HEAD];
    uint8_t *data; /* the caller frees or keeps it; NULL: dropped or out of memory */
    uint64_t len;  /* without the head */
    bool begun;    /* len is known */
    bool headless; /* the message is shorter than a head */
    bool dropped;  /* the content is not needed */
    bool nomem;
} nx_rpc_body;

/* A message of |total| bytes begins: allocates memory for it unless |drop|. */
void nx_rpc_body_begin(nx_rpc_body *b, uint64_t total, bool drop);
/* Bytes [off, off + len) of it. */
void nx_rpc_body_put(nx_rpc_body *b, uint64_t off, const void *data, size_t len);
/* The content is not needed any more. */
void nx_rpc_body_drop(nx_rpc_body *b);

#endif /* NX_RPC_HEAD_H */
