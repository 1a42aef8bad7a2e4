/* ssh.h - how an agent is started on a host: directly, by ssh, or by srun. */
#ifndef NX_SSH_H
#define NX_SSH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "host_list.h"

typedef enum nx_shell_kind {
    NX_SHELL_SSH, /* except for this machine, which needs none */
    NX_SHELL_SRUN /* inside an allocation of Slurm */
} nx_shell_kind;

typedef struct nx_shell {
    nx_shell_kind kind;
    const char *ssh;   /* a command with its options, such as "ssh -F file"; NULL: ssh */
    const char *nexar; /* the path of nexar on the hosts; NULL: that of this program, then PATH */
} nx_shell;

/* An argv that grows.  Zero-initialised is empty. */
typedef struct nx_command_line {
    char **argv; /* ends with NULL */
    size_t n, room;
} nx_command_line;

void nx_command_line_fini(nx_command_line *w);

/* The words that start the agent of |host|: its stdin and stdout carry agent_frame.h.
 * NEXAR_EINVAL: |ssh| has no word; NEXAR_ENOMEM, NEXAR_ESYS. */
NX_MUST_CHECK nexar_err nx_shell_words(const nx_shell *shell, const nx_host *host,
                                       nx_command_line *words);

/* The program that starts the agent, for messages: "ssh", "srun", "nexar", or the first word of
 * |shell->ssh|. In |buf| or static. */
const char *nx_shell_name(const nx_shell *shell, const nx_host *host, char *buf, size_t size);

#endif /* NX_SSH_H */
