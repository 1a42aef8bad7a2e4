/* report.c - the report that a rank prints on a signal. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"
#include "core/comm/comm.h"
#include "core/report/diagnosis.h"
#include "core/report/pending.h"

enum { PAST = 16 };    /* completed operations, at most */
enum { PENDING = 16 }; /* pending operations, at most */
enum { LINKS = 16 };   /* of which this much is printed */

static double ms(uint64_t ns)
{
    return (double)ns / 1e6;
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

/* ---- operations ---------------------------------------------------------------------- */

typedef struct listing {
    nx_world *world;
    uint32_t n;
} listing;

static void print_pending(void *ctx, const nx_pending *p)
{
    listing *l = ctx;
    char what[NX_WHAT_TEXT], waits[NX_WAITS_TEXT], here[NX_DOING_HERE];
    uint32_t ranks[NX_DOING_LISTED], n;

    if (l->n++ >= PENDING) {
        return;
    }
    n = nx_pending_whom(l->world, p, ranks, NX_DOING_LISTED);
    nx_pending_here(l->world, p, here);
    nx_log_always("report of rank %" PRIu32 ": pending: %s for %.1f s%s", l->world->comm->inc->rank,
                  nx_what_text(&p->what, what), seconds(nx_loop_now(l->world->loop) - p->begun_ns),
                  nx_waits_text(", waiting for ", ranks, n, here, waits));
}

static void print_past(const nx_world *world)
{
    const nx_op_entry *e;
    char what[NX_WHAT_TEXT];

    for (size_t back = 0; (back < PAST) && ((e = nx_oplog_at(&world->log, back)) != NULL); back++) {
        nx_log_always("report of rank %" PRIu32 ": ended %.1f s ago: %s, took %.3f ms%s%s",
                      world->comm->inc->rank, seconds(nx_loop_now(world->loop) - e->ended_ns),
                      nx_pending_text(world, &e->what, what), ms(e->ended_ns - e->begun_ns),
                      (e->err == NEXAR_OK) ? "" : ": ",
                      (e->err == NEXAR_OK) ? "" : nexar_strerror(e->err));
    }
}

/* ---- links and memory ---------------------------------------------------------------- */

static void print_links(const nx_world *world)
{
    uint32_t n = 0;

    for (uint32_t peer = 0; peer < world->slots; peer++) {
        const nx_link *link = nx_msg_link(world->msg, peer);
        nx_link_info info = {0};
        char rtt[32] = "";

        if ((link == NULL) || (n++ >= LINKS)) {
            continue;
        }
        link->ops->info(link, &info);
        if (info.rtt_ns != 0) {
            (void)snprintf(rtt, sizeof(rtt), ", rtt %.3f ms", ms(info.rtt_ns));
        }
        nx_log_always("report of rank %" PRIu32 ": link to rank %" PRIu32 ": %s %s%s, sent %" PRIu64
                      " and received %" PRIu64 " bytes, lost %" PRIu64 " packets",
                      world->comm->inc->rank, nx_world_rank(world, peer), link->ops->name,
                      info.remote, rtt, info.bytes_sent, info.bytes_received, info.packets_lost);
    }
    if (n > LINKS) {
        nx_log_always("report of rank %" PRIu32 ": and %" PRIu32 " more links",
                      world->comm->inc->rank, n - LINKS);
    }
}

static void print_pool(const nx_world *world)
{
    nx_msg_stats s;

    nx_msg_stats_get(world->msg, &s);
    nx_log_always("report of rank %" PRIu32 ": nobody has asked yet for %" PRIu64
                  " messages, %" PRIu64 " of at most %zu bytes (most so far %" PRIu64 "); %" PRIu64
                  " receives and %" PRIu64 " sends wait",
                  world->comm->inc->rank, s.unexpected, s.pool_used,
                  nx_config_size(world->config, NX_SET_UNEXPECTED), s.pool_peak, s.posted,
                  s.waiting);
}

void nx_report_print(nx_world *world)
{
    listing l = {.world = world};

    nx_log_always("report of rank %" PRIu32 " of %" PRIu32 ", pid %ld, %s", world->comm->inc->rank,
                  world->comm->inc->size, (long)getpid(),
                  world->closing              ? "in finalize"
                  : (world->log.waiting != 0) ? "in a call that waits"
                                              : "in user code");
    nx_pending_each(world, print_pending, &l);
    if (l.n > PENDING) {
        nx_log_always("report of rank %" PRIu32 ": and %" PRIu32 " more pending",
                      world->comm->inc->rank, l.n - PENDING);
    }
    print_past(world);
    print_links(world);
    print_pool(world);
}
