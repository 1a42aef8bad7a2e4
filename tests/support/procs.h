/*
 * procs.h - ranks as processes of a test, which may be killed or stopped.
 *
 * Processes are forked before the test has any thread. Each receives the join string of a seed in
 * the parent through a pipe.
 */
#ifndef NXT_PROCS_H
#define NXT_PROCS_H

#include <stdatomic.h>
#include <sys/types.h>

#include <nexar.h>

enum { NXT_PROCS = 16 };

typedef struct nxt_procs {
    int n;
    pid_t pids[NXT_PROCS];
    int pipes[NXT_PROCS][2];
    nexar_seed *seed;
} nxt_procs;

/* CLOCK_MONOTONIC: the same in all processes. */
uint64_t nxt_now_ns(void);
/* Sleeps for a millisecond, for polling loops. */
void nxt_nap(void);
/* Sets |*at| to the current time if that is later. */
void nxt_note_latest(_Atomic uint64_t *at);

/* Kills this process after storing the time in |*died_ns|, which is shared. */
void nxt_die(_Atomic uint64_t *died_ns);
/* The same, as a thread's function: about 10 ms later, at an arbitrary point of the other
 * threads' work. */
void *nxt_die_soon(void *died_ns);

/* Zeroed memory that processes forked later share; ends the test if there is none. */
void *nxt_share(size_t bytes);
void nxt_unshare(void *at, size_t bytes);

/* Waits, for a minute at most, until |*count| is |n| or more. */
void nxt_await(_Atomic int *count, int n);

/* Forks a process for later use, before there are threads; it ends with the test. In the child
 * this returns 0 when |*go| is no longer 0; |*go| is its request. */
pid_t nxt_fork_until(_Atomic int *go);

/* Starts |n| processes that run |body| and exit with 0, and a seed for them. */
void nxt_procs_start(nxt_procs *p, int n, void (*body)(int rank, int join_fd, void *arg),
                     void *arg);
/* In |body|: joins as |rank|. |settings| alternates names and values and ends with NULL; it may
 * be NULL. */
nexar_comm *nxt_procs_join(int rank, int join_fd, const char *const settings[]);
/* Sends |sig| to |ranks|, as bits. Several ranks are killed at one moment: none observes the
 * failure of another. */
void nxt_procs_signal(const nxt_procs *p, unsigned ranks, int sig);
/* Waits for all processes. Checks that |killed|, as bits, have ended by SIGKILL and the others
 * with |code|. Then stops the seed. */
void nxt_procs_wait(nxt_procs *p, unsigned killed, int code);

#endif /* NXT_PROCS_H */
