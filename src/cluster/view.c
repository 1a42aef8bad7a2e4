/* view.c - views and their encoding. */
#include "cluster/view.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/addresses.h"
#include "cluster/comm_id.h"

nx_view *nx_view_create(uint32_t size)
{
    nx_view *view = nx_zalloc(sizeof(*view) + (size_t)size * sizeof(view->members[0]));

    if (view != NULL) {
        view->size = size;
    }
    return view;
}

void nx_view_destroy(nx_view *view)
{
    nx_free(view);
}

const nx_member *nx_view_member(const nx_view *view, uint64_t id)
{
    for (uint32_t i = 0; i < view->size; i++) {
        if (view->members[i].id == id) {
            return &view->members[i];
        }
    }
    return NULL;
}

const nx_member *nx_view_slot(const nx_view *view, uint32_t slot)
{
    uint32_t low = 0, high = view->size;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (view->members[middle].slot < slot) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return ((low < view->size) && (view->members[low].slot == slot)) ? &view->members[low] : NULL;
}

static void address_encode(nx_writer *w, const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET) {
        nx_write_u8(w, 4);
        nx_write_bytes(w, &((const struct sockaddr_in *)(const void *)a)->sin_addr, 4);
    } else {
        nx_write_u8(w, 6);
        nx_write_bytes(w, &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr, 16);
    }
    nx_write_u16(w, nx_address_port(a));
}

static void address_decode(nx_reader *r, struct sockaddr_storage *a)
{
    const uint8_t family = nx_read_u8(r);
    const uint8_t *bytes = nx_read_bytes(r, (family == 4) ? 4 : 16);
    const uint16_t port = nx_read_u16(r);

    memset(a, 0, sizeof(*a));
    if (r->failed || ((family != 4) && (family != 6)) || (port == 0)) {
        r->failed = true;
        return;
    }
    if (family == 4) {
        struct sockaddr_in *in = (struct sockaddr_in *)(void *)a;

        in->sin_family = AF_INET;
        in->sin_port = htons(port);
        memcpy(&in->sin_addr, bytes, 4);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)(void *)a;

        in6->sin6_family = AF_INET6;
        in6->sin6_port = htons(port);
        memcpy(&in6->sin6_addr, bytes, 16);
    }
    r->failed = nx_address_any(a);
}

void nx_member_encode(nx_writer *w, const nx_member *m)
{
    nx_write_u64(w, m->id);
    nx_write_u32(w, m->rank);
    nx_write_u32(w, m->slot);
    nx_write_bytes(w, m->boot_id, sizeof(m->boot_id));
    nx_write_text(w, m->host);
    nx_write_u32(w, m->process.pid);
    nx_write_u64(w, m->process.space);
    nx_write_u64(w, m->process.started);
    nx_write_u8(w, (uint8_t)m->naddresses);
    for (size_t i = 0; i < m->naddresses; i++) {
        address_encode(w, &m->addresses[i]);
    }
    nx_write_blob(w, m->local, m->nlocal);
}

void nx_member_decode(nx_reader *r, nx_member *m)
{
    const uint8_t *boot_id, *local;

    m->id = nx_read_u64(r);
    m->rank = nx_read_u32(r);
    m->slot = nx_read_u32(r);
    boot_id = nx_read_bytes(r, sizeof(m->boot_id));
    if (boot_id != NULL) {
        memcpy(m->boot_id, boot_id, sizeof(m->boot_id));
    }
    nx_read_text(r, m->host, sizeof(m->host));
    m->process.pid = nx_read_u32(r);
    m->process.space = nx_read_u64(r);
    m->process.started = nx_read_u64(r);
    m->naddresses = nx_read_u8(r);
    if ((m->naddresses == 0) || (m->naddresses > NX_ADDRESSES_MAX)) {
        r->failed = true;
    }
    for (size_t i = 0; !r->failed && (i < m->naddresses); i++) {
        address_decode(r, &m->addresses[i]);
    }
    local = nx_read_blob(r, sizeof(m->local), &m->nlocal);
    if (local != NULL) {
        memcpy(m->local, local, m->nlocal);
    }
}

void nx_view_encode(nx_writer *w, const nx_view *view)
{
    nx_write_bytes(w, view->job.bytes, sizeof(view->job.bytes));
    nx_write_u64(w, view->epoch);
    nx_write_u32(w, view->size);
    nx_write_u32(w, view->world);
    nx_write_u32(w, view->slots);
    for (uint32_t i = 0; i < view->size; i++) {
        nx_member_encode(w, &view->members[i]);
    }
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Whether no id is 0 or occurs twice.  Sorts: a peer that chooses ids could make a hash table
 * slow. */
static nexar_err check_ids(const nx_view *view, bool *good)
{
    uint64_t *ids = nx_calloc(view->size, sizeof(*ids));

    if (ids == NULL) {
        return nx_fail_nomem("a view");
    }
    for (uint32_t i = 0; i < view->size; i++) {
        ids[i] = view->members[i].id;
    }
    qsort(ids, view->size, sizeof(*ids), by_value);
    *good = true;
    for (uint32_t i = 0; i < view->size; i++) {
        *good = *good && (ids[i] != ((i == 0) ? 0 : ids[i - 1]));
    }
    nx_free(ids);
    return NEXAR_OK;
}

/* Decodes the members.  False: a member is malformed, and |*bad| is its index. */
static bool read_members(nx_reader *r, nx_view *view, uint32_t *bad)
{
    for (uint32_t i = 0; i < view->size; i++) {
        nx_member *m = &view->members[i];

        nx_member_decode(r, m);
        if (r->failed || (m->rank != i) || (m->slot >= view->slots) ||
            ((i > 0) && (m->slot <= view->members[i - 1].slot))) {
            *bad = i;
            return false;
        }
    }
    return true;
}

static nexar_err read_view(nx_reader *r, nx_view *view)
{
    uint32_t bad = 0;
    bool good = false;
    nexar_err err;

    if (!read_members(r, view, &bad)) {
        return nx_fail(NEXAR_EPROTO, "a view whose member %u is malformed", bad);
    }
    err = check_ids(view, &good);
    if (err != NEXAR_OK) {
        return err;
    }
    return good ? NEXAR_OK : nx_fail(NEXAR_EPROTO, "a view that names a member twice or as 0");
}

nexar_err nx_view_decode(nx_reader *r, nx_view **out)
{
    const uint8_t *job = nx_read_bytes(r, NX_JOB_SIZE);
    const uint64_t epoch = nx_read_u64(r);
    const uint32_t size = nx_read_u32(r), world = nx_read_u32(r), slots = nx_read_u32(r);
    nx_view *view;
    nexar_err err;

    /* Allocates only what the received bytes can fill. */
    if (r->failed || (size == 0) || (size > slots) || (slots > NX_WORLD_MAX) ||
        (nx_reader_left(r) / NX_MEMBER_ENCODED_MIN < size)) {
        return nx_fail(NEXAR_EPROTO, "a view that is cut short or of an impossible size");
    }
    if (nx_comm_id_first(world) >= slots) {
        return nx_fail(NEXAR_EPROTO, "a view of an impossible world");
    }
    view = nx_view_create(size);
    if (view == NULL) {
        return nx_fail_nomem("a view");
    }
    memcpy(view->job.bytes, job, NX_JOB_SIZE);
    view->epoch = epoch;
    view->world = world;
    view->slots = slots;
    err = read_view(r, view);
    if (err != NEXAR_OK) {
        nx_view_destroy(view);
        return err;
    }
    *out = view;
    return NEXAR_OK;
}

/* ---- the next view ------------------------------------------------------------------- */

static void put(nx_view *view, uint32_t rank, const nx_member *m, uint32_t slot)
{
    view->members[rank] = *m;
    view->members[rank].rank = rank;
    view->members[rank].slot = slot;
}

nexar_err nx_view_next(const nx_view *old, const nx_rankset *gone, const nx_member *joined,
                       uint32_t n, uint32_t world, nx_view **out)
{
    const uint32_t stay = old->size - ((gone == NULL) ? 0 : gone->count);
    nx_view *view;
    uint32_t rank = 0;
    bool good = false;
    nexar_err err;

    if (stay == 0) {
        return nx_fail(NEXAR_EINVAL, "nobody of the old world is left");
    }
    if (nx_comm_id_first(world) >= old->slots) {
        return nx_fail(NEXAR_EINVAL, "world %u is of slot %u; those of %u were given out", world,
                       nx_comm_id_first(world), old->slots);
    }
    if (n > NX_WORLD_MAX - old->slots) {
        return nx_fail(NEXAR_EINVAL,
                       "%u are to join, but of %d places in a world's life %u are used", n,
                       (int)NX_WORLD_MAX, old->slots);
    }
    view = nx_view_create(stay + n);
    if (view == NULL) {
        return nx_fail_nomem("a view");
    }
    view->job = old->job;
    view->epoch = old->epoch + 1;
    view->world = world;
    view->slots = old->slots + n;
    for (uint32_t i = 0; i < old->size; i++) {
        if ((gone == NULL) || !nx_rankset_has(gone, i)) {
            put(view, rank++, &old->members[i], old->members[i].slot);
        }
    }
    for (uint32_t i = 0; i < n; i++) {
        put(view, rank++, &joined[i], old->slots + i);
    }
    err = check_ids(view, &good);
    if ((err == NEXAR_OK) && !good) {
        err = nx_fail(NEXAR_EINVAL, "somebody joins who is a member already, or nobody");
    }
    if (err != NEXAR_OK) {
        nx_view_destroy(view);
        return err;
    }
    *out = view;
    return NEXAR_OK;
}
