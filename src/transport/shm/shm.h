/*
 * shm.h - the shm transport: links to members on the same host through shared memory.
 *
 * Each process has an endpoint with one listening Unix socket and one bell, an eventfd that wakes
 * it. The socket is abstract, with a random name of 128 bits, so nothing remains after any kind of
 * exit. Its *offer* is what others need to reach and convince it: the name and a key of 256 bits.
 * The owner distributes it to all members over a private channel, for instance in the view. The key
 * never travels over the socket.
 *
 * Pairing. The dialler connects, and both sides prove that they hold both keys, by HMACs over fresh
 * nonces of both and both member numbers. Each checks that the kernel reports its own user for the
 * other end. Only then does the dialler pass the segment (a sealed memfd) and its bell; the
 * acceptor answers with its own bell. Unauthenticated peers receive nothing, map nothing, and are
 * disconnected after 10 s.
 *
 *     dialler                         acceptor
 *     HELLO    from, to, nonce    ->
 *                                 <-  CHALLENGE  nonce, proof
 *     PROOF    proof, fds         ->
 *                                 <-  WELCOME    fd          (or REFUSED, at any time)
 *
 * Later the owner may pass descriptors to the other side (PASS name, fd), for memory shared by more
 * than two processes.
 *
 * The acceptor is committed when it has sent WELCOME, the dialler when it has read it. A local
 * socket loses no data: a side that reads its end without WELCOME knows that the other is not
 * committed. So both sides always agree.
 *
 * Simultaneous open, or use of different transports:
 * 1.  A process refuses a HELLO if it has a link to that member by any transport (`find` returns
 *     false). The lower member also refuses it while it dials itself.
 * 2.  The higher member accepts the lower one's connection into the link that it is dialling.
 * Refused
 *     for crossing, it waits for that connection. The lower one keeps the refused socket until its
 *     own attempt has ended, so that the wait ends with it.
 * 3. A link whose pairing fails, for whatever reason, *moves*: queued data goes to a link of
 *     another transport that the owner provides (`fallback`), and on_moved reports it. The other
 *     side accepts the connection by the other transport; a link that is still pairing there moves
 *     to it (nx_shm_move). It cannot be up: see 1.
 *
 * The segment has three rings in each direction: control, messages, data (segment.h, byte_ring.h).
 * Long parts are copied into the data ring while the receiver consumes them. The receiver reads the
 * bytes that the sender has not copied from the sender's memory (process_vm_readv), directly to the
 * destination if the owner names it (on_want), and acknowledges them (claim.h). If that is not
 * permitted (tested once per pair), or fails for some memory, or a pidfd cannot pin the peer's
 * process, all data goes through the ring. After each read the receiver checks whether the peer has
 * closed the link or exited, since its pid may have been reused; then it discards what was read.
 *
 * Data in the segment is never trusted: each value is read once and validated, and an invalid value
 * ends the link with NEXAR_EPROTO. The hangup of the socket, which stays open as long as the link,
 * reports the peer's exit, as does a pidfd where the kernel has them. There are no locks, so no
 * process waits for one that was killed.
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

/* How to reach an endpoint, and its key. A secret. */
typedef struct nx_shm_offer {
    uint8_t name[NX_SHM_NAME_SIZE];
    uint8_t key[NX_SHM_KEY_SIZE];
} nx_shm_offer;

typedef struct nx_shm nx_shm;

typedef struct nx_shm_config {
    nx_loop *loop;
    const nx_random *random;
    bool no_reading; /* behave as if the peer's memory could not be read */

    /* Gets the offer of |member|. False: shm must not be used; the member is unknown, has left, or
     * has a link by another transport. */
    bool (*find)(void *ctx, uint64_t member, nx_shm_offer *offer);

    /* A link opened by a peer is up. The callee sets link->up and link->up_ctx, or closes it. (Not
     * called for a member that this process is dialling too: its connection joins the existing
     * link.) */
    void (*on_accept)(void *ctx, nx_link *link, uint64_t member);

    /* Dials |member| by another transport, for a link whose pairing has failed because of |why|.
     * NULL, or an error: the link goes down. */
    nexar_err (*fallback)(void *ctx, uint64_t member, const char *why, const nx_link_up *up,
                          void *up_ctx, nx_link **out);

    /* |member| has passed |fd|, which the callee owns, under |name| (nx_shm_pass). NULL: such
     * descriptors are closed. */
    void (*on_pass)(void *ctx, uint64_t member, uint64_t name, int fd);
    void *ctx;
} nx_shm_config;

/* Makes the offer and listens; accepts no connection before nx_shm_start. NEXAR_ESYS,
 * NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_shm_open(nx_shm **out, const nx_shm_config *config);
const nx_shm_offer *nx_shm_offer_of(const nx_shm *shm);
/* This process is |member|: accepts connections from now on. Once. */
NX_MUST_CHECK nexar_err nx_shm_start(nx_shm *shm, uint64_t member);

/* Opens a link to |member|, usable immediately; on_up, on_moved or on_down follows. After
 * nx_shm_start; NEXAR_EINVAL if a link exists.  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_shm_dial(nx_shm *shm, uint64_t member, const nx_link_up *up,
                                    void *up_ctx, nx_link **out);

bool nx_shm_is(const nx_link *link);
/* Whether a link of this transport is not up yet. */
bool nx_shm_pairing(const nx_link *link);
/* Passes a copy of |fd| to on_pass of the peer of |link|, which is up. NEXAR_ESYS: temporary or
 * permanent. */
NX_MUST_CHECK nexar_err nx_shm_pass(nx_link *link, uint64_t name, int fd);
/* The peer's process, borrowed until the next return to the loop. NULL: the link is not up, or the
 * process cannot be pinned. */
nx_pidfd *nx_shm_process(nx_link *base);
/* Moves what |link|, which is pairing, has queued to |to|, whose upcalls are set; then on_moved.
 * Not from an upcall of |link|. On an error |to| is unchanged, and the link goes down. */
NX_MUST_CHECK nexar_err nx_shm_move(nx_link *link, nx_link *to);

/* Sets |done| when no closed link is still sending. NULL: cancels that. */
void nx_shm_drain(nx_shm *shm, nx_event *done);
/* Closes all links immediately (without drain) and frees the endpoint. Calls on_sent for held
 * parts. Not from an upcall. */
void nx_shm_close(nx_shm *shm);

#endif /* NX_SHM_H */
