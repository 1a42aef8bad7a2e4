/* state_digests.c - the digest of a tensor is a digest of the digests of its leaves. */
#include "core/state/state_digests.h"

#include "base/alloc.h"
#include "base/parallel.h"
#include "core/state/state_table.h"

typedef struct hasher {
    const nexar_state *tensors;
    size_t n;
    const nx_content_key *key;
    size_t *first;    /* by tensor, and one more: index of its first leaf */
    nx_digest *leaf;  /* by leaf */
    nx_devmem mem;    /* of a device: ... */
    uint8_t *staging; /* ... a host copy of its leaves */
} hasher;

static size_t leaves_of(const nexar_state *t)
{
    return (nx_state_bytes(t) + NX_STATE_LEAF - 1) / NX_STATE_LEAF;
}

/* The tensor that contains |leaf|. */
static size_t tensor_of(const hasher *h, size_t leaf)
{
    size_t low = 0, high = h->n;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (h->first[middle] <= leaf) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The memory of |leaf|; stores its length in |*len|. */
static const uint8_t *find_leaf(const hasher *h, size_t leaf, size_t *len)
{
    const size_t i = tensor_of(h, leaf);
    const size_t off = (leaf - h->first[i]) * NX_STATE_LEAF;
    const size_t left = nx_state_bytes(&h->tensors[i]) - off;

    *len = (left < NX_STATE_LEAF) ? left : NX_STATE_LEAF;
    return (const uint8_t *)h->tensors[i].ptr + off;
}

static void hash_leaf(void *ctx, size_t leaf)
{
    const hasher *h = ctx;
    size_t len;
    const uint8_t *at = find_leaf(h, leaf, &len);

    h->leaf[leaf] = nx_content_hash(h->key, at, len);
}

static nexar_err hash_device(const hasher *h)
{
    nexar_err err = NEXAR_OK;

    for (size_t leaf = 0; (leaf < h->first[h->n]) && (err == NEXAR_OK); leaf++) {
        size_t len;
        const uint8_t *at = find_leaf(h, leaf, &len);

        err = nx_device_read(h->mem, h->staging, at, len);
        h->leaf[leaf] = nx_content_hash(h->key, h->staging, len);
    }
    return err;
}

/* NEXAR_ENOMEM */
static nexar_err make_room(hasher *h)
{
    h->first = nx_calloc(h->n + 1, sizeof(*h->first));
    if (h->first == NULL) {
        return NEXAR_ENOMEM;
    }
    for (size_t i = 0; i < h->n; i++) {
        h->first[i + 1] = h->first[i] + leaves_of(&h->tensors[i]);
    }
    h->leaf = nx_calloc(h->first[h->n], sizeof(*h->leaf));
    h->staging = (h->mem.device == NULL) ? NULL : nx_zalloc(NX_STATE_LEAF);
    return ((h->leaf == NULL) || ((h->mem.device != NULL) && (h->staging == NULL))) ? NEXAR_ENOMEM
                                                                                    : NEXAR_OK;
}

nexar_err nx_state_digests(nx_devmem mem, const nexar_state *tensors, size_t n,
                           const nx_content_key *key, unsigned threads, nx_digest *out)
{
    hasher h = {.tensors = tensors, .n = n, .key = key, .mem = mem};
    nexar_err err = make_room(&h);

    if (err != NEXAR_OK) {
        err = nx_fail_nomem("the digests of a state_sync");
    } else if (mem.device != NULL) {
        err = hash_device(&h);
    } else {
        nx_parallel(h.first[n], threads, hash_leaf, &h);
    }
    for (size_t i = 0; (i < n) && (err == NEXAR_OK); i++) {
        out[i] = nx_content_hash(key, h.leaf + h.first[i],
                                 (h.first[i + 1] - h.first[i]) * sizeof(*h.leaf));
    }
    nx_free(h.first);
    nx_free(h.leaf);
    nx_free(h.staging);
    return err;
}
