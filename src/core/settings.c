/* settings.c - every setting that there is. */
#include "core/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/nearest.h"

static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const kernel_paths[] = {"auto", "portable", "avx2", "avx512", "neon", NULL};

const nx_setting nx_settings[NX_SETTINGS] = {
    [NX_SET_LOG] = {.name = "log",
                    .type = NX_SETTING_CHOICE,
                    .preset = "warn",
                    .unit = "",
                    .choices = log_levels,
                    .help = "the least important lines that are written to stderr"},
    [NX_SET_ALGORITHMS] = {.name = "algorithms",
                           .type = NX_SETTING_RULES,
                           .preset = "",
                           .unit = "",
                           .help =
                               "rules that go before the table below: allreduce:0-16k:recdbl,..."},
    [NX_SET_SEGMENT] = {.name = "segment",
                        .type = NX_SETTING_NUMBER,
                        .preset = "256k",
                        .unit = "bytes",
                        .number = NX_NUMBER_SIZE,
                        .min = UINT64_C(4) << 10,
                        .max = UINT64_C(1) << 30,
                        .help = "the length in which long transfers are cut"},
    [NX_SET_KERNELS] = {.name = "kernels",
                        .type = NX_SETTING_CHOICE,
                        .preset = "auto",
                        .unit = "",
                        .choices = kernel_paths,
                        .help = "which reduction kernels run; auto takes the best of this machine"},
};

nx_setting_id nx_setting_find(const char *name)
{
    int id = 0;

    while ((id < NX_SETTINGS) && (strcmp(nx_settings[id].name, name) != 0)) {
        id++;
    }
    return (nx_setting_id)id;
}

const char *nx_setting_near(const char *name)
{
    nx_nearest near = nx_nearest_start(name);

    for (int id = 0; id < NX_SETTINGS; id++) {
        nx_nearest_try(&near, nx_settings[id].name);
    }
    return near.best;
}

static void list_choices(const char *const *choices, char *buf)
{
    size_t len = 0;

    for (size_t i = 0; choices[i] != NULL; i++) {
        const char *between = (i == 0) ? "" : (choices[i + 1] == NULL) ? " or " : ", ";

        len += (size_t)snprintf(buf + len, NX_ACCEPTED_ROOM - len, "%s%s", between, choices[i]);
        if (len >= NX_ACCEPTED_ROOM) {
            return;
        }
    }
}

const char *nx_setting_accepted(const nx_setting *s, char *buf)
{
    char min[NX_NUMBER_ROOM], max[NX_NUMBER_ROOM];

    switch (s->type) {
    case NX_SETTING_CHOICE:
        list_choices(s->choices, buf);
        break;
    case NX_SETTING_NUMBER:
        (void)snprintf(buf, NX_ACCEPTED_ROOM, "%s, from %s to %s", nx_numbers[s->number].accepted,
                       nx_numbers[s->number].format(s->min, min),
                       nx_numbers[s->number].format(s->max, max));
        break;
    case NX_SETTING_RULES:
        (void)snprintf(buf, NX_ACCEPTED_ROOM,
                       "rules such as allreduce:0-16k:recdbl,allreduce:16k-:ring");
        break;
    }
    return buf;
}

static const char prefix[] = "NEXAR_";
enum { PREFIX = sizeof(prefix) - 1 };

const char *nx_setting_variable(const char *name, char *buf)
{
    size_t i;

    memcpy(buf, prefix, sizeof(prefix));
    for (i = 0; (name[i] != '\0') && (PREFIX + i + 1 < NX_VARIABLE_ROOM); i++) {
        buf[PREFIX + i] = nx_upper(name[i]);
    }
    buf[PREFIX + i] = '\0';
    return buf;
}

const char *nx_setting_from_variable(const char *variable, char *buf)
{
    const char *name = variable + PREFIX;
    size_t i;

    for (i = 0; (name[i] != '\0') && (i + 1 < NX_VARIABLE_ROOM); i++) {
        buf[i] = nx_lower(name[i]);
    }
    buf[i] = '\0';
    return buf;
}
