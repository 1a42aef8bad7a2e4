/* init.c - joining and leaving: nexar_init, nexar_finalize, nexar_init_local. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "base/random.h"
#include "base/text/sentence.h"
#include "core/comm/comm.h"
#include "core/job_end/on_error.h"
#include "core/launcher/rendezvous.h"
#include "core/world/local_seed.h"
#include "fork_guard.h"

/* A private config: a copy of |cfg|, or one made from the environment. */
static nexar_err own_config(const nexar_config *cfg, nexar_config **out)
{
    return (cfg == NULL) ? nexar_config_create(out) : nx_config_copy(cfg, out);
}

/* The world has not formed: the message names the launcher, if one started the ranks. */
static nexar_err abandon(nx_rendezvous *rendezvous, nexar_err err)
{
    char why[NX_ERROR_ROOM];

    if (rendezvous == NULL) {
        return err;
    }
    (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
    err = nx_fail(err, "started by %s: %s", nx_rendezvous_name(rendezvous), why);
    nx_rendezvous_end(rendezvous);
    return err;
}

nexar_err nexar_init(const nexar_config *cfg, nexar_comm **world)
{
    NX_NOT_CANCELLED;
    nx_rendezvous *rendezvous = NULL;
    nexar_config *own;
    nx_world *made;
    nexar_err err;

    if (world == NULL) {
        return nx_fail(NEXAR_EINVAL, "init: world is NULL");
    }
    err = nx_random_check();
    if (err != NEXAR_OK) {
        return err;
    }
    err = own_config(cfg, &own);
    if (err != NEXAR_OK) {
        return err;
    }
    err = nx_rendezvous_start(own, &rendezvous);
    if (err != NEXAR_OK) {
        nexar_config_free(own);
        return err;
    }
    err = nx_world_create(own, &made);
    if (err != NEXAR_OK) {
        return abandon(rendezvous, err);
    }
    made->rendezvous = rendezvous;
    nx_on_error_open(made->comm);
    *world = made->comm;
    return NEXAR_OK;
}

nexar_err nexar_finalize(nexar_comm *world)
{
    NX_NOT_CANCELLED;
    nexar_err err;

    if (world == NULL) {
        return NEXAR_OK;
    }
    err = nx_fork_guard_check("finalize", world->world);
    if (err != NEXAR_OK) {
        return err;
    }
    if (world != world->world->comm) {
        return nx_fail(NEXAR_EINVAL, "finalize: give the world, not a communicator made from it");
    }
    nx_on_error_close(world);
    return nx_world_destroy(world->world);
}

/* ---- ranks inside this process ------------------------------------------------------- */

/* A rank that joins in a thread of its own, since joining waits for all ranks. */
typedef struct local {
    pthread_t thread;
    bool started;
    nexar_config *config;
    nexar_comm *world;
    nexar_err err;
    char why[NX_ERROR_ROOM];
} local;

static void *local_main(void *arg)
{
    local *l = arg;

    l->err = nexar_init(l->config, &l->world);
    if (l->err != NEXAR_OK) {
        (void)nx_sentence(l->why, sizeof(l->why), "%s", nexar_last_error());
    }
    return NULL;
}

static nexar_err local_start(local *l, const nexar_config *cfg, const char *join, int rank, int n)
{
    char number[NX_NUMBER_ROOM];
    nexar_err err = nx_config_copy(cfg, &l->config);

    if (err == NEXAR_OK) {
        err = nexar_config_set(l->config, "join", join);
    }
    if (err == NEXAR_OK) {
        err = nexar_config_set(l->config, "join_file", "");
    }
    if (err == NEXAR_OK) {
        err = nexar_config_set(l->config, "token_file", "");
    }
    (void)snprintf(number, sizeof(number), "%d", rank);
    if (err == NEXAR_OK) {
        err = nexar_config_set(l->config, "rank", number);
    }
    (void)snprintf(number, sizeof(number), "%d", n);
    if (err == NEXAR_OK) {
        err = nexar_config_set(l->config, "world_size", number);
    }
    if (err == NEXAR_OK) {
        err = nx_fail_sys("pthread_create", "", pthread_create(&l->thread, NULL, local_main, l));
        l->started = (err == NEXAR_OK);
    }
    return err;
}

/* Joins all ranks.  After the first error the others end by the formation time-out. */
static nexar_err run_locals(local *locals, const nexar_config *cfg, const char *join, int n)
{
    nexar_err err = NEXAR_OK;

    for (int i = 0; (i < n) && (err == NEXAR_OK); i++) {
        err = local_start(&locals[i], cfg, join, i, n);
    }
    for (int i = 0; i < n; i++) {
        if (locals[i].started) {
            (void)pthread_join(locals[i].thread, NULL);
        }
        if ((err == NEXAR_OK) && (locals[i].err != NEXAR_OK)) {
            err = nx_fail(locals[i].err, "rank %d: %s", i, locals[i].why);
        }
        nexar_config_free(locals[i].config);
    }
    return err;
}

/* On success |worlds| has all ranks; otherwise none remains. */
static void hand_over(local *locals, int n, nexar_err err, nx_local_seed *seed,
                      nexar_comm *worlds[])
{
    for (int i = 0; i < n; i++) {
        if (err == NEXAR_OK) {
            locals[i].world->world->local_seed = nx_local_seed_hold(seed);
            worlds[i] = locals[i].world;
        } else if (locals[i].world != NULL) {
            (void)nexar_finalize(locals[i].world);
        }
    }
}

static nexar_err init_local(int n, const nexar_config *cfg, nexar_comm *worlds[])
{
    char join[NX_JOIN_STRING_MAX];
    local *locals = nx_calloc((size_t)n, sizeof(*locals));
    nx_local_seed *seed = NULL;
    nexar_err err;

    if (locals == NULL) {
        return nx_fail_nomem("local ranks");
    }
    err = nx_local_seed_create(&seed, (uint32_t)n, nx_config_number(cfg, NX_SET_FORMATION_TIMEOUT));
    if (err == NEXAR_OK) {
        err = nx_local_seed_join_text(seed, join, sizeof(join));
    }
    if (err == NEXAR_OK) {
        err = run_locals(locals, cfg, join, n);
    }
    explicit_bzero(join, sizeof(join));
    hand_over(locals, n, err, seed, worlds);
    nx_local_seed_release(seed);
    nx_free(locals);
    return err;
}

nexar_err nexar_init_local(int n, const nexar_config *cfg, nexar_comm *worlds[])
{
    NX_NOT_CANCELLED;
    char sentence[NX_ERROR_ROOM];
    nexar_config *own;
    nexar_err err;

    if ((n < 1) || (n > NX_WORLD_MAX)) {
        return nx_fail(NEXAR_EINVAL, "init_local: %d ranks; 1 to %d are possible", n, NX_WORLD_MAX);
    }
    if (worlds == NULL) {
        return nx_fail(NEXAR_EINVAL, "init_local: worlds is NULL");
    }
    err = nx_random_check();
    if (err != NEXAR_OK) {
        return err;
    }
    err = own_config(cfg, &own);
    if (err != NEXAR_OK) {
        return err;
    }
    err = init_local(n, own, worlds);
    (void)nx_sentence(sentence, sizeof(sentence), "%s", nexar_last_error());
    nexar_config_free(own);
    return (err == NEXAR_OK) ? NEXAR_OK : nx_fail(err, "%s", sentence);
}
