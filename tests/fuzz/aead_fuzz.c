/*
 * aead_fuzz.c - with any key, nonce, head and text, nexar's AEAD and GnuTLS produce the same
 * bytes.  nexar opens what GnuTLS sealed, and neither opens a modified text.
 *
 * Input: a byte (which key length, how far from alignment), the key (32 bytes), the
 * nonce (12), a byte for the length of the head, one for what is changed; then the head
 * and the text, and as often as the low bits of the first byte say the text again.
 */
#include <gnutls/crypto.h>
#include <string.h>

#include "fuzz.h"
#include "transport/quic/crypto/aead.h"

enum { FIXED = 1 + 32 + NX_AEAD_NONCE + 2, ROOM = 40000 };

static uint8_t plain[ROOM + 64], own[ROOM + 64], theirs[ROOM + 64], opened[ROOM + 64];

static gnutls_aead_cipher_hd_t gnutls_of(const uint8_t *key, size_t len)
{
    gnutls_datum_t datum = {.data = (uint8_t *)key, .size = (unsigned int)len};
    gnutls_aead_cipher_hd_t hd;

    nxt_must(
        gnutls_aead_cipher_init(
            &hd, (len == 16) ? GNUTLS_CIPHER_AES_128_GCM : GNUTLS_CIPHER_AES_256_GCM, &datum) == 0);
    return hd;
}

/* The changed byte is in the text, its tag, or the head: both must reject it. */
static void spoil(nx_aead *a, gnutls_aead_cipher_hd_t hd, const nx_aead_text *sealed, uint8_t how)
{
    size_t at = ((size_t)how * 131) % sealed->len, n = sealed->len;

    theirs[at] ^= (uint8_t)(1 << (how % 8));
    nxt_must(!nx_aead_open(a, sealed, opened));
    nxt_must(gnutls_aead_cipher_decrypt(hd, sealed->nonce, NX_AEAD_NONCE, sealed->head,
                                        sealed->head_len, NX_AEAD_TAG, theirs, sealed->len, opened,
                                        &n) != 0);
}

static void compare(const uint8_t *in, size_t shift, const nx_aead_text *text)
{
    size_t key_len = ((in[0] & 0x80) != 0) ? 32 : 16, n = text->len + NX_AEAD_TAG;
    gnutls_aead_cipher_hd_t hd = gnutls_of(in + 1, key_len);
    nx_aead *a = nx_aead_create(in + 1, key_len);
    nx_aead_text sealed = *text;

    nxt_must(a != NULL);
    nxt_must(gnutls_aead_cipher_encrypt(hd, text->nonce, NX_AEAD_NONCE, text->head, text->head_len,
                                        NX_AEAD_TAG, text->in, text->len, theirs, &n) == 0);
    nxt_must(n == text->len + NX_AEAD_TAG);
    nxt_must(nx_aead_seal(a, text, own + shift));
    nxt_must(memcmp(own + shift, theirs, n) == 0);
    sealed.in = theirs;
    sealed.len = n;
    nxt_must(nx_aead_open(a, &sealed, opened + shift));
    nxt_must((text->len == 0) || (memcmp(opened + shift, text->in, text->len) == 0));
    sealed.in = own + shift;
    nxt_must(nx_aead_open(a, &sealed, own + shift)); /* in place */
    nxt_must((text->len == 0) || (memcmp(own + shift, text->in, text->len) == 0));
    sealed.in = theirs;
    spoil(a, hd, &sealed, in[FIXED - 1]);
    nx_aead_destroy(a);
    gnutls_aead_cipher_deinit(hd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t shift, times, len = 0;
    nx_aead_text text;

    if ((size < FIXED) || !nx_aead_usable()) {
        return 0;
    }
    shift = (data[0] >> 3) & 15;
    times = (size_t)1 + (data[0] & 7);
    text = (nx_aead_text){.nonce = data + 33, .head = data + FIXED, .head_len = data[45]};
    if (text.head_len > size - FIXED) {
        text.head_len = size - FIXED;
    }
    data += FIXED + text.head_len;
    size -= FIXED + text.head_len;
    for (size_t i = 0; (i < times) && (len + size <= ROOM - NX_AEAD_TAG); i++) {
        memcpy(plain + shift + len, data, size);
        len += size;
    }
    text.in = plain + shift;
    text.len = len;
    compare(text.nonce - 33, shift, &text);
    return 0;
}
