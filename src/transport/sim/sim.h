/*
 * sim.h - a transport over a virtual network inside one process, for tests.
 *
 * It implements transport.h in the most adverse way that the contract allows. Parts arrive in
 * fragments of random size, and overtake each other and the frames. on_sent arrives a round trip
 * late and the bytes are read as late as possible. Memory passed to an upcall is overwritten when
 * it returns. The same seed and the same calls give the same run.
 *
 * Time is virtual: it stands still until nx_sim_step moves it to the next event. Attached loops
 * share the clock (create them with nx_sim_clock), and every step kicks them. Alternatively the net
 * runs on a loop given at creation: then its events are timers there, in the loop's time, and
 * nx_sim_step is not used.
 *
 *     nx_sim_create(&net, seed, NULL);
 *     nx_sim_pair(net, &path, ends, links);
 *     nx_link_send_part(links[0], &tx);
 *     while (!done && nx_sim_step(net)) {
 *     }
 *
 * All upcalls come from nx_sim_step (or the loop). One thread at a time: the one with the locks of
 * all loops of the net.
 */
#ifndef NX_SIM_H
#define NX_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "loop/loop.h"
#include "transport/transport.h"

typedef struct nx_sim_net nx_sim_net;

/* How one direction of a link carries packets: frames, or fragments of parts. */
typedef struct nx_sim_path {
    uint64_t rate;      /* bytes per second; 0: no limit */
    uint64_t delay_ns;  /* of every packet, and of its acknowledgement */
    uint64_t jitter_ns; /* random additional delay up to this: packets are reordered */
    uint32_t loss_ppm;  /* probability, in millionths, that a packet is lost */
    uint64_t retry_ns;  /* additional delay for each loss */
    size_t window;      /* most bytes in flight, but always one packet; 0: 1 MiB; control frames do
                           not count */
    size_t piece;       /* largest fragment of a part; 0: 16384, at most 65536 */
    uint64_t drain_ns;  /* limit of a close with drain; 0: 10 s */
} nx_sim_path;

/* Creates a net with random numbers from |seed|. |loop|: NULL for virtual time; otherwise
 * referenced until the net is destroyed.
 *
 * NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_sim_create(nx_sim_net **out, uint64_t seed, nx_loop *loop);
/* Frees remaining links without upcalls. */
void nx_sim_destroy(nx_sim_net *net);

/* The net's clock: 1 s at creation. */
const nx_clock *nx_sim_clock(const nx_sim_net *net);

/* Attaches |loop|, referenced until it is detached, to the virtual time: a step ends at its next
 * timer at the latest, and kicks it.
 *
 * NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_sim_attach(nx_sim_net *net, nx_loop *loop);
void nx_sim_detach(nx_sim_net *net, nx_loop *loop);

/* Advances to the next event, of the net or of a loop, and executes it: one upcall for each event
 * of the net. False if there is none. */
bool nx_sim_step(nx_sim_net *net);

/* The upcalls of an end of a pair; may also be set in the link before the first step. */
typedef struct nx_sim_end {
    const nx_link_up *up;
    void *up_ctx;
} nx_sim_end;

/* Two connected links, with |path| in both directions. on_up of both arrives after a round trip;
 * earlier sends wait for it. |ends| NULL: set later.
 *
 * NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_sim_pair(nx_sim_net *net, const nx_sim_path *path,
                                    const nx_sim_end ends[2], nx_link *links[2]);

/* Changes the path of what |link| sends from now on. */
void nx_sim_set_path(nx_link *link, const nx_sim_path *path);

/* While |blocked|, nothing reaches |link|: no data, acknowledgements or end of the peer. What it
 * sends does arrive. Nothing is lost: it arrives after unblocking. Block both ends for a
 * partition. */
void nx_sim_block(nx_link *link, bool blocked);

/* Cuts the connection: both ends go down with NEXAR_EPEER after the delay. */
void nx_sim_cut(nx_link *link);

/* The process of this end is killed: |link| no longer exists, no upcall is made to it, its parts
 * are released; the other end goes down with NEXAR_EPEER after the delay. */
void nx_sim_kill(nx_link *link);

/* Links that are not yet freed, including closed ones. */
size_t nx_sim_links(const nx_sim_net *net);

#endif /* NX_SIM_H */
