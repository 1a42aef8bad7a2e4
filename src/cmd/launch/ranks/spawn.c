/* spawn.c - starts one process. */
#include "spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/sys.h"
#include "cmd/launch/io/pty.h"

/* The ends of one pipe: the child inherits |child|, the parent keeps |ours|. */
typedef struct ends {
    int child, ours;
} ends;

static nexar_err make_pipe(ends *e)
{
    int fds[2];

    if (nx_sys_pipe(fds, 0) != 0) {
        return nx_fail_sys("pipe2", "", errno);
    }
    *e = (ends){.child = fds[1], .ours = fds[0]};
    return NEXAR_OK;
}

/* A machine allows some thousand ptys, and some machines have no devpts. */
static nexar_err make_stdout(nx_spawn *s, ends *e)
{
    nexar_err err = NEXAR_OK;

    s->no_pty = 0;
    if (s->output == NX_SPAWN_PTY) {
        err = nx_pty_open(s->window, &e->ours, &e->child, &s->no_pty);
        if ((err == NEXAR_OK) || (s->no_pty == EMFILE) || (s->no_pty == ENFILE)) {
            return err;
        }
    }
    return make_pipe(e);
}

static void close_end(int fd)
{
    if (fd >= 0) {
        (void)nx_sys_close(fd);
    }
}

/* A single thread after fork: putenv is safe here. */
static void set_environment(const char *const *env)
{
    for (; (env != NULL) && (*env != NULL); env++) {
        (void)putenv((char *)(uintptr_t)*env); // NOLINT(concurrency-mt-unsafe)
    }
}

/* Descriptors, signals, environment of the new process; then the program.  |report| passes errors
 * to the parent. */
static _Noreturn void become(const nx_spawn *s, pid_t parent, const ends *out, const ends *err,
                             int report)
{
    sigset_t none;
    int nothing = nx_sys_open("/dev/null", O_RDONLY, 0);
    int code;

    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(127); /* the parent died before prctl took effect */
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
    if (s->cpus != NULL) {
        (void)sched_setaffinity(0, sizeof(*s->cpus), s->cpus);
    }
    set_environment(s->env);
    if ((s->cwd < 0) || (fchdir(s->cwd) == 0)) {
        (void)execvp(s->argv[0], s->argv);
    }
    code = errno;
    (void)!nx_sys_write(report, &code, sizeof(code));
    _exit(127);
}

/* Waits until the program runs, or for the errno of the failed start. */
static int await_exec(int report)
{
    int code = 0;
    ssize_t got;

    got = nx_sys_read(report, &code, sizeof(code));
    return (got == sizeof(code)) ? code : 0;
}

/* For a name without a slash, execvp searches only PATH, which rarely contains ".". */
static bool is_beside(const nx_spawn *s)
{
    const int at = (s->cwd >= 0) ? s->cwd : AT_FDCWD;
    struct stat st;

    return (strchr(s->argv[0], '/') == NULL) && (fstatat(at, s->argv[0], &st, 0) == 0) &&
           S_ISREG(st.st_mode) && (faccessat(at, s->argv[0], X_OK, 0) == 0);
}

static nexar_err cannot_run(const nx_spawn *s, int code)
{
    char text[128];
    const bool beside = (code == ENOENT) && is_beside(s);

    return nx_fail(NEXAR_EINVAL, "cannot run %s: %s%s%s%s", s->argv[0],
                   strerror_r(code, text, sizeof(text)), beside ? "; did you mean ./" : "",
                   beside ? s->argv[0] : "", beside ? "?" : "");
}

static nexar_err start(nx_spawn *s, const ends *out, const ends *err)
{
    const pid_t parent = getpid();
    ends report = {-1, -1};
    nexar_err result = make_pipe(&report);
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
    (void)setpgid(s->pid, s->pid); /* parent and child both call it, so that neither is too late */
    code = await_exec(report.ours);
    (void)nx_sys_close(report.ours);
    if (code != 0) {
        (void)nx_sys_waitpid(s->pid, NULL, 0);
        return cannot_run(s, code);
    }
    return NEXAR_OK;
}

nexar_err nx_spawn_start(nx_spawn *s)
{
    ends out = {-1, -1}, err = {-1, -1};
    nexar_err result = NEXAR_OK;

    if (s->output != NX_SPAWN_INHERIT) {
        result = make_stdout(s, &out);
        result = (result == NEXAR_OK) ? make_pipe(&err) : result;
    }
    result = (result == NEXAR_OK) ? start(s, &out, &err) : result;
    close_end(out.child);
    close_end(err.child);
    if (result != NEXAR_OK) {
        close_end(out.ours);
        close_end(err.ours);
        return result;
    }
    if (s->output != NX_SPAWN_INHERIT) {
        (void)fcntl(out.ours, F_SETFL, O_NONBLOCK);
        (void)fcntl(err.ours, F_SETFL, O_NONBLOCK);
    }
    s->out = out.ours;
    s->err = err.ours;
    return NEXAR_OK;
}
