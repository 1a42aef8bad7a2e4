/* handshake.c - the packets of pairing, and their proofs. */
#include "handshake.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>

#include "wire/wire.h"

enum { MAGIC = 0x6e787331 }; /* "nxs1": changes with the handshake */

size_t nx_shm_word_encode(const nx_shm_word *w, uint8_t out[NX_SHM_WORD_MAX])
{
    nx_writer to = nx_writer_make(out, NX_SHM_WORD_MAX);

    nx_write_u32(&to, MAGIC);
    nx_write_u8(&to, (uint8_t)w->type);
    switch (w->type) {
    case NX_SHM_HELLO:
        nx_write_u64(&to, w->from);
        nx_write_u64(&to, w->to);
        nx_write_bytes(&to, w->nonce, sizeof(w->nonce));
        break;
    case NX_SHM_CHALLENGE:
        nx_write_bytes(&to, w->nonce, sizeof(w->nonce));
        nx_write_bytes(&to, w->mac, sizeof(w->mac));
        break;
    case NX_SHM_PROOF:
        nx_write_bytes(&to, w->mac, sizeof(w->mac));
        nx_write_u64(&to, w->at);
        nx_write_u64(&to, w->token);
        break;
    case NX_SHM_WELCOME:
        nx_write_u64(&to, w->at);
        nx_write_u64(&to, w->token);
        break;
    case NX_SHM_REFUSED:
        nx_write_u8(&to, (uint8_t)w->why);
        break;
    case NX_SHM_PASS:
        nx_write_u64(&to, w->name);
        break;
    }
    return to.len;
}

static void read_into(nx_reader *r, uint8_t *out, size_t len)
{
    const uint8_t *bytes = nx_read_bytes(r, len);

    if (bytes != NULL) {
        memcpy(out, bytes, len);
    }
}

static void read_fields(nx_reader *r, nx_shm_word *w)
{
    switch (w->type) {
    case NX_SHM_HELLO:
        w->from = nx_read_u64(r);
        w->to = nx_read_u64(r);
        read_into(r, w->nonce, sizeof(w->nonce));
        break;
    case NX_SHM_CHALLENGE:
        read_into(r, w->nonce, sizeof(w->nonce));
        read_into(r, w->mac, sizeof(w->mac));
        break;
    case NX_SHM_PROOF:
        read_into(r, w->mac, sizeof(w->mac));
        w->at = nx_read_u64(r);
        w->token = nx_read_u64(r);
        break;
    case NX_SHM_WELCOME:
        w->at = nx_read_u64(r);
        w->token = nx_read_u64(r);
        break;
    case NX_SHM_REFUSED:
        w->why = (nx_shm_refusal)nx_read_u8(r);
        r->failed = r->failed || (w->why < NX_SHM_STRANGER) || (w->why > NX_SHM_TROUBLE);
        break;
    case NX_SHM_PASS:
        w->name = nx_read_u64(r);
        break;
    default:
        r->failed = true;
        break;
    }
}

nexar_err nx_shm_word_decode(const void *data, size_t len, nx_shm_word *w)
{
    nx_reader r = nx_reader_make(data, len);
    const uint32_t magic = nx_read_u32(&r);
    nx_shm_word got = {.type = (nx_shm_type)nx_read_u8(&r)};

    if (r.failed || (magic != MAGIC)) {
        return nx_fail(NEXAR_EPROTO, "it speaks another language");
    }
    read_fields(&r, &got);
    if (!nx_reader_done(&r)) {
        return nx_fail(NEXAR_EPROTO, "it sent a malformed packet");
    }
    *w = got;
    return NEXAR_OK;
}

nexar_err nx_shm_prove(const nx_shm_claim *claim, nx_shm_type of, uint8_t mac[NX_SHM_MAC])
{
    static const char label[] = "nexar shm pairing 1";
    uint8_t keys[2 * NX_SHM_KEY_SIZE], text[sizeof(label) + 17 + 2 * NX_SHM_NONCE];
    nx_writer w = nx_writer_make(text, sizeof(text));
    int code;

    memcpy(keys, claim->dialler->key, NX_SHM_KEY_SIZE);
    memcpy(keys + NX_SHM_KEY_SIZE, claim->acceptor->key, NX_SHM_KEY_SIZE);
    nx_write_bytes(&w, label, sizeof(label));
    nx_write_u8(&w, (uint8_t)of);
    nx_write_u64(&w, claim->from);
    nx_write_u64(&w, claim->to);
    nx_write_bytes(&w, claim->dialler_nonce, NX_SHM_NONCE);
    nx_write_bytes(&w, claim->acceptor_nonce, NX_SHM_NONCE);
    code = gnutls_hmac_fast(GNUTLS_MAC_SHA256, keys, sizeof(keys), text, w.len, mac);
    explicit_bzero(keys, sizeof(keys));
    return (code == 0) ? NEXAR_OK
                       : nx_fail(NEXAR_EINTERNAL, "gnutls_hmac_fast: %s", gnutls_strerror(code));
}

bool nx_shm_mac_equal(const uint8_t a[NX_SHM_MAC], const uint8_t b[NX_SHM_MAC])
{
    return gnutls_memcmp(a, b, NX_SHM_MAC) == 0;
}
