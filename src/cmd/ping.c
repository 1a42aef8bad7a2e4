/* ping.c - `nexar ping`: latency and bandwidth between two ranks. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <nexar.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/text/text.h"
#include "cmd/cmd.h"
#include "cmd/options.h"

enum { TAG_PING = 1, TAG_PONG, TAG_DATA, TAG_DONE, WARM_UP = 50 };

typedef struct ping {
    nexar_comm *world;
    int target;
    uint64_t count;
    void *buf;
    size_t room;
} ping;

/* Whether this rank measures: rank 0 and the target do; the others only join and leave. */
static bool asks(const ping *p)
{
    return nexar_rank(p->world) == 0;
}

static nexar_err exchange(const ping *p)
{
    char byte[8] = "nexar!!";
    nexar_err err;

    if (asks(p)) {
        err = nexar_send(p->world, byte, sizeof(byte), p->target, TAG_PING);
        return (err == NEXAR_OK)
                   ? nexar_recv(p->world, byte, sizeof(byte), p->target, TAG_PONG, NULL)
                   : err;
    }
    err = nexar_recv(p->world, byte, sizeof(byte), 0, TAG_PING, NULL);
    return (err == NEXAR_OK) ? nexar_send(p->world, byte, sizeof(byte), 0, TAG_PONG) : err;
}

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

static nexar_err measure_latency(const ping *p)
{
    uint64_t *times = nx_calloc(p->count, sizeof(*times));
    nexar_err err = NEXAR_OK;

    if (times == NULL) {
        return NEXAR_ENOMEM;
    }
    for (int i = 0; (i < WARM_UP) && (err == NEXAR_OK); i++) {
        err = exchange(p);
    }
    for (uint64_t i = 0; (i < p->count) && (err == NEXAR_OK); i++) {
        uint64_t start = nx_now(&nx_clock_system);

        err = exchange(p);
        times[i] = nx_now(&nx_clock_system) - start;
    }
    if ((err == NEXAR_OK) && asks(p)) {
        const uint64_t half = p->count / 2, most = p->count * 99 / 100;

        qsort(times, p->count, sizeof(*times), by_time);
        (void)printf("rank 0 - rank %d: round trip of 8 bytes, %" PRIu64
                     " times: median %.1f us, least %.1f us, 99%% below %.1f us\n",
                     p->target, p->count, (double)times[half] / 1e3, (double)times[0] / 1e3,
                     (double)times[most] / 1e3);
        (void)fflush(stdout);
    }
    nx_free(times);
    return err;
}

/* |n| messages of |bytes| in one direction, then a short reply. */
static nexar_err stream(const ping *p, size_t bytes, uint64_t n)
{
    nexar_err err = NEXAR_OK;
    char word = 0;

    for (uint64_t i = 0; (i < n) && (err == NEXAR_OK); i++) {
        err = asks(p) ? nexar_send(p->world, p->buf, bytes, p->target, TAG_DATA)
                      : nexar_recv(p->world, p->buf, bytes, 0, TAG_DATA, NULL);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    return asks(p) ? nexar_recv(p->world, &word, 1, p->target, TAG_DONE, NULL)
                   : nexar_send(p->world, &word, 1, 0, TAG_DONE);
}

static nexar_err measure_bandwidth(const ping *p, size_t bytes)
{
    const uint64_t n = ((UINT64_C(512) << 20) / bytes < 200) ? (UINT64_C(512) << 20) / bytes : 200;
    nexar_err err = stream(p, bytes, 1);
    uint64_t start = nx_now(&nx_clock_system);

    if (err == NEXAR_OK) {
        err = stream(p, bytes, n);
    }
    if ((err == NEXAR_OK) && asks(p)) {
        char size[NX_NUMBER_ROOM];

        (void)printf("rank 0 -> rank %d: %" PRIu64 " messages of %s: %.2f GB/s\n", p->target, n,
                     nx_format_size(bytes, size),
                     (double)(n * bytes) / (double)(nx_now(&nx_clock_system) - start));
        (void)fflush(stdout);
    }
    return err;
}

static nexar_err measure(ping *p)
{
    static const size_t sizes[] = {64 << 10, 1 << 20, 64 << 20};
    nexar_err err = measure_latency(p);

    p->room = sizes[2];
    p->buf = nx_zalloc(p->room);
    if (p->buf == NULL) {
        return NEXAR_ENOMEM;
    }
    memset(p->buf, 'n', p->room);
    for (size_t i = 0; (i < 3) && (err == NEXAR_OK); i++) {
        err = measure_bandwidth(p, sizes[i]);
    }
    nx_free(p->buf);
    return err;
}

static int run(uint64_t target, uint64_t count)
{
    ping p = {.target = (int)target, .count = count};
    nexar_err err = nexar_init(NULL, &p.world);
    int code = NX_EXIT_OK;

    if (err != NEXAR_OK) {
        return nx_cmd_error("ping", err);
    }
    if ((target == 0) || (target >= (uint64_t)nexar_size(p.world))) {
        /* One rank reports and fails. If other ranks failed too, the launcher could name one of
         * them. */
        if (asks(&p)) {
            code = nx_usage("ping",
                            "there is no rank %" PRIu64 " besides rank 0 in a world of %d; start "
                            "it with: nexar run -n 2 nexar ping 1",
                            target, nexar_size(p.world));
        }
    } else if (asks(&p) || (nexar_rank(p.world) == p.target)) {
        err = measure(&p);
        code = (err == NEXAR_OK) ? NX_EXIT_OK : nx_cmd_error("ping", err);
    }
    err = nexar_finalize(p.world);
    return ((err == NEXAR_OK) || (code != NX_EXIT_OK)) ? code : nx_cmd_error("ping", err);
}

int nx_cmd_ping(int argc, char **argv)
{
    uint64_t count = 1000, target;
    const char *operand = NULL;
    int code = NX_EXIT_OK;
    const nx_option table[] = {
        {"count", NX_OPTION_UINT, &count, "N", "how many round trips", 1, 10000000, 0},
    };
    const nx_options options = {
        .command = "ping",
        .operands = "RANK",
        .max_operands = 1,
        .help = "Measures latency and bandwidth from rank 0 to RANK.  Every rank of the world\n"
                "runs it; the others only join and leave.",
        .table = table,
        .n = sizeof(table) / sizeof(table[0]),
        .notes = "example:\n  nexar run -n 2 nexar ping 1",
    };

    if (!nx_options_parse(&options, argc, argv, &operand, &code)) {
        return code;
    }
    if ((operand == NULL) || !nx_parse_uint(operand, &target) || (target > 65535)) {
        return nx_usage(
            "ping", "%s%s; give a rank from 1 on, such as: nexar run -n 2 nexar ping 1",
            (operand == NULL) ? "which rank" : "not a rank: ", (operand == NULL) ? "" : operand);
    }
    return run(target, count);
}
