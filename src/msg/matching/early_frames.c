/* early_frames.c - a list in order of arrival, and an account for each sender. */
#include "early_frames.h"

#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/containers/map.h"

static const size_t sender_limit[NX_EARLY_KINDS] = {
    [NX_EARLY_CONTROL] = NX_EARLY_CONTROL_SENDER,
    [NX_EARLY_FINISHED] = NX_EARLY_FINISHED_SENDER,
    [NX_EARLY_CREATION] = NX_EARLY_CREATION_SENDER,
    [NX_EARLY_LINK] = NX_EARLY_LINK_SENDER,
};

/* The frames and bytes of one sender in the store. */
typedef struct account {
    size_t bytes;
} account;

struct nx_early {
    nx_list kept;                     /* in order of arrival */
    nx_list due;                      /* frames of identities that are being delivered */
    nx_map senders[NX_EARLY_KINDS];   /* accounts, by sender; none is empty */
    size_t bytes[NX_EARLY_KINDS];     /* of all accounts */
    uint64_t closed[NX_EARLY_CLOSED]; /* ids + 1 */
    size_t nclosed;
};

/* ---- life ---------------------------------------------------------------------------- */

nexar_err nx_early_create(nx_early **out)
{
    nx_early *e = nx_zalloc(sizeof(*e));

    if (e == NULL) {
        return nx_fail_nomem("the store of early frames");
    }
    nx_list_init(&e->kept);
    nx_list_init(&e->due);
    *out = e;
    return NEXAR_OK;
}

static size_t cost(size_t len)
{
    return sizeof(nx_early_frame) + len;
}

/* Frees |f|, which is in no list. */
static void free_frame(nx_early *e, nx_early_frame *f)
{
    nx_map *senders = &e->senders[f->key.kind];
    account *a = nx_map_get(senders, f->key.from);

    e->bytes[f->key.kind] -= cost(f->len);
    a->bytes -= cost(f->len);
    if (a->bytes == 0) {
        nx_free(nx_map_take(senders, f->key.from));
    }
    nx_free(f);
}

void nx_early_destroy(nx_early *e)
{
    nx_list *at;

    if (e == NULL) {
        return;
    }
    while ((at = nx_list_pop(&e->kept)) != NULL) {
        free_frame(e, nx_list_entry(at, nx_early_frame, link));
    }
    for (int kind = 0; kind < NX_EARLY_KINDS; kind++) {
        nx_map_fini(&e->senders[kind]);
    }
    nx_free(e);
}

size_t nx_early_bytes(const nx_early *e, nx_early_kind kind)
{
    return e->bytes[kind];
}

/* ---- keeping ------------------------------------------------------------------------- */

static bool fits(const nx_early *e, const nx_early_key *key, size_t bytes)
{
    const account *a = nx_map_get(&e->senders[key->kind], key->from);

    return (((a == NULL) ? 0 : a->bytes) + bytes <= sender_limit[key->kind]) &&
           (e->bytes[key->kind] + bytes <= NX_EARLY_TOTAL);
}

/* Whether there is room for |bytes| more of |key|, after dropping stale frames. Frames of a link
 * never become stale: they are dropped with the link. */
static bool make_room(nx_early *e, const nx_early_key *key, size_t bytes, uint64_t now_ns)
{
    nx_list_for_each (at, &e->kept) {
        nx_early_frame *f = nx_list_entry(at, nx_early_frame, link);

        if (fits(e, key, bytes) || (key->kind == NX_EARLY_LINK) ||
            (now_ns - f->came_ns < NX_EARLY_STALE_NS)) {
            break;
        }
        if (f->key.kind == key->kind) {
            nx_list_remove(at);
            free_frame(e, f);
        }
    }
    return fits(e, key, bytes);
}

/* Counts |bytes| for the sender of |key|.  NEXAR_ENOMEM. */
static nexar_err charge(nx_early *e, const nx_early_key *key, size_t bytes)
{
    nx_map *senders = &e->senders[key->kind];
    account *a = nx_map_get(senders, key->from);

    if (a == NULL) {
        a = nx_zalloc(sizeof(*a));
        if ((a == NULL) || (nx_map_put(senders, key->from, a) != NEXAR_OK)) {
            nx_free(a);
            return NEXAR_ENOMEM;
        }
    }
    a->bytes += bytes;
    e->bytes[key->kind] += bytes;
    return NEXAR_OK;
}

static size_t sum(const nx_bytes *parts, size_t n)
{
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        len += parts[i].len;
    }
    return len;
}

/* NULL: no memory. */
static nx_early_frame *make_frame(nx_early *e, const nx_early_key *key, const nx_bytes *parts,
                                  size_t n)
{
    const size_t len = sum(parts, n);
    nx_early_frame *f = nx_zalloc(cost(len));
    size_t at = 0;

    if ((f == NULL) || (charge(e, key, cost(len)) != NEXAR_OK)) {
        nx_free(f);
        return NULL;
    }
    f->key = *key;
    f->len = len;
    for (size_t i = 0; i < n; i++) {
        if (parts[i].len > 0) {
            memcpy(f->data + at, parts[i].ptr, parts[i].len);
        }
        at += parts[i].len;
    }
    return f;
}

/* Whether the id of a frame of |kind| is that of a communicator. */
static bool is_of_comm(nx_early_kind kind)
{
    return (kind == NX_EARLY_CONTROL) || (kind == NX_EARLY_FINISHED);
}

nexar_err nx_early_keep(nx_early *e, const nx_early_key *key, const nx_bytes *parts, size_t n,
                        uint64_t now_ns)
{
    nx_early_frame *f;

    if (is_of_comm(key->kind) && nx_early_is_closed(e, key->id)) {
        return NEXAR_OK;
    }
    if (!make_room(e, key, cost(sum(parts, n)), now_ns)) {
        return nx_fail(NEXAR_ENOMEM,
                       "an early frame is dropped: early frames have %zu bytes; the limit is "
                       "%zu per sender, %d in all",
                       e->bytes[key->kind], sender_limit[key->kind], NX_EARLY_TOTAL);
    }
    f = make_frame(e, key, parts, n);
    if (f == NULL) {
        return nx_fail_nomem("an early frame");
    }
    f->came_ns = now_ns;
    nx_list_push_back(&e->kept, &f->link);
    return NEXAR_OK;
}

/* ---- delivering and dropping --------------------------------------------------------- */

static bool is_for(const nx_early_frame *f, nx_early_kind kind, uint64_t id)
{
    return (f->key.kind == kind) && (f->key.id == id);
}

/* The first frame in |list| for |id|; NULL: none. */
static nx_early_frame *find(const nx_list *list, nx_early_kind kind, uint64_t id)
{
    nx_list_for_each (at, list) {
        nx_early_frame *f = nx_list_entry(at, nx_early_frame, link);

        if (is_for(f, kind, id)) {
            return f;
        }
    }
    return NULL;
}

/* Invariant: all frames to deliver are moved to |due| first, so the loop ends even if frames for
 * |id| arrive during it. Nested calls may remove frames from |due|. */
void nx_early_deliver(nx_early *e, nx_early_kind kind, uint64_t id,
                      void (*deliver)(void *ctx, const nx_early_frame *frame), void *ctx)
{
    nx_early_frame *f;

    nx_list_for_each (at, &e->kept) {
        if (is_for(nx_list_entry(at, nx_early_frame, link), kind, id)) {
            nx_list_remove(at);
            nx_list_push_back(&e->due, at);
        }
    }
    while ((f = find(&e->due, kind, id)) != NULL) {
        nx_list_remove(&f->link);
        deliver(ctx, f);
        free_frame(e, f);
    }
}

static void drop_from(nx_early *e, nx_list *list, nx_early_kind kind, uint64_t id)
{
    nx_list_for_each (at, list) {
        nx_early_frame *f = nx_list_entry(at, nx_early_frame, link);

        if (is_for(f, kind, id)) {
            nx_list_remove(at);
            free_frame(e, f);
        }
    }
}

void nx_early_drop(nx_early *e, nx_early_kind kind, uint64_t id)
{
    drop_from(e, &e->kept, kind, id);
    drop_from(e, &e->due, kind, id);
}

/* ---- closed ids ---------------------------------------------------------------------- */

void nx_early_close(nx_early *e, uint64_t id)
{
    nx_early_drop(e, NX_EARLY_CONTROL, id);
    nx_early_drop(e, NX_EARLY_FINISHED, id);
    e->closed[e->nclosed++ % NX_EARLY_CLOSED] = id + 1;
}

bool nx_early_is_closed(const nx_early *e, uint64_t id)
{
    for (size_t i = 0; i < NX_EARLY_CLOSED; i++) {
        if (e->closed[i] == id + 1) {
            return true;
        }
    }
    return false;
}
