/*
 * handshake.h - the messages of two endpoints on the socket before they share memory, with their
 * proofs. shm.h describes the exchange.
 *
 * One packet each. Every message has a type and fields of fixed size, without trailing bytes.
 */
#ifndef NX_HANDSHAKE_H
#define NX_HANDSHAKE_H

#include "shm.h"

typedef enum nx_shm_type {
    NX_SHM_HELLO = 1,
    NX_SHM_CHALLENGE,
    NX_SHM_PROOF,
    NX_SHM_WELCOME,
    NX_SHM_REFUSED,
    NX_SHM_PASS
} nx_shm_type;

typedef enum nx_shm_refusal {
    NX_SHM_STRANGER = 1, /* unknown member, or wrong proof */
    NX_SHM_TAKEN,        /* a link exists already */
    NX_SHM_CROSSING,     /* simultaneous open: the acceptor is dialling */
    NX_SHM_TROUBLE       /* out of memory or descriptors */
} nx_shm_refusal;

enum { NX_SHM_NONCE = 32, NX_SHM_MAC = 32, NX_SHM_WORD_MAX = 96 };

typedef struct nx_shm_word {
    nx_shm_type type;
    uint64_t from, to;           /* HELLO */
    uint8_t nonce[NX_SHM_NONCE]; /* HELLO, CHALLENGE */
    uint8_t mac[NX_SHM_MAC];     /* CHALLENGE, PROOF */
    /* PROOF, WELCOME: |token| is at |at| in the sender's memory; a process that can read it there
     * can read all of its memory. */
    uint64_t at, token;
    nx_shm_refusal why; /* REFUSED */
    uint64_t name;      /* PASS: of the attached descriptor */
} nx_shm_word;

/* Returns its length. */
size_t nx_shm_word_encode(const nx_shm_word *w, uint8_t out[NX_SHM_WORD_MAX]);
/* NEXAR_EPROTO: malformed, or another version; |*w| is unchanged. */
NX_MUST_CHECK nexar_err nx_shm_word_decode(const void *data, size_t len, nx_shm_word *w);

/* The data that a proof covers. */
typedef struct nx_shm_claim {
    const nx_shm_offer *dialler, *acceptor;
    uint64_t from, to; /* members: dialler, acceptor */
    const uint8_t *dialler_nonce, *acceptor_nonce;
} nx_shm_claim;

/* Computes the proof that one side holds both keys; |of| is NX_SHM_CHALLENGE for the acceptor's,
 * NX_SHM_PROOF for the dialler's.  NEXAR_EINTERNAL. */
NX_MUST_CHECK nexar_err nx_shm_prove(const nx_shm_claim *claim, nx_shm_type of,
                                     uint8_t mac[NX_SHM_MAC]);
/* Compares in constant time. */
bool nx_shm_mac_equal(const uint8_t a[NX_SHM_MAC], const uint8_t b[NX_SHM_MAC]);

#endif /* NX_HANDSHAKE_H */
