/*
 * agent_link.h - the launcher's end of one agent: the process that reaches it (ssh, srun), and
 * the frames in both directions.
 *
 * Nothing here blocks. The owner polls three descriptors. It reaps the process itself and then
 * calls nx_agent_link_exited.
 */
#ifndef NX_AGENT_LINK_H
#define NX_AGENT_LINK_H

#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "agent_frame.h"
#include "ssh.h"

typedef enum nx_agent_state {
    NX_AGENT_SILENT,   /* no greeting yet */
    NX_AGENT_CHECKS,   /* SETUP was sent */
    NX_AGENT_IS_READY, /* has checked SETUP, or runs ranks */
    NX_AGENT_IS_DONE,  /* all its ranks have ended, all their output has arrived */
    NX_AGENT_IS_LOST   /* |why| has the reason */
} nx_agent_state;

enum { NX_AGENT_POLLS = 3, NX_AGENT_TAIL = 1024 };

typedef struct nx_agent_link {
    const nx_host *host;
    char tool[64]; /* ssh, srun */
    nx_agent_state state;
    bool told;    /* the owner has handled the loss */
    bool refused; /* lost because the agent cannot run the program */
    char why[NX_ERROR_ROOM];
    pid_t pid; /* 0: the process has ended */
    int in, out, err;
    int code; /* exit status: a code, or NX_AGENT_KILLED + signal */
    nx_output_sink to;
    nx_agent_input from;
    char words[NX_AGENT_TAIL]; /* the end of the process's stderr */
    char noise[128];           /* the last line before the greeting */
    uint64_t timeout_ns;       /* silence after which the agent is lost */
    uint64_t heard_at, pinged_at, closed_at;
    const nx_agent_setup *setup; /* borrowed until the greeting has arrived */
} nx_agent_link;

typedef void nx_agent_on_frame(void *ctx, nx_agent_link *link, const nx_agent_frame *frame);

/* Starts the process, with |files| as its limit of descriptors.  |host| and |setup| are borrowed.
 * NEXAR_EINVAL: ssh cannot be run; NEXAR_ESYS, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_agent_link_open(nx_agent_link *link, const nx_shell *shell,
                                           const nx_host *host, const nx_agent_setup *setup,
                                           uint64_t timeout_ns, const struct rlimit *files);
/* Closes the pipes, so that the agent ends its ranks, and sends SIGTERM to the process. */
void nx_agent_link_close(nx_agent_link *link);
void nx_agent_link_fini(nx_agent_link *link);

/* |full|: reads no frames now. */
void nx_agent_link_fill(const nx_agent_link *link, struct pollfd polls[NX_AGENT_POLLS], bool full);
/* After poll: sends, reads, and passes frames about ranks to |on_frame|. */
void nx_agent_link_turn(nx_agent_link *link, const struct pollfd polls[NX_AGENT_POLLS],
                        nx_agent_on_frame *on_frame, void *ctx);
/* The process has exited: reads its remaining output. */
void nx_agent_link_exited(nx_agent_link *link, const siginfo_t *info, nx_agent_on_frame *on_frame,
                          void *ctx);
/* When nx_agent_link_turn must be called without a ready descriptor; UINT64_MAX: never. */
uint64_t nx_agent_link_due(const nx_agent_link *link);
/* Declares the host lost, with that reason. */
void nx_agent_link_lose(nx_agent_link *link, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif /* NX_AGENT_LINK_H */
