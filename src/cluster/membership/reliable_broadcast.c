/* reliable_broadcast.c - reliable broadcast over a circulant graph. */
#include "cluster/membership/reliable_broadcast.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/containers/map.h"
#include "cluster/view.h"
#include "msg/control.h"
#include "wire/wire.h"

enum { TARGETS_MAX = 16 };
_Static_assert(NX_WORLD_MAX <= 1 << TARGETS_MAX, "distances up to half of the largest world");

typedef struct item {
    uint64_t key;
    size_t len;
    uint8_t data[];
} item;

/* Invariant: targets[j] is the first live rank at distance 2^j or more, self if there is none; each
 * target was sent every item. */
struct nx_rbcast {
    uint64_t group;
    uint32_t size, self;
    const nx_rbcast_ops *ops;
    void *ctx;
    uint32_t targets[TARGETS_MAX], ntargets;
    nx_map items;
};

static uint32_t target_at(const nx_rbcast *f, uint32_t j)
{
    for (uint32_t far = UINT32_C(1) << j; far < f->size; far++) {
        const uint32_t rank = (far < f->size - f->self) ? f->self + far : far - (f->size - f->self);

        if (f->ops->life(f->ctx, rank) < NX_LIFE_LEFT) {
            return rank;
        }
    }
    return f->self;
}

nexar_err nx_rbcast_create(nx_rbcast **out, uint64_t group, uint32_t size, uint32_t self,
                           const nx_rbcast_ops *ops, void *ctx)
{
    nx_rbcast *f;

    if ((size == 0) || (size > NX_WORLD_MAX) || (self >= size)) {
        return nx_fail(NEXAR_EINVAL, "a reliable broadcast by rank %" PRIu32 " of %" PRIu32, self,
                       size);
    }
    f = nx_zalloc(sizeof(*f));
    if (f == NULL) {
        return nx_fail_nomem("a reliable broadcast");
    }
    f->group = group;
    f->size = size;
    f->self = self;
    f->ops = ops;
    f->ctx = ctx;
    while ((f->ntargets < TARGETS_MAX) && ((UINT32_C(1) << f->ntargets) < size)) {
        f->targets[f->ntargets] = target_at(f, f->ntargets);
        f->ntargets++;
    }
    *out = f;
    return NEXAR_OK;
}

void nx_rbcast_destroy(nx_rbcast *f)
{
    size_t at = 0;
    void *it;

    if (f == NULL) {
        return;
    }
    while ((it = nx_map_next(&f->items, &at)) != NULL) {
        nx_free(it);
    }
    nx_map_fini(&f->items);
    nx_free(f);
}

size_t nx_rbcast_encode(uint64_t group, uint64_t key, const void *data, size_t len,
                        uint8_t frame[NX_RBCAST_FRAME_MAX])
{
    nx_writer w = nx_writer_make(frame, NX_RBCAST_FRAME_MAX);

    nx_write_u8(&w, NX_CONTROL_RBCAST);
    nx_write_varint(&w, group);
    nx_write_u64(&w, key);
    nx_write_blob(&w, data, len);
    return w.len;
}

static void tell(nx_rbcast *f, const item *it, uint32_t to)
{
    uint8_t frame[NX_RBCAST_FRAME_MAX];

    f->ops->send(f->ctx, to, frame, nx_rbcast_encode(f->group, it->key, it->data, it->len, frame));
}

/* Whether the |j|-th target needs a frame: it is not self, and not equal to an earlier target. */
static bool is_target(const nx_rbcast *f, uint32_t j)
{
    for (uint32_t i = 0; i < j; i++) {
        if (f->targets[i] == f->targets[j]) {
            return false;
        }
    }
    return f->targets[j] != f->self;
}

/* NULL: no memory. */
static item *keep(nx_rbcast *f, uint64_t key, const void *data, size_t len)
{
    item *it = nx_zalloc(sizeof(*it) + len);

    if (it == NULL) {
        (void)nx_fail_nomem("an item for all ranks");
        return NULL;
    }
    it->key = key;
    it->len = len;
    if (len > 0) {
        memcpy(it->data, data, len);
    }
    if (nx_map_put(&f->items, key, it) != NEXAR_OK) {
        nx_free(it);
        return NULL;
    }
    return it;
}

static void tell_all(nx_rbcast *f, const item *it, uint32_t but)
{
    for (uint32_t j = 0; j < f->ntargets; j++) {
        if (is_target(f, j) && (f->targets[j] != but)) {
            tell(f, it, f->targets[j]);
        }
    }
}

nexar_err nx_rbcast_start(nx_rbcast *f, uint64_t key, const void *data, size_t len)
{
    const item *it;

    if (len > NX_RBCAST_DATA_MAX) {
        return nx_fail(NEXAR_EINVAL, "an item of %zu bytes; at most %d fit", len,
                       NX_RBCAST_DATA_MAX);
    }
    if (nx_rbcast_knows(f, key)) {
        return NEXAR_OK;
    }
    it = keep(f, key, data, len);
    if (it == NULL) {
        return NEXAR_ENOMEM;
    }
    tell_all(f, it, f->self);
    return NEXAR_OK;
}

nexar_err nx_rbcast_frame_group(const void *frame, size_t len, uint64_t *group)
{
    nx_reader r = nx_reader_make(frame, len);
    const uint8_t type = nx_read_u8(&r);
    const uint64_t g = nx_read_varint(&r);

    if (r.failed || (type != NX_CONTROL_RBCAST)) {
        return nx_fail(NEXAR_EPROTO, "a malformed RBCAST frame");
    }
    *group = g;
    return NEXAR_OK;
}

/* The number of kept items is bounded: three kinds, each for at most the ranks of a world. */
static bool is_known_key(uint64_t key)
{
    const uint64_t kind = key >> 32;

    return (kind >= NX_RBCAST_DEAD) && (kind <= NX_RBCAST_ENDED) && ((uint32_t)key < NX_WORLD_MAX);
}

nexar_err nx_rbcast_frame(nx_rbcast *f, uint32_t from, const void *frame, size_t len)
{
    nx_reader r = nx_reader_make(frame, len);
    const uint8_t type = nx_read_u8(&r);
    const uint64_t group = nx_read_varint(&r), key = nx_read_u64(&r);
    char why[NX_RBCAST_DATA_MAX + 1];
    const item *it;

    nx_read_sentence(&r, why, sizeof(why));
    if (!nx_reader_done(&r) || (type != NX_CONTROL_RBCAST) || (group != f->group) ||
        !is_known_key(key)) {
        return nx_fail(NEXAR_EPROTO, "a malformed RBCAST frame");
    }
    /* Ignores frames of failed ranks: such a rank may have declared others failed. */
    if ((f->ops->life(f->ctx, from) == NX_LIFE_FAILED) || nx_rbcast_knows(f, key)) {
        return NEXAR_OK;
    }
    it = keep(f, key, why, strlen(why));
    if (it == NULL) {
        return NEXAR_ENOMEM;
    }
    tell_all(f, it, from);
    f->ops->learned(f->ctx, key, it->data, it->len, from);
    return NEXAR_OK;
}

/* The |j|-th target has changed: sends it all items, unless it equals another target. */
static void retarget(nx_rbcast *f, uint32_t j)
{
    const item *it;
    size_t at = 0;
    bool told = false;

    f->targets[j] = target_at(f, j);
    for (uint32_t i = 0; i < f->ntargets; i++) {
        told = told || ((i != j) && (f->targets[i] == f->targets[j]));
    }
    while (!told && (f->targets[j] != f->self) && ((it = nx_map_next(&f->items, &at)) != NULL)) {
        tell(f, it, f->targets[j]);
    }
}

void nx_rbcast_gone(nx_rbcast *f, uint32_t rank)
{
    for (uint32_t j = 0; j < f->ntargets; j++) {
        if (f->targets[j] == rank) {
            retarget(f, j);
        }
    }
}

void nx_rbcast_grow(nx_rbcast *f, uint32_t size)
{
    f->size = size;
    for (uint32_t j = 0; j < f->ntargets; j++) {
        if (f->targets[j] != target_at(f, j)) {
            retarget(f, j);
        }
    }
    while ((f->ntargets < TARGETS_MAX) && ((UINT32_C(1) << f->ntargets) < size)) {
        f->targets[f->ntargets] = f->self;
        retarget(f, f->ntargets++);
    }
}

void nx_rbcast_forget(nx_rbcast *f, uint64_t key)
{
    nx_free(nx_map_take(&f->items, key));
}

bool nx_rbcast_knows(const nx_rbcast *f, uint64_t key)
{
    return nx_map_get(&f->items, key) != NULL;
}
