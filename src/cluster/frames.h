/*
 * frames.h - what joiner and seed say to each other, one struct per frame.
 *
 * All go over the control lane, in order.  Every field is bounded, every frame
 * must be used up by its decoder, and a decoder's output is set on success only.
 * docs/joining.md has the conversation.
 *
 *     HELLO     joiner   who I am, what I want, and the proof of the token
 *     WELCOME   seed     your member number and certificate
 *     REFUSED   seed     why not; the connection ends
 *     PROGRESS  seed     how many have come, who is missing
 *     VIEW      seed     a piece of the view that is offered
 *     WANT      joiner   the next piece, please
 *     HAVE      joiner   I hold the whole view
 *     START     seed     everybody holds it: the world has formed
 *     BYE       both     I leave; the seed answers with the same
 */
#ifndef NX_FRAMES_H
#define NX_FRAMES_H

#include "cluster/view.h"
#include "transport/transport.h"

typedef enum nx_join_frame {
    NX_JOIN_HELLO = 1,
    NX_JOIN_WELCOME,
    NX_JOIN_REFUSED,
    NX_JOIN_PROGRESS,
    NX_JOIN_VIEW,
    NX_JOIN_WANT,
    NX_JOIN_HAVE,
    NX_JOIN_START,
    NX_JOIN_BYE
} nx_join_frame;

enum {
    NX_JOIN_PROTOCOL = 2,
    NX_JOIN_PROOF_SIZE = 32,
    NX_SOFTWARE_MAX = 32, /* "0.1.0" and its 0 */
    NX_REASON_MAX = 448,  /* a sentence and its 0; with a prefix it fits nx_fail */
    NX_VIEW_PIECE = 32768,
    NX_HELLO_MAX = 8192, /* bytes of a HELLO: what the seed reads before it knows whose */
};

/* Why a joiner was turned away. */
typedef enum nx_refusal {
    NX_REFUSAL_PROTOCOL = 1, /* malformed, or another version */
    NX_REFUSAL_TOKEN,
    NX_REFUSAL_SETTING, /* rank, world size */
    NX_REFUSAL_FULL,    /* every place is taken */
    NX_REFUSAL_FORMED,  /* too late */
    NX_REFUSAL_TIMEOUT, /* the world did not form in time */
    NX_REFUSAL_SEED     /* the seed's own trouble: memory */
} nx_refusal;

/* What nx_join_run returns for it; NEXAR_EPROTO for a number that is none. */
nexar_err nx_refusal_error(nx_refusal why);

/*
 * HELLO has two halves.  The head can be read by any version; nothing behind it
 * is looked at before version and proof were found right.
 */
typedef struct nx_hello_head {
    uint16_t protocol;
    const uint8_t *proof; /* NX_JOIN_PROOF_SIZE bytes, borrowed from the frame */
    const uint8_t *csr;   /* borrowed too */
    size_t csr_len;
} nx_hello_head;

typedef struct nx_hello {
    char software[NX_SOFTWARE_MAX]; /* nexar_version() over there */
    uint32_t world_size;            /* expected; 0: whatever the seed says */
    nx_member self;                 /* id 0, rank asked for or NX_RANK_ANY */
} nx_hello;

void nx_hello_encode(nx_writer *w, const nx_hello_head *head, const nx_hello *hello);
/* Reads the head from |r|, which stands behind the type and is left standing
 * before the second half.  With another protocol only that number is set. */
NX_MUST_CHECK nexar_err nx_hello_head_decode(nx_reader *r, nx_hello_head *head);
NX_MUST_CHECK nexar_err nx_hello_decode(nx_reader *r, nx_hello *hello);

typedef struct nx_welcome {
    uint64_t member;
    nx_job_id job;
    uint32_t world_size;
    nx_der cert, authority;
} nx_welcome;

typedef struct nx_refused {
    nx_refusal why;
    char text[NX_REASON_MAX];
} nx_refused;

typedef struct nx_progress {
    uint32_t joined, world;
    char text[NX_REASON_MAX]; /* who is missing */
} nx_progress;

typedef struct nx_view_piece {
    uint64_t epoch;
    uint32_t total, off;
    const uint8_t *data; /* borrowed */
    size_t len;          /* at most NX_VIEW_PIECE */
} nx_view_piece;

typedef struct nx_bye {
    char text[NX_REASON_MAX]; /* "" or why, if it is not the end of the job */
} nx_bye;

void nx_welcome_encode(nx_writer *w, const nx_welcome *f);
void nx_refused_encode(nx_writer *w, nx_refusal why, const char *text);
void nx_progress_encode(nx_writer *w, uint32_t joined, uint32_t world, const char *text);
void nx_view_piece_encode(nx_writer *w, const nx_view_piece *f);
void nx_want_encode(nx_writer *w, uint64_t epoch, uint32_t off);
void nx_have_encode(nx_writer *w, uint64_t epoch);
void nx_start_encode(nx_writer *w, uint64_t epoch);
void nx_bye_encode(nx_writer *w, const char *text);

/* Each reads from behind the type to the end.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_welcome_decode(nx_reader *r, nx_welcome *f);
NX_MUST_CHECK nexar_err nx_refused_decode(nx_reader *r, nx_refused *f);
NX_MUST_CHECK nexar_err nx_progress_decode(nx_reader *r, nx_progress *f);
NX_MUST_CHECK nexar_err nx_view_piece_decode(nx_reader *r, nx_view_piece *f);
NX_MUST_CHECK nexar_err nx_want_decode(nx_reader *r, uint64_t *epoch, uint32_t *off);
NX_MUST_CHECK nexar_err nx_epoch_decode(nx_reader *r, uint64_t *epoch); /* HAVE, START */
NX_MUST_CHECK nexar_err nx_bye_decode(nx_reader *r, nx_bye *f);

#endif /* NX_FRAMES_H */
