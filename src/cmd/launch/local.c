/* local.c - a world on this machine: a seed of its own, and local processes as ranks. */
#include "cmd/launch/local.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <nexar.h>

#include "cluster/seed.h"
#include "cmd/cmd.h"
#include "cmd/join_file.h"
#include "cmd/launch/front.h"
#include "cmd/launch/ranks.h"
#include "core/config.h"
#include "core/seed_config.h"

/* A seed, and what its thread needs to know. */
typedef struct local_seed {
    nx_seed *seed;
    int notes; /* what is to be said goes there, to the one that prints */
    const char *join_file;
    pthread_mutex_t lock;
    char join[NX_JOIN_STRING_MAX];
} local_seed;

/* Only when the local ranks are in: who comes before would take the place of one. */
static nexar_err hand_out(local_seed *s)
{
    nexar_err err;

    (void)pthread_mutex_lock(&s->lock);
    err = nx_join_file_write(s->join_file, s->join);
    (void)pthread_mutex_unlock(&s->lock);
    return err;
}

/* In the seed's thread. */
static void on_event(void *ctx, const nx_seed_event *event)
{
    local_seed *s = ctx;

    if ((event->kind == NX_SEED_REFUSED) || (event->kind == NX_SEED_TIMEOUT)) {
        (void)dprintf(s->notes, "%s\n", event->text);
    }
    if ((event->kind == NX_SEED_FORMED) && (s->join_file != NULL) && (hand_out(s) != NEXAR_OK)) {
        (void)dprintf(s->notes, "%s\n", nexar_last_error());
    }
}

/* The seed on loopback for |n| ranks. */
static nexar_err seed_config_for(uint64_t n, nexar_config *cfg, nx_seed_config *sc)
{
    char number[32];
    nexar_err err;

    (void)snprintf(number, sizeof(number), "%llu", (unsigned long long)n);
    err = nexar_config_set(cfg, "world_size", number);
    if (err == NEXAR_OK) {
        err = nx_config_apply(cfg);
    }
    if (err == NEXAR_OK) {
        err = nx_seed_config_from(cfg, sc);
    }
    if (err == NEXAR_OK) {
        /* Ranks are here; a fixed port of theirs is not the seed's to take, nor is the
         * state of another seed. */
        sc->state = NULL;
        sc->listen = "127.0.0.1";
        sc->interfaces = "";
        sc->advertise = "";
        sc->port_first = 0;
        sc->port_last = 0;
    }
    return err;
}

static nexar_err start_seed(uint64_t n, local_seed *s)
{
    nexar_config *cfg = NULL;
    nx_seed_config sc;
    nexar_err err = nexar_config_create(&cfg);

    if (err == NEXAR_OK) {
        err = seed_config_for(n, cfg, &sc);
    }
    if (err == NEXAR_OK) {
        sc.on_event = on_event;
        sc.ctx = s;
        err = nx_seed_create(&s->seed, &sc);
    }
    nexar_config_free(cfg);
    if (err != NEXAR_OK) {
        return err;
    }
    (void)pthread_mutex_lock(&s->lock);
    err = nx_seed_join_text(s->seed, s->join, sizeof(s->join));
    (void)pthread_mutex_unlock(&s->lock);
    return err;
}

static int finish(const nx_local *job, const nx_ranks_result *result)
{
    char text[128];

    if (result->rank >= 0) {
        return result->code;
    }
    if (result->ended_by != 0) {
        return 128 + result->ended_by;
    }
    if (result->output_lost == EPIPE) {
        return 128 + SIGPIPE; /* as any program that writes to nobody */
    }
    if (result->output_lost != 0) {
        (void)fprintf(stderr, "nexar %s: cannot write the output: %s; ended the ranks\n",
                      job->command, strerror_r(result->output_lost, text, sizeof(text)));
        return NX_EXIT_FAILURE;
    }
    return NX_EXIT_OK;
}

static nexar_err run_ranks(const nx_local *j, const nx_front_ends *ends, local_seed *s, int notes,
                           nx_ranks_result *result)
{
    const nx_ranks_config config = {
        .command = j->command,
        .n = (uint32_t)j->n,
        .argv = j->argv,
        .join = s->join,
        .prefix = j->prefix,
        .colour_out = isatty(STDOUT_FILENO) != 0,
        .colour_err = isatty(STDERR_FILENO) != 0,
        .grace_ns = j->grace_ns,
        .elastic = j->elastic,
        .input = ends->input,
        .life = ends->life,
        .notes = notes,
    };
    nexar_err err = (j->join_file != NULL) ? nx_join_file_clear(j->join_file) : NEXAR_OK;

    if (err == NEXAR_OK) {
        err = start_seed(j->n, s);
    }
    return (err == NEXAR_OK) ? nx_ranks_run(&config, result) : err;
}

static int keep(void *ctx, const nx_front_ends *ends)
{
    const nx_local *j = ctx;
    local_seed s = {.join_file = j->join_file, .lock = PTHREAD_MUTEX_INITIALIZER};
    int notes[2], code;
    nx_ranks_result result;
    nexar_err err;

    if (pipe2(notes, O_CLOEXEC | O_NONBLOCK) != 0) {
        return nx_cmd_error(j->command, nx_fail_sys("pipe2", "", errno));
    }
    s.notes = notes[1];
    err = run_ranks(j, ends, &s, notes[0], &result);
    code = (err == NEXAR_OK) ? finish(j, &result) : nx_cmd_error(j->command, err);
    nx_seed_destroy(s.seed);
    (void)close(notes[0]);
    (void)close(notes[1]);
    return code;
}

int nx_local_run(nx_local *job)
{
    return nx_front_run(keep, job);
}
