/*
 * join.h - a process becomes a member: from a join string to the first view.
 *
 * Connects to the seed by its pinned key, proves the token bound to the session,
 * sends a certificate request for a key that it made, gets certificate, member
 * number and, when all are there, the view.  The connection to the seed stays
 * open for later views.  join_state.h is the protocol without I/O.
 */
#ifndef NX_JOIN_H
#define NX_JOIN_H

#include "cluster/join_string.h"
#include "cluster/view.h"
#include "loop/loop.h"
#include "transport/quic/quic.h"

typedef struct nx_join nx_join;

#define NX_RANK_ANY UINT32_MAX

typedef struct nx_join_config {
    nx_loop *loop;
    const char *join;    /* the join string */
    uint32_t rank;       /* asked for, or NX_RANK_ANY: in order of arrival */
    uint32_t world_size; /* what this process expects; 0: whatever the seed says */
    const char *listen, *interfaces, *advertise;
    uint16_t port_first, port_last;
    uint64_t formation_timeout_ns;
    const char *qlog_dir;
    /* For the member's endpoint: see nx_quic_config.  Before the view nobody is
     * accepted. */
    void (*on_accept)(void *ctx, nx_link *link, uint64_t member);
    /* The seed has gone or come back; |why| in words.  The cluster runs on. */
    void (*on_seed)(void *ctx, bool there, const char *why);
    void *ctx;
} nx_join_config;

/*
 * Joins; blocks, driving the loop, until the view is there or the time-out has
 * passed.  Called with the loop's lock held.  On success |*out| holds endpoint,
 * identity and view; it is given back with nx_join_destroy, after the links.
 *
 * NEXAR_EINVAL
 *     The join string, a setting; a rank that is taken or not below the size.
 * NEXAR_ECONNECT
 *     The seed does not answer: names the addresses that were tried.
 * NEXAR_EAUTH
 *     The seed has another key than the pin; the seed refused the token.
 * NEXAR_EPROTO
 *     Another version: names both.
 * NEXAR_ETIMEDOUT
 *     Not all have come: names how many, and the ranks or members missing.
 */
NX_MUST_CHECK nexar_err nx_join_run(nx_join **out, const nx_join_config *config);

nx_quic *nx_join_endpoint(const nx_join *j);
const nx_view *nx_join_view(const nx_join *j);
uint32_t nx_join_rank(const nx_join *j);

/* Says good-bye to the seed, so that it can tell a leaver from a loss; |done| is
 * set when that has been delivered or cannot be. */
void nx_join_leave(nx_join *j, nx_event *done);
void nx_join_destroy(nx_join *j);

#endif /* NX_JOIN_H */
