/* protect.c - keys and packets: nexar's own AEAD, or ngtcp2's helpers for GnuTLS. */
#include "protect.h"

#include <string.h>

#include "base/containers/list.h"

/* ---- ownership of keys --------------------------------------------------------------- */

enum { OURS = 1 };

static void *handle_of(nx_aead *a)
{
    return (uint8_t *)(void *)a + OURS;
}

/* NULL: GnuTLS's. */
static nx_aead *ours(void *handle)
{
    return (((uintptr_t)handle & OURS) != 0) ? (nx_aead *)(void *)((uint8_t *)handle - OURS) : NULL;
}

static nx_tls_session *session_of(gnutls_session_t session)
{
    ngtcp2_crypto_conn_ref *ref = gnutls_session_get_ptr(session);

    return nx_list_entry(ref, nx_tls_session, ref);
}

/* The length of nexar's own key; 0: GnuTLS protects this connection. */
static size_t own_key_len(const nx_tls_session *s, ngtcp2_conn *ng)
{
    if (!s->own_aead || (ngtcp2_conn_get_negotiated_version(ng) != NGTCP2_PROTO_VER_V1)) {
        return 0;
    }
    switch ((int)gnutls_cipher_get(s->session)) {
    case GNUTLS_CIPHER_AES_128_GCM:
        return 16;
    case GNUTLS_CIPHER_AES_256_GCM:
        return 32;
    default:
        return 0;
    }
}

/* ---- keys ---------------------------------------------------------------------------- */

/* RFC 8446, 7.1, without a context. */
static bool expand(const ngtcp2_crypto_md *md, const uint8_t *secret, size_t len, const char *label,
                   uint8_t *out, size_t out_len)
{
    static const char prefix[] = "tls13 ";
    const size_t n = strlen(label), before = sizeof(prefix) - 1;
    uint8_t info[32] = {0, (uint8_t)out_len, (uint8_t)(before + n)};

    memcpy(info + 3, prefix, before);
    memcpy(info + 3 + before, label, n);
    return ngtcp2_crypto_hkdf_expand(out, out_len, md, secret, len, info, 3 + before + n + 1) == 0;
}

bool nx_protect_derive(const ngtcp2_crypto_md *md, const uint8_t *secret, size_t len,
                       size_t key_len, nx_protect_keys *out)
{
    return expand(md, secret, len, "quic key", out->key, key_len) &&
           expand(md, secret, len, "quic iv", out->iv, sizeof(out->iv)) &&
           expand(md, secret, len, "quic hp", out->hp, key_len);
}

typedef int install_key(ngtcp2_conn *ng, const uint8_t *secret, size_t len,
                        const ngtcp2_crypto_aead_ctx *aead, const uint8_t *iv, size_t iv_len,
                        const ngtcp2_crypto_cipher_ctx *hp);

/* Returns false if nothing was installed. */
static bool install(nx_tls_session *s, ngtcp2_conn *ng, install_key *put, const uint8_t *secret,
                    size_t len)
{
    const ngtcp2_crypto_md *md = &ngtcp2_conn_get_crypto_ctx(ng)->md;
    size_t key_len = own_key_len(s, ng);
    nx_aead *aead = NULL, *hp = NULL;
    bool done = false;
    nx_protect_keys keys;

    if (key_len == 0) {
        return false;
    }
    if (nx_protect_derive(md, secret, len, key_len, &keys)) {
        aead = nx_aead_create(keys.key, key_len);
        hp = nx_aead_create(keys.hp, key_len);
    }
    if ((aead != NULL) && (hp != NULL)) {
        ngtcp2_crypto_aead_ctx aead_ctx = {.native_handle = handle_of(aead)};
        ngtcp2_crypto_cipher_ctx hp_ctx = {.native_handle = handle_of(hp)};

        done = (put(ng, secret, len, &aead_ctx, keys.iv, sizeof(keys.iv), &hp_ctx) == 0);
    }
    explicit_bzero(&keys, sizeof(keys));
    if (!done) {
        nx_aead_destroy(aead);
        nx_aead_destroy(hp);
    }
    s->own_keys += done;
    return done;
}

static int on_secret(gnutls_session_t session, gnutls_record_encryption_level_t gnutls_level,
                     const void *rx, const void *tx, size_t len)
{
    ngtcp2_encryption_level level =
        ngtcp2_crypto_gnutls_from_gnutls_record_encryption_level(gnutls_level);
    bool last = (level == NGTCP2_ENCRYPTION_LEVEL_1RTT);
    nx_tls_session *s = session_of(session);
    ngtcp2_conn *ng = s->ref.get_conn(&s->ref);

    if ((rx != NULL) && !(last && install(s, ng, ngtcp2_conn_install_rx_key, rx, len)) &&
        (ngtcp2_crypto_derive_and_install_rx_key(ng, NULL, NULL, NULL, level, rx, len) != 0)) {
        return -1;
    }
    if ((tx != NULL) && !(last && install(s, ng, ngtcp2_conn_install_tx_key, tx, len)) &&
        (ngtcp2_crypto_derive_and_install_tx_key(ng, NULL, NULL, NULL, level, tx, len) != 0)) {
        return -1;
    }
    return 0;
}

void nx_protect_session(gnutls_session_t session)
{
    gnutls_handshake_set_secret_function(session, on_secret);
}

/* Replaces GnuTLS's key by nexar's own, if there is memory. */
static void replace(nx_tls_session *s, ngtcp2_crypto_aead_ctx *ctx, const uint8_t *key, size_t len)
{
    nx_aead *aead = nx_aead_create(key, len);

    if (aead != NULL) {
        ngtcp2_crypto_aead_ctx_free(ctx);
        ctx->native_handle = handle_of(aead);
        s->own_keys++;
    }
}

/* NOLINTNEXTLINE(readability-function-size): ngtcp2 has made the list */
static int on_update(ngtcp2_conn *ng, uint8_t *rx_secret, uint8_t *tx_secret,
                     ngtcp2_crypto_aead_ctx *rx, uint8_t *rx_iv, ngtcp2_crypto_aead_ctx *tx,
                     uint8_t *tx_iv, const uint8_t *old_rx_secret, const uint8_t *old_tx_secret,
                     size_t len, void *user)
{
    uint8_t rx_key[64], tx_key[64];
    nx_tls_session *s = session_of(ngtcp2_conn_get_tls_native_handle(ng));
    size_t key_len = own_key_len(s, ng);

    (void)user;
    if (ngtcp2_crypto_update_key(ng, rx_secret, tx_secret, rx, rx_key, rx_iv, tx, tx_key, tx_iv,
                                 old_rx_secret, old_tx_secret, len) != 0) {
        return NGTCP2_ERR_CALLBACK_FAILURE;
    }
    if (key_len > 0) {
        replace(s, rx, rx_key, key_len);
        replace(s, tx, tx_key, key_len);
    }
    explicit_bzero(rx_key, sizeof(rx_key));
    explicit_bzero(tx_key, sizeof(tx_key));
    return 0;
}

static void on_delete_aead(ngtcp2_conn *ng, ngtcp2_crypto_aead_ctx *ctx, void *user)
{
    nx_aead *a = ours(ctx->native_handle);

    if (a == NULL) {
        ngtcp2_crypto_delete_crypto_aead_ctx_cb(ng, ctx, user);
    } else {
        nx_aead_destroy(a);
    }
}

static void on_delete_cipher(ngtcp2_conn *ng, ngtcp2_crypto_cipher_ctx *ctx, void *user)
{
    nx_aead *a = ours(ctx->native_handle);

    if (a == NULL) {
        ngtcp2_crypto_delete_crypto_cipher_ctx_cb(ng, ctx, user);
    } else {
        nx_aead_destroy(a);
    }
}

/* ---- packets ------------------------------------------------------------------------- */

/* NOLINTNEXTLINE(readability-function-size): ngtcp2 has made the list */
static int on_encrypt(uint8_t *dest, const ngtcp2_crypto_aead *aead,
                      const ngtcp2_crypto_aead_ctx *ctx, const uint8_t *plain, size_t len,
                      const uint8_t *nonce, size_t nonce_len, const uint8_t *head, size_t head_len)
{
    nx_aead *a = ours(ctx->native_handle);

    if (a == NULL) {
        return ngtcp2_crypto_encrypt_cb(dest, aead, ctx, plain, len, nonce, nonce_len, head,
                                        head_len);
    }
    return nx_aead_seal(a,
                        &(nx_aead_text){.nonce = nonce,
                                        .head = head,
                                        .head_len = head_len,
                                        .in = plain,
                                        .len = len,
                                        .next = nx_prefetch_take(&nx_prefetch_read)},
                        dest)
               ? 0
               : NGTCP2_ERR_CALLBACK_FAILURE;
}

static nx_aead_text text_of(const nx_protect_packet *p)
{
    return (nx_aead_text){.nonce = p->nonce,
                          .head = p->head,
                          .head_len = p->head_len,
                          .in = p->sealed,
                          .len = p->len};
}

int nx_protect_open(const nx_protect_packet *p, uint8_t *dest, const nx_aead_place *place)
{
    /* Prefetch distance for bytes decrypted in place. */
    enum { AHEAD = 1536 };
    nx_prefetch next = nx_prefetch_take(&nx_prefetch_write);
    nx_aead *a = ours(p->ctx->native_handle);
    nx_aead_text text = text_of(p);

    if (a == NULL) {
        return ngtcp2_crypto_decrypt_cb(dest, p->aead, p->ctx, p->sealed, p->len, p->nonce,
                                        p->nonce_len, p->head, p->head_len);
    }
    text.next = next;
    if (place->at != NULL) {
        const size_t len = place->to - place->from;

        text.place = *place;
        text.next =
            (len > AHEAD) ? (nx_prefetch){place->at + AHEAD, len - AHEAD} : (nx_prefetch){0};
    }
    return nx_aead_open(a, &text, dest) ? 0 : NGTCP2_ERR_DECRYPT;
}

bool nx_protect_is_ours(const nx_protect_packet *p)
{
    return ours(p->ctx->native_handle) != NULL;
}

void nx_protect_peek(const nx_protect_packet *p, size_t from, size_t to, uint8_t *out)
{
    const nx_aead_text text = text_of(p);

    nx_aead_peek(ours(p->ctx->native_handle), &text, from, to, out);
}

static int on_mask(uint8_t *dest, const ngtcp2_crypto_cipher *hp,
                   const ngtcp2_crypto_cipher_ctx *ctx, const uint8_t *sample)
{
    nx_aead *a = ours(ctx->native_handle);
    uint8_t mask[NX_AEAD_BLOCK];

    if (a == NULL) {
        return ngtcp2_crypto_hp_mask_cb(dest, hp, ctx, sample);
    }
    nx_aead_block(a, sample, mask);
    memcpy(dest, mask, NGTCP2_HP_MASKLEN);
    return 0;
}

void nx_protect_callbacks(ngtcp2_callbacks *cb)
{
    cb->encrypt = on_encrypt;
    cb->hp_mask = on_mask;
    cb->update_key = on_update;
    cb->delete_crypto_aead_ctx = on_delete_aead;
    cb->delete_crypto_cipher_ctx = on_delete_cipher;
}
