/* view_fuzz.c - any bytes as a view: an accepted view is complete, and is encoded and decoded
 * again. */
#include <string.h>

#include "base/alloc.h"
#include "cluster/addresses.h"
#include "cluster/view.h"
#include "fuzz.h"

static void check(const nx_view *view)
{
    nxt_must((view->size >= 1) && (view->size <= NX_WORLD_MAX));
    for (uint32_t i = 0; i < view->size; i++) {
        const nx_member *m = &view->members[i];

        nxt_must((m->rank == i) && (m->id != 0));
        nxt_must((m->naddresses >= 1) && (m->naddresses <= NX_ADDRESSES_MAX));
        nxt_must(memchr(m->host, '\0', sizeof(m->host)) != NULL);
        for (size_t k = 0; k < m->naddresses; k++) {
            nxt_must(nx_address_port(&m->addresses[k]) != 0);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nx_reader r = nx_reader_make(data, size);
    nx_view *view = NULL, *back = NULL;
    uint8_t *bytes;
    nx_writer w;

    if (nx_view_decode(&r, &view) != NEXAR_OK) {
        nxt_must(view == NULL);
        return 0;
    }
    check(view);
    bytes = nx_zalloc(nx_view_encoded_max(view->size));
    nxt_must(bytes != NULL);
    w = nx_writer_make(bytes, nx_view_encoded_max(view->size));
    nx_view_encode(&w, view);
    nxt_must(!w.failed);
    r = nx_reader_make(bytes, w.len);
    nxt_must((nx_view_decode(&r, &back) == NEXAR_OK) && nx_reader_done(&r));
    nxt_must(memcmp(view->members, back->members, view->size * sizeof(view->members[0])) == 0);
    nx_view_destroy(view);
    nx_view_destroy(back);
    nx_free(bytes);
    return 0;
}
