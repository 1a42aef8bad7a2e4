/* seed_api.c - the seed for programs that embed it. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "cluster/seed/seed.h"
#include "core/config/config.h"
#include "core/launcher/join_source.h"
#include "seed_config.h"

struct nexar_seed {
    nexar_config *config;
    nx_seed *seed;
    pthread_mutex_t lock; /* recursive: held while |fn| runs, which may replace itself */
    nexar_seed_event_fn fn;
    void *arg;
};

/* ---- events ------------------------------------------------------------------------------ */

static const nexar_seed_event_kind kinds[] = {
    [NX_SEED_JOINED] = NEXAR_SEED_JOINED,   [NX_SEED_FORMED] = NEXAR_SEED_FORMED,
    [NX_SEED_LEFT] = NEXAR_SEED_LEFT,       [NX_SEED_LOST] = NEXAR_SEED_FAILED,
    [NX_SEED_REFUSED] = NEXAR_SEED_REFUSED, [NX_SEED_TIMEOUT] = NEXAR_SEED_MISSING,
    [NX_SEED_STALLED] = NEXAR_SEED_MISSING, [NX_SEED_WAITING] = NEXAR_SEED_WAITING,
    [NX_SEED_CHANGED] = NEXAR_SEED_CHANGED, [NX_SEED_BACK] = NEXAR_SEED_BACK,
    [NX_SEED_ENDED] = NEXAR_SEED_ENDED};

/* Runs in the seed's thread. */
static void on_event(void *ctx, const nx_seed_event *event)
{
    nexar_seed *s = ctx;
    const bool ranked = (event->member != NULL) && (event->kind != NX_SEED_WAITING);

    (void)pthread_mutex_lock(&s->lock);
    if (s->fn != NULL) {
        s->fn(&(nexar_seed_event){.kind = kinds[event->kind],
                                  .rank = ranked ? (int)event->member->rank : -1,
                                  .joined = (int)event->joined,
                                  .world = (int)event->world,
                                  .text = event->text},
              s->arg);
    } else {
        nx_seed_log(event);
    }
    (void)pthread_mutex_unlock(&s->lock);
}

static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attr;

    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
    (void)pthread_mutex_init(lock, &attr);
    (void)pthread_mutexattr_destroy(&attr);
}

nexar_err nexar_seed_on_event(nexar_seed *seed, nexar_seed_event_fn fn, void *arg)
{
    NX_NOT_CANCELLED;
    if (seed == NULL) {
        return nx_fail(NEXAR_EINVAL, "seed_on_event: seed is NULL");
    }
    (void)pthread_mutex_lock(&seed->lock);
    seed->fn = fn;
    seed->arg = arg;
    (void)pthread_mutex_unlock(&seed->lock);
    return NEXAR_OK;
}

/* ---- life -------------------------------------------------------------------------------- */

/* Checks that the sizes are consistent. */
static nexar_err check_sizes(const nexar_config *cfg)
{
    const uint64_t size = nx_config_number(cfg, NX_SET_WORLD_SIZE);
    const uint64_t min = nx_config_number(cfg, NX_SET_MIN_WORLD);
    const uint64_t max = nx_config_number(cfg, NX_SET_MAX_WORLD);

    if (size == 0) {
        return nx_fail(NEXAR_EINVAL,
                       "seed: the setting world_size is 0; a seed must know how many ranks to "
                       "wait for");
    }
    if ((min > size) && (max == 0)) {
        return nx_fail(NEXAR_EINVAL, "seed: a world of %llu ranks is less than min_world %llu",
                       (unsigned long long)size, (unsigned long long)min);
    }
    if ((min > size) || ((max != 0) && (max < size))) {
        return nx_fail(NEXAR_EINVAL,
                       "seed: a world of %llu ranks is not between min_world %llu and max_world "
                       "%llu",
                       (unsigned long long)size, (unsigned long long)min, (unsigned long long)max);
    }
    return NEXAR_OK;
}

nexar_err nx_seed_config_from(const nexar_config *cfg, nx_seed_config *out)
{
    char number[NX_NUMBER_ROOM];
    nexar_err err;

    *out = (nx_seed_config){
        .world_size = (uint32_t)nx_config_number(cfg, NX_SET_WORLD_SIZE),
        .min_world = (uint32_t)nx_config_number(cfg, NX_SET_MIN_WORLD),
        .state = nx_config_text(cfg, NX_SET_SEED_STATE, number),
        .listen = nx_config_text(cfg, NX_SET_LISTEN, number),
        .interfaces = nx_config_text(cfg, NX_SET_INTERFACES, number),
        .advertise = nx_config_text(cfg, NX_SET_ADVERTISE, number),
        .formation_timeout_ns = nx_config_number(cfg, NX_SET_FORMATION_TIMEOUT),
        .stall_report_ns = nx_config_number(cfg, NX_SET_STALL_REPORT),
        .qlog_dir = nx_config_text(cfg, NX_SET_QLOG_DIR, number),
    };
    nx_setting_port_range(nx_config_text(cfg, NX_SET_PORT_RANGE, number), &out->port_first,
                          &out->port_last);
    err = check_sizes(cfg);
    return (err == NEXAR_OK) ? nx_join_source_token(cfg, &out->token, &out->has_token) : err;
}

nexar_err nexar_seed_start(const nexar_config *cfg, nexar_seed **seed)
{
    NX_NOT_CANCELLED;
    nexar_seed *made;
    nx_seed_config sc;
    nexar_err err;

    if (seed == NULL) {
        return nx_fail(NEXAR_EINVAL, "seed_start: seed is NULL");
    }
    made = nx_zalloc(sizeof(*made));
    if (made == NULL) {
        return nx_fail_nomem("a seed");
    }
    init_lock(&made->lock);
    err = (cfg == NULL) ? nexar_config_create(&made->config) : nx_config_copy(cfg, &made->config);
    if (err == NEXAR_OK) {
        err = nx_config_apply(made->config);
    }
    if (err == NEXAR_OK) {
        err = nx_seed_config_from(made->config, &sc);
    }
    if (err == NEXAR_OK) {
        sc.on_event = on_event;
        sc.ctx = made;
        err = nx_seed_create(&made->seed, &sc);
        explicit_bzero(&sc.token, sizeof(sc.token));
    }
    if (err != NEXAR_OK) {
        (void)pthread_mutex_destroy(&made->lock);
        nexar_config_free(made->config);
        nx_free(made);
        return err;
    }
    *seed = made;
    return NEXAR_OK;
}

nexar_err nexar_seed_join_string(const nexar_seed *seed, char *buf, size_t size)
{
    NX_NOT_CANCELLED;
    if ((seed == NULL) || (buf == NULL)) {
        return nx_fail(NEXAR_EINVAL, "seed_join_string: %s is NULL",
                       (seed == NULL) ? "seed" : "buf");
    }
    return nx_seed_join_text(seed->seed, buf, size);
}

void nexar_seed_stop(nexar_seed *seed)
{
    NX_NOT_CANCELLED;
    if (seed == NULL) {
        return;
    }
    nx_seed_destroy(seed->seed);
    (void)pthread_mutex_destroy(&seed->lock);
    nexar_config_free(seed->config);
    nx_free(seed);
}
