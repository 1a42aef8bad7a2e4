/*
 * frames.h - the frames between joiners, members and seed, one struct per frame.
 *
 * All use the control lane, in order. Every field is bounded, every decoder must consume its frame
 * completely, and outputs are set on success only. docs/internals/joining.md describes the
 * protocol. A byte of flags may follow HELLO and RETURN; without it no flag is set.
 *
 *     HELLO     joiner   the joiner's identity, its request, and the proof of the token
 *     WELCOME   seed     member number and certificate
 *     REFUSED   seed     the reason; the connection ends
 *     PROGRESS  seed     how many have joined, which are missing
 *     VIEW      seed     a piece of the offered view
 *     WANT      joiner   requests the next piece
 *     HAVE      joiner   it holds the whole view
 *     START     seed     all hold it: the world has formed, or changed
 *     BYE       both     leaves; the seed answers with the same
 *     RETURN    member   reconnects after its connection was lost
 *     BACK      seed     accepts RETURN
 *     WAITING   seed     the joiners that wait for the world, as they change
 *     ADVANCE   member   the members have agreed on the next view
 *     HURRY     member   it has waited for START as long as for any peer: the seed need not
 *                        wait for joiners that do not have the view by now
 *     MISSED    member   asks whether a member that it cannot reach has said goodbye; tells
 *                        whether its process has exited, if known
 *     FAREWELL  seed     the answer
 *     ASK       seed     asks a member for its view: VIEW and WANT follow, in
 *                        the other direction
 */
#ifndef NX_FRAMES_H
#define NX_FRAMES_H

#include "cluster/join_queue.h"
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
    NX_JOIN_BYE,
    NX_JOIN_RETURN,
    NX_JOIN_BACK,
    NX_JOIN_TELL, /* WAITING, which is a phase of joining as well */
    NX_JOIN_ADVANCE,
    NX_JOIN_ASK,
    NX_JOIN_URGE,
    NX_JOIN_MISSED,
    NX_JOIN_FAREWELL
} nx_join_frame;

enum {
    NX_JOIN_PROTOCOL = 4,
    NX_JOIN_PROOF_SIZE = 32,
    NX_SOFTWARE_MAX = 32, /* "0.1.0" and its 0 */
    NX_REASON_MAX = 448,  /* a text and its 0; with a prefix it fits nx_fail */
    NX_VIEW_PIECE = 32768,
    NX_HELLO_MAX = 8192, /* longest HELLO of an unknown sender */
};

/* Why a joiner was rejected. */
typedef enum nx_refusal {
    NX_REFUSAL_PROTOCOL = 1, /* malformed, or another version */
    NX_REFUSAL_TOKEN,
    NX_REFUSAL_SETTING, /* rank, world size */
    NX_REFUSAL_FULL,    /* all places are taken */
    NX_REFUSAL_FORMED,  /* the job has ended, or continued without it */
    NX_REFUSAL_TIMEOUT, /* the world did not form in time */
    NX_REFUSAL_SEED     /* the seed has a problem of its own: memory */
} nx_refusal;

/* The error that nx_join_run returns for it; NEXAR_EPROTO for an unknown number. */
nexar_err nx_refusal_error(nx_refusal why);

/*
 * HELLO has two parts. Any version can read the head; the rest is decoded only after version and
 * proof were checked.
 */
typedef struct nx_hello_head {
    uint16_t protocol;
    const uint8_t *proof; /* NX_JOIN_PROOF_SIZE bytes, borrowed from the frame */
    const uint8_t *csr;   /* borrowed too */
    size_t csr_len;
} nx_hello_head;

typedef struct nx_hello {
    char software[NX_SOFTWARE_MAX]; /* nexar_version() of the sender */
    uint32_t world_size;            /* expected; 0: the seed decides */
    nx_member self;                 /* id 0, rank asked for or NX_RANK_ANY */
    bool hinted;                    /* the rank is a launcher's: see nx_join_config */
} nx_hello;

void nx_hello_encode(nx_writer *w, const nx_hello_head *head, const nx_hello *hello);
/* Decodes the head from |r|, which is after the type, and leaves |r| before the second part. For
 * another protocol version only that number is set. */
NX_MUST_CHECK nexar_err nx_hello_head_decode(nx_reader *r, nx_hello_head *head);
NX_MUST_CHECK nexar_err nx_hello_decode(nx_reader *r, nx_hello *hello);

/* The status at the seed. */
typedef struct nx_world_status {
    bool formed;         /* the world has formed: a joiner waits for its members to admit it */
    bool lasting;        /* the seed's state is on disk: it may be restarted */
    uint32_t world_size; /* members now, or of the world that is forming */
} nx_world_status;

typedef struct nx_welcome {
    uint64_t member;
    nx_job_id job;
    nx_world_status standing;
    nx_der cert, authority;
} nx_welcome;

/* RETURN is the first frame on its connection, as HELLO is; the certificate of the connection is
 * its proof. */
typedef struct nx_return {
    uint16_t protocol;
    uint64_t epoch; /* of its view; 0: it is not in the world yet */
    nx_member self; /* the id is the one in the certificate */
    bool hinted;    /* as in HELLO */
} nx_return;

/* WAITING: removes |gone| (with |reset| all), then adds the others. */
typedef struct nx_tell {
    bool reset;
    uint64_t gone[NX_JOIN_QUEUE_LIST_MAX];
    uint32_t ngone;
    nx_member *joined; /* of nx_join_queue_decode: to be freed */
    uint32_t njoined;
} nx_tell;

typedef struct nx_advance {
    uint64_t epoch;  /* of the next view */
    uint32_t world;  /* the id of its communicator */
    nx_rankset gone; /* of the ranks before */
    uint32_t njoined;
    uint64_t joined[NX_JOIN_QUEUE_LIST_MAX];
} nx_advance;

typedef struct nx_refused {
    nx_refusal why;
    char text[NX_REASON_MAX];
} nx_refused;

typedef struct nx_join_progress {
    uint32_t joined, world;
    char text[NX_REASON_MAX]; /* the missing ranks */
} nx_join_progress;

typedef struct nx_view_piece {
    uint64_t epoch;
    uint32_t total, off;
    const uint8_t *data; /* borrowed */
    size_t len;          /* at most NX_VIEW_PIECE */
} nx_view_piece;

/* How a member has left, as far as the seed knows. */
typedef enum nx_farewell {
    NX_FAREWELL_UNKNOWN, /* perhaps it has not, or the seed did not notice */
    NX_FAREWELL_SAID,    /* by BYE */
    NX_FAREWELL_NONE,    /* without it: its process has ended */
    NX_FAREWELL_HERE,    /* it seems alive: its process is checked; ask again */
    NX_FAREWELLS
} nx_farewell;

typedef struct nx_bye {
    char text[NX_REASON_MAX]; /* "", or the reason if it is not the end of the job */
} nx_bye;

void nx_welcome_encode(nx_writer *w, const nx_welcome *f);
void nx_refused_encode(nx_writer *w, nx_refusal why, const char *text);
void nx_join_progress_encode(nx_writer *w, uint32_t joined, uint32_t world, const char *text);
void nx_view_piece_encode(nx_writer *w, const nx_view_piece *f);
void nx_want_encode(nx_writer *w, uint64_t epoch, uint32_t off);
void nx_have_encode(nx_writer *w, uint64_t epoch);
void nx_start_encode(nx_writer *w, uint64_t epoch);
void nx_urge_encode(nx_writer *w, uint64_t epoch);
void nx_unreachable_encode(nx_writer *w, uint64_t member, bool ended);
void nx_farewell_encode(nx_writer *w, uint64_t member, nx_farewell how);
void nx_bye_encode(nx_writer *w, const char *text);
void nx_return_encode(nx_writer *w, const nx_return *f);
void nx_back_encode(nx_writer *w, const nx_world_status *standing);
/* Encodes as many of |waiting| as fit; returns their number. */
uint32_t nx_tell_encode(nx_writer *w, bool reset, const uint64_t *gone, uint32_t ngone,
                        const nx_join_queue *waiting);
void nx_advance_encode(nx_writer *w, const nx_view *next, const nx_rankset *gone,
                       const nx_member *joined, uint32_t n);
void nx_ask_view_encode(nx_writer *w);

/* Each decodes from after the type to the end.  NEXAR_EPROTO. */
NX_MUST_CHECK nexar_err nx_welcome_decode(nx_reader *r, nx_welcome *f);
NX_MUST_CHECK nexar_err nx_refused_decode(nx_reader *r, nx_refused *f);
NX_MUST_CHECK nexar_err nx_join_progress_decode(nx_reader *r, nx_join_progress *f);
NX_MUST_CHECK nexar_err nx_view_piece_decode(nx_reader *r, nx_view_piece *f);
NX_MUST_CHECK nexar_err nx_want_decode(nx_reader *r, uint64_t *epoch, uint32_t *off);
NX_MUST_CHECK nexar_err nx_epoch_decode(nx_reader *r, uint64_t *epoch); /* HAVE, START, HURRY */
NX_MUST_CHECK nexar_err nx_unreachable_decode(nx_reader *r, uint64_t *member, bool *ended);
NX_MUST_CHECK nexar_err nx_farewell_decode(nx_reader *r, uint64_t *member, nx_farewell *how);
NX_MUST_CHECK nexar_err nx_bye_decode(nx_reader *r, nx_bye *f);
/* The error that nx_join_run returns for it; NEXAR_EPROTO for an unknown number. */
NX_MUST_CHECK nexar_err nx_return_decode(nx_reader *r, nx_return *f);
NX_MUST_CHECK nexar_err nx_back_decode(nx_reader *r, nx_world_status *standing);
/* Also NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_tell_decode(nx_reader *r, nx_tell *f);
/* Decodes the epoch alone; |r| is after it. */
NX_MUST_CHECK nexar_err nx_advance_epoch(nx_reader *r, uint64_t *epoch);
/* Decodes the rest; |f->gone| is a set of the current ranks. */
NX_MUST_CHECK nexar_err nx_advance_decode(nx_reader *r, nx_advance *f);
NX_MUST_CHECK nexar_err nx_ask_view_decode(const nx_reader *r);

#endif /* NX_FRAMES_H */
