/* seed.c - `nexar seed`: the one process with a known address. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nexar.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/private_file.h"
#include "base/os/sys.h"
#include "base/text/text.h"
#include "cluster/seed/seed.h"
#include "cmd/cmd.h"
#include "cmd/join_file.h"
#include "cmd/launch/io/signals.h"
#include "cmd/options.h"
#include "core/config/config.h"
#include "core/world/seed_config.h"

/* How the seed reports events: one line each, or one line that is rewritten. */
typedef struct report {
    bool keep; /* the seed stays if ranks are missing */
    bool live;
    bool dirty; /* a live line is on the terminal */
    atomic_bool timed_out;
} report;

static const char take_back[] = "\r\033[K";

/* A line that the terminal wraps could not be rewritten. */
static int terminal_width(void)
{
    struct winsize size;

    return ((ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0) && (size.ws_col > 1)) ? size.ws_col - 1
                                                                                 : 79;
}

/* Runs on the seed's thread, which serves joiners, so it must not wait for a reader that has
 * stopped reading. */
static void on_event(void *ctx, const nx_seed_event *event)
{
    report *r = ctx;
    const bool live = r->live && (event->kind == NX_SEED_JOINED);
    char text[NX_LOG_ROOM - 16], line[NX_LOG_ROOM] = "";

    if (live) {
        (void)snprintf(text, sizeof(text), "nexar seed: %u of %u ranks: %s", event->joined,
                       event->world, event->text);
    } else {
        (void)snprintf(text, sizeof(text), "nexar seed: %s", event->text);
    }
    nx_clean_text(text, strlen(text));
    (void)snprintf(line, sizeof(line), "%s%.*s%s", r->dirty ? take_back : "",
                   live ? terminal_width() : (int)sizeof(text), text, live ? "" : "\n");
    nx_log_put(line, strlen(line));
    r->dirty = live;
    if ((event->kind == NX_SEED_TIMEOUT) && !r->keep) {
        atomic_store(&r->timed_out, true);
    }
}

/* Reports the missing ranks, on request by a signal. */
static void tell_situation(nx_seed *seed)
{
    char text[NX_LOG_ROOM - 64], line[NX_LOG_ROOM];

    if (nx_seed_situation(seed, text, sizeof(text))) {
        (void)snprintf(line, sizeof(line), "nexar seed: the world has not formed: %s\n", text);
        nx_log_put(line, strlen(line));
    }
}

/* The first signal that requests the end; 0: none. Ctrl-Z stops the process here. */
static int wished_end(int signals, nx_seed *seed)
{
    int number;

    do {
        number = nx_signals_next(signals);
        if (number == SIGUSR1) {
            tell_situation(seed);
        }
        if (number == SIGTSTP) {
            (void)raise(SIGSTOP);
        }
    } while ((number != 0) && !nx_signal_ends(number));
    return number;
}

/* Returns when the job has ended, a signal has arrived, or ranks have not joined in time. */
static int stay(nx_seed *seed, int signals, report *r)
{
    const uint64_t turn_ns = 50000000;
    bool ended = false;

    while (!ended && !atomic_load(&r->timed_out)) {
        nexar_err err = nx_seed_wait(seed, turn_ns, &ended);
        int number = wished_end(signals, seed);

        if (err != NEXAR_OK) {
            return nx_cmd_error("seed", err);
        }
        if (number != 0) {
            return 128 + number;
        }
    }
    return ended ? NX_EXIT_OK : NX_EXIT_FAILURE;
}

static nexar_err print_line(const char *before, const char *text)
{
    /* Bypasses stdio, which would report the failure again at exit. */
    return ((nx_sys_write_all(STDOUT_FILENO, before, strlen(before)) == 0) &&
            (nx_sys_write_all(STDOUT_FILENO, text, strlen(text)) == 0) &&
            (nx_sys_write_all(STDOUT_FILENO, "\n", 1) == 0))
               ? NEXAR_OK
               : nx_fail_sys("cannot write the join string", "", errno);
}

static nexar_err write_join(const char *join_file, const char *join)
{
    nexar_err err = nx_join_file_write(join_file, join);

    return (err == NEXAR_OK) ? print_line("the join string is in ", join_file) : err;
}

/* Without the string no process could join. "-" is standard output, the default. */
static nexar_err hand_out(const nx_seed *seed, const char *join_file)
{
    static const char hint[] = "nexar seed: the join string on standard output is a secret; "
                               "--join-file FILE keeps it out of logs\n";
    char join[NX_JOIN_STRING_MAX];
    nexar_err err = nx_seed_join_text(seed, join, sizeof(join));

    if ((err == NEXAR_OK) && (join_file != NULL) && (strcmp(join_file, "-") != 0)) {
        err = write_join(join_file, join);
    } else if (err == NEXAR_OK) {
        err = print_line("", join);
        if ((join_file == NULL) && (isatty(STDOUT_FILENO) == 0)) {
            nx_log_put(hint, strlen(hint));
        }
    }
    explicit_bzero(join, sizeof(join));
    return err;
}

/* The options of the command line that are not settings. */
typedef struct manner {
    const char *join_file, *key_file;
    bool keep, init;
} manner;

enum { KEY_MAX = 8192 };

/* Reads the key of --key into |text|; |sc| points to it. */
static nexar_err read_key(const char *path, char text[KEY_MAX], nx_seed_config *sc)
{
    uint8_t *bytes = NULL;
    size_t len = 0;
    bool there = false;
    nexar_err err;

    if (path == NULL) {
        return NEXAR_OK;
    }
    err = nx_private_file_read("the key file", path, KEY_MAX, &bytes, &len, &there);
    if ((err == NEXAR_OK) && !there) {
        err = nx_fail(NEXAR_EINVAL, "--key %s: there is no such file", path);
    }
    if (err == NEXAR_OK) {
        memcpy(text, bytes, len);
        sc->key = text;
        sc->key_len = len;
    }
    if (bytes != NULL) {
        explicit_bzero(bytes, len);
        nx_free(bytes);
    }
    return err;
}

/* With --init: writes the state to disk and the join string to its file, and serves no joiner. */
static int initialise(nx_seed_config *sc, const manner *how)
{
    nx_seed *seed = NULL;
    nexar_err err;

    sc->on_event = NULL;
    err = nx_seed_create(&seed, sc);
    if (err == NEXAR_OK) {
        err = hand_out(seed, how->join_file);
    }
    nx_seed_destroy(seed);
    return (err == NEXAR_OK) ? NX_EXIT_OK : nx_cmd_error("seed", err);
}

static int serve(const nx_seed_config *given, const manner *how)
{
    nx_seed_config config = *given, *sc = &config;
    report r = {.keep = how->keep, .live = isatty(STDERR_FILENO) != 0};
    nx_seed *seed = NULL;
    int code, signals = -1;
    nexar_err err = nx_signals_open(&signals); /* before there are threads */

    sc->keep = how->keep;
    sc->on_event = on_event;
    sc->ctx = &r;
    if (err == NEXAR_OK) {
        err = nx_seed_create(&seed, sc);
    }
    if (err == NEXAR_OK) {
        err = hand_out(seed, how->join_file);
    }
    code = (err == NEXAR_OK) ? stay(seed, signals, &r) : nx_cmd_error("seed", err);
    nx_seed_destroy(seed);
    if (r.dirty) {
        nx_log_put(take_back, strlen(take_back));
    }
    if (signals >= 0) {
        (void)nx_sys_close(signals);
    }
    return code;
}

static int begin(const nexar_config *cfg, const manner *how)
{
    char key[KEY_MAX];
    nx_seed_config sc = {0};
    nexar_err err;
    int code;

    /* The token and the key that signs certificates: no core dump may contain them, and no other
     * process of this user may read them. */
    (void)prctl(PR_SET_DUMPABLE, 0);
    err = nx_seed_config_from(cfg, &sc);
    err = (err == NEXAR_OK) ? read_key(how->key_file, key, &sc) : err;
    if (err != NEXAR_OK) {
        code = nx_cmd_error("seed", err);
    } else {
        code = how->init ? initialise(&sc, how) : serve(&sc, how);
    }
    explicit_bzero(key, sizeof(key));
    explicit_bzero(&sc.token, sizeof(sc.token));
    return code;
}

/* Options that are also settings; they override the environment. */
typedef struct wishes {
    uint64_t world, min, max;
    const char *listen, *state;
} wishes;

static nexar_err set_number(nexar_config *cfg, const char *name, uint64_t value)
{
    char number[32];

    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)value);
    return (value == 0) ? NEXAR_OK : nexar_config_set(cfg, name, number);
}

static nexar_err set_text(nexar_config *cfg, const char *name, const char *value)
{
    return (value == NULL) ? NEXAR_OK : nexar_config_set(cfg, name, value);
}

static nexar_err apply_options(nexar_config *cfg, const wishes *w)
{
    nexar_err err = set_number(cfg, "world_size", w->world);

    err = (err == NEXAR_OK) ? set_number(cfg, "min_world", w->min) : err;
    err = (err == NEXAR_OK) ? set_number(cfg, "max_world", w->max) : err;
    err = (err == NEXAR_OK) ? set_text(cfg, "listen", w->listen) : err;
    err = (err == NEXAR_OK) ? set_text(cfg, "seed_state", w->state) : err;
    return (err == NEXAR_OK) ? nx_config_apply(cfg) : err;
}

int nx_cmd_seed(int argc, char **argv)
{
    wishes w = {0};
    manner how = {0};
    char state[NX_NUMBER_ROOM];
    int code = NX_EXIT_OK;
    const nx_option table[] = {
        {"world", NX_OPTION_UINT, &w.world, "N", "how many ranks the world has", 1, 65536, 0},
        {"min", NX_OPTION_UINT, &w.min, "N", "so many may form it when the others do not come", 1,
         65536, 0},
        {"max", NX_OPTION_UINT, &w.max, "N", "it may grow to so many", 1, 65536, 0},
        {"listen", NX_OPTION_TEXT, &w.listen, "ADDRESS", "bind this address, with or without port",
         0, 0, 0},
        {"join-file", NX_OPTION_TEXT, &how.join_file, "FILE",
         "write the join string there, for its owner alone, and do not print it; /dev/fd/N: a pipe",
         0, 0, 0},
        {"state", NX_OPTION_TEXT, &w.state, "FILE",
         "keep key, token and members there, so that the seed can be restarted", 0, 0, 0},
        {"init", NX_OPTION_FLAG, &how.init, NULL,
         "with --state: make the state, hand out the join string and end; the seed starts later", 0,
         0, 0},
        {"key", NX_OPTION_TEXT, &how.key_file, "FILE",
         "the ECDSA P-256 private key (PEM) of the seed; without it a new one is made", 0, 0, 0},
        {"keep", NX_OPTION_FLAG, &how.keep, NULL,
         "when the job has ended, or could not begin, wait for the next", 0, 0, 0},
    };
    const nx_options options = {
        .command = "seed",
        .help =
            "Runs the seed of a cluster: prints the join string or writes it to a file, admits\n"
            "the ranks that hold it, signs their certificates and hands out ranks.  No data\n"
            "passes through it.  It ends when the job has ended.",
        .table = table,
        .n = sizeof(table) / sizeof(table[0]),
        .notes =
            "The join string is a secret, and so is the state.  On each host:\n"
            "  NEXAR_JOIN='nexar://...' ./program\n\n"
            "For a secrets manager: `nexar seed --world N --state FILE --init` makes the state\n"
            "once and prints the join string; the same command without --init starts the seed.\n"
            "NEXAR_TOKEN_FILE and --key supply token and key.\n\n"
            "Settings: world_size, min_world, max_world, listen, port_range, interfaces,\n"
            "advertise, formation_timeout, seed_state (see nexar info).",
    };
    nexar_config *cfg = NULL;
    nexar_err err;

    if (!nx_options_parse(&options, argc, argv, NULL, &code)) {
        return code;
    }
    err = nexar_config_create(&cfg);
    if (err == NEXAR_OK) {
        err = apply_options(cfg, &w);
    }
    if (err != NEXAR_OK) {
        code = nx_cmd_error("seed", err);
    } else if (nx_config_number(cfg, NX_SET_WORLD_SIZE) == 0) {
        code = nx_usage("seed", "how many ranks? give --world N, such as: nexar seed --world 4");
    } else if (how.init && (nx_config_text(cfg, NX_SET_SEED_STATE, state)[0] == '\0')) {
        code = nx_usage("seed", "--init makes a state: give --state FILE as well");
    } else {
        code = begin(cfg, &how);
    }
    nexar_config_free(cfg);
    return code;
}
