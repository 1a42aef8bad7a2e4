/*
 * procs.h - ranks as processes of a test, which may be killed or stopped.
 *
 * Processes are forked before the test has any thread; each gets the join string of a
 * seed in the parent by a pipe.
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
/* A millisecond, for those who look again and again. */
void nxt_nap(void);
/* |*at| becomes the time now, if that is later. */
void nxt_note_latest(_Atomic uint64_t *at);

/* Kills this process, and notes when in |*died_ns|, which others share. */
void nxt_die(_Atomic uint64_t *died_ns);
/* The same, as a thread's function: some 10 ms later, at any point of what the others do. */
void *nxt_die_soon(void *died_ns);

/* Zeroed memory that processes forked later share; ends the test if there is none. */
void *nxt_share(size_t bytes);
void nxt_unshare(void *at, size_t bytes);

/* Waits, for a minute at most, until |*count| is |n| or more. */
void nxt_await(_Atomic int *count, int n);

/* A process for later, made before there are threads; it ends with the test.  In it this
 * returns 0 when |*go| is not 0 any more: what it is to do. */
pid_t nxt_fork_until(_Atomic int *go);

/* Starts |n| processes that run |body| and exit with 0, and a seed for them. */
void nxt_procs_start(nxt_procs *p, int n, void (*body)(int rank, int join_fd, void *arg),
                     void *arg);
/* In |body|: joins as |rank|.  |settings| are names and values by turns, up to NULL; may be
 * NULL itself. */
nexar_comm *nxt_procs_join(int rank, int join_fd, const char *const settings[]);
/* Sends |sig| to those of |ranks|, as bits.  Several are killed at one moment: none sees that
 * another is dead. */
void nxt_procs_signal(const nxt_procs *p, unsigned ranks, int sig);
/* Waits for all: those of |killed|, as bits, have ended by SIGKILL, the others with |code|.
 * Then stops the seed. */
void nxt_procs_wait(nxt_procs *p, unsigned killed, int code);

#endif /* NXT_PROCS_H */
