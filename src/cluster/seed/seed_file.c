/* seed_file.c - the state that a seed keeps on disk. */
#include "cluster/seed/seed_file.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/private_file.h"

/* magic, authority, token, port, world size, member limit, epoch, flag: view present, view,
 * checksum. */
static const char MAGIC[] = "nexar seed 2\n";
enum {
    MAGIC_SIZE = sizeof(MAGIC) - 1,
    SUM_SIZE = 32,
    FIXED_SIZE = MAGIC_SIZE + NX_AUTHORITY_TEXT + 64 + SUM_SIZE,
};

void nx_seed_file_fini(nx_seed_file *f)
{
    nx_authority_destroy(f->authority);
    nx_view_destroy((nx_view *)(uintptr_t)f->memory.view); /* |file| owns what it points to */
    explicit_bzero(f, sizeof(*f));
}

/* ---- encoding ------------------------------------------------------------------------ */

static nexar_err sum_of(const uint8_t *bytes, size_t len, uint8_t sum[SUM_SIZE])
{
    const int code = gnutls_hash_fast(GNUTLS_DIG_SHA256, bytes, len, sum);

    return (code < 0) ? nx_fail(NEXAR_EINTERNAL, "gnutls_hash_fast: %s", gnutls_strerror(code))
                      : NEXAR_OK;
}

static void write_body(nx_writer *w, const nx_seed_file *f, const char *authority, size_t len)
{
    nx_write_bytes(w, MAGIC, MAGIC_SIZE);
    nx_write_blob(w, authority, len);
    nx_write_bytes(w, f->token.bytes, sizeof(f->token.bytes));
    nx_write_u16(w, f->port);
    nx_write_u32(w, f->world_size);
    nx_write_u64(w, f->memory.member_limit);
    nx_write_u64(w, f->memory.epoch);
    nx_write_u8(w, (f->memory.view == NULL) ? 0 : 1);
    if (f->memory.view != NULL) {
        nx_view_encode(w, f->memory.view);
    }
}

nexar_err nx_seed_file_encode(const nx_seed_file *f, uint8_t **bytes, size_t *len)
{
    const uint32_t size = (f->memory.view == NULL) ? 0 : f->memory.view->size;
    const size_t room = FIXED_SIZE + nx_view_encoded_max(size);
    char authority[NX_AUTHORITY_TEXT];
    size_t authority_len = 0;
    uint8_t *made = nx_zalloc(room), sum[SUM_SIZE];
    nx_writer w = nx_writer_make(made, room);
    nexar_err err;

    if (made == NULL) {
        return nx_fail_nomem("the seed's state");
    }
    err = nx_authority_export(f->authority, authority, &authority_len);
    if (err == NEXAR_OK) {
        write_body(&w, f, authority, authority_len);
        err = sum_of(made, w.len, sum);
    }
    explicit_bzero(authority, sizeof(authority));
    if (err != NEXAR_OK) {
        explicit_bzero(made, room);
        nx_free(made);
        return err;
    }
    nx_write_bytes(&w, sum, sizeof(sum));
    *bytes = made;
    *len = w.len;
    return NEXAR_OK;
}

static nexar_err read_view(nx_reader *r, nx_seed_file *f)
{
    nx_view *view = NULL;
    nexar_err err = nx_view_decode(r, &view);

    if (err != NEXAR_OK) {
        return err;
    }
    f->memory.view = view;
    if (memcmp(&view->job, nx_authority_job(f->authority), sizeof(view->job)) != 0) {
        return nx_fail(NEXAR_EPROTO, "its world is of another job");
    }
    for (uint32_t i = 0; i < view->size; i++) {
        if (view->members[i].id >= f->memory.member_limit) {
            return nx_fail(NEXAR_EPROTO, "its world has members that were never admitted");
        }
    }
    return (view->epoch == f->memory.epoch) ? NEXAR_OK : nx_fail(NEXAR_EPROTO, "its epochs differ");
}

static nexar_err read_body(nx_reader *r, nx_seed_file *f)
{
    size_t len = 0;
    const uint8_t *authority = nx_read_blob(r, NX_AUTHORITY_TEXT, &len);
    const uint8_t *token = nx_read_bytes(r, sizeof(f->token.bytes));
    uint8_t has_view;
    nexar_err err;

    f->port = nx_read_u16(r);
    f->world_size = nx_read_u32(r);
    f->memory.member_limit = nx_read_u64(r);
    f->memory.epoch = nx_read_u64(r);
    has_view = nx_read_u8(r);
    if (r->failed || (has_view > 1) || (f->world_size == 0) || (f->world_size > NX_WORLD_MAX) ||
        (f->port == 0)) {
        return nx_fail(NEXAR_EPROTO, "it is cut short or out of bounds");
    }
    memcpy(f->token.bytes, token, sizeof(f->token.bytes));
    err = nx_authority_import(&f->authority, (const char *)authority, len);
    if ((err == NEXAR_OK) && (has_view == 1)) {
        err = read_view(r, f);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    return nx_reader_done(r) ? NEXAR_OK : nx_fail(NEXAR_EPROTO, "something stands behind its end");
}

nexar_err nx_seed_file_decode(const uint8_t *bytes, size_t len, nx_seed_file *f)
{
    nx_seed_file made = {0};
    uint8_t sum[SUM_SIZE];
    nx_reader r;
    nexar_err err;

    if ((len < MAGIC_SIZE) || (memcmp(bytes, MAGIC, MAGIC_SIZE) != 0)) {
        return nx_fail(NEXAR_EPROTO, "it is not the state of a nexar seed, or of another version");
    }
    if (len < MAGIC_SIZE + SUM_SIZE) {
        return nx_fail(NEXAR_EPROTO, "it is cut short");
    }
    err = sum_of(bytes, len - SUM_SIZE, sum);
    if (err != NEXAR_OK) {
        return err;
    }
    if (memcmp(bytes + len - SUM_SIZE, sum, SUM_SIZE) != 0) {
        return nx_fail(NEXAR_EPROTO, "it is damaged: its check sum is wrong");
    }
    r = nx_reader_make(bytes + MAGIC_SIZE, len - MAGIC_SIZE - SUM_SIZE);
    err = read_body(&r, &made);
    if (err != NEXAR_OK) {
        nx_seed_file_fini(&made);
        return err;
    }
    *f = made;
    return NEXAR_OK;
}

/* ---- files --------------------------------------------------------------------------- */

static const char WHAT[] = "the state of the seed";

nexar_err nx_seed_file_write(const char *path, const nx_seed_file *f)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    nexar_err err = nx_seed_file_encode(f, &bytes, &len);

    if ((err == NEXAR_OK) && (bytes != NULL)) {
        err = nx_private_file_write(WHAT, path, bytes, len);
        explicit_bzero(bytes, len);
        nx_free(bytes);
    }
    return err;
}

nexar_err nx_seed_file_read(const char *path, nx_seed_file *f, bool *there)
{
    const size_t most = FIXED_SIZE + nx_view_encoded_max(NX_WORLD_MAX);
    char why[NX_ERROR_ROOM];
    uint8_t *bytes = NULL;
    size_t len = 0;
    nexar_err err = nx_private_file_read(WHAT, path, most, &bytes, &len, there);

    if ((err != NEXAR_OK) || !*there) {
        return err;
    }
    err = nx_seed_file_decode(bytes, len, f);
    if (err == NEXAR_EPROTO) {
        (void)snprintf(why, sizeof(why), "%.200s", nexar_last_error());
        err = nx_fail(NEXAR_EPROTO,
                      "%s: %s; put back a copy, or remove it: then the seed begins anew, with "
                      "another join string",
                      path, why);
    }
    explicit_bzero(bytes, len);
    nx_free(bytes);
    *there = (err == NEXAR_OK);
    return err;
}
