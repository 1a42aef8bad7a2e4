/*
 * settings.h - the table of settings.
 *
 * One row per setting generates its parsing, environment variable, errors, documentation in `nexar
 * info`, and typed getter (config.h).  A new setting is one id here and one row in settings.c.
 */
#ifndef NX_SETTINGS_H
#define NX_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/text.h"

typedef enum nx_setting_id {
    NX_SET_LOG,
    NX_SET_ALGORITHMS,
    NX_SET_SEGMENT,
    NX_SET_KERNELS,
    NX_SET_AEAD,
    NX_SET_JOIN,
    NX_SET_JOIN_FILE,
    NX_SET_TOKEN_FILE,
    NX_SET_RANK,
    NX_SET_WORLD_SIZE,
    NX_SET_FORMATION_TIMEOUT,
    NX_SET_IDLE_TIMEOUT,
    NX_SET_LISTEN,
    NX_SET_PORT_RANGE,
    NX_SET_INTERFACES,
    NX_SET_ADVERTISE,
    NX_SET_HOST_ID,
    NX_SET_TRANSPORTS,
    NX_SET_UNEXPECTED,
    NX_SET_INLINE,
    NX_SET_EAGER,
    NX_SET_SPIN,
    NX_SET_AFFINITY,
    NX_SET_RPC_THREADS,
    NX_SET_RPC_TIMEOUT,
    NX_SET_CONGESTION,
    NX_SET_QLOG_DIR,
    NX_SET_VERIFY,
    NX_SET_COLLECTIVE_TIMEOUT,
    NX_SET_STALL_REPORT,
    NX_SET_REPORT_SIGNAL,
    NX_SET_DIRECT,
    NX_SET_HEARTBEAT_INTERVAL,
    NX_SET_HEARTBEAT_TIMEOUT,
    NX_SET_QUORUM,
    NX_SET_RECOVERY,
    NX_SET_RETRY,
    NX_SET_ON_ERROR,
    NX_SET_MIN_WORLD,
    NX_SET_MAX_WORLD,
    NX_SET_SEED_STATE,
    NX_SETTINGS
} nx_setting_id;

/* Choices of `affinity`. */
enum { NX_AFFINITY_AUTO, NX_AFFINITY_OFF, NX_AFFINITY_ON };
/* Choices of `verify`. */
enum { NX_VERIFY_OFF, NX_VERIFY_ON };
/* Choices of `quorum`. */
enum { NX_SETTING_QUORUM_NONE, NX_SETTING_QUORUM_MAJORITY };
/* Choices of `recovery`. */
enum { NX_RECOVERY_MANUAL, NX_RECOVERY_AUTOMATIC, NX_RECOVERY_ABORT };
/* Exit code of a process with NX_RECOVERY_ABORT. */
enum { NX_ABORT_CODE = 76 };
/* Choices of `retry`. */
enum { NX_RETRY_OFF, NX_RETRY_ON };
/* Choices of `on_error`. */
enum { NX_ON_ERROR_RETURN, NX_ON_ERROR_ABORT };
/* Choices of `report_signal`. */
enum { NX_REPORT_NONE, NX_REPORT_USR1, NX_REPORT_USR2 };
/* Choices of `direct`. */
enum { NX_HOST_COLL_OFF, NX_HOST_COLL_ON, NX_HOST_COLL_SHORT };

typedef enum nx_setting_type {
    NX_SETTING_CHOICE, /* one of |choices|, in any case */
    NX_SETTING_NUMBER, /* of the kind |number|, from |min| to |max| */
    NX_SETTING_RULES,  /* a text that nx_rules_parse (coll/select.h) accepts */
    NX_SETTING_TEXT    /* a text that |check| accepts */
} nx_setting_type;

typedef struct nx_setting {
    const char *name; /* lower case; NEXAR_ and the upper case is its variable */
    nx_setting_type type;
    const char *preset;         /* the default, as text */
    const char *unit;           /* "bytes"; "" where there is none */
    const char *const *choices; /* ends with NULL */
    nx_number_kind number;
    uint64_t min, max;
    bool (*check)(const char *text); /* NULL: any text */
    const char *accepted;            /* what |check| accepts, as text */
    bool secret;                     /* its value is not printed */
    const char *help;                /* one line */
} nx_setting;

extern const nx_setting nx_settings[NX_SETTINGS];

/* The setting called |name|; NX_SETTINGS if there is none. */
nx_setting_id nx_setting_find(const char *name);
/* The setting whose name is closest to the mistyped |name|, or NULL. */
const char *nx_setting_near(const char *name);

/* What |s| accepts: "error, warn, info or debug". */
enum { NX_ACCEPTED_ROOM = 256 };
const char *nx_setting_accepted(const nx_setting *s, char *buf);

/* Parse settings that are texts with their own syntax, which was checked before.  A rank "auto" is
 * UINT32_MAX; a range "0" is 0 and 0; spin "auto" is UINT64_MAX. */
uint32_t nx_setting_rank(const char *text);
void nx_setting_port_range(const char *text, uint16_t *first, uint16_t *last);
uint64_t nx_setting_spin(const char *text);
/* |*by_link|: it is "auto", and a link may raise it. */
size_t nx_setting_inline(const char *text, bool *by_link);
/* Whether ranks of one host use shared memory, and what ranks may use over the network; nothing if
 * |text| is no such list. */
typedef struct nx_transports {
    bool shm, quic, tcp;
} nx_transports;
nx_transports nx_setting_transports(const char *text);

enum { NX_VARIABLE_ROOM = 64 };
/* The environment variable of |name|: "segment" -> "NEXAR_SEGMENT". */
const char *nx_setting_variable(const char *name, char *buf);
/* The name in the variable |variable|, which begins with NEXAR_, cut if too long: "NEXAR_SEGMENT"
 * -> "segment". */
const char *nx_setting_from_variable(const char *variable, char *buf);

#endif /* NX_SETTINGS_H */
