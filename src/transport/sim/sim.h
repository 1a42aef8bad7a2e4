/*
 * sim.h - a transport over a virtual network inside one process, for tests.
 *
 * It obeys transport.h to the letter and is as unkind as that allows: parts arrive
 * in pieces cut at random, overtake each other and the frames; on_sent comes a
 * round trip late and the bytes are read as late as possible; the memory that an
 * up-call is given is overwritten when it returns.  The same seed and the same
 * calls give the same run.
 *
 * Time is virtual: it stands until nx_sim_step moves it to the next event.  Loops
 * that are attached share the clock (create them with nx_sim_clock) and are kicked
 * by every step.  Or the net runs on a loop of its own, given at creation: then its
 * events are timers there, at the loop's time, and nx_sim_step is not used.
 *
 *     nx_sim_create(&net, seed, NULL);
 *     nx_sim_pair(net, &path, ends, links);
 *     nx_link_send_part(links[0], &tx);
 *     while (!done && nx_sim_step(net)) {
 *     }
 *
 * All calls up come from nx_sim_step (or the loop).  One thread at a time: that
 * which holds the locks of all loops of the net.
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

/* How a direction of a link carries packets: a frame each, or a piece of a part. */
typedef struct nx_sim_path {
    uint64_t rate;      /* bytes per second; 0: no limit */
    uint64_t delay_ns;  /* of every packet, and of its acknowledgement */
    uint64_t jitter_ns; /* up to this is added to a packet, by chance: order changes */
    uint32_t loss_ppm;  /* chance in a million that a packet is lost */
    uint64_t retry_ns;  /* and how much later it then arrives, for every loss */
    size_t window;      /* bytes on the way at most, but one packet always; 0: 1 MiB;
                           control frames do not count */
    size_t piece;       /* the largest piece of a part; 0: 16384, at most 65536 */
    uint64_t drain_ns;  /* how long a close with drain may take; 0: 10 s */
} nx_sim_path;

/* A net with the chances of |seed|.  |loop|: NULL for virtual time; or it is held
 * until the net is destroyed.
 *
 * NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_sim_create(nx_sim_net **out, uint64_t seed, nx_loop *loop);
/* Links that are still there are freed without a call. */
void nx_sim_destroy(nx_sim_net *net);

/* The net's clock: at 1 s when it is made. */
const nx_clock *nx_sim_clock(const nx_sim_net *net);

/* Makes |loop|, which is held until it is detached, part of the virtual time: a step
 * goes no further than its next timer, and kicks it.
 *
 * NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_sim_attach(nx_sim_net *net, nx_loop *loop);
void nx_sim_detach(nx_sim_net *net, nx_loop *loop);

/* Goes on to the next event, of the net or of a loop, and lets it happen: one up-call
 * for each event of the net.  False if there is none: nothing will ever happen by
 * itself. */
bool nx_sim_step(nx_sim_net *net);

/* Who is called by an end of a pair; can also be set in the link before the first
 * step. */
typedef struct nx_sim_end {
    const nx_link_up *up;
    void *up_ctx;
} nx_sim_end;

/* Two links to each other, |path| both ways.  on_up of both comes after a round trip;
 * what is sent before waits for it.  |ends| NULL: set later.
 *
 * NEXAR_ENOMEM */
NX_MUST_CHECK nexar_err nx_sim_pair(nx_sim_net *net, const nx_sim_path *path,
                                    const nx_sim_end ends[2], nx_link *links[2]);

/* Changes how what |link| sends is carried from now on. */
void nx_sim_set_path(nx_link *link, const nx_sim_path *path);

/* While |blocked| nothing reaches |link|, neither data nor acknowledgements nor the
 * end of the other side; what it sends does.  It is not lost: it comes when the way
 * is free again.  Block both ends for a partition. */
void nx_sim_block(nx_link *link, bool blocked);

/* Cuts the connection: both ends go down with NEXAR_EPEER after the delay. */
void nx_sim_cut(nx_link *link);

/* The process of this end dies: |link| is no more, no call is made to it, its parts
 * are forgotten (their memory is the caller's again); the other end goes down with
 * NEXAR_EPEER after the delay. */
void nx_sim_kill(nx_link *link);

/* Links that are not yet freed, the closed ones too. */
size_t nx_sim_links(const nx_sim_net *net);

#endif /* NX_SIM_H */
