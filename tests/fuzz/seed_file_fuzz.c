/*
 * seed_file_fuzz.c - any bytes as a seed's state file: an accepted file is complete, and is encoded
 * and decoded again.
 *
 * The first byte: with the lowest bit the checksum is corrected, so that later fields are reached;
 * with the next one a valid authority precedes the rest.
 */
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/seed/seed_file.h"
#include "fuzz.h"

static const char MAGIC[] = "nexar seed 1\n";
enum { SUM = 32, ROOM = 1 << 14 };

static void check(const nx_seed_file *f)
{
    nx_seed_file back = {0};
    uint8_t *bytes = NULL;
    size_t len = 0;

    nxt_must((f->authority != NULL) && (f->port != 0) && (f->world_size > 0));
    nxt_must((f->memory.view == NULL) || (f->memory.view->epoch == f->memory.epoch));
    nxt_must(nx_seed_file_encode(f, &bytes, &len) == NEXAR_OK);
    nxt_must(nx_seed_file_decode(bytes, len, &back) == NEXAR_OK);
    nxt_must((back.port == f->port) && (back.world_size == f->world_size));
    nxt_must((back.memory.epoch == f->memory.epoch) &&
             (back.memory.member_limit == f->memory.member_limit));
    nxt_must((back.memory.view == NULL) == (f->memory.view == NULL));
    nx_seed_file_fini(&back);
    nx_free(bytes);
}

/* The file of a valid seed; created once, since that takes a millisecond. */
static void put_authority(nx_writer *w)
{
    static const nx_job_id job = {{1}};
    static char text[NX_AUTHORITY_TEXT];
    static size_t len;
    nx_authority *authority = NULL;

    if (len == 0) {
        nxt_must(nx_authority_create(&authority, &job) == NEXAR_OK);
        nxt_must(nx_authority_export(authority, text, &len) == NEXAR_OK);
        nx_authority_destroy(authority);
    }
    nx_write_blob(w, text, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[ROOM];
    nx_writer w = nx_writer_make(bytes, sizeof(bytes) - SUM);
    nx_seed_file f = {0};

    if (size == 0) {
        return 0;
    }
    if ((data[0] & 2) != 0) {
        nx_write_bytes(&w, MAGIC, sizeof(MAGIC) - 1);
        put_authority(&w);
    }
    nx_write_bytes(&w, data + 1, size - 1);
    if (w.failed) {
        return 0;
    }
    if ((data[0] & 1) != 0) {
        nxt_must(gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes, w.len, bytes + w.len) == 0);
        w.len += SUM;
    }
    if (nx_seed_file_decode(bytes, w.len, &f) == NEXAR_OK) {
        check(&f);
        nx_seed_file_fini(&f);
    } else {
        nxt_must((f.authority == NULL) && (f.memory.view == NULL));
    }
    return 0;
}
