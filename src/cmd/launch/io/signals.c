/* signals.c - the set of signals, and reading them. */
#include "signals.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/os/sys.h"

/* A blocked signal would be read from the signalfd although it is ignored. */
static bool ignored(int number)
{
    struct sigaction action;

    return (sigaction(number, NULL, &action) == 0) && (action.sa_handler == SIG_IGN);
}

nexar_err nx_signals_open(int *fd)
{
    static const int numbers[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGUSR1,
                                  SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
    sigset_t set;

    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (!ignored(numbers[i])) {
            (void)sigaddset(&set, numbers[i]);
        }
    }
    (void)signal(SIGCHLD, SIG_DFL); /* if it were ignored, children would leave no exit status */
    (void)sigaddset(&set, SIGCHLD);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    *fd = nx_sys_signalfd(&set);
    return (*fd < 0) ? nx_fail_sys("signalfd", "", errno) : NEXAR_OK;
}

int nx_signals_next(int fd)
{
    struct signalfd_siginfo info;

    return (nx_sys_read(fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) ? (int)info.ssi_signo
                                                                           : 0;
}

bool nx_signal_ends(int number)
{
    return (number == SIGINT) || (number == SIGTERM) || (number == SIGHUP) || (number == SIGQUIT);
}
