/*
 * conformance.h - what every transport must pass: transport.h, turned into tests.
 *
 * A transport's test fills in a harness and calls nxt_transport_conformance from its
 * main.  The suite runs in one thread with the lock of the loop(s) held from setup to
 * teardown; it makes its own assertions about order, content, ownership and the number
 * and place of all calls up.  For real sockets both ends of a link live in this
 * process, on one loop or on several: the suite does not mind.
 */
#ifndef NXT_CONFORMANCE_H
#define NXT_CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/transport.h"

typedef struct nxt_transport_harness {
    const char *name;
    void *ctx;

    /* Begins a world with nothing in it; lock what must be locked.  Fails the test by
     * an assertion if it cannot. */
    void *(*setup)(void *ctx);

    /* Ends it.  All links that the suite has heard of are closed, and every part has
     * been told of; the harness may make more progress, and then assert that the
     * transport holds nothing any more. */
    void (*teardown)(void *world);

    /*
     * Opens a link between two new ends.  The calls up of the end that dials go to
     * |up| with up_ctx[0], those of the other end with up_ctx[1].  |*dialled| can be
     * used at once; the suite learns the other end's link from its first call up.
     * Both ends get on_up, or on_down.
     */
    nexar_err (*dial)(void *world, const nx_link_up *up, void *const up_ctx[2], nx_link **dialled);

    /* Makes progress until |done|, which is asked after every turn.  False: gave up,
     * for nothing happens any more, or after a real time that only a hang can take
     * (some 30 s; a test transfers at most 64 MiB, or |huge|). */
    bool (*progress)(void *world, bool (*done)(void *arg), void *arg);

    /* The process of the end |link| dies, without a word if the transport can do
     * that: no call is made to that end any more, |link| is not used any more.  The
     * other end must find out within the patience of |progress|. */
    void (*kill)(void *world, nx_link *link);

    /* The process of the end |link| stands still while |held|: it takes nothing, so that there
     * is no call to that end, and the other one goes on by itself. */
    void (*hold)(void *world, nx_link *link, bool held);

    size_t links;  /* how many links at once are no trouble; 0: 20 */
    bool huge;     /* a part of 1 GiB too */
    long oom_most; /* allocations that are made to fail in turn; 0: all of them */
} nxt_transport_harness;

/* Runs the suite; returns the number of tests that failed, for main. */
int nxt_transport_conformance(const nxt_transport_harness *harness);

#endif /* NXT_CONFORMANCE_H */
