/* pid_space.c - namespaces by unshare, ids by clone3. */
#include "pid_space.h"

#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit.h"

enum { DENIED = 77 };

pid_t nxt_pid_space_fork(pid_t pid)
{
    struct clone_args args = {
        .exit_signal = SIGCHLD, .set_tid = (uint64_t)(uintptr_t)&pid, .set_tid_size = 1};

    (void)fflush(NULL);
    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

/* Whether ids can be chosen here. */
static bool can_choose(void)
{
    const pid_t pid = nxt_pid_space_fork(1000);

    if (pid == 0) {
        _exit(0);
    }
    return (pid == 1000) && (waitpid(pid, NULL, 0) == pid);
}

/* The exit code of |pid|. */
static int code_of(pid_t pid)
{
    int status = 0;

    return ((waitpid(pid, &status, 0) == pid) && WIFEXITED(status)) ? WEXITSTATUS(status) : 1;
}

int nxt_pid_space_run(int (*body)(void *arg), void *arg)
{
    pid_t outer, first;
    int code;

    (void)fflush(NULL);
    outer = fork();
    assert_true(outer >= 0);
    if (outer == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if ((unshare(CLONE_NEWPID) != 0) && (unshare(CLONE_NEWUSER | CLONE_NEWPID) != 0)) {
            _exit(DENIED);
        }
        first = fork();
        if (first == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            code = can_choose() ? body(arg) : DENIED;
            (void)fflush(NULL);
            _exit(code);
        }
        _exit((first > 0) ? code_of(first) : DENIED);
    }
    code = code_of(outer);
    return (code == DENIED) ? -1 : code;
}
