/*
 * aead_kernels.h - the interface of an AES-GCM implementation to aead.c, which validates all
 * arguments.
 */
#ifndef NX_AEAD_KERNELS_H
#define NX_AEAD_KERNELS_H

#include "aead.h"

enum {
    NX_AEAD_TURN = 12,  /* blocks per iteration */
    NX_AEAD_ROUNDS = 14 /* of AES at most */
};

/* A prepared key; aead_vaes.c defines the powers. */
typedef struct nx_aead_key {
    _Alignas(
        32) uint8_t rounds[NX_AEAD_ROUNDS + 1][32]; /* the key of each round, twice side by side */
    _Alignas(32) uint8_t powers[NX_AEAD_TURN][16];  /* H^12 .. H^1 */
    _Alignas(32) uint8_t crosses[NX_AEAD_TURN][16]; /* their halves added, twice */
    int n;                                          /* rounds: 10 or 14 */
} nx_aead_key;

typedef struct nx_aead_kernels {
    const char *name;
    bool (*runs)(void); /* whether this CPU supports it */
    void (*init)(nx_aead_key *k, const uint8_t *key, size_t len);
    void (*block)(const nx_aead_key *k, const uint8_t *in, uint8_t *out);
    void (*seal)(const nx_aead_key *k, const nx_aead_text *text, uint8_t *out);
    /* Opens text->len bytes, without the tag; returns whether |tag| matches. */
    bool (*open)(const nx_aead_key *k, const nx_aead_text *text, const uint8_t *tag, uint8_t *out);
    /* Decrypts bytes [from, to) only, without authentication. */
    void (*peek)(const nx_aead_key *k, const nx_aead_text *text, size_t from, size_t to,
                 uint8_t *out);
} nx_aead_kernels;

extern const nx_aead_kernels nx_aead_vaes; /* only in builds for x86-64 */

#endif /* NX_AEAD_KERNELS_H */
