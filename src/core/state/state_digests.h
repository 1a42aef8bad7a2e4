/* state_digests.h - the digests of many tensors, computed by several threads. */
#ifndef NX_STATE_DIGESTS_H
#define NX_STATE_DIGESTS_H

#include "base/memory/content_hash.h"
#include "device/device.h"

/* Size of the parts in which tensors are hashed and kept; any free thread takes the next part. */
enum { NX_STATE_LEAF = 1 << 20 };

/*
 * Writes the digest of each tensor to |out|.  |mem|: where the tensors lie.
 *
 * NEXAR_ENOMEM, NEXAR_EDEVICE
 */
NX_MUST_CHECK nexar_err nx_state_digests(nx_devmem mem, const nexar_state *tensors, size_t n,
                                         const nx_content_key *key, unsigned threads,
                                         nx_digest *out);

#endif /* NX_STATE_DIGESTS_H */
