/* info.c - `nexar info`: the features of this build and this machine, every setting with its
 * value, every algorithm and when it is selected. */
#include <stdio.h>

#include <nexar.h>

#include "base/text/text.h"
#include "base/wait/wait_policy.h"
#include "cmd/cmd.h"
#include "cmd/machine.h"
#include "cmd/options.h"
#include "cmd/print/text_table.h"
#include "coll/algorithms.h"
#include "coll/select.h"
#include "core/config/config.h"
#include "link_report.h"
#include "reduce/reduce.h"
#include "transport/quic/crypto/aead.h"
#include "transport/quic/quic.h"

static const char *yes(bool is)
{
    return is ? "yes" : "no";
}

/* The transports, and the kernel features that they use. */
static void add_quic(nx_table *t)
{
    char size[NX_NUMBER_ROOM];
    nx_quic_features f;

    nx_quic_features_probe(&f);
    nx_table_add(t, "transports");
    nx_table_add(t, "shm,quic");
    nx_table_add(t, "ipv6");
    nx_table_add(t, "%s", yes(f.ipv6));
    nx_table_add(t, "udp_segment");
    nx_table_add(t, "%s", yes(f.gso));
    nx_table_add(t, "udp_gro");
    nx_table_add(t, "%s", yes(f.gro));
    nx_table_add(t, "recvmmsg");
    nx_table_add(t, "%s", yes(f.recvmmsg));
    nx_table_add(t, "udp_rcvbuf");
    nx_table_add(t, "%s%s", nx_format_size(f.rcvbuf, size),
                 f.small ? " (small: raise sysctl net.core.rmem_max)" : "");
    nx_table_add(t, "udp_sndbuf");
    nx_table_add(t, "%s", nx_format_size(f.sndbuf, size));
    nx_table_add(t, "ngtcp2");
    nx_table_add(t, "%s", f.ngtcp2);
    nx_table_add(t, "aead");
    nx_table_add(t, "%s", nx_aead_name());
}

static void fill_machine(nx_table *t)
{
    static const char *const heads[] = {"what", "is"};
    char buf[NX_MACHINE_ROOM];
    int allowed, online;

    nx_table_init(t, heads, 2);
    nx_table_add(t, "compiler");
    nx_table_add(t, "%s", nx_machine_compiler(buf));
    nx_table_add(t, "cpu");
    nx_table_add(t, "%s", nx_machine_cpu(buf));
    nx_machine_cores(&allowed, &online);
    nx_table_add(t, "cores");
    nx_table_add(t, "%d of %d", allowed, online);
    nx_table_add(t, "kernel");
    nx_table_add(t, "%s", nx_machine_kernel(buf));
    nx_table_add(t, "memfd");
    nx_table_add(t, "%s", yes(nx_machine_has_memfd()));
    add_quic(t);
}

static void add_wait(nx_table *t, const char *what, const char *is, const char *from)
{
    nx_table_add(t, "%s", what);
    nx_table_add(t, "%s", is);
    nx_table_add(t, "%s", from);
}

static void add_span(nx_table *t, const char *what, uint64_t ns, const char *from)
{
    char text[NX_NUMBER_ROOM];

    add_wait(t, what, nx_format_duration(ns, text), from);
}

/* The measured costs, then the values derived from them and from the setting spin. */
static void fill_waits(nx_table *t, const nexar_config *cfg)
{
    static const char *const heads[] = {"what", "is", "from"};
    const nx_machine_costs *c = nx_machine_costs_get();
    char text[NX_NUMBER_ROOM];
    const nx_wait_policy p =
        nx_wait_policy_make(c, nx_setting_spin(nx_config_text(cfg, NX_SET_SPIN, text)), false);

    nx_table_init(t, heads, 3);
    add_span(t, "poll", c->pause_ns, "measured: a look at memory and a pause");
    add_span(t, "yield", c->yield_ns, "measured: sched_yield");
    add_span(t, "handover", c->handover_ns, "measured: a cache line, from core to core");
    add_span(t, "wakeup", c->park_ns, "measured: until a sleeping thread runs");
    add_span(t, "copy_256k", c->copy_ns, "measured: in the cache of one core");
    add_span(t, "read_256k", c->read_ns, "measured: process_vm_readv; 0: not allowed");
    add_wait(t, "cache", nx_format_size(c->cache_bytes, text), "the system; 0: unknown");
    add_span(t, "wait_spins", p.spin_ns, "16 handovers, or a yield");
    add_span(t, "wait_polls", p.poll_ns, "a wakeup, or the setting spin");
    add_span(t, "wait_polls_longest", nx_wait_longest(&p), "16 times that, after a short sleep");
    add_wait(t, "copy_past_cache", nx_format_size(nx_machine_costs_past_cache(c), text),
             "a quarter of the cache");
}

static void fill_kernels(nx_table *t)
{
    static const char *const heads[] = {"path", "usable", "chosen"};

    nx_table_init(t, heads, 3);
    for (int i = 0; i < NX_REDUCE_PATHS; i++) {
        nx_reduce_path path = (nx_reduce_path)i;

        nx_table_add(t, "%s", nx_reduce_path_name(path));
        nx_table_add(t, "%s", yes(nx_reduce_path_usable(path)));
        nx_table_add(t, "%s", yes(nx_reduce_path_now() == path));
    }
}

/* For a secret, shows only whether it is set. */
static const char *setting_text(const nexar_config *cfg, nx_setting_id id, char *number)
{
    const char *text = nx_config_text(cfg, id, number);

    return (nx_settings[id].secret && (text[0] != '\0')) ? "(secret)" : text;
}

/* The accepted values are printed in JSON only: lines would be too long for a terminal. */
static void fill_settings(nx_table *t, const nexar_config *cfg, bool json)
{
    static const char *const heads[] = {"setting", "value", "origin", "unit", "help", "accepted"};

    nx_table_init(t, heads, json ? 6 : 5);
    for (int i = 0; i < NX_SETTINGS; i++) {
        nx_setting_id id = (nx_setting_id)i;
        char number[NX_NUMBER_ROOM], accepted[NX_ACCEPTED_ROOM];

        nx_table_add(t, "%s", nx_settings[id].name);
        nx_table_add(t, "%s", setting_text(cfg, id, number));
        nx_table_add(t, "%s", nx_config_origin_name(cfg, id));
        nx_table_add(t, "%s", nx_settings[id].unit);
        nx_table_add(t, "%s", nx_settings[id].help);
        if (json) {
            nx_table_add(t, "%s", nx_setting_accepted(&nx_settings[id], accepted));
        }
    }
}

static void fill_algorithms(nx_table *t)
{
    static const char *const heads[] = {"collective", "algorithm", "segments", "help"};
    size_t n;
    const nx_algorithm *rows = nx_algorithms(&n);

    nx_table_init(t, heads, 4);
    for (size_t i = 0; i < n; i++) {
        nx_table_add(t, "%s", nx_coll_name(rows[i].kind));
        nx_table_add(t, "%s", rows[i].name);
        nx_table_add(t, "%s", yes(rows[i].cut));
        nx_table_add(t, "%s", rows[i].help);
    }
}

static void add_line(void *ctx, const char *text)
{
    nx_table_add(ctx, "%s", text);
}

static void fill_selection(nx_table *t)
{
    static const char *const heads[] = {"rule"};

    nx_table_init(t, heads, 1);
    nx_select_print(add_line, t);
}

enum { MACHINE, WAITS, KERNELS, SETTINGS, ALGORITHMS, SELECTION, TABLES };

static const char *const titles[TABLES] = {"machine",  "waiting",    "kernels",
                                           "settings", "algorithms", "selection"};

static void print_text(const nx_table *tables)
{
    (void)printf("nexar %s\n", nexar_version());
    for (int i = 0; i < TABLES; i++) {
        (void)printf("\n%s\n", titles[i]);
        nx_table_print(&tables[i], stdout, 2, (i != MACHINE) && (i != SELECTION));
    }
}

static void print_json(const nx_table *tables)
{
    (void)printf("{\n  \"version\": ");
    nx_json_string(stdout, nexar_version());
    for (int i = 0; i < TABLES; i++) {
        (void)printf(",\n  \"%s\": ", titles[i]);
        if (i == MACHINE) {
            nx_table_print_json_object(&tables[i], stdout);
        } else {
            nx_table_print_json(&tables[i], stdout);
        }
    }
    (void)printf("\n}\n");
}

static int print_info(const nexar_config *cfg, bool json)
{
    nx_table tables[TABLES];
    bool failed = false;

    fill_machine(&tables[MACHINE]);
    fill_waits(&tables[WAITS], cfg);
    fill_kernels(&tables[KERNELS]);
    fill_settings(&tables[SETTINGS], cfg, json);
    fill_algorithms(&tables[ALGORITHMS]);
    fill_selection(&tables[SELECTION]);
    for (int i = 0; i < TABLES; i++) {
        failed = failed || nx_table_failed(&tables[i]);
    }
    if (failed) {
        (void)nx_usage("info", "out of memory");
    } else if (json) {
        print_json(tables);
    } else {
        print_text(tables);
    }
    for (int i = 0; i < TABLES; i++) {
        nx_table_fini(&tables[i]);
    }
    return failed ? NX_EXIT_FAILURE : NX_EXIT_OK;
}

int nx_cmd_info(int argc, char **argv)
{
    bool json = false, links = false;
    const nx_option table[] = {
        {"json", NX_OPTION_FLAG, &json, NULL, "print JSON", 0, 0, 0},
        {"links", NX_OPTION_FLAG, &links, NULL,
         "join the world and print what connects its ranks (every rank runs it)", 0, 0, 0},
    };
    const nx_options options = {
        .command = "info",
        .help = "Prints what this build and this machine offer, every setting with its value\n"
                "and where the value came from, the algorithms of each collective, and the\n"
                "table by which one of them is selected.",
        .table = table,
        .n = sizeof(table) / sizeof(table[0]),
        .notes = "A setting is given by its variable: \"segment\" is NEXAR_SEGMENT.\n\n"
                 "example:\n  nexar run -n 4 nexar info --links",
    };
    nexar_config *cfg = NULL;
    nexar_err err;
    int code;

    if (!nx_options_parse(&options, argc, argv, NULL, &code)) {
        return code;
    }
    if (links) {
        return nx_links_show(json);
    }
    err = nexar_config_create(&cfg);
    if (err == NEXAR_OK) {
        err = nx_config_take_launcher(cfg); /* as a joiner */
    }
    if (err == NEXAR_OK) {
        err = nx_config_apply(cfg);
    }
    code = (err == NEXAR_OK) ? print_info(cfg, json) : nx_cmd_error("info", err);
    nexar_config_free(cfg);
    return code;
}
