/*
 * conformance_kit.h - ends, parcels and frames whose content is known to both sides.
 *
 * Every upcall is checked here. No upcall comes inside an operation. None comes before on_up,
 * which comes once. Frames are complete and in order. The bytes of a part are correct, in order
 * and not too many. on_sent comes once for each part. No upcall follows on_down; only on_sent
 * follows close.
 */
#ifndef NXT_CONFORMANCE_KIT_H
#define NXT_CONFORMANCE_KIT_H

#include "base/random.h"
#include "conformance.h"

typedef struct nxt_rig nxt_rig;
typedef struct nxt_end nxt_end;

/* A part and its state. */
typedef struct nxt_parcel {
    nx_tx tx;
    nxt_end *from;
    uint8_t *own;    /* its bytes; overwritten in on_sent; NULL: shared, not modified */
    nx_bytes *bytes; /* its stretches */
    uint64_t got;    /* bytes that have arrived */
    int calls;       /* on_data */
    int sents;       /* on_sent */
    nexar_err err;   /* the result in on_sent */
    bool cancelled;
} nxt_parcel;

struct nxt_end {
    nxt_rig *rig;
    nxt_end *peer;
    nx_link *link; /* NULL: not known yet, closed or dead */
    int ups, downs, lasts;
    char last[NX_LAST_MAX]; /* the error with which this end has closed the link */
    nexar_err down_err;
    bool closed, dead;

    size_t frame_most; /* bytes of the frames that this end sends */
    uint32_t frames_sent[NX_LANES], frames_got[NX_LANES];
    uint64_t bytes_got;

    nxt_parcel **parcels; /* sent by this end */
    size_t nparcels, room;
    size_t parcels_done;    /* on_sent has come */
    size_t parcels_arrived; /* complete at the other end */
    size_t parcels_excused; /* cancelled earlier */

    /* Optional, called after the checks: actions of a test inside the upcall. */
    void (*then_frame)(nxt_end *end, nx_lane lane);
    void (*then_sent)(nxt_end *end, nxt_parcel *parcel);
    void (*then_down)(nxt_end *end);
    uint64_t note; /* the test's */
};

struct nxt_rig {
    const nxt_transport_harness *harness;
    void *world;
    nx_random_seeded random;
    nxt_end *ends; /* 2 i dials 2 i + 1 */
    size_t n;
    int in_operation;
};

/* Creates a world with |pairs| pairs of linked ends; waits until they are up unless |early|. */
void nxt_rig_begin(nxt_rig *rig, const nxt_transport_harness *harness, size_t pairs, bool early);
/* The same in two steps, for tests in which dialling may fail. */
void nxt_rig_prepare(nxt_rig *rig, const nxt_transport_harness *harness, size_t pairs);
NX_MUST_CHECK nexar_err nxt_rig_dial(nxt_rig *rig, size_t pair);
/* Closes open links, waits for on_sent of every part, destroys the world. */
void nxt_rig_end(nxt_rig *rig);
/* Makes progress until |done|; fails the test if it does not become true. */
void nxt_rig_until(nxt_rig *rig, bool (*done)(nxt_rig *rig));

/* Makes progress for |turns| iterations, or until nothing can happen any more. */
void nxt_rig_let(nxt_rig *rig, unsigned turns);

/* Conditions for it. */
bool nxt_all_up(nxt_rig *rig);
bool nxt_all_arrived(nxt_rig *rig); /* frames, and parts that were not cancelled */
bool nxt_all_settled(nxt_rig *rig); /* the same, and on_sent for every part */
bool nxt_all_told(nxt_rig *rig);    /* on_sent for every part of live ends */

/* Sends the next frame of |lane|, in two stretches. */
NX_MUST_CHECK nexar_err nxt_send_frame(nxt_end *end, nx_lane lane);
/* Sends |n| frames; each send must succeed. */
void nxt_send_frames(nxt_end *end, nx_lane lane, int n);

/* Sends [off, off + len) of message |id|, in at least |stretches| stretches. |id| is NXT_NEW or
 * the id (tx.id) of the first parcel of the same message, if no other message was begun since.
 * NULL: the transport rejected it with |*err|. */
#define NXT_NEW UINT64_MAX
nxt_parcel *nxt_send_part(nxt_end *end, uint64_t id, uint64_t off, uint64_t len, size_t stretches,
                          nexar_err *err);
/* The same for a message of one part; the send must succeed. */
nxt_parcel *nxt_send(nxt_end *end, uint64_t len);
void nxt_cancel(nxt_parcel *parcel);
void nxt_close(nxt_end *end, bool drain);
void nxt_dismiss(nxt_end *end);
void nxt_kill(nxt_end *end);

/* [0, limit) */
uint64_t nxt_chance(nxt_rig *rig, uint64_t limit);

#endif /* NXT_CONFORMANCE_KIT_H */
