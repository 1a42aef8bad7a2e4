/*
 * join.h - a process becomes a member: from a join string to the first view.
 *
 * Connects to the seed by its pinned key, proves the token bound to the session, and sends a
 * certificate request for its own key. Receives certificate, member number and, when all are there,
 * the view. If the world has formed it waits until the members admit it. The connection to the seed
 * stays open, and is reopened when lost: members learn which joiners wait, and report how the
 * world has changed. join_state.h is the protocol without I/O.
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
    /* The variable that the rank was taken from, if a launcher numbered the processes. That rank is
     * requested if a world forms of these processes, and ignored if one has formed, or forms of
     * others. NULL: the rank was set explicitly. Borrowed for the lifetime of the join. */
    const char *launcher;
    uint32_t world_size; /* expected by this process; 0: the seed decides */
    const char *listen, *interfaces, *advertise;
    const char *host_id; /* as nx_member_self has it; may be NULL */
    uint16_t port_first, port_last;
    uint64_t formation_timeout_ns; /* for the whole join; 0: never */
    uint64_t stall_report_ns;      /* after this time, logs what this process waits for; 0: never */
    uint64_t idle_timeout_ns;      /* of the endpoint: see nx_quic_config */
    nx_congestion congestion;      /* the same */
    unsigned int allowed;          /* what links use: see nx_inet_config */
    const char *qlog_dir;
    const void *local; /* sent to all members as nx_member.local; borrowed for the call */
    size_t nlocal;     /* at most NX_LOCAL_MAX */
    /* The world has formed and nx_join_view is available: once, from inside nx_join_run. May be
     * NULL. */
    void (*on_view)(void *ctx, nx_join *j);
    /* A member of the view has connected: see nx_quic_config. It may be faster than this process
     * and connect before nx_join_run has returned. When this process joins a formed world, that may
     * precede even on_view: its members may be notified before this process. Later also a member
     * that is not in the view: it has left, or is in the next view, which others installed
     * first. */
    void (*on_accept)(void *ctx, nx_link *link, uint64_t member);
    /* Joining has failed; closes the links of on_accept. May be NULL. */
    void (*on_failed)(void *ctx);
    /* The connection to the seed was lost because of |why|, or is restored. The cluster continues.
     * May be NULL. */
    void (*on_seed)(void *ctx, bool there, const char *why);
    /* The set of joiners that wait at the seed has changed: |n| of them now. From inside the loop.
     * May be NULL. */
    void (*on_waiting)(void *ctx, uint32_t n);
    /* After nx_join_advance: joiners of the view of |epoch| hold it and return from nx_join_run,
     * and may be dialled; one that is unreachable has gone. A later epoch implies the earlier ones.
     * Not called while the seed is away. From inside the loop. May be NULL. */
    void (*on_started)(void *ctx, uint64_t epoch);
    /* The seed's answer to nx_join_missed.  From inside the loop.  May be NULL. */
    void (*on_farewell)(void *ctx, uint64_t member, nx_farewell how);
    void *ctx;
} nx_join_config;

/*
 * Joins; blocks, driving the loop, until the view is available or the time-out has passed. Called
 * with the loop's lock held. On success |*out| holds endpoint, identity and view; free it with
 * nx_join_destroy, after the links. The strings of |config| are borrowed until the call returns.
 *
 * NEXAR_EINVAL
 *     The join string, a setting; a rank that is taken or not below the size, or
 *     any rank of a formed world; a size other than the seed's.
 * NEXAR_ECONNECT
 *     The seed does not answer: the message names the addresses tried. Or it was
 *     lost before the world formed.
 * NEXAR_EAUTH
 *     The seed's key does not match the pin; the seed rejected the token.
 * NEXAR_EPROTO
 *     Another version: the message names both.
 * NEXAR_ENOTSUP
 *     The job has ended.
 * NEXAR_ETIMEDOUT
 *     Not all have joined: the message names how many, and the ranks or members
 *     missing. Or the members of a formed world have not admitted this process.
 * NEXAR_ESYS, NEXAR_ENOMEM, NEXAR_EINTERNAL
 */
NX_MUST_CHECK nexar_err nx_join_run(nx_join **out, const nx_join_config *config);

nx_inet *nx_join_endpoint(const nx_join *j);
const nx_view *nx_join_view(const nx_join *j);
uint32_t nx_join_rank(const nx_join *j);

/* Encodes the joiners that wait at the seed, oldest first, as many as fit into |w| and at most
 * |max|; returns their number. For nx_join_queue_decode. */
uint32_t nx_join_waiting(const nx_join *j, nx_writer *w, uint32_t max);

/*
 * The members have agreed that the ranks in |gone| leave the world (NULL: none), that the |n|
 * members |joined| enter it, and that |world| is the id of its new communicator. All remaining
 * members call it with equal arguments, never with themselves in |gone|. nx_join_view is then the
 * next view (nx_view_next), the old one is freed. The seed is notified, later if it is away.
 * on_waiting may be called from inside.
 *
 * NEXAR_EINVAL
 *     As nx_view_next; this process is in |gone|; the world has not formed.
 * NEXAR_ENOMEM
 *     The view is unchanged.
 */
NX_MUST_CHECK nexar_err nx_join_advance(nx_join *j, const nx_rankset *gone, const nx_member *joined,
                                        uint32_t n, uint32_t world);
/* on_started is overdue: the seed must not wait for joiners that do not answer (HURRY,
 * frames.h). */
void nx_join_urge(nx_join *j);
/* Asks the seed how an unreachable |member| has left; |ended|: its process is known to have exited.
 * on_farewell follows, unless the seed is lost first (on_seed). False: no connection to the
 * seed. */
NX_MUST_CHECK bool nx_join_missed(nx_join *j, uint64_t member, bool ended);

/* Says goodbye to the seed, so that it can tell a departure from a loss; |done| is set when that
 * was delivered or failed, within 2 s. */
void nx_join_leave(nx_join *j, nx_event *done);
/* Closes the endpoint and frees everything; with the loop's lock held, not from a callback. */
void nx_join_destroy(nx_join *j);

#endif /* NX_JOIN_H */
