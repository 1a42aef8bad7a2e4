/* seed_api.c - the seed for programs that embed it. */
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
};

/* The sizes must be possible together. */
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
    err = (cfg == NULL) ? nexar_config_create(&made->config) : nx_config_copy(cfg, &made->config);
    if (err == NEXAR_OK) {
        err = nx_config_apply(made->config);
    }
    if (err == NEXAR_OK) {
        err = nx_seed_config_from(made->config, &sc);
    }
    if (err == NEXAR_OK) {
        err = nx_seed_create(&made->seed, &sc);
        explicit_bzero(&sc.token, sizeof(sc.token));
    }
    if (err != NEXAR_OK) {
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
    nexar_config_free(seed->config);
    nx_free(seed);
}
