/* view.c - views and their encoding. */
#include "cluster/view.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/addresses.h"

/* id, rank, boot id, an empty host, pid, one IPv4 address, nothing local. */
enum { MEMBER_ENCODED_MIN = 8 + 4 + NX_BOOT_ID_SIZE + 1 + 4 + 1 + 7 + 1 };

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
    nx_write_bytes(w, m->boot_id, sizeof(m->boot_id));
    nx_write_text(w, m->host);
    nx_write_u32(w, m->pid);
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
    boot_id = nx_read_bytes(r, sizeof(m->boot_id));
    if (boot_id != NULL) {
        memcpy(m->boot_id, boot_id, sizeof(m->boot_id));
    }
    nx_read_text(r, m->host, sizeof(m->host));
    m->pid = nx_read_u32(r);
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
    for (uint32_t i = 0; i < view->size; i++) {
        nx_member_encode(w, &view->members[i]);
    }
}

static int by_value(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* No id twice and none 0.  By sorting: a map could be made slow by whoever
 * chooses the ids. */
static nexar_err check_ids(const nx_view *view)
{
    uint64_t *ids = nx_calloc(view->size, sizeof(*ids));
    bool good = true;

    if (ids == NULL) {
        return nx_fail_nomem("a view");
    }
    for (uint32_t i = 0; i < view->size; i++) {
        ids[i] = view->members[i].id;
    }
    qsort(ids, view->size, sizeof(*ids), by_value);
    for (uint32_t i = 0; i < view->size; i++) {
        good = good && (ids[i] != ((i == 0) ? 0 : ids[i - 1]));
    }
    nx_free(ids);
    return good ? NEXAR_OK : nx_fail(NEXAR_EPROTO, "a view that names a member twice or as 0");
}

nexar_err nx_view_decode(nx_reader *r, nx_view **out)
{
    const uint8_t *job = nx_read_bytes(r, NX_JOB_SIZE);
    const uint64_t epoch = nx_read_u64(r);
    const uint32_t size = nx_read_u32(r);
    nx_view *view;
    nexar_err err;

    /* Memory only for what the bytes that are here can fill. */
    if (r->failed || (size == 0) || (size > NX_WORLD_MAX) ||
        (nx_reader_left(r) / MEMBER_ENCODED_MIN < size)) {
        return nx_fail(NEXAR_EPROTO, "a view that is cut short or of an impossible size");
    }
    view = nx_view_create(size);
    if (view == NULL) {
        return nx_fail_nomem("a view");
    }
    memcpy(view->job.bytes, job, NX_JOB_SIZE);
    view->epoch = epoch;
    for (uint32_t i = 0; i < size; i++) {
        nx_member_decode(r, &view->members[i]);
        if (r->failed || (view->members[i].rank != i)) {
            nx_view_destroy(view);
            return nx_fail(NEXAR_EPROTO, "a view whose member %u is malformed", i);
        }
    }
    err = check_ids(view);
    if (err != NEXAR_OK) {
        nx_view_destroy(view);
        return err;
    }
    *out = view;
    return NEXAR_OK;
}
