/*
 * remote_inner.h - shared by the files of remote.h.
 *
 * remote.c has the job and its seed, remote_check.c the checks before the start, remote_carry.c
 * the communication with ranks.
 */
#ifndef NX_REMOTE_INNER_H
#define NX_REMOTE_INNER_H

#include <poll.h>
#include <sys/resource.h>

#include "agent_link.h"
#include "cluster/join/join_string.h"
#include "cmd/launch/ranks/formation.h"
#include "cmd/launch/ranks/ranks_far.h"
#include "remote.h"

enum { NX_REMOTE_PATH = 4096 };

typedef struct nx_remote_job {
    const nx_remote *job;
    nx_agent_setup setup;
    char directory[NX_REMOTE_PATH];
    const char **env;
    size_t nenv, env_room;
    nx_agent_link *links;
    size_t n;
    struct rlimit files; /* as the caller gave it */
    struct pollfd *polls;
    nx_formation formation; /* if there is a seed */
    nx_seed *seed;          /* NULL: the ranks join another seed */
    char join[NX_JOIN_STRING_MAX];
    nx_ranks *ranks; /* while they run */
    bool dropped;    /* the launcher no longer waits for the hosts */

    /* The input of rank 0, which is on the first host. */
    int input;       /* -1: none, or ended */
    uint32_t unread; /* bytes that rank 0 has not read yet */
} nx_remote_job;

/* The number of ranks on all hosts. */
uint32_t nx_remote_world_size(const nx_remote_job *r);

/* ---- remote_check.c ------------------------------------------------------------------ */

/* Starts the agents and waits until each has answered or is lost; names the lost ones on stderr.
 * Returns early when |life| ends. 0: all hosts are ready; otherwise an exit code. */
int nx_remote_check(nx_remote_job *r, int life);
/* The link whose process is |pid|; NULL: none. */
nx_agent_link *nx_remote_link_of(const nx_remote_job *r, pid_t pid);
/* When the next link needs nx_agent_link_turn without a ready descriptor; UINT64_MAX: never. */
uint64_t nx_remote_due(const nx_remote_job *r);

/* ---- remote_carry.c ------------------------------------------------------------------ */

/* The functions of remote_carry.c, with an nx_remote_job as ctx. */
extern const nx_ranks_far nx_remote_ops;

#endif /* NX_REMOTE_INNER_H */
