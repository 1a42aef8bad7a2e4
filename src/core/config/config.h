/*
 * config.h - the values of the settings; nexar_config_* in nexar.h is the public interface.
 *
 * A config is a plain object: it changes nothing in the process until it is applied.  One writer
 * per config at a time, or several readers.
 */
#ifndef NX_CONFIG_H
#define NX_CONFIG_H

#include <stddef.h>

#include "base/error.h"
#include "coll/select.h"
#include "core/config/settings.h"
#include "core/launcher/launcher.h"

typedef enum nx_origin {
    NX_ORIGIN_DEFAULT,
    NX_ORIGIN_LAUNCHER, /* a variable of a launcher */
    NX_ORIGIN_ENVIRONMENT,
    NX_ORIGIN_SET
} nx_origin;

/* A copy; free it with nexar_config_free().  NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_config_copy(const nexar_config *cfg, nexar_config **out);

/* Wipes the values of secret settings, which become "". */
void nx_config_forget_secrets(nexar_config *cfg);

/* The origin of the value of |id|, and its name: "default", "environment", "set", or the launcher's
 * variable. */
nx_origin nx_config_origin(const nexar_config *cfg, nx_setting_id id);
const char *nx_config_origin_name(const nexar_config *cfg, nx_setting_id id);

/*
 * Takes `rank` from the variable of the launcher |by|, unless the program or a variable of nexar
 * sets it; then also `world_size`, under the same condition.
 *
 * NEXAR_EINVAL
 *     A variable of the launcher is not a valid number: the message names it.
 */
NX_MUST_CHECK nexar_err nx_config_take_numbers(nexar_config *cfg, const nx_launcher *by);

/* The same with the launcher of this process, if there is one and `join` names a cluster. */
NX_MUST_CHECK nexar_err nx_config_take_launcher(nexar_config *cfg);

/* Sets |id| to |text| with the origin NX_ORIGIN_LAUNCHER; |variable| is not copied.  NEXAR_EINVAL
 * and NEXAR_ENOMEM as nexar_config_set(). */
NX_MUST_CHECK nexar_err nx_config_set_launched(nexar_config *cfg, nx_setting_id id,
                                               const char *text, const char *variable);

/* The value as text that nexar_config_set() takes.  |buf| has NX_NUMBER_ROOM
 * bytes; the result is in it or in |cfg|, and valid until either changes. */
const char *nx_config_text(const nexar_config *cfg, nx_setting_id id, char *buf);

/* The value of a setting of that type. */
uint64_t nx_config_number(const nexar_config *cfg, nx_setting_id id);
size_t nx_config_size(const nexar_config *cfg, nx_setting_id id);
/* Its index in the row's choices. */
size_t nx_config_choice(const nexar_config *cfg, nx_setting_id id);
/* `algorithms`, for nx_select; borrowed until it is set again.  NULL: no rules. */
const nx_rules *nx_config_rules(const nexar_config *cfg);

/*
 * Checks combinations of settings, and applies those of the process: `log`, `kernels`, `aead`.  Not
 * while another thread reduces.
 *
 * NEXAR_EINVAL
 *     min_world is above max_world; this machine cannot run the requested kernels:
 *     the message says which it can.  Nothing has changed then.
 */
NX_MUST_CHECK nexar_err nx_config_apply(const nexar_config *cfg);

/* Whether this process reports for its host what all processes wait for: the first that its
 * launcher has started here (NEXAR_LOCAL_RANK), or any one without a launcher that tells. */
bool nx_config_first_here(void);

#endif /* NX_CONFIG_H */
