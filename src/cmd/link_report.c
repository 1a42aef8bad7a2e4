/* link_report.c - `nexar info --links`: the links between the ranks of a world. */
#include "link_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <nexar.h>

#include "cmd.h"
#include "cmd/print/text_table.h"
#include "core/comm/comm.h"

enum { TAG_HELLO = 1, TAG_ROW, TAG_END, HELLOS = 64 };

/* One link as rank 0 prints it; all ranks have the same build, so it is sent as raw bytes. */
typedef struct row {
    uint32_t from, to;
    char transport[NX_TRANSPORT_ROOM], local[64], remote[64];
    uint64_t rtt_ns, lost;
    uint32_t mtu;
    char chosen[48];
} row;

/* Exchanges a few short messages, so that a link exists and its RTT is known. */
static nexar_err greet(nexar_comm *world, int peer)
{
    uint64_t mine = 0, theirs;
    nexar_err err = NEXAR_OK;

    for (int i = 0; (i < HELLOS) && (err == NEXAR_OK); i++) {
        err = nexar_sendrecv(world, &mine, sizeof(mine), peer, TAG_HELLO, &theirs, sizeof(theirs),
                             peer, TAG_HELLO, NULL);
    }
    return err;
}

static row look(nexar_comm *world, int peer)
{
    row r = {.from = (uint32_t)nexar_rank(world), .to = (uint32_t)peer};
    nx_link_info info = {0};
    nx_link *link;

    nx_loop_lock(world->world->loop);
    link = nx_msg_link(world->world->msg, (uint32_t)peer);
    if (link != NULL) {
        link->ops->info(link, &info);
        (void)snprintf(r.chosen, sizeof(r.chosen), "%s",
                       nx_shm_is(link)          ? "same host"
                       : (link->chosen == NULL) ? ""
                                                : link->chosen);
        (void)snprintf(r.transport, sizeof(r.transport), "%s", link->ops->name);
    }
    nx_loop_unlock(world->world->loop);
    memcpy(r.local, info.local, sizeof(r.local));
    memcpy(r.remote, info.remote, sizeof(r.remote));
    r.rtt_ns = info.rtt_ns;
    r.mtu = info.mtu;
    r.lost = info.packets_lost;
    return r;
}

/* A value that the transport does not know is "-". */
static void add_known(nx_table *t, bool known, int digits, double value)
{
    char text[32] = "-";

    if (known) {
        (void)snprintf(text, sizeof(text), "%.*f", digits, value);
    }
    nx_table_add(t, "%s", text);
}

static void add(nx_table *t, const row *r)
{
    nx_table_add(t, "%" PRIu32, r->from);
    nx_table_add(t, "%" PRIu32, r->to);
    nx_table_add(t, "%s", r->transport);
    nx_table_add(t, "%s", r->local);
    nx_table_add(t, "%s", r->remote);
    add_known(t, r->rtt_ns != 0, 1, (double)r->rtt_ns / 1e3);
    add_known(t, r->mtu != 0, 0, (double)r->mtu);
    nx_table_add(t, "%" PRIu64, r->lost);
    nx_table_add(t, "%s", r->chosen);
}

/* Rank 0 collects a row for each pair, in order; the others send theirs. */
static nexar_err collect(nexar_comm *world, nx_table *t)
{
    const int rank = nexar_rank(world), size = nexar_size(world);
    nexar_err err = NEXAR_OK;

    for (int from = 0; from < size; from++) {
        for (int to = 0; (to < size) && (err == NEXAR_OK); to++) {
            row r;

            if ((from == to) || ((rank != 0) && (rank != from))) {
                continue;
            }
            r = (rank == from) ? look(world, to) : (row){0};
            if (rank != 0) {
                err = nexar_send(world, &r, sizeof(r), 0, TAG_ROW);
                continue;
            }
            if (from != 0) {
                err = nexar_recv(world, &r, sizeof(r), from, TAG_ROW, NULL);
            }
            r.transport[sizeof(r.transport) - 1] = '\0';
            r.local[sizeof(r.local) - 1] = '\0';
            r.remote[sizeof(r.remote) - 1] = '\0';
            r.chosen[sizeof(r.chosen) - 1] = '\0';
            add(t, &r);
        }
    }
    return err;
}

/* A barrier before any rank leaves: links close when a rank leaves. */
static nexar_err part(nexar_comm *world)
{
    nexar_err err = NEXAR_OK;

    if (nexar_rank(world) != 0) {
        return nexar_recv(world, NULL, 0, 0, TAG_END, NULL);
    }
    for (int peer = 1; (peer < nexar_size(world)) && (err == NEXAR_OK); peer++) {
        err = nexar_send(world, NULL, 0, peer, TAG_END);
    }
    return err;
}

static nexar_err show(nexar_comm *world, bool json)
{
    static const char *const heads[] = {"rank",   "to",  "transport", "local", "remote",
                                        "rtt_us", "mtu", "lost",      "chosen"};
    nexar_err err = NEXAR_OK;
    nx_table t;

    for (int peer = 0; (peer < nexar_size(world)) && (err == NEXAR_OK); peer++) {
        err = (peer == nexar_rank(world)) ? NEXAR_OK : greet(world, peer);
    }
    nx_table_init(&t, heads, 9);
    if (err == NEXAR_OK) {
        err = collect(world, &t);
    }
    if (err == NEXAR_OK) {
        err = part(world);
    }
    if ((err == NEXAR_OK) && (nexar_rank(world) == 0)) {
        if (json) {
            nx_table_print_json(&t, stdout);
            (void)printf("\n");
        } else {
            nx_table_print(&t, stdout, 0, true);
        }
    }
    nx_table_fini(&t);
    return err;
}

void nx_links_transport(nexar_comm *world, int peer, char name[NX_TRANSPORT_ROOM])
{
    const row r = look(world, peer);

    _Static_assert(sizeof(r.transport) == NX_TRANSPORT_ROOM, "a name fits");
    memcpy(name, r.transport, sizeof(r.transport));
}

int nx_links_show(bool json)
{
    nexar_comm *world;
    nexar_err err = nexar_init(NULL, &world);
    int code;

    if (err != NEXAR_OK) {
        return nx_cmd_error("info", err);
    }
    if (nexar_size(world) == 1) {
        (void)nexar_finalize(world);
        return nx_usage("info", "a world of one rank has no links; start it with: "
                                "nexar run -n 4 nexar info --links");
    }
    err = show(world, json);
    code = (err == NEXAR_OK) ? NX_EXIT_OK : nx_cmd_error("info", err);
    err = nexar_finalize(world);
    return ((err == NEXAR_OK) || (code != NX_EXIT_OK)) ? code : nx_cmd_error("info", err);
}
