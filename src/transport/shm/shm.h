/*
 * shm.h - the shm transport: links to members on the same host, by shared memory.
 *
 * Each process has an endpoint with one listening Unix socket (abstract, a random
 * name of 128 bits: nothing to remove, whatever the exit) and one bell, an eventfd
 * that wakes it.  What others need to find and convince it is its *offer*: the name
 * and a key of 256 bits.  The owner hands it to all members over a channel that is
 * private to them, in the view for instance; the key never goes over the socket.
 *
 * Pairing.  The dialler connects and both prove that they hold both keys, by HMACs
 * over fresh nonces of both and both member numbers.  Each checks that the kernel
 * names its own user for the other end.  Only then does the dialler pass the segment
 * (a sealed memfd) and its bell; the other answers with its own bell.  Strangers get
 * nothing, map nothing, and are turned away after 10 s.
 *
 *     dialler                         acceptor
 *     HELLO    from, to, nonce    ->
 *                                 <-  CHALLENGE  nonce, proof
 *     PROOF    proof, fds         ->
 *                                 <-  WELCOME    fd          (or REFUSED, at any time)
 *
 * Later the owner may pass descriptors to the other side (PASS name, fd): memory that
 * more than two share.
 *
 * The acceptor is committed when it has sent WELCOME, the dialler when it has read
 * it.  A local socket loses nothing: who meets its end without WELCOME knows that
 * the other is not committed.  So both always agree.
 *
 * Which link, if both dial, or if one of them has come to use another transport:
 *  1. A hello is refused by whoever has a link to that member already, by whichever
 *     transport (`find` says no), and by the lower member while it dials itself.
 *  2. The higher member takes the lower one's call into the link that it is dialling.
 *     Refused for crossing, it waits for that call; the lower one keeps the refused
 *     socket until its own attempt has ended, so that the wait ends with it.
 *  3. A link whose pairing fails, for whatever reason, *moves*: what was queued goes to
 *     a link of another transport that the owner provides (`fallback`), and on_moved
 *     says so.  The other side gets that call by the other transport; a link that is
 *     still pairing there moves to it (nx_shm_move).  It cannot be up: see 1.
 *
 * The segment has three rings in each direction: control, messages, data (segment.h,
 * ring.h).  Long parts are copied into the data ring while the receiver takes them from it;
 * what the sender does not come to copy the receiver reads from its memory
 * (process_vm_readv), straight into its place if the owner names it (on_want), and
 * acknowledges (claim.h).  Where that is not permitted, found out once per pair, or fails
 * for some memory, or the peer's process cannot be pinned by a pidfd, all goes through the data
 * ring.  After each read the receiver asks whether the peer has closed the link or its process
 * has exited (its id may be another's then); what was read is not used in that case.
 *
 * What the other side writes into the segment is never trusted: it is read once,
 * checked, and if it is impossible the link goes down with NEXAR_EPROTO.  The peer's
 * death is seen by the hangup of the socket, which stays open as long as the link,
 * and by a pidfd where the kernel has them.  There are no locks: nobody waits for a
 * process that was killed.
 */
#ifndef NX_SHM_H
#define NX_SHM_H

#include <stdbool.h>

#include "base/os/pidfd.h"
#include "base/random.h"
#include "loop/loop.h"
#include "transport/transport.h"

enum {
    NX_SHM_NAME_SIZE = 16,
    NX_SHM_KEY_SIZE = 32,
    NX_SHM_OFFER_SIZE = NX_SHM_NAME_SIZE + NX_SHM_KEY_SIZE
};

/* How to reach an endpoint, and what its callers must know.  A secret. */
typedef struct nx_shm_offer {
    uint8_t name[NX_SHM_NAME_SIZE];
    uint8_t key[NX_SHM_KEY_SIZE];
} nx_shm_offer;

typedef struct nx_shm nx_shm;

typedef struct nx_shm_config {
    nx_loop *loop;
    const nx_random *random;
    bool no_reading; /* as if the other side's memory could not be read */

    /* The offer of |member|.  False: nothing is wanted of it by shm; it is unknown,
     * gone, or there is a link to it by another transport. */
    bool (*find)(void *ctx, uint64_t member, nx_shm_offer *offer);

    /* A link that we did not ask for is up.  The callee sets link->up and
     * link->up_ctx, or closes it.  (A member whom we are dialling too makes no
     * call: it joins the link that is there.) */
    void (*on_accept)(void *ctx, nx_link *link, uint64_t member);

    /* Dials |member| by another transport, for a link whose pairing has failed, as
     * |why| says.  NULL, or an error: the link goes down. */
    nexar_err (*fallback)(void *ctx, uint64_t member, const char *why, const nx_link_up *up,
                          void *up_ctx, nx_link **out);

    /* |member| has passed |fd|, which is the callee's, under |name| (nx_shm_pass).  NULL:
     * such are closed. */
    void (*on_pass)(void *ctx, uint64_t member, uint64_t name, int fd);
    void *ctx;
} nx_shm_config;

/* Makes the offer and listens; nobody is let in before nx_shm_start.
 * NEXAR_ESYS, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_shm_open(nx_shm **out, const nx_shm_config *config);
const nx_shm_offer *nx_shm_offer_of(const nx_shm *shm);
/* We are |member|: callers are answered from now on.  Once. */
NX_MUST_CHECK nexar_err nx_shm_start(nx_shm *shm, uint64_t member);

/* A link to |member|, which may be used at once; on_up, on_moved or on_down follows.
 * After nx_shm_start; there must be none yet, NEXAR_EINVAL.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_shm_dial(nx_shm *shm, uint64_t member, const nx_link_up *up,
                                    void *up_ctx, nx_link **out);

bool nx_shm_is(const nx_link *link);
/* Whether a link of this transport is not up yet. */
bool nx_shm_pairing(const nx_link *link);
/* Passes a copy of |fd| to the other side of |link|, which is up, for its on_pass.
 * NEXAR_ESYS: not now, or not at all. */
NX_MUST_CHECK nexar_err nx_shm_pass(nx_link *link, uint64_t name, int fd);
/* The process behind |base|, borrowed until the next return to the loop.  NULL: the link is not
 * up, or the process cannot be pinned. */
nx_pidfd *nx_shm_process(nx_link *base);
/* What |link|, which is pairing, has queued goes to |to|, whose calls up are set; then
 * on_moved.  Not from an up-call of |link|.  An error: |to| is as it was, and the link
 * goes down. */
NX_MUST_CHECK nexar_err nx_shm_move(nx_link *link, nx_link *to);

/* Sets |done| when no link that was closed is still sending.  NULL: no longer. */
void nx_shm_drain(nx_shm *shm, nx_event *done);
/* Closes all links at once (without drain) and frees the endpoint.  on_sent is called
 * for what was still held.  Not from an up-call. */
void nx_shm_close(nx_shm *shm);

#endif /* NX_SHM_H */
