/* rendezvous.c - selects the cluster that this process joins, and runs the seed inside rank 0. */
#include "core/launcher/rendezvous.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text/sentence.h"
#include "cluster/join/join_string.h"
#include "core/config/environment.h"
#include "core/launcher/channel.h"
#include "core/launcher/join_source.h"
#include "core/world/seed_config.h"

enum { KEY_ROOM = 32, NAME_ROOM = 128, CLAIM_ROOM = 160, SHOWN = 80 };

struct nx_rendezvous {
    const nx_channel *channel;
    nx_seed *seed; /* NULL except in rank 0 */
    char name[NAME_ROOM];
};

/* A channel belongs to the process.  All processes must use it in the same order. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned worlds; /* number of uses so far: each use has its own key */

/* ---- a world of one, or one of several ranks ----------------------------------------- */

/* "NEXAR_RANK=3", or "the setting rank=3" if the program has set it. */
static const char *claim_text(const nexar_config *cfg, nx_setting_id id, char buf[CLAIM_ROOM])
{
    char variable[NX_VARIABLE_ROOM], number[NX_NUMBER_ROOM];
    const char *value = nx_config_text(cfg, id, number), *name = nx_settings[id].name;

    if (nx_config_origin(cfg, id) == NX_ORIGIN_ENVIRONMENT) {
        (void)snprintf(buf, CLAIM_ROOM, "%s=%s", nx_setting_variable(name, variable), value);
    } else {
        (void)snprintf(buf, CLAIM_ROOM, "the setting %s=%s", name, value);
    }
    return buf;
}

/* The setting that implies several ranks; NULL if there is none. */
static const char *claim_of_settings(const nexar_config *cfg, char buf[CLAIM_ROOM])
{
    char number[NX_NUMBER_ROOM];
    const uint64_t size = nx_config_number(cfg, NX_SET_WORLD_SIZE);
    const uint32_t rank = nx_setting_rank(nx_config_text(cfg, NX_SET_RANK, number));

    if (size > 1) {
        return claim_text(cfg, NX_SET_WORLD_SIZE, buf);
    }
    if ((rank != UINT32_MAX) && ((rank > 0) || (size == 0))) {
        return claim_text(cfg, NX_SET_RANK, buf);
    }
    return NULL;
}

static const char ways[] =
    "give NEXAR_JOIN or NEXAR_JOIN=file:PATH (from `nexar seed`), or NEXAR_JOIN=none for a world "
    "of one";

static nexar_err refuse_claim(const char *claim)
{
    return nx_fail(NEXAR_EINVAL,
                   "%s says that this process is one of several ranks, but no cluster to join is "
                   "named: start it by `nexar run -n N`, or %s",
                   claim, ways);
}

static nexar_err refuse_launched(const nx_launcher *by)
{
    const char *size = (by->size == NULL) ? NULL : nx_environment(by->size);

    return nx_fail(NEXAR_EINVAL,
                   "%s=%.*s: %s says that this process is one of several ranks, but no cluster to "
                   "join is named: %s; or %s",
                   (size == NULL) ? by->rank : by->size, SHOWN,
                   (size == NULL) ? nx_environment(by->rank) : size, by->name, by->remedy, ways);
}

/* ---- through the launcher's channel -------------------------------------------------- */

/* |text|: the join string, or '!' and the reason why there is no seed, without spaces. */
static nexar_err start_seed(nx_rendezvous *r, const nexar_config *cfg, char *text)
{
    nx_seed_config sc;
    nexar_err err = nx_seed_config_from(cfg, &sc);

    if (err == NEXAR_OK) {
        err = nx_seed_create(&r->seed, &sc);
        explicit_bzero(&sc.token, sizeof(sc.token));
    }
    if (err == NEXAR_OK) {
        err = nx_seed_join_text(r->seed, text, NX_CHANNEL_VALUE_MAX);
    }
    if (err != NEXAR_OK) {
        (void)snprintf(text, NX_CHANNEL_VALUE_MAX, "!%s", nexar_last_error());
        for (char *at = text; *at != '\0'; at++) {
            if ((*at <= ' ') || (*at > '~') || (*at == ';')) {
                *at = '_';
            }
        }
    }
    return err;
}

/* Exchanges the join string of rank 0, or the reason why it has no seed. */
static nexar_err exchange(nx_rendezvous *r, nexar_config *cfg, const nx_launcher *by, bool first,
                          uint64_t deadline_ns)
{
    char key[KEY_ROOM], text[NX_CHANNEL_VALUE_MAX] = "", why[NX_ERROR_ROOM] = "";
    nexar_err seeded = NEXAR_OK, err = NEXAR_OK;

    (void)snprintf(key, sizeof(key), "nexar.join.%u", worlds++);
    if (first) {
        seeded = start_seed(r, cfg, text);
        (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
        err = r->channel->put(key, text, deadline_ns);
    }
    if (err == NEXAR_OK) {
        err = r->channel->fence(deadline_ns);
    }
    if ((err == NEXAR_OK) && !first) {
        err = r->channel->get(key, text, deadline_ns);
    }
    if (seeded != NEXAR_OK) {
        err = nx_fail(seeded, "%s", why);
    } else if ((err == NEXAR_OK) && (text[0] == '!')) {
        for (char *at = text; *at != '\0'; at++) {
            if (*at == '_') {
                *at = ' ';
            }
        }
        err = nx_fail(NEXAR_ECONNECT, "rank 0 could not start the seed: %s", text + 1);
    } else if (err == NEXAR_OK) {
        err = nx_config_set_launched(cfg, NX_SET_JOIN, text, by->rank);
        err = (err == NEXAR_OK) ? nx_join_source_add_token(cfg) : err;
    }
    explicit_bzero(text, sizeof(text));
    return err;
}

/* The rank that the launcher has assigned, whatever rank was requested. */
static bool is_first(const nx_launcher *by)
{
    const char *text = nx_environment(by->rank);
    uint64_t rank = 1;

    return (text != NULL) && nx_parse_uint(text, &rank) && (rank == 0);
}

/* A given size must equal the size of the launcher's job, which is the seed's. */
static nexar_err settle_size(nexar_config *cfg, const nx_launcher *by, uint32_t size)
{
    char number[NX_NUMBER_ROOM], claim[CLAIM_ROOM];
    const uint64_t asked = nx_config_number(cfg, NX_SET_WORLD_SIZE);

    if ((asked != 0) && (asked != size)) {
        return nx_fail(NEXAR_EINVAL, "%s, but %s has started %u processes; give the same, or none",
                       claim_text(cfg, NX_SET_WORLD_SIZE, claim), by->name, (unsigned)size);
    }
    (void)snprintf(number, sizeof(number), "%u", (unsigned)size);
    return (asked != 0) ? NEXAR_OK
                        : nx_config_set_launched(cfg, NX_SET_WORLD_SIZE, number,
                                                 (by->size == NULL) ? by->rank : by->size);
}

static nexar_err fail_timed_out(const nexar_config *cfg, uint32_t size)
{
    char number[NX_NUMBER_ROOM];

    return nx_fail(NEXAR_ETIMEDOUT,
                   "the %u processes did not all call nexar_init within %s (formation_timeout)",
                   (unsigned)size, nx_config_text(cfg, NX_SET_FORMATION_TIMEOUT, number));
}

/* With the lock held.  A world of one closes the channel again. */
static nexar_err meet_in(nx_rendezvous *r, nexar_config *cfg, const nx_launcher *by, bool *alone)
{
    const uint64_t deadline_ns =
        nx_now(&nx_clock_system) + nx_config_number(cfg, NX_SET_FORMATION_TIMEOUT);
    char claim[CLAIM_ROOM];
    uint32_t size = 0;
    nexar_err err = r->channel->open(deadline_ns, &size);

    *alone = false;
    if (err != NEXAR_OK) {
        return err;
    }
    err = settle_size(cfg, by, size);
    if ((err == NEXAR_OK) && (size == 1)) {
        *alone = true;
        r->channel->close();
        return (claim_of_settings(cfg, claim) == NULL) ? NEXAR_OK : refuse_claim(claim);
    }
    if (err == NEXAR_OK) {
        err = nx_config_take_numbers(cfg, by);
    }
    if (err == NEXAR_OK) {
        err = exchange(r, cfg, by, is_first(by), deadline_ns);
        err = (err == NEXAR_ETIMEDOUT) ? fail_timed_out(cfg, size) : err;
    }
    if (err != NEXAR_OK) {
        if (r->seed != NULL) {
            nx_seed_destroy(r->seed);
        }
        r->channel->close();
    }
    return err;
}

static nexar_err meet(nexar_config *cfg, const nx_launcher *by, nx_channel_kind kind,
                      nx_rendezvous **out)
{
    nx_rendezvous *r = nx_zalloc(sizeof(*r));
    char why[NX_ERROR_ROOM];
    bool alone = false;
    nexar_err err;

    if (r == NULL) {
        return nx_fail_nomem("a rendezvous");
    }
    r->channel = (kind == NX_CHANNEL_PMIX) ? &nx_channel_pmix : &nx_channel_pmi;
    (void)snprintf(r->name, sizeof(r->name), "%s (%s=%.8s, %s)", by->name, by->rank,
                   nx_environment(by->rank), r->channel->name);
    (void)pthread_mutex_lock(&lock);
    err = meet_in(r, cfg, by, &alone);
    (void)pthread_mutex_unlock(&lock);
    if (err != NEXAR_OK) {
        (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
        err =
            nx_fail((err == NEXAR_ENOTSUP) ? NEXAR_EINVAL : err, "started by %s: %s%s%s", r->name,
                    why, (err == NEXAR_ENOTSUP) ? "; or " : "", (err == NEXAR_ENOTSUP) ? ways : "");
    }
    if ((err != NEXAR_OK) || alone) {
        nx_free(r);
        r = NULL;
    }
    *out = r;
    return err;
}

/* ---- public -------------------------------------------------------------------------- */

/* Whether |by| says that there is more than one process, or says nothing. */
static bool is_several(const nx_launcher *by)
{
    const char *size = (by->size == NULL) ? NULL : nx_environment(by->size);

    return (size == NULL) || (strcmp(size, "1") != 0);
}

bool nx_rendezvous_is_due(const nexar_config *cfg)
{
    char buf[NX_NUMBER_ROOM];
    const nx_launcher *by = nx_launcher_find();
    const char *join = nx_config_text(cfg, NX_SET_JOIN, buf);

    if (join[0] != '\0') {
        return strcmp(join, "none") != 0;
    }
    return (nx_config_text(cfg, NX_SET_JOIN_FILE, buf)[0] != '\0') ||
           ((by != NULL) && is_several(by));
}

nexar_err nx_rendezvous_start(nexar_config *cfg, nx_rendezvous **out)
{
    const nx_launcher *by = nx_launcher_find();
    char buf[NX_NUMBER_ROOM], claim[CLAIM_ROOM];
    const bool several = (by != NULL) && is_several(by);
    bool alone = false;
    nexar_err err = nx_join_source_resolve(cfg, &alone);

    *out = NULL;
    if ((err != NEXAR_OK) || alone) {
        return err;
    }
    if (nx_config_text(cfg, NX_SET_JOIN, buf)[0] != '\0') {
        return nx_config_take_launcher(cfg);
    }
    if (several && (nx_launcher_channel(by) != NX_CHANNEL_NONE)) {
        return meet(cfg, by, nx_launcher_channel(by), out);
    }
    if (claim_of_settings(cfg, claim) != NULL) {
        return refuse_claim(claim);
    }
    return several ? refuse_launched(by) : NEXAR_OK;
}

const char *nx_rendezvous_name(const nx_rendezvous *r)
{
    return r->name;
}

void nx_rendezvous_end(nx_rendezvous *r)
{
    if (r == NULL) {
        return;
    }
    if (r->seed != NULL) {
        nx_seed_destroy(r->seed);
    }
    (void)pthread_mutex_lock(&lock);
    r->channel->close();
    (void)pthread_mutex_unlock(&lock);
    nx_free(r);
}
