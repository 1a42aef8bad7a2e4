/* guardian.c - ends our ranks when we cannot. */
#include "cmd/guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 65536 };

/* The life of the guardian.  It has no memory but this and calls nothing that
 * needs more than the kernel: it runs between fork and exit. */
static _Noreturn void guard(int pipe)
{
    static pid_t groups[MOST];
    size_t n = 0;
    pid_t next;
    ssize_t got;

    do {
        got = read(pipe, &next, sizeof(next));
        if ((got == sizeof(next)) && (next == 0)) {
            _exit(0);
        }
        if ((got == sizeof(next)) && (n < MOST)) {
            groups[n++] = next;
        }
    } while ((got > 0) || ((got < 0) && (errno == EINTR)));

    for (size_t i = 0; i < n; i++) {
        (void)kill(-groups[i], SIGKILL);
    }
    _exit(0);
}

nexar_err nx_guardian_start(nx_guardian *g)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) != 0) {
        return nx_fail_sys("pipe2", "", errno);
    }
    g->pid = fork();
    if (g->pid == 0) {
        sigset_t all;

        /* Out of reach of a Ctrl-C and of whoever closes the terminal. */
        (void)setsid();
        (void)sigfillset(&all);
        (void)sigprocmask(SIG_BLOCK, &all, NULL);
        (void)close(ends[1]);
        /* Whoever reads our output waits for the ranks, not for us. */
        for (int fd = 0; fd <= 2; fd++) {
            (void)close(fd);
        }
        guard(ends[0]);
    }
    (void)close(ends[0]);
    if (g->pid < 0) {
        int code = errno;

        (void)close(ends[1]);
        return nx_fail_sys("fork", "", code);
    }
    g->pipe = ends[1];
    return NEXAR_OK;
}

void nx_guardian_watch(nx_guardian *g, pid_t group)
{
    (void)!write(g->pipe, &group, sizeof(group));
}

void nx_guardian_stop(nx_guardian *g)
{
    nx_guardian_watch(g, 0);
    (void)close(g->pipe);
    while ((waitpid(g->pid, NULL, 0) < 0) && (errno == EINTR)) {
    }
}
