/* spawn.c - starts one rank. */
#include "cmd/launch/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/sys.h"

/* The ends of one pipe: |child| goes over, |ours| stays. */
typedef struct ends {
    int child, ours;
} ends;

static nexar_err make_pipe(bool wanted, ends *e)
{
    int fds[2];

    *e = (ends){.child = -1, .ours = -1};
    if (!wanted) {
        return NEXAR_OK;
    }
    if (nx_sys_pipe(fds, 0) != 0) {
        return nx_fail_sys("pipe2", "", errno);
    }
    *e = (ends){.child = fds[1], .ours = fds[0]};
    return NEXAR_OK;
}

static void close_end(int fd)
{
    if (fd >= 0) {
        (void)nx_sys_close(fd);
    }
}

/* Descriptors, signals, environment of the new process; then the program.  What
 * goes wrong is told to the parent through |report|. */
static _Noreturn void become(const nx_spawn *s, pid_t parent, const ends *out, const ends *err,
                             int report)
{
    char number[16];
    sigset_t none;
    int nothing = nx_sys_open("/dev/null", O_RDONLY, 0);
    int code;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); /* it died before it could take us with it */
    }
    (void)setrlimit(RLIMIT_NOFILE, s->files);
    (void)sigemptyset(&none);
    (void)pthread_sigmask(SIG_SETMASK, &none, NULL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)nx_sys_dup2((s->input >= 0) ? s->input : nothing, STDIN_FILENO);
    if (out->child >= 0) {
        (void)nx_sys_dup2(out->child, STDOUT_FILENO);
        (void)nx_sys_dup2(err->child, STDERR_FILENO);
    }
    /* A single thread after fork: setenv is safe here. */
    (void)setenv("NEXAR_JOIN", s->join, 1); // NOLINT(concurrency-mt-unsafe)
    (void)snprintf(number, sizeof(number), "%u", s->rank);
    (void)setenv("NEXAR_RANK", number, 1); // NOLINT(concurrency-mt-unsafe)
    (void)snprintf(number, sizeof(number), "%u", s->size);
    (void)setenv("NEXAR_WORLD_SIZE", number, 1); // NOLINT(concurrency-mt-unsafe)
    (void)execvp(s->argv[0], s->argv);
    code = errno;
    (void)nx_sys_write_all(report, &code, sizeof(code));
    _exit(127);
}

/* Waits until the program runs, or for the errno of why it does not. */
static int await_exec(int report)
{
    int code = 0;

    return (nx_sys_read_all(report, &code, sizeof(code)) == (ssize_t)sizeof(code)) ? code : 0;
}

static nexar_err start(nx_spawn *s, const ends *out, const ends *err)
{
    const pid_t parent = getpid();
    ends report;
    nexar_err result = make_pipe(true, &report);
    int code;

    if (result != NEXAR_OK) {
        return result;
    }
    s->pid = fork();
    if (s->pid == 0) {
        become(s, parent, out, err, report.child);
    }
    code = (s->pid < 0) ? errno : 0;
    (void)nx_sys_close(report.child);
    if (s->pid < 0) {
        (void)nx_sys_close(report.ours);
        return nx_fail_sys("fork", "", code);
    }
    (void)setpgid(s->pid, s->pid); /* both do it, so that neither comes too late */
    code = await_exec(report.ours);
    (void)nx_sys_close(report.ours);
    if (code != 0) {
        char text[128];

        (void)nx_sys_waitpid(s->pid, NULL, 0);
        return nx_fail(NEXAR_EINVAL, "cannot run %s: %s", s->argv[0],
                       strerror_r(code, text, sizeof(text)));
    }
    return NEXAR_OK;
}

nexar_err nx_spawn_rank(nx_spawn *s)
{
    ends out, err = {-1, -1};
    nexar_err result = make_pipe(s->pipes, &out);

    if (result == NEXAR_OK) {
        result = make_pipe(s->pipes, &err);
    }
    if (result == NEXAR_OK) {
        result = start(s, &out, &err);
    }
    close_end(out.child);
    close_end(err.child);
    if (result != NEXAR_OK) {
        close_end(out.ours);
        close_end(err.ours);
        return result;
    }
    s->out = out.ours;
    s->err = err.ours;
    return NEXAR_OK;
}
