/* config.c - values of the settings, in order of precedence: defaults, launcher, environment,
 * program. */
#include "core/config/config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/cancellation.h"
#include "base/text/sentence.h"
#include "core/config/environment.h"
#include "core/job_end/on_error.h"
#include "core/launcher/launcher.h"
#include "reduce/reduce.h"
#include "transport/quic/crypto/aead.h"

enum { SHOWN = 120 }; /* an error quotes this many characters of a bad value */

/* Numbers and choices are stored parsed, texts unchanged, and rules both ways. */
typedef struct holding {
    nx_origin origin;
    uint64_t number; /* or the index of the choice */
    char *text;      /* NULL: "" */
    nx_rules *rules;
    const char *variable; /* the launcher's variable that set it */
} holding;

struct nexar_config {
    holding values[NX_SETTINGS];
};

static void holding_fini(holding *v)
{
    nx_rules_destroy(v->rules);
    if (v->text != NULL) {
        explicit_bzero(v->text, strlen(v->text)); /* the value may be a secret */
    }
    nx_free(v->text);
}

/* ---- parsing ------------------------------------------------------------------------- */

static bool parse_choice(const nx_setting *s, const char *text, uint64_t *out)
{
    for (size_t i = 0; s->choices[i] != NULL; i++) {
        if (strcasecmp(s->choices[i], text) == 0) {
            *out = i;
            return true;
        }
    }
    return false;
}

static bool parse_number(const nx_setting *s, const char *text, uint64_t *out)
{
    return nx_numbers[s->number].parse(text, out) && (*out >= s->min) && (*out <= s->max);
}

/* Prefixes the message of a rejected value with the setting's name. */
static nexar_err fail_inside(nexar_err err, const char *what)
{
    char why[NX_ERROR_ROOM];

    (void)nx_sentence(why, sizeof(why), "%s", nexar_last_error());
    return nx_fail(err, "%s: %s", what, why);
}

static nexar_err parse_rules(const char *text, const char *what, holding *out)
{
    nexar_err err = NEXAR_OK;

    if (text[0] == '\0') {
        return NEXAR_OK;
    }
    err = nx_rules_parse(text, &out->rules);
    if (err != NEXAR_OK) {
        return fail_inside(err, what);
    }
    out->text = nx_strdup(text);
    if (out->text == NULL) {
        nx_rules_destroy(out->rules);
        return nx_fail_nomem(what);
    }
    return NEXAR_OK;
}

static nexar_err copy_text(const char *text, const char *what, holding *out)
{
    out->text = nx_strdup(text);
    return (out->text == NULL) ? nx_fail_nomem(what) : NEXAR_OK;
}

/* |what|: the name of the setting for errors, with its variable if the value came from there. */
static nexar_err parse_value(const nx_setting *s, const char *text, const char *what, holding *out)
{
    char accepted[NX_ACCEPTED_ROOM];
    bool good = false;

    switch (s->type) {
    case NX_SETTING_CHOICE:
        good = parse_choice(s, text, &out->number);
        break;
    case NX_SETTING_NUMBER:
        good = parse_number(s, text, &out->number);
        break;
    case NX_SETTING_RULES:
        return parse_rules(text, what, out);
    case NX_SETTING_TEXT:
        if ((s->check == NULL) || s->check(text)) {
            return copy_text(text, what, out);
        }
        break;
    }
    if (good) {
        return NEXAR_OK;
    }
    if (s->secret) {
        return nx_fail(NEXAR_EINVAL, "%s: the value is not accepted; give %s", what,
                       nx_setting_accepted(s, accepted));
    }
    return nx_fail(NEXAR_EINVAL, "%s: \"%.*s\" is not accepted; give %s", what, SHOWN, text,
                   nx_setting_accepted(s, accepted));
}

/* |launched|: the variable, for NX_ORIGIN_LAUNCHER. */
static nexar_err set_by(nexar_config *cfg, nx_setting_id id, const char *text, nx_origin origin,
                        const char *launched)
{
    const nx_setting *s = &nx_settings[id];
    char what[2 * NX_VARIABLE_ROOM], variable[NX_VARIABLE_ROOM];
    holding fresh = {.origin = origin, .variable = launched};
    nexar_err err;

    if (origin == NX_ORIGIN_ENVIRONMENT) {
        (void)snprintf(what, sizeof(what), "setting %s (from %s)", s->name,
                       nx_setting_variable(s->name, variable));
    } else {
        (void)snprintf(what, sizeof(what), "setting %s", s->name);
    }
    err = parse_value(s, text, what, &fresh);
    if (err != NEXAR_OK) {
        return err;
    }
    holding_fini(&cfg->values[id]);
    cfg->values[id] = fresh;
    return NEXAR_OK;
}

static nexar_err set(nexar_config *cfg, nx_setting_id id, const char *text, nx_origin origin)
{
    return set_by(cfg, id, text, origin, NULL);
}

/* ---- the environment ----------------------------------------------------------------- */

/* Variables that `nexar run` sets for the program.  They are not settings. */
static bool is_for_programs(const char *variable)
{
    return (strcmp(variable, "NEXAR_LOCAL_RANK") == 0) ||
           (strcmp(variable, "NEXAR_LOCAL_SIZE") == 0);
}

static void warn_unknown(const char *entry)
{
    char variable[NX_VARIABLE_ROOM], name[NX_VARIABLE_ROOM];
    const char *near;

    (void)snprintf(variable, sizeof(variable), "%.*s", (int)strcspn(entry, "="), entry);
    (void)nx_setting_from_variable(variable, name);
    if ((nx_setting_find(name) != NX_SETTINGS) || is_for_programs(variable)) {
        return;
    }
    near = nx_setting_near(name);
    if (near != NULL) {
        char meant[NX_VARIABLE_ROOM];

        nx_log(NX_LOG_WARN, "the variable %s is no setting and is ignored; did you mean %s?",
               variable, nx_setting_variable(near, meant));
    } else {
        nx_log(NX_LOG_WARN, "the variable %s is no setting and is ignored; `nexar info` lists them",
               variable);
    }
}

/*
 * Whether another process of the job prints the warning: `nexar run`, which sets NEXAR_LOCAL_RANK
 * for its ranks, or rank 0 if ranks were numbered before they started.
 */
static bool is_warned_elsewhere(void)
{
    const nx_launcher *by = nx_launcher_find();
    const char *number = nx_environment((by == NULL) ? "NEXAR_RANK" : by->rank);

    return (nx_environment("NEXAR_LOCAL_RANK") != NULL) ||
           ((number != NULL) && (strcmp(number, "0") != 0));
}

static void warn_of_unknown_variables(const nexar_config *cfg)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;

    /* The config is not applied yet, but its log level already limits this warning. */
    if ((nx_config_choice(cfg, NX_SET_LOG) < NX_LOG_WARN) || is_warned_elsewhere() ||
        atomic_flag_test_and_set(&done)) {
        return;
    }
    for (char **at = environ; (at != NULL) && (*at != NULL); at++) {
        if (strncmp(*at, "NEXAR_", 6) == 0) {
            warn_unknown(*at);
        }
    }
}

bool nx_config_first_here(void)
{
    const char *local = nx_environment("NEXAR_LOCAL_RANK");

    return (local == NULL) || (strcmp(local, "0") == 0);
}

static nexar_err set_from_environment(nexar_config *cfg)
{
    for (int id = 0; id < NX_SETTINGS; id++) {
        char variable[NX_VARIABLE_ROOM];
        const char *text = nx_environment(nx_setting_variable(nx_settings[id].name, variable));
        nexar_err err = NEXAR_OK;

        if ((text != NULL) && (text[0] == '\0')) {
            err = nx_fail(NEXAR_EINVAL,
                          "setting %s (from %s): the variable is set but empty; unset "
                          "it, or give it a value",
                          nx_settings[id].name, variable);
        } else if (text != NULL) {
            err = set(cfg, (nx_setting_id)id, text, NX_ORIGIN_ENVIRONMENT);
        }
        if (err != NEXAR_OK) {
            return err;
        }
    }
    return NEXAR_OK;
}

/* ---- launchers ----------------------------------------------------------------------- */

static nexar_err take_number(nexar_config *cfg, nx_setting_id id, const char *variable,
                             uint64_t min, uint64_t max)
{
    const char *text = (variable == NULL) ? NULL : nx_environment(variable);
    const char *name = nx_settings[id].name;
    char ours[NX_VARIABLE_ROOM];
    uint64_t number;

    if ((text == NULL) || (cfg->values[id].origin != NX_ORIGIN_DEFAULT)) {
        return NEXAR_OK;
    }
    if (!nx_parse_uint(text, &number) || (number < min) || (number > max)) {
        return nx_fail(NEXAR_EINVAL,
                       "setting %s (from %s): \"%.*s\" is not accepted; a launcher sets a whole "
                       "number from %llu to %llu, and %s goes before it",
                       name, variable, SHOWN, text, (unsigned long long)min,
                       (unsigned long long)max, nx_setting_variable(name, ours));
    }
    return set_by(cfg, id, text, NX_ORIGIN_LAUNCHER, variable);
}

nexar_err nx_config_take_numbers(nexar_config *cfg, const nx_launcher *by)
{
    const uint64_t most = nx_settings[NX_SET_WORLD_SIZE].max;
    nexar_err err;

    if (cfg->values[NX_SET_RANK].origin != NX_ORIGIN_DEFAULT) {
        return NEXAR_OK;
    }
    err = take_number(cfg, NX_SET_RANK, by->rank, 0, most - 1);
    return (err == NEXAR_OK) ? take_number(cfg, NX_SET_WORLD_SIZE, by->size, 1, most) : err;
}

nexar_err nx_config_take_launcher(nexar_config *cfg)
{
    const nx_launcher *by = nx_launcher_find();
    char buf[NX_NUMBER_ROOM];

    return ((by != NULL) && (nx_config_text(cfg, NX_SET_JOIN, buf)[0] != '\0'))
               ? nx_config_take_numbers(cfg, by)
               : NEXAR_OK;
}

nexar_err nx_config_set_launched(nexar_config *cfg, nx_setting_id id, const char *text,
                                 const char *variable)
{
    return set_by(cfg, id, text, NX_ORIGIN_LAUNCHER, variable);
}

/* ---- public -------------------------------------------------------------------------- */

nexar_err nexar_config_create(nexar_config **cfg)
{
    NX_NOT_CANCELLED;
    nexar_config *made;
    nexar_err err = NEXAR_OK;

    if (cfg == NULL) {
        return nx_fail(NEXAR_EINVAL, "nexar_config_create: cfg is NULL");
    }
    made = nx_zalloc(sizeof(*made));
    if (made == NULL) {
        return nx_fail_nomem("a config");
    }
    for (int id = 0; (id < NX_SETTINGS) && (err == NEXAR_OK); id++) {
        err = set(made, (nx_setting_id)id, nx_settings[id].preset, NX_ORIGIN_DEFAULT);
    }
    if (err == NEXAR_OK) {
        err = set_from_environment(made);
    }
    if (err != NEXAR_OK) {
        nexar_config_free(made);
        return err;
    }
    warn_of_unknown_variables(made);
    *cfg = made;
    return NEXAR_OK;
}

/* Stores the setting called |name| in |*out|.  An error names all settings. */
static nexar_err find(const char *name, nx_setting_id *out)
{
    const char *near;

    *out = nx_setting_find(name);
    if (*out != NX_SETTINGS) {
        return NEXAR_OK;
    }
    near = nx_setting_near(name);
    if (near != NULL) {
        return nx_fail(NEXAR_EINVAL, "there is no setting \"%.*s\"; did you mean %s?", SHOWN, name,
                       near);
    }
    return nx_fail(NEXAR_EINVAL, "there is no setting \"%.*s\"; `nexar info` lists them", SHOWN,
                   name);
}

nexar_err nexar_config_set(nexar_config *cfg, const char *name, const char *value)
{
    nx_setting_id id;
    nexar_err err;

    if ((cfg == NULL) || (name == NULL) || (value == NULL)) {
        return nx_fail(NEXAR_EINVAL, "nexar_config_set: %s is NULL",
                       (cfg == NULL) ? "cfg" : ((name == NULL) ? "name" : "value"));
    }
    err = find(name, &id);
    return (err == NEXAR_OK) ? set(cfg, id, value, NX_ORIGIN_SET) : err;
}

nexar_err nexar_config_get(const nexar_config *cfg, const char *name, char *value, size_t size)
{
    char buf[NX_NUMBER_ROOM];
    nx_setting_id id;
    nexar_err err;
    const char *text;

    if ((cfg == NULL) || (name == NULL) || (value == NULL)) {
        return nx_fail(NEXAR_EINVAL, "nexar_config_get: %s is NULL",
                       (cfg == NULL) ? "cfg" : ((name == NULL) ? "name" : "value"));
    }
    err = find(name, &id);
    if (err != NEXAR_OK) {
        return err;
    }
    text = nx_config_text(cfg, id, buf);
    if (strlen(text) >= size) {
        return nx_fail(NEXAR_ETRUNC, "the value of %s needs %zu bytes; there are %zu", name,
                       strlen(text) + 1, size);
    }
    memcpy(value, text, strlen(text) + 1);
    return NEXAR_OK;
}

void nexar_config_free(nexar_config *cfg)
{
    if (cfg == NULL) {
        return;
    }
    for (int id = 0; id < NX_SETTINGS; id++) {
        holding_fini(&cfg->values[id]);
    }
    nx_free(cfg);
}

nexar_err nx_config_copy(const nexar_config *cfg, nexar_config **out)
{
    nexar_config *made = nx_zalloc(sizeof(*made));
    nexar_err err = NEXAR_OK;

    if (made == NULL) {
        return nx_fail_nomem("a config");
    }
    for (int id = 0; (id < NX_SETTINGS) && (err == NEXAR_OK); id++) {
        char buf[NX_NUMBER_ROOM];

        err = set_by(made, (nx_setting_id)id, nx_config_text(cfg, (nx_setting_id)id, buf),
                     cfg->values[id].origin, cfg->values[id].variable);
    }
    if (err != NEXAR_OK) {
        nexar_config_free(made);
        return err;
    }
    *out = made;
    return NEXAR_OK;
}

/* ---- for the other modules ----------------------------------------------------------- */

void nx_config_forget_secrets(nexar_config *cfg)
{
    for (int id = 0; id < NX_SETTINGS; id++) {
        if (nx_settings[id].secret && (cfg->values[id].text != NULL)) {
            explicit_bzero(cfg->values[id].text, strlen(cfg->values[id].text));
        }
    }
}

nx_origin nx_config_origin(const nexar_config *cfg, nx_setting_id id)
{
    return cfg->values[id].origin;
}

const char *nx_config_origin_name(const nexar_config *cfg, nx_setting_id id)
{
    const holding *v = &cfg->values[id];

    switch (v->origin) {
    case NX_ORIGIN_LAUNCHER:
        return v->variable;
    case NX_ORIGIN_ENVIRONMENT:
        return "environment";
    case NX_ORIGIN_SET:
        return "set";
    case NX_ORIGIN_DEFAULT:
        break;
    }
    return "default";
}

const char *nx_config_text(const nexar_config *cfg, nx_setting_id id, char *buf)
{
    const nx_setting *s = &nx_settings[id];
    const holding *v = &cfg->values[id];

    switch (s->type) {
    case NX_SETTING_CHOICE:
        return s->choices[v->number];
    case NX_SETTING_NUMBER:
        return nx_numbers[s->number].format(v->number, buf);
    case NX_SETTING_RULES:
    case NX_SETTING_TEXT:
        break;
    }
    return (v->text == NULL) ? "" : v->text;
}

uint64_t nx_config_number(const nexar_config *cfg, nx_setting_id id)
{
    return cfg->values[id].number;
}

size_t nx_config_size(const nexar_config *cfg, nx_setting_id id)
{
    return (size_t)cfg->values[id].number;
}

size_t nx_config_choice(const nexar_config *cfg, nx_setting_id id)
{
    return (size_t)cfg->values[id].number;
}

const nx_rules *nx_config_rules(const nexar_config *cfg)
{
    return cfg->values[NX_SET_ALGORITHMS].rules;
}

/* "portable, avx2": the kernels that this machine can run. */
static void list_usable(char *buf, size_t room)
{
    size_t len = 0;

    for (int path = 0; (path < NX_REDUCE_PATHS) && (len < room); path++) {
        if (nx_reduce_path_usable((nx_reduce_path)path)) {
            len += (size_t)snprintf(buf + len, room - len, "%s%s", (len == 0) ? "" : ", ",
                                    nx_reduce_path_name((nx_reduce_path)path));
        }
    }
}

/* Checks combinations of settings. */
static nexar_err check_together(const nexar_config *cfg)
{
    const uint64_t min = nx_config_number(cfg, NX_SET_MIN_WORLD);
    const uint64_t max = nx_config_number(cfg, NX_SET_MAX_WORLD);

    if ((max != 0) && (min > max)) {
        return nx_fail(NEXAR_EINVAL,
                       "settings min_world and max_world: %llu is more than %llu; the least "
                       "cannot be above the most",
                       (unsigned long long)min, (unsigned long long)max);
    }
    return NEXAR_OK;
}

nexar_err nx_config_apply(const nexar_config *cfg)
{
    size_t choice = nx_config_choice(cfg, NX_SET_KERNELS); /* "auto", then the paths in order */
    nx_reduce_path path = (choice == 0) ? nx_reduce_path_best() : (nx_reduce_path)(choice - 1);
    nexar_err err = check_together(cfg);

    if (err != NEXAR_OK) {
        return err;
    }
    if (!nx_reduce_path_usable(path)) {
        char usable[64];

        list_usable(usable, sizeof(usable));
        return nx_fail(NEXAR_EINVAL,
                       "setting kernels: this machine cannot run %s; give auto or one of %s",
                       nx_settings[NX_SET_KERNELS].choices[choice], usable);
    }
    nx_reduce_path_set(path);
    nx_aead_choose((nx_aead_choice)nx_config_choice(cfg, NX_SET_AEAD));
    nx_on_error_set(nx_config_choice(cfg, NX_SET_ON_ERROR) == NX_ON_ERROR_ABORT);
    nx_log_set_level((nx_log_level)nx_config_choice(cfg, NX_SET_LOG));
    return NEXAR_OK;
}
