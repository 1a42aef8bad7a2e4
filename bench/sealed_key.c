/* sealed_key.c - AES-128-GCM: nexar's own implementation if the CPU supports it, otherwise that
 * of GnuTLS. */
#include <gnutls/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sealed.h"
#include "transport/quic/crypto/aead.h"

struct nxb_key {
    nx_aead *own;
    gnutls_aead_cipher_hd_t other;
};

static uint8_t secret[16] = {1};

nxb_key *nxb_key_create(void)
{
    const gnutls_datum_t datum = {.data = secret, .size = sizeof(secret)};
    nxb_key *key = calloc(1, sizeof(*key));

    if (key == NULL) {
        nxb_give_up("a key");
    }
    if (nx_aead_usable()) {
        key->own = nx_aead_create(secret, sizeof(secret));
    }
    if ((key->own == NULL) &&
        (gnutls_aead_cipher_init(&key->other, GNUTLS_CIPHER_AES_128_GCM, &datum) != 0)) {
        nxb_give_up("gnutls_aead_cipher_init");
    }
    return key;
}

static _Noreturn void refuse(const char *why)
{
    (void)fprintf(stderr, "sealed_ceiling: %s\n", why);
    _exit(1);
}

static void make_nonce(uint64_t pair, uint64_t number, uint8_t nonce[NX_AEAD_NONCE])
{
    const uint32_t low = (uint32_t)pair;

    memcpy(nonce, &low, sizeof(low));
    memcpy(nonce + sizeof(low), &number, sizeof(number));
}

void nxb_seal(nxb_key *key, const nxb_record *record, const uint8_t *in, size_t len, uint8_t *out)
{
    uint8_t nonce[NX_AEAD_NONCE];
    size_t room = len + NXB_TAG;
    bool fine;

    if (key == NULL) {
        memcpy(out, in, len);
        return;
    }
    make_nonce(record->pair, record->number, nonce);
    if (key->own != NULL) {
        fine = nx_aead_seal(key->own,
                            &(nx_aead_text){.nonce = nonce,
                                            .head = record->head,
                                            .head_len = record->head_len,
                                            .in = in,
                                            .len = len,
                                            .next = {.at = in + len, .len = len}},
                            out);
    } else {
        fine = gnutls_aead_cipher_encrypt(key->other, nonce, sizeof(nonce), record->head,
                                          record->head_len, NXB_TAG, in, len, out, &room) == 0;
    }
    if (!fine) {
        refuse("the key has sealed what it may");
    }
}

void nxb_open(nxb_key *key, const nxb_record *record, const uint8_t *in, size_t len, uint8_t *out)
{
    static uint8_t scrap[NXB_BATCH];
    uint8_t nonce[NX_AEAD_NONCE];
    size_t room = len;
    bool fine;

    if (key == NULL) {
        memcpy(out, in, len);
        return;
    }
    make_nonce(record->pair, record->number, nonce);
    if (key->own != NULL) {
        fine = nx_aead_open(key->own,
                            &(nx_aead_text){.nonce = nonce,
                                            .head = record->head,
                                            .head_len = record->head_len,
                                            .in = in,
                                            .len = len + NXB_TAG,
                                            .next = {.at = out + len, .len = len},
                                            .place = {.at = out, .from = 0, .to = len}},
                            scrap);
    } else {
        fine = gnutls_aead_cipher_decrypt(key->other, nonce, sizeof(nonce), record->head,
                                          record->head_len, NXB_TAG, in, len + NXB_TAG, out,
                                          &room) == 0;
    }
    if (!fine) {
        refuse("these are not the bytes that were sealed");
    }
}
