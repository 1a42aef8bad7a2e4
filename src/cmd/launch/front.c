/* front.c - the process that the user sees, around one poll. */
#include "cmd/launch/front.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/os/sys.h"
#include "cmd/cmd.h"
#include "cmd/launch/io/signals.h"
#include "cmd/launch/orphans.h"

typedef struct front {
    pid_t keeper;
    int signals;
    int life;  /* held open until this process ends */
    int typed; /* a pipe to rank 0 for terminal input; -1: none */
    char fed[4096];
    size_t fed_at, fed_len;
} front;

/* ---- terminal input ------------------------------------------------------------------ */

static void stop_feeding(front *f)
{
    if (f->typed >= 0) {
        (void)nx_sys_close(f->typed);
        f->typed = -1;
    }
}

static void read_terminal(front *f)
{
    ssize_t got = nx_sys_read(STDIN_FILENO, f->fed, sizeof(f->fed));

    if (got > 0) {
        f->fed_len = (size_t)got;
        f->fed_at = 0;
    } else if ((got == 0) || (errno != EAGAIN)) {
        stop_feeding(f);
    }
}

static void feed(front *f)
{
    ssize_t put = nx_sys_write(f->typed, f->fed + f->fed_at, f->fed_len - f->fed_at);

    if (put > 0) {
        f->fed_at += (size_t)put;
        f->fed_len = (f->fed_at == f->fed_len) ? 0 : f->fed_len;
    } else if ((put < 0) && (errno != EAGAIN)) {
        stop_feeding(f);
    }
}

/* In the background, the terminal belongs to another process group. */
static bool has_terminal(void)
{
    return tcgetpgrp(STDIN_FILENO) == getpgrp();
}

/* ---- the loop ------------------------------------------------------------------------ */

static void pass_on(const front *f)
{
    int number;

    while ((number = nx_signals_next(f->signals)) != 0) {
        if (number != SIGCHLD) {
            (void)kill(f->keeper, number);
        }
        if (number == SIGTSTP) {
            (void)raise(SIGSTOP); /* the ranks stop, too; SIGCONT is also passed on */
        }
    }
}

static void turn(front *f)
{
    const uint64_t look_again_ns = 250000000;
    const bool full = f->fed_len != 0, ours = (f->typed >= 0) && !full && has_terminal();
    struct pollfd polls[] = {
        {.fd = f->signals, .events = POLLIN},
        {.fd = ours ? STDIN_FILENO : -1, .events = POLLIN},
        {.fd = full ? f->typed : -1, .events = POLLOUT},
    };

    if (nx_sys_poll(polls, 3, ((f->typed >= 0) && !full && !ours) ? look_again_ns : UINT64_MAX) <
        0) {
        return;
    }
    if (polls[1].revents != 0) {
        read_terminal(f);
    }
    if (polls[2].revents != 0) {
        feed(f);
    }
    pass_on(f);
}

static int await_keeper(front *f)
{
    int status;
    pid_t got;

    while ((got = nx_sys_waitpid(f->keeper, &status, WNOHANG)) == 0) {
        turn(f);
    }
    /* No process is left if all went well. */
    nx_orphans_end();
    if ((got == f->keeper) && WIFEXITED(status)) {
        return WEXITSTATUS(status);
    }
    (void)fprintf(stderr, "nexar: its second process was killed; ended the ranks\n");
    return NX_EXIT_FAILURE;
}

/* ---- beginning ----------------------------------------------------------------------- */

static void forget_input(void)
{
    int nothing = nx_sys_open("/dev/null", O_RDONLY, 0);

    if (nothing >= 0) {
        (void)nx_sys_dup2(nothing, STDIN_FILENO);
        (void)nx_sys_close(nothing);
    }
}

/* Rank 0 reads input that is not a terminal itself. Only processes of its session may read a
 * terminal. */
static nexar_err open_input(front *f, nx_front_ends *ends)
{
    int fds[2];

    f->typed = -1;
    if (isatty(STDIN_FILENO) == 0) {
        ends->input = nx_sys_dup(STDIN_FILENO);
        return (ends->input < 0) ? nx_fail_sys("dup", "", errno) : NEXAR_OK;
    }
    if (nx_sys_pipe(fds, 0) != 0) {
        return nx_fail_sys("pipe2", "", errno);
    }
    (void)fcntl(fds[1], F_SETFL, O_NONBLOCK);
    ends->input = fds[0];
    f->typed = fds[1];
    return NEXAR_OK;
}

static _Noreturn void be_keeper(front *f, const nx_front_ends *ends,
                                int (*keep)(void *ctx, const nx_front_ends *ends), void *ctx)
{
    int code;

    (void)setsid();
    nx_orphans_adopt();
    (void)nx_sys_close(f->signals);
    (void)nx_sys_close(f->life);
    stop_feeding(f);
    forget_input();
    code = keep(ctx, ends);
    (void)fflush(NULL);
    exit(code); // NOLINT(concurrency-mt-unsafe): all other threads have ended
}

int nx_front_run(int (*keep)(void *ctx, const nx_front_ends *ends), void *ctx)
{
    front f = {.signals = -1};
    nx_front_ends ends = {-1, -1};
    int life[2];
    nexar_err err;

    err = nx_signals_open(&f.signals);
    if ((err == NEXAR_OK) && (nx_sys_pipe(life, 0) != 0)) {
        err = nx_fail_sys("pipe2", "", errno);
    }
    if (err == NEXAR_OK) {
        ends.life = life[0];
        f.life = life[1];
        err = open_input(&f, &ends);
    }
    if (err != NEXAR_OK) {
        return nx_cmd_error("run", err);
    }
    nx_orphans_adopt();
    (void)fflush(NULL);
    f.keeper = fork();
    if (f.keeper == 0) {
        be_keeper(&f, &ends, keep, ctx);
    }
    if (f.keeper < 0) {
        return nx_cmd_error("run", nx_fail_sys("fork", "", errno));
    }
    (void)nx_sys_close(ends.input);
    (void)nx_sys_close(ends.life);
    if (f.typed < 0) {
        forget_input(); /* the writer must notice when rank 0 stops reading */
    }
    return await_keeper(&f);
}
