/* inbound.c - the memory of waiting messages, and its cost. */
#include <string.h>

#include "base/alloc.h"
#include "base/memory/copy.h"
#include "msg/engine.h"

enum { SPARE_MAX = 1024 }; /* nodes kept for reuse: 256 KiB */

nx_inbound *nx_inbound_make(nx_peer *from, const nx_key *key, nx_class class)
{
    nx_msg *m = from->msg;
    nx_list *spare = nx_list_pop(&m->spare);
    nx_inbound *in;

    if (spare != NULL) {
        in = nx_list_entry(spare, nx_inbound, held.order);
        m->nspare--;
    } else {
        in = nx_grow(NULL, 1, sizeof(*in));
        if (in == NULL) {
            return NULL;
        }
    }
    in->held.key = *key;
    in->from = from;
    from->inbounds++;
    in->req = NULL;
    in->length = in->eager = in->got = 0;
    in->data = NULL;
    in->id = in->rest = in->upto = 0;
    in->room = 0;
    in->state = 0;
    in->class = class;
    return in;
}

void nx_inbound_free(nx_msg *m, nx_inbound *in)
{
    if (!(in->state & NX_IN_TINY)) {
        nx_free(in->data);
    }
    in->from->inbounds--;
    if (m->nspare >= SPARE_MAX) {
        nx_free(in);
        return;
    }
    nx_list_push_front(&m->spare, &in->held.order); /* the next one finds it in cache */
    m->nspare++;
}

nexar_err nx_inbound_keep(nx_inbound *in, const void *data, size_t len)
{
    size_t need = (size_t)in->got + len;

    if (need > in->room) {
        /* The length is unknown before the envelope: reserve twice the current size. */
        size_t room = (in->state & NX_IN_EARLY) ? 2 * need : (size_t)in->eager;
        uint8_t *grown = nx_grow(in->data, room, 1);

        if (grown == NULL) {
            return NEXAR_ENOMEM;
        }
        in->data = grown;
        in->room = room;
    }
    nx_memcpy(in->data + in->got, data, len);
    in->got = need;
    return NEXAR_OK;
}

nexar_err nx_inbound_keep_whole(nx_inbound *in, const nx_bytes *bytes, size_t n, uint64_t length)
{
    size_t at = 0;

    if (length <= sizeof(in->tiny)) {
        in->state |= NX_IN_TINY;
        in->data = in->tiny;
    } else {
        in->data = nx_grow(NULL, (size_t)length, 1);
        if (in->data == NULL) {
            return NEXAR_ENOMEM;
        }
    }
    for (size_t i = 0; i < n; i++) {
        if (bytes[i].len > 0) {
            memcpy(in->data + at, bytes[i].ptr, bytes[i].len);
            at += bytes[i].len;
        }
    }
    in->length = in->eager = in->got = length;
    return NEXAR_OK;
}

void nx_inbound_hold(nx_msg *m, nx_inbound *in)
{
    nx_match_hold(&m->match, &in->held);
    nx_post_complete_probes(m, &in->held.key, in->length);
}

void nx_inbound_release(nx_inbound *in)
{
    if (!(in->state & (NX_IN_FREE | NX_IN_PULLED))) {
        nx_peer_release(in->from, in->class,
                        NX_ENVELOPE_COST + ((in->state & NX_IN_EARLY) ? in->got : in->eager));
    }
}
