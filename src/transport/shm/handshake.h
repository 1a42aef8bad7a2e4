/*
 * handshake.h - what two endpoints say to each other on the socket before they share
 * memory, and the proofs in it.  shm.h has the conversation.
 *
 * One packet each.  Every word has a type, fields of fixed size, and nothing behind.
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
    NX_SHM_STRANGER = 1, /* no such member, or its proof is wrong */
    NX_SHM_TAKEN,        /* there is a link already */
    NX_SHM_CROSSING,     /* wait: I am dialling you */
    NX_SHM_TROUBLE       /* memory, descriptors */
} nx_shm_refusal;

enum { NX_SHM_NONCE = 32, NX_SHM_MAC = 32, NX_SHM_WORD_MAX = 96 };

typedef struct nx_shm_word {
    nx_shm_type type;
    uint64_t from, to;           /* HELLO */
    uint8_t nonce[NX_SHM_NONCE]; /* HELLO, CHALLENGE */
    uint8_t mac[NX_SHM_MAC];     /* CHALLENGE, PROOF */
    /* PROOF, WELCOME: |token| stands at |at| in the sender's memory; who can read it
     * there can read all of it. */
    uint64_t at, token;
    nx_shm_refusal why; /* REFUSED */
    uint64_t name;      /* PASS: of the descriptor that comes with it */
} nx_shm_word;

/* Returns its length. */
size_t nx_shm_word_encode(const nx_shm_word *w, uint8_t out[NX_SHM_WORD_MAX]);
/* NEXAR_EPROTO: no such word, or of another version; |*w| is as it was. */
NX_MUST_CHECK nexar_err nx_shm_word_decode(const void *data, size_t len, nx_shm_word *w);

/* What a proof is about. */
typedef struct nx_shm_claim {
    const nx_shm_offer *dialler, *acceptor;
    uint64_t from, to; /* members: dialler, acceptor */
    const uint8_t *dialler_nonce, *acceptor_nonce;
} nx_shm_claim;

/* The proof of one of the two that it holds both keys; |of| is NX_SHM_CHALLENGE for the
 * acceptor's, NX_SHM_PROOF for the dialler's.  NEXAR_EINTERNAL. */
NX_MUST_CHECK nexar_err nx_shm_prove(const nx_shm_claim *claim, nx_shm_type of,
                                     uint8_t mac[NX_SHM_MAC]);
/* Compares in constant time. */
bool nx_shm_mac_equal(const uint8_t a[NX_SHM_MAC], const uint8_t b[NX_SHM_MAC]);

#endif /* NX_HANDSHAKE_H */
