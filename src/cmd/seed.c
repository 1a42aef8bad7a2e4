/* seed.c - `nexar seed`: the one process with a known address. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <nexar.h>

#include "cluster/seed.h"
#include "cmd/cmd.h"
#include "cmd/options.h"
#include "core/config.h"
#include "core/seed_config.h"

/* How the seed tells of what happens: a line each, or one that changes. */
typedef struct report {
    bool live;
    bool dirty; /* a live line stands on the terminal */
    bool timed_out;
} report;

static void clear_live(report *r)
{
    if (r->dirty) {
        (void)fprintf(stderr, "\r\033[K");
        r->dirty = false;
    }
}

static void on_event(void *ctx, const nx_seed_event *event)
{
    report *r = ctx;

    clear_live(r);
    if (event->kind == NX_SEED_TIMEOUT) {
        r->timed_out = true;
    }
    if (r->live && (event->kind == NX_SEED_JOINED)) {
        (void)fprintf(stderr, "nexar seed: %u of %u ranks: %s", event->joined, event->world,
                      event->text);
        r->dirty = true;
    } else {
        (void)fprintf(stderr, "nexar seed: %s\n", event->text);
    }
    (void)fflush(stderr);
}

/* Writes |join| to |path| so that a reader finds all of it or nothing, and
 * nobody else may read it. */
static nexar_err write_join_file(const char *path, const char *join)
{
    char temporary[4096];
    int len = snprintf(temporary, sizeof(temporary), "%s.%ld", path, (long)getpid());
    int fd;
    bool good;

    if ((len < 0) || ((size_t)len >= sizeof(temporary))) {
        return nx_fail(NEXAR_EINVAL, "the path of the join file is too long");
    }
    fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        return nx_fail_sys("open", temporary, errno);
    }
    good = (dprintf(fd, "%s\n", join) > 0) && (fsync(fd) == 0);
    if ((close(fd) != 0) || !good || (rename(temporary, path) != 0)) {
        int code = errno;

        (void)unlink(temporary);
        return nx_fail_sys("write", path, code);
    }
    return NEXAR_OK;
}

/* Stays until the job has ended, a signal came, or the ranks did not. */
static int stay(nx_seed *seed, int signals, report *r)
{
    const uint64_t turn_ns = 100000000;
    struct signalfd_siginfo info;
    bool ended = false;

    while (!ended && !(r->timed_out)) {
        nexar_err err = nx_seed_wait(seed, turn_ns, &ended);

        if (err != NEXAR_OK) {
            return nx_cmd_error("seed", err);
        }
        if (read(signals, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            return 128 + (int)info.ssi_signo;
        }
    }
    return ended ? NX_EXIT_OK : NX_EXIT_FAILURE;
}

static int serve(const nexar_config *cfg, const char *join_file, bool keep)
{
    report r = {.live = isatty(STDERR_FILENO) != 0};
    char join[NX_JOIN_STRING_MAX];
    nx_seed_config sc;
    nx_seed *seed = NULL;
    sigset_t set;
    int code, signals;
    nexar_err err = nx_seed_config_from(cfg, &sc);

    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGINT);
    (void)sigaddset(&set, SIGTERM);
    (void)sigaddset(&set, SIGHUP);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    sc.keep = keep;
    sc.on_event = on_event;
    sc.ctx = &r;
    if (err == NEXAR_OK) {
        err = nx_seed_create(&seed, &sc);
    }
    if (err == NEXAR_OK) {
        err = nx_seed_join_text(seed, join, sizeof(join));
    }
    if ((err == NEXAR_OK) && (join_file != NULL)) {
        err = write_join_file(join_file, join);
    }
    if (err == NEXAR_OK) {
        (void)printf("%s\n", join);
        (void)fflush(stdout);
        code = stay(seed, signals, &r);
    } else {
        code = nx_cmd_error("seed", err);
    }
    nx_seed_destroy(seed);
    clear_live(&r);
    if (signals >= 0) {
        (void)close(signals);
    }
    return code;
}

/* The options that are settings too go before the environment. */
static nexar_err apply_options(nexar_config *cfg, uint64_t world, const char *listen)
{
    char number[32];
    nexar_err err = NEXAR_OK;

    if (world != 0) {
        (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)world);
        err = nexar_config_set(cfg, "world_size", number);
    }
    if ((err == NEXAR_OK) && (listen != NULL)) {
        err = nexar_config_set(cfg, "listen", listen);
    }
    return (err == NEXAR_OK) ? nx_config_apply(cfg) : err;
}

int nx_cmd_seed(int argc, char **argv)
{
    uint64_t world = 0;
    const char *listen = NULL, *join_file = NULL;
    bool keep = false;
    int code = NX_EXIT_OK;
    const nx_option table[] = {
        {"world", NX_OPTION_UINT, &world, "N", "how many ranks the world has", 1, 65536, 0},
        {"listen", NX_OPTION_TEXT, &listen, "ADDRESS", "bind this address, with or without port", 0,
         0, 0},
        {"join-file", NX_OPTION_TEXT, &join_file, "FILE",
         "write the join string there as well, for the owner alone", 0, 0, 0},
        {"keep", NX_OPTION_FLAG, &keep, NULL, "stay when the job has ended", 0, 0, 0},
    };
    const nx_options options = {
        .command = "seed",
        .help = "Runs the seed of a cluster: it prints the join string, admits those who hold it,\n"
                "signs their certificates and hands out ranks.  No data passes through it.  It\n"
                "ends when the job has ended.",
        .table = table,
        .n = sizeof(table) / sizeof(table[0]),
        .notes = "The join string is a secret.  On each host:\n"
                 "  NEXAR_JOIN='nexar://...' ./program\n\n"
                 "Settings: world_size, listen, port_range, interfaces, advertise,\n"
                 "formation_timeout (see nexar info).",
    };
    nexar_config *cfg = NULL;
    nexar_err err;

    if (!nx_options_parse(&options, argc, argv, NULL, &code)) {
        return code;
    }
    err = nexar_config_create(&cfg);
    if (err == NEXAR_OK) {
        err = apply_options(cfg, world, listen);
    }
    code = (err == NEXAR_OK) ? serve(cfg, join_file, keep) : nx_cmd_error("seed", err);
    nexar_config_free(cfg);
    return code;
}
