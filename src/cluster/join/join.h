/*
 * join.h - a process becomes a member: from a join string to the first view.
 *
 * Connects to the seed by its pinned key, proves the token bound to the session,
 * sends a certificate request for a key that it made, gets certificate, member
 * number and, when all are there, the view.  In a world that has formed it waits
 * until the members let it in.  The connection to the seed stays open, and is made
 * anew when it is lost: members hear who waits, and say how the world has changed.
 * join_state.h is the protocol without I/O.
 */
#ifndef NX_JOIN_H
#define NX_JOIN_H

#include "cluster/join/frames.h"
#include "cluster/join/join_string.h"
#include "cluster/join_queue.h"
#include "cluster/view.h"
#include "loop/loop.h"
#include "transport/inet/inet.h"

typedef struct nx_join nx_join;

typedef struct nx_join_config {
    nx_loop *loop;
    const char *join; /* the join string */
    uint32_t rank;    /* asked for, or NX_RANK_ANY: in order of arrival */
    /* The variable from which the rank was taken, if that is the number that a launcher has given
     * to the process: it is asked for where a world forms of those who come, and not looked at
     * where one has formed, or forms of others.  NULL: whoever sets it means it.  Borrowed while
     * the join lives. */
    const char *launcher;
    uint32_t world_size; /* what this process expects; 0: whatever the seed says */
    const char *listen, *interfaces, *advertise;
    const char *host_id; /* as nx_member_self has it; may be NULL */
    uint16_t port_first, port_last;
    uint64_t formation_timeout_ns; /* for all of it; 0: never */
    uint64_t stall_report_ns;      /* so long: what this process waits for is logged; 0: never */
    uint64_t idle_timeout_ns;      /* of the endpoint: see nx_quic_config */
    nx_congestion congestion;      /* the same */
    unsigned int allowed;          /* what links use: see nx_inet_config */
    const char *qlog_dir;
    const void *local; /* told to all members as nx_member.local: borrowed for the call */
    size_t nlocal;     /* at most NX_LOCAL_MAX */
    /* The world has formed and nx_join_view is there: once, from inside
     * nx_join_run.  May be NULL. */
    void (*on_view)(void *ctx, nx_join *j);
    /* A member of the view has connected: see nx_quic_config.  It may be faster
     * than we are and come while nx_join_run has not returned; when this process comes
     * into a world that has formed, even before on_view: its ranks may have heard of us
     * before we hear of that from the seed.  Later also one that is not in the view: it
     * has gone from it, or is in the next one, which others have come to before us. */
    void (*on_accept)(void *ctx, nx_link *link, uint64_t member);
    /* Joining has failed, and the links that came by on_accept must be closed in here.  May
     * be NULL. */
    void (*on_failed)(void *ctx);
    /* The seed has gone, though we have not left, |why| in words; or it is there
     * again.  The cluster runs on.  May be NULL. */
    void (*on_seed)(void *ctx, bool there, const char *why);
    /* Those who wait at the seed to come into the world have changed: |n| of them
     * now.  From inside the loop.  May be NULL. */
    void (*on_waiting)(void *ctx, uint32_t n);
    /* After nx_join_advance: those who joined with the view of |epoch| hold it and
     * return from nx_join_run, and may be dialled; one who is not reached has gone.
     * A later epoch stands for those before it.  Does not come while the seed is
     * away.  From inside the loop.  May be NULL. */
    void (*on_started)(void *ctx, uint64_t epoch);
    /* The seed's answer to nx_join_missed.  From inside the loop.  May be NULL. */
    void (*on_farewell)(void *ctx, uint64_t member, nx_farewell how);
    void *ctx;
} nx_join_config;

/*
 * Joins; blocks, driving the loop, until the view is there or the time-out has
 * passed.  Called with the loop's lock held.  On success |*out| holds endpoint,
 * identity and view; it is given back with nx_join_destroy, after the links.
 * The strings of |config| are borrowed until the call returns.
 *
 * NEXAR_EINVAL
 *     The join string, a setting; a rank that is taken or not below the size, or
 *     any of a world that has formed; another size than the seed's before.
 * NEXAR_ECONNECT
 *     The seed does not answer: names the addresses that were tried.  It has gone
 *     before the world formed.
 * NEXAR_EAUTH
 *     The seed has another key than the pin; the seed refused the token.
 * NEXAR_EPROTO
 *     Another version: names both.
 * NEXAR_ENOTSUP
 *     The job has ended.
 * NEXAR_ETIMEDOUT
 *     Not all have come: names how many, and the ranks or members missing.  The
 *     world has formed, and its members have not let this process in.
 * NEXAR_ESYS, NEXAR_ENOMEM, NEXAR_EINTERNAL
 */
NX_MUST_CHECK nexar_err nx_join_run(nx_join **out, const nx_join_config *config);

nx_inet *nx_join_endpoint(const nx_join *j);
const nx_view *nx_join_view(const nx_join *j);
uint32_t nx_join_rank(const nx_join *j);

/* Encodes those who wait at the seed, oldest first, as many as fit into |w| and at
 * most |max|, and returns how many; for nx_join_queue_decode. */
uint32_t nx_join_waiting(const nx_join *j, nx_writer *w, uint32_t max);

/*
 * The members have agreed that the ranks in |gone| are out of the world (NULL:
 * nobody), the |n| members |joined| in it, and that |world| is the id of its new
 * communicator.  All that stay call it, with the same, and never with themselves
 * in |gone|.  nx_join_view is the next view then (nx_view_next), the old one is
 * freed.  The seed is told, if it is away when it is back.  on_waiting may be called
 * from inside.
 *
 * NEXAR_EINVAL
 *     As nx_view_next; this process is among the gone; the world has not formed.
 * NEXAR_ENOMEM
 *     The view is as it was.
 */
NX_MUST_CHECK nexar_err nx_join_advance(nx_join *j, const nx_rankset *gone, const nx_member *joined,
                                        uint32_t n, uint32_t world);
/* on_started is overdue: the seed shall not wait for those who do not answer (HURRY, frames.h). */
void nx_join_urge(nx_join *j);
/* Asks the seed how |member| has gone, where nothing is found any more; |ended|: its process has
 * ended, as is known.  on_farewell follows, unless the seed goes first (on_seed).  False: the seed
 * is not there. */
NX_MUST_CHECK bool nx_join_missed(nx_join *j, uint64_t member, bool ended);

/* Says good-bye to the seed, so that it can tell a leaver from a loss; |done| is
 * set when that has been delivered or cannot be, within 2 s. */
void nx_join_leave(nx_join *j, nx_event *done);
/* Closes the endpoint and frees all; with the loop's lock held, not from a
 * callback. */
void nx_join_destroy(nx_join *j);

#endif /* NX_JOIN_H */
