/* settings.c - the table of all settings. */
#include "core/config/settings.h"

#include <stdio.h>
#include <string.h>

#include "base/text/suggest.h"

enum { MAX_RANKS = 65536 };
#define INLINE_AUTO (UINT64_C(8) << 10)
#define MAX_INLINE  (UINT64_C(32) << 10)
#define MAX_SPIN_NS UINT64_C(1000000000)

static const char *const log_levels[] = {"error", "warn", "info", "debug", NULL};
static const char *const affinities[] = {"auto", "off", "on", NULL}; /* NX_AFFINITY_ */
static const char *const switches[] = {"off", "on", NULL};
static const char *const signal_names[] = {"none", "usr1", "usr2", NULL};
static const char *const ways[] = {"off", "on", "short", NULL};
static const char *const quorums[] = {"none", "majority", NULL};
static const char *const recoveries[] = {"manual", "automatic", "abort", NULL};
static const char *const error_results[] = {"return", "abort", NULL};
static const char *const kernel_paths[] = {"auto", "portable", "avx2", "avx512", "neon", NULL};
static const char *const congestions[] = {"auto", "bbr", "cubic", NULL}; /* nx_congestion */
static const char *const aeads[] = {"auto", "gnutls", NULL};             /* nx_aead_choice */

/* ---- texts with a syntax of their own ------------------------------------------------ */

uint32_t nx_setting_rank(const char *text)
{
    uint64_t rank = 0;

    return nx_parse_uint(text, &rank) ? (uint32_t)rank : UINT32_MAX;
}

static bool is_rank(const char *text)
{
    uint64_t rank;

    return (strcmp(text, "auto") == 0) || (nx_parse_uint(text, &rank) && (rank < MAX_RANKS));
}

static bool parse_ports(const char *text, uint64_t *first, uint64_t *last)
{
    char copy[16];
    char *dash;

    if (strlen(text) >= sizeof(copy)) {
        return false;
    }
    (void)snprintf(copy, sizeof(copy), "%s", text);
    dash = strchr(copy, '-');
    if (dash != NULL) {
        *dash++ = '\0';
    }
    return nx_parse_uint(copy, first) && nx_parse_uint((dash == NULL) ? copy : dash, last) &&
           (*first <= *last) && (*last <= UINT16_MAX) && ((*first != 0) || (*last == 0));
}

void nx_setting_port_range(const char *text, uint16_t *first, uint16_t *last)
{
    uint64_t lo = 0, hi = 0;

    (void)parse_ports(text, &lo, &hi);
    *first = (uint16_t)lo;
    *last = (uint16_t)hi;
}

static bool is_port_range(const char *text)
{
    uint64_t first, last;

    return parse_ports(text, &first, &last);
}

uint64_t nx_setting_spin(const char *text)
{
    uint64_t ns = 0;

    return nx_parse_duration(text, &ns) ? ns : UINT64_MAX;
}

static bool is_spin(const char *text)
{
    uint64_t ns;

    return (strcmp(text, "auto") == 0) || (nx_parse_duration(text, &ns) && (ns <= MAX_SPIN_NS));
}

size_t nx_setting_inline(const char *text, bool *by_link)
{
    uint64_t bytes = INLINE_AUTO;

    *by_link = !nx_parse_size(text, &bytes);
    return (size_t)bytes;
}

static bool is_inline(const char *text)
{
    uint64_t bytes;

    return (strcmp(text, "auto") == 0) || (nx_parse_size(text, &bytes) && (bytes <= MAX_INLINE));
}

/* Adds the transport named by the |len| bytes at |name|.  False: there is no such transport. */
static bool add_transport(nx_transports *t, const char *name, size_t len)
{
    bool *which = NULL;

    if ((len == 3) && (memcmp(name, "shm", len) == 0)) {
        which = &t->shm;
        if (t->quic || t->tcp) {
            return true; /* the network reaches every rank, and is preferred */
        }
    } else if ((len == 4) && (memcmp(name, "quic", len) == 0)) {
        which = &t->quic;
    } else if ((len == 3) && (memcmp(name, "tcp", len) == 0)) {
        which = &t->tcp;
    }
    if ((which == NULL) || *which) {
        return false;
    }
    *which = true;
    return true;
}

nx_transports nx_setting_transports(const char *text)
{
    nx_transports t = {false, false, false};

    if (strcmp(text, "auto") == 0) {
        return (nx_transports){true, true, true};
    }
    for (;;) {
        const size_t len = strcspn(text, ",");

        if (!add_transport(&t, text, len)) {
            return (nx_transports){false, false, false};
        }
        if (text[len] == '\0') {
            return t;
        }
        text += len + 1;
    }
}

static bool is_transports(const char *text)
{
    const nx_transports t = nx_setting_transports(text);

    return t.shm || t.quic || t.tcp;
}

/* The module that uses the text reports more about an error. */
static bool is_join(const char *text)
{
    return (text[0] == '\0') || (strcmp(text, "none") == 0) ||
           (strncmp(text, "nexar://", 8) == 0) ||
           ((strncmp(text, "file:", 5) == 0) && (text[5] != '\0'));
}

/* Addresses, names and networks: the modules that use them check them further. */
static bool is_word(const char *text)
{
    for (; *text != '\0'; text++) {
        if ((*text <= ' ') || (*text > '~')) {
            return false;
        }
    }
    return true;
}

/* ---- the table ----------------------------------------------------------------------- */

const nx_setting nx_settings[NX_SETTINGS] = {
    [NX_SET_LOG] = {.name = "log",
                    .type = NX_SETTING_CHOICE,
                    .preset = "warn",
                    .unit = "",
                    .choices = log_levels,
                    .help = "the least severe lines that are written to stderr"},
    [NX_SET_ALGORITHMS] = {.name = "algorithms",
                           .type = NX_SETTING_RULES,
                           .preset = "",
                           .unit = "",
                           .help = "rules that take precedence over the selection table; the "
                                   "first rule that matches counts"},
    [NX_SET_SEGMENT] = {.name = "segment",
                        .type = NX_SETTING_NUMBER,
                        .preset = "256k",
                        .unit = "bytes",
                        .number = NX_NUMBER_SIZE,
                        .min = UINT64_C(4) << 10,
                        .max = UINT64_C(1) << 30,
                        .help = "the length of the segments of long transfers"},
    [NX_SET_KERNELS] = {.name = "kernels",
                        .type = NX_SETTING_CHOICE,
                        .preset = "auto",
                        .unit = "",
                        .choices = kernel_paths,
                        .help = "the reduction kernels; auto takes the fastest of this "
                                "machine; all give the same bits"},
    [NX_SET_AEAD] = {.name = "aead",
                     .type = NX_SETTING_CHOICE,
                     .preset = "auto",
                     .unit = "",
                     .choices = aeads,
                     .help = "protection of packets: auto takes nexar's AES-GCM where the "
                             "CPU has VAES, otherwise GnuTLS; gnutls takes GnuTLS "
                             "everywhere"},
    [NX_SET_JOIN] = {.name = "join",
                     .type = NX_SETTING_TEXT,
                     .preset = "",
                     .unit = "",
                     .check = is_join,
                     .accepted = "what `nexar seed` prints (nexar://TOKEN@host:port/?pin=KEY), "
                                 "file:PATH, or none",
                     .secret = true,
                     .help = "the cluster to join; file:PATH waits for that file and reads "
                             "it; none is a world of one; empty is the cluster of the "
                             "launcher (mpirun, srun), or a world of one without a "
                             "launcher"},
    [NX_SET_JOIN_FILE] = {.name = "join_file",
                          .type = NX_SETTING_TEXT,
                          .preset = "",
                          .unit = "",
                          .check = is_word,
                          .accepted = "a file",
                          .help = "same as join=file:PATH; empty: none"},
    [NX_SET_TOKEN_FILE] = {.name = "token_file",
                           .type = NX_SETTING_TEXT,
                           .preset = "",
                           .unit = "",
                           .check = is_word,
                           .accepted = "a file",
                           .help = "holds the token of a seed, or the token for a join string "
                                   "that has none; empty: the join string holds it"},
    [NX_SET_RANK] = {.name = "rank",
                     .type = NX_SETTING_TEXT,
                     .preset = "auto",
                     .unit = "",
                     .check = is_rank,
                     .accepted = "auto, or a whole number from 0 to 65535",
                     .help = "the rank to ask for; auto takes the next free one; if not "
                             "given, the rank that the launcher assigned (srun, mpirun, "
                             "torchrun)"},
    [NX_SET_WORLD_SIZE] = {.name = "world_size",
                           .type = NX_SETTING_NUMBER,
                           .preset = "0",
                           .unit = "ranks",
                           .number = NX_NUMBER_UINT,
                           .max = MAX_RANKS,
                           .help = "number of ranks of the world; 0: the number that the seed "
                                   "knows; if neither this nor rank is given, the number that "
                                   "the launcher knows"},
    [NX_SET_FORMATION_TIMEOUT] = {.name = "formation_timeout",
                                  .type = NX_SETTING_NUMBER,
                                  .preset = "1m",
                                  .unit = "",
                                  .number = NX_NUMBER_DURATION,
                                  .min = UINT64_C(100000000),
                                  .max = UINT64_C(24) * 3600 * 1000000000,
                                  .help = "how long to wait until all ranks have joined"},
    [NX_SET_IDLE_TIMEOUT] = {.name = "idle_timeout",
                             .type = NX_SETTING_NUMBER,
                             .preset = "30s",
                             .unit = "",
                             .number = NX_NUMBER_DURATION,
                             .min = UINT64_C(1000000000),
                             .max = UINT64_C(3600) * 1000000000,
                             .help = "a connection on which nothing arrives for this long is "
                                     "closed; the smaller value of two ranks counts"},
    [NX_SET_LISTEN] = {.name = "listen",
                       .type = NX_SETTING_TEXT,
                       .preset = "",
                       .unit = "",
                       .check = is_word,
                       .accepted = "an address with or without port, such as 10.0.0.7 or [::]:4433",
                       .help = "the address to bind; empty: all, IPv6 and IPv4"},
    [NX_SET_PORT_RANGE] = {.name = "port_range",
                           .type = NX_SETTING_TEXT,
                           .preset = "0",
                           .unit = "",
                           .check = is_port_range,
                           .accepted = "0, a port, or first-last, such as 4400-4500",
                           .help = "the ports to try; 0: any"},
    [NX_SET_INTERFACES] = {.name = "interfaces",
                           .type = NX_SETTING_TEXT,
                           .preset = "",
                           .unit = "",
                           .check = is_word,
                           .accepted = "names and networks, such as eth0,10.0.0.0/8",
                           .help = "the interfaces whose addresses are announced to the other "
                                   "ranks; empty: all"},
    [NX_SET_ADVERTISE] = {.name = "advertise",
                          .type = NX_SETTING_TEXT,
                          .preset = "",
                          .unit = "",
                          .check = is_word,
                          .accepted = "addresses, such as 198.51.100.7 or 198.51.100.7:4433",
                          .help = "addresses to announce instead of those of the interfaces"},
    [NX_SET_HOST_ID] = {.name = "host_id",
                        .type = NX_SETTING_TEXT,
                        .preset = "",
                        .unit = "",
                        .check = is_word,
                        .accepted = "a word",
                        .help = "ranks of one machine with different values count as ranks of "
                                "different hosts: no shared memory between them"},
    [NX_SET_TRANSPORTS] = {.name = "transports",
                           .type = NX_SETTING_TEXT,
                           .preset = "auto",
                           .unit = "",
                           .check = is_transports,
                           .accepted = "auto, or a list of shm, quic and tcp, such as shm,quic",
                           .help = "what may carry messages: shm only where it stands first; tcp "
                                   "where UDP does not get through"},
    [NX_SET_UNEXPECTED] = {.name = "unexpected",
                           .type = NX_SETTING_NUMBER,
                           .preset = "64m",
                           .unit = "bytes",
                           .number = NX_NUMBER_SIZE,
                           .min = UINT64_C(1) << 20,
                           .max = UINT64_C(1) << 40,
                           .help = "how many bytes of messages without a receive are held; "
                                   "beyond that, senders wait"},
    /* bench/sizes.sh, two ranks on the loopback of a busy machine (load 4 on two cores),
     * median of 5 rounds; us of half a round trip, GB/s received late:
     *
     *      bytes   inline     eager     asked    late: eager  asked
     *       4096     93.1      92.4     201.2          0.15    0.06
     *      32768    109.0     111.6     231.6          0.43    0.38
     *     131072        -     242.1     476.1          0.50    0.67
     *     262144        -     327.1     501.7          0.50    0.78
     *    1048576        -     974.0    1407.4          0.69    0.77
     *
     * Up to 32 KiB a copy makes no measurable difference.  A rendezvous costs a round trip, and
     * saves a copy of data that arrives early.  So these figures suggest no other defaults, except
     * for QUIC within a host, where copied data need not be acknowledged at once. */
    [NX_SET_INLINE] = {.name = "inline",
                       .type = NX_SETTING_TEXT,
                       .preset = "auto",
                       .unit = "",
                       .check = is_inline,
                       .accepted = "auto, or a size up to 32k, such as 8k",
                       .help = "messages up to this length are copied and sent with their "
                               "envelope; auto: 8k, and 32k over QUIC inside a host"},
    [NX_SET_EAGER] = {.name = "eager",
                      .type = NX_SETTING_NUMBER,
                      .preset = "256k",
                      .unit = "bytes",
                      .number = NX_NUMBER_SIZE,
                      .max = UINT64_C(64) << 20,
                      .help = "how much of a message is sent before its receiver asks for "
                              "it"},
    [NX_SET_SPIN] = {.name = "spin",
                     .type = NX_SETTING_TEXT,
                     .preset = "auto",
                     .unit = "",
                     .check = is_spin,
                     .accepted = "auto, 0, or a duration up to 1s, such as 50us",
                     .help = "how long a wait polls before it sleeps, after a short sleep up to "
                             "16 times that; auto: as long as a wake-up takes on this machine; 0: "
                             "nothing polls"},
    [NX_SET_AFFINITY] = {.name = "affinity",
                         .type = NX_SETTING_CHOICE,
                         .preset = "auto",
                         .unit = "",
                         .choices = affinities,
                         .help = "whether a waiting thread may move to a core with fewer ranks; it "
                                 "may use the same cores as before; auto: only where ranks "
                                 "outnumber cores"},
    [NX_SET_RPC_THREADS] = {.name = "rpc_threads",
                            .type = NX_SETTING_NUMBER,
                            .preset = "4",
                            .unit = "threads",
                            .number = NX_NUMBER_UINT,
                            .min = 1,
                            .max = 1024,
                            .help = "how many handlers of remote calls run at once, at each level "
                                    "of calls from handlers"},
    [NX_SET_RPC_TIMEOUT] = {.name = "rpc_timeout",
                            .type = NX_SETTING_NUMBER,
                            .preset = "10m",
                            .unit = "",
                            .number = NX_NUMBER_DURATION,
                            .max = UINT64_C(24) * 3600 * 1000000000,
                            .help = "how long a remote call waits for its reply; 0: no limit"},
    [NX_SET_CONGESTION] = {.name = "congestion",
                           .type = NX_SETTING_CHOICE,
                           .preset = "auto",
                           .unit = "",
                           .choices = congestions,
                           .help = "congestion control between hosts; auto is bbr, which keeps its "
                                   "rate when packets are lost without congestion"},
    [NX_SET_QLOG_DIR] = {.name = "qlog_dir",
                         .type = NX_SETTING_TEXT,
                         .preset = "",
                         .unit = "",
                         .check = is_word,
                         .accepted = "a folder",
                         .help = "folder for a qlog file of each connection; empty: none"},
    [NX_SET_VERIFY] = {.name = "verify",
                       .type = NX_SETTING_CHOICE,
                       .preset = "on",
                       .unit = "",
                       .choices = switches,
                       .help = "whether collectives with a root, and scans, return only when "
                               "all ranks are known to have made the same call, and v forms "
                               "when all counts match"},
    [NX_SET_COLLECTIVE_TIMEOUT] = {.name = "collective_timeout",
                                   .type = NX_SETTING_NUMBER,
                                   .preset = "0",
                                   .unit = "",
                                   .number = NX_NUMBER_DURATION,
                                   .max = UINT64_C(24) * 3600 * 1000000000,
                                   .help =
                                       "a collective that takes longer fails on all ranks; 0: it "
                                       "waits for slow ranks"},
    [NX_SET_STALL_REPORT] = {.name = "stall_report",
                             .type = NX_SETTING_NUMBER,
                             .preset = "10s",
                             .unit = "",
                             .number = NX_NUMBER_DURATION,
                             .max = UINT64_C(24) * 3600 * 1000000000,
                             .help = "an operation that waits longer is reported on stderr, with "
                                     "what the other ranks are doing; 0: no reports"},
    [NX_SET_REPORT_SIGNAL] = {.name = "report_signal",
                              .type = NX_SETTING_CHOICE,
                              .preset = "usr1",
                              .unit = "",
                              .choices = signal_names,
                              .help = "the signal that makes a rank print its current operations "
                                      "and waits"},
    [NX_SET_DIRECT] = {.name = "direct",
                       .type = NX_SETTING_CHOICE,
                       .preset = "on",
                       .unit = "",
                       .choices = ways,
                       .help = "whether ranks of one host use each other's memory in "
                               "collectives; short: only memory that they share for it"},
    [NX_SET_HEARTBEAT_INTERVAL] = {.name = "heartbeat_interval",
                                   .type = NX_SETTING_NUMBER,
                                   .preset = "500ms",
                                   .unit = "",
                                   .number = NX_NUMBER_DURATION,
                                   .min = UINT64_C(10000000),
                                   .max = UINT64_C(3600) * 1000000000,
                                   .help = "a neighbour that was silent for this long is pinged"},
    [NX_SET_HEARTBEAT_TIMEOUT] = {.name = "heartbeat_timeout",
                                  .type = NX_SETTING_NUMBER,
                                  .preset = "5s",
                                  .unit = "",
                                  .number = NX_NUMBER_DURATION,
                                  .min = UINT64_C(10000000),
                                  .max = UINT64_C(3600) * 1000000000,
                                  .help =
                                      "a rank that does not answer for this long has failed, for "
                                      "all ranks and permanently"},
    [NX_SET_QUORUM] = {.name = "quorum",
                       .type = NX_SETTING_CHOICE,
                       .preset = "none",
                       .unit = "",
                       .choices = quorums,
                       .help = "how many ranks of a communicator must survive for agree, "
                               "shrink and update to succeed; none: any number"},
    [NX_SET_RECOVERY] = {.name = "recovery",
                         .type = NX_SETTING_CHOICE,
                         .preset = "manual",
                         .unit = "",
                         .choices = recoveries,
                         .help = "what follows a failure; manual: calls that need the rank end "
                                 "with an error; automatic: the collective that failed "
                                 "rebuilds its communicator before it returns; abort: the "
                                 "process exits with code 76"},
    [NX_SET_RETRY] = {.name = "retry",
                      .type = NX_SETTING_CHOICE,
                      .preset = "off",
                      .unit = "",
                      .choices = switches,
                      .help = "with recovery=automatic: whether a collective that a failure "
                              "ends runs again among the survivors; buffers keep their "
                              "layout, blocks of failed ranks are left unchanged"},
    [NX_SET_ON_ERROR] = {.name = "on_error",
                         .type = NX_SETTING_CHOICE,
                         .preset = "return",
                         .unit = "",
                         .choices = error_results,
                         .help = "abort: a call that would return NEXAR_EINVAL, or an error "
                                 "that breaks the communicator or the library, ends the whole "
                                 "job with code 1, as nexar_abort does"},
    [NX_SET_MIN_WORLD] = {.name = "min_world",
                          .type = NX_SETTING_NUMBER,
                          .preset = "0",
                          .unit = "ranks",
                          .number = NX_NUMBER_UINT,
                          .max = MAX_RANKS,
                          .help = "how many ranks suffice to form the world after "
                                  "formation_timeout, and must remain later; 0: all at first, "
                                  "any number later"},
    [NX_SET_MAX_WORLD] = {.name = "max_world",
                          .type = NX_SETTING_NUMBER,
                          .preset = "0",
                          .unit = "ranks",
                          .number = NX_NUMBER_UINT,
                          .max = MAX_RANKS,
                          .help = "how many ranks the world may have; further ones wait at the "
                                  "seed; 0: no limit"},
    [NX_SET_SEED_STATE] = {.name = "seed_state",
                           .type = NX_SETTING_TEXT,
                           .preset = "",
                           .unit = "",
                           .check = is_word,
                           .accepted = "a file",
                           .help = "the file in which a seed keeps its key, token and members, "
                                   "so that it can be restarted; empty: none"},
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
    nx_suggest near = nx_suggest_start(name);

    for (int id = 0; id < NX_SETTINGS; id++) {
        nx_suggest_try(&near, nx_settings[id].name);
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
    case NX_SETTING_TEXT:
        (void)snprintf(buf, NX_ACCEPTED_ROOM, "%s", s->accepted);
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
