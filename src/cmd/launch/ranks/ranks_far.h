/* ranks_far.h - ranks on other hosts: how ranks.c reaches them, and what it learns about them. */
#ifndef NX_RANKS_FAR_H
#define NX_RANKS_FAR_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct nx_ranks nx_ranks;

/*
 * Ranks on other hosts: how they are started, signalled and observed. No function blocks; all get
 * |ctx| of the config. They report events of ranks by the functions below, from inside turn or
 * child.
 */
typedef struct nx_ranks_far {
    /* Starts all ranks. */
    void (*start)(void *ctx, nx_ranks *r);
    /* Sends a signal to all running ranks. */
    void (*signal)(void *ctx, int number);
    /* Fills |far_polls| descriptors; |full|: reads no output now. */
    void (*fill)(void *ctx, struct pollfd *polls, bool full);
    /* After poll. */
    void (*turn)(void *ctx, nx_ranks *r, const struct pollfd *polls);
    /* When turn must be called without a ready descriptor; UINT64_MAX: never. */
    uint64_t (*due)(void *ctx);
    /* A child of this process has exited and was reaped. */
    void (*child)(void *ctx, nx_ranks *r, const siginfo_t *info);
    /* Whether output may still arrive although all ranks have ended. */
    bool (*busy)(void *ctx);
    /* The host of |rank|, for prefixes and messages. */
    const char *(*host)(void *ctx, uint32_t rank);
} nx_ranks_far;

/* |columns| and |rows| of a terminal for a rank. False: stdout is no terminal. */
bool nx_ranks_far_window(const nx_ranks *r, uint32_t *columns, uint32_t *rows);
/* Whether the launcher no longer waits for remaining output. */
bool nx_ranks_far_hurried(const nx_ranks *r);

void nx_ranks_far_started(nx_ranks *r, uint32_t rank, pid_t pid);
/* |stream|: 1 is stdout, 2 stderr. */
void nx_ranks_far_printed(nx_ranks *r, uint32_t rank, int stream, const char *bytes, size_t len);
/* |info| has si_code and si_status. */
void nx_ranks_far_ended(nx_ranks *r, uint32_t rank, const siginfo_t *info);
/* |number| is the signal; 0: the rank was resumed. */
void nx_ranks_far_stopped(nx_ranks *r, uint32_t rank, int number);
/* Declares the |n| ranks from |first| on lost, for |why|, with exit code |code| for the job. */
void nx_ranks_far_lost(nx_ranks *r, uint32_t first, uint32_t n, int code, const char *why);
/* The host has received signal |number|, which requests the end of its ranks. */
void nx_ranks_far_wish(nx_ranks *r, int number);

#endif /* NX_RANKS_FAR_H */
