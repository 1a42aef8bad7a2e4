/*
 * conformance.h - the tests that every transport must pass: the contract of transport.h.
 *
 * A transport's test fills in a harness and calls nxt_transport_conformance from its main. The
 * suite runs in one thread with the lock of the loop(s) held from setup to teardown; it asserts
 * order, content, ownership, and the number and context of all upcalls. With real sockets both
 * ends of a link are in this process, on one loop or on several; the suite works with both.
 */
#ifndef NXT_CONFORMANCE_H
#define NXT_CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/transport.h"

typedef struct nxt_transport_harness {
    const char *name;
    void *ctx;

    /* Creates an empty world and takes its locks. Fails the test by an assertion on error. */
    void *(*setup)(void *ctx);

    /* Destroys the world. All links known to the suite are closed, and every part has had its
     * on_sent. The harness may make further progress, and then assert that the transport holds
     * no resources. */
    void (*teardown)(void *world);

    /*
     * Opens a link between two new ends. The upcalls of the dialling end go to |up| with
     * up_ctx[0], those of the other end with up_ctx[1]. |*dialled| is usable at once; the suite
     * learns the other end's link from its first upcall. Both ends get on_up, or on_down.
     */
    nexar_err (*dial)(void *world, const nx_link_up *up, void *const up_ctx[2], nx_link **dialled);

    /* Makes progress until |done|, checked after every iteration. False: nothing can happen any
     * more, or a real-time limit has passed that only a hang exceeds (about 30 s; a test
     * transfers at most 64 MiB, or |huge|). */
    bool (*progress)(void *world, bool (*done)(void *arg), void *arg);

    /* The process of the end |link| dies, silently if the transport can do that. That end gets
     * no further upcall, and |link| is not used any more. The other end must detect it within
     * the time limit of |progress|. */
    void (*kill)(void *world, nx_link *link);

    /* The process of the end |link| is stopped while |held|: it receives nothing and gets no
     * upcall, while the other end continues. */
    void (*hold)(void *world, nx_link *link, bool held);

    size_t links;  /* number of concurrent links to test; 0: 20 */
    bool huge;     /* also tests a part of 1 GiB */
    long oom_most; /* number of allocations that fail in turn; 0: all */
} nxt_transport_harness;

/* Runs the suite; returns the number of tests that failed, for main. */
int nxt_transport_conformance(const nxt_transport_harness *harness);

#endif /* NXT_CONFORMANCE_H */
