/*
 * state_table.h - what must be equal on all ranks before contents are compared: names, types and
 * counts of the tensors.
 */
#ifndef NX_STATE_TABLE_H
#define NX_STATE_TABLE_H

#include "base/error.h"
#include "base/memory/content_hash.h"

/*
 * Checks what one rank can tell.
 *
 * NEXAR_EINVAL
 *     |tensors| or a name is NULL, a tensor with elements has no memory, a type is none, or there
 *     are too many tensors or bytes.
 */
NX_MUST_CHECK nexar_err nx_state_check(const nexar_state *tensors, size_t n);

static inline size_t nx_state_bytes(const nexar_state *t)
{
    return t->count * nexar_dtype_size(t->dtype);
}

/* The bytes of a table, and the table: each tensor's type, count and name. */
size_t nx_state_table_size(const nexar_state *tensors, size_t n);
void nx_state_table_write(const nexar_state *tensors, size_t n, uint8_t *table);

/* A digest of |table| with a key that all ranks share at all times. */
nx_digest nx_state_table_digest(const uint8_t *table, size_t bytes);

/* The first of the |n| tensors that differs from the tensor at the same index in |table|, which
 * came from another rank, or that one of both lacks; UINT64_MAX: none.  NEXAR_EPROTO: |table| is
 * malformed.
 */
NX_MUST_CHECK nexar_err nx_state_table_compare(const nexar_state *tensors, size_t n,
                                               const uint8_t *table, size_t bytes, uint64_t *first);

/* Describes tensor |index|, for a message: "layer1.weight" (128 x f32), or "no tensor". */
enum { NX_STATE_TEXT = 128 };
void nx_state_describe(const nexar_state *tensors, size_t n, uint64_t index,
                       char text[NX_STATE_TEXT]);
/* The same from a table that nx_state_table_compare has accepted. */
void nx_state_table_describe(const uint8_t *table, size_t bytes, uint64_t index,
                             char text[NX_STATE_TEXT]);

#endif /* NX_STATE_TABLE_H */
