/*
 * quic_bench.c - the performance of the quic transport between two processes, compared with the
 * limits of the machine in the same run: a raw UDP ping-pong, and encrypting, sending, receiving
 * and decrypting datagrams.
 *
 *     quic_bench [seconds per figure [rtt | rate | one | both]]
 *     quic_bench seconds between NETNS ADDRESS NETNS ADDRESS [figure]
 *     NEXAR_TRANSPORTS=quic nexar run -n 2 quic_bench seconds ranks
 *
 * Without further words, the transport alone on the loopback; with `between`, in two network
 * namespaces (see quic_veth.sh); with `ranks`, messages between two ranks by the public
 * interface. The last word selects one figure, for a profile.
 *
 * Figures alternate in many short rounds and are compared within a round, since the machine's
 * speed changes from second to second. A line has the median of the figure, and the median, least
 * and most of its ratio.
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "args.h"
#include "quic_ranks.h"
#include "quic_side.h"

static const char help[] =
    "usage: quic_bench [SECONDS [rtt | rate | one | both]]\n"
    "       quic_bench SECONDS between NETNS ADDRESS NETNS ADDRESS [rtt | rate | one | both]\n"
    "       NEXAR_TRANSPORTS=quic nexar run -n 2 quic_bench SECONDS ranks\n"
    "\n"
    "What the quic transport reaches between two processes on the loopback, or in two network\n"
    "namespaces (files), and what messages between two ranks do, beside raw UDP and encryption\n"
    "in the same run.\n"
    "\n"
    "  SECONDS  for each figure; 2 without more\n"
    "  rtt ...  only that figure, for a profile\n";

enum {
    ROUNDS = 9,
    SAME_HOST = 61440, /* bytes of a datagram on the loopback */
    ETHERNET = 1452,   /* and at an MTU of 1500 */
};

/* The figures of a round; a ratio compares two figures of the same round. */
typedef enum figure {
    RAW,      /* us */
    CEILING,  /* GB/s, one way, datagrams of the loopback */
    CEILINGS, /* the same in both directions at once, each */
    PLAIN,    /* GB/s, datagrams of 1452 bytes, on the loopback */
    ACROSS,   /* and between the hosts */
    ONE,
    LARGE,
    BOTH,
    RTT,
    RATE,
    FIGURES
} figure;

static const char *const names[FIGURES] = {
    [RAW] = "raw UDP round trip, 8 bytes, spinning",
    [CEILING] = "ceiling: AES-128-GCM and UDP, 61440 B",
    [CEILINGS] = "the same, both ways, each",
    [PLAIN] = "ceiling: AES-128-GCM and UDP, 1452 B, GSO, GRO",
    [ACROSS] = "the same, between the hosts",
    [ONE] = "one way, parts of 1 MiB",
    [LARGE] = "one way, parts of 64 MiB",
    [BOTH] = "both ways, each, parts of 1 MiB",
    [RTT] = "round trip, 8 bytes, spinning",
    [RATE] = "64-byte frames or messages one way, M/s",
};

typedef struct row {
    figure what, beside; /* the figure itself: nothing to compare with */
    const char *target;
} row;

static const row on_loopback[] = {
    {RAW, RAW, "us"},
    {CEILING, CEILING, "GB/s"},
    {CEILINGS, CEILING, "of one way"},
    {ONE, CEILING, "of the ceiling, wanted 0.60"},
    {LARGE, CEILING, "of the ceiling, wanted 0.60"},
    {BOTH, ONE, "of one way, wanted 0.55"},
    {RTT, RAW, "of raw UDP, wanted at most 2.5"},
    {RATE, RATE, "wanted 0.50"},
};

static const row between_hosts[] = {
    {RAW, RAW, "us"},
    {PLAIN, PLAIN, "GB/s"},
    {ACROSS, PLAIN, "of the first"},
    {ONE, PLAIN, "of the first, wanted 0.35"},
    {LARGE, PLAIN, "of the first, wanted 0.35"},
    {BOTH, ONE, "of one way"},
    {RTT, RAW, "of raw UDP"},
    {RATE, RATE, ""},
};

typedef struct run {
    nxb_host hosts[2];
    nxb_side *side;    /* or */
    nexar_comm *world; /* by the public interface */
    double slice;      /* seconds of a figure in a round */
    double got[FIGURES][ROUNDS];
} run;

static const nxb_host here[2] = {{-1, {0x0100007f}}, {-1, {0x0100007f}}};

/* The number of bytes for about one slice, from the speed of the previous round. */
static uint64_t bytes_for(const run *r, figure what, int round)
{
    double speed = (round > 0) ? r->got[what][round - 1] : 0.5;

    return (uint64_t)(r->slice * speed * 1e9 / NXB_LARGE + 1) * NXB_LARGE;
}

static double bandwidth(const run *r, figure what, size_t part, bool both, int round)
{
    const uint64_t total = bytes_for(r, what, round);

    return (r->world != NULL) ? nxb_ranks_bandwidth(r->world, part, total, both)
                              : nxb_bandwidth(r->side, part, total, both);
}

static double round_trip(const run *r)
{
    return (r->world != NULL) ? nxb_ranks_round_trip(r->world, r->slice)
                              : nxb_round_trip(r->side, r->slice);
}

static double message_rate(const run *r)
{
    return (r->world != NULL) ? nxb_ranks_message_rate(r->world, r->slice)
                              : nxb_message_rate(r->side, r->slice);
}

static double measure(const run *r, figure what, int round)
{
    switch (what) {
    case RAW:
        return nxb_raw_round_trip(r->hosts, r->slice / 2);
    case CEILING:
        return nxb_ceiling(r->hosts, SAME_HOST, false, r->slice);
    case CEILINGS:
        return nxb_ceiling(r->hosts, SAME_HOST, true, r->slice);
    case PLAIN:
        return nxb_ceiling(here, ETHERNET, false, r->slice);
    case ACROSS:
        return nxb_ceiling(r->hosts, ETHERNET, false, r->slice);
    case ONE:
        return bandwidth(r, what, NXB_MIB, false, round);
    case LARGE:
        return bandwidth(r, what, NXB_LARGE, false, round);
    case BOTH:
        return bandwidth(r, what, NXB_MIB, true, round);
    case RTT:
        return round_trip(r);
    case RATE:
    case FIGURES:
    default:
        return message_rate(r) / 1e6;
    }
}

static void report(const run *r, const row *w)
{
    double value[ROUNDS], ratio[ROUNDS];

    for (int i = 0; i < ROUNDS; i++) {
        value[i] = r->got[w->what][i];
        ratio[i] = r->got[w->what][i] / r->got[w->beside][i];
    }
    (void)printf("%-46s %8.2f", names[w->what], nxb_median(value, ROUNDS));
    if (w->what == w->beside) {
        (void)printf("%19s  %s\n", "", w->target);
    } else {
        double median = nxb_median(ratio, ROUNDS);

        (void)printf("  %5.2f [%.2f, %.2f]  %s\n", median, ratio[0], ratio[ROUNDS - 1], w->target);
    }
}

static void compare(run *r, const row *rows, size_t n)
{
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < n; i++) {
            r->got[rows[i].what][round] = measure(r, rows[i].what, round);
        }
    }
    for (size_t i = 0; i < n; i++) {
        report(r, &rows[i]);
    }
}

enum { SINGLES = 4, BETWEEN = SINGLES, RANKS };
static const char *const words[] = {"rtt", "rate", "one", "both", "between", "ranks"};

/* Measures one figure for at least a second, for a profile. */
static void single(run *r, size_t word)
{
    static const figure what[SINGLES] = {RTT, RATE, ONE, BOTH};

    (void)printf("%-46s %8.2f\n", names[what[word]], measure(r, what[word], 0));
}

static nxb_host host_of(const char *netns, const char *address)
{
    nxb_host host = {.netns = open(netns, O_RDONLY | O_CLOEXEC)};

    if ((host.netns < 0) || (inet_pton(AF_INET, address, &host.address) != 1)) {
        (void)fprintf(stderr, "quic_bench: no namespace %s, or no IPv4 address %s\n", netns,
                      address);
        _exit(1);
    }
    return host;
}

/* The requested figure; SINGLES: all; RANKS: all between ranks. Sets |r->hosts|, and |*apart| if
 * they are in different namespaces. */
static size_t read_words(const nxb_args *args, run *r, bool *apart)
{
    size_t word = (args->n > 1) ? nxb_args_word(args, 1, words, RANKS + 1) : SINGLES;

    *apart = (args->n > 1) && (word == BETWEEN);
    if (*apart && (args->n < 6)) {
        (void)fputs("quic_bench: between takes NETNS ADDRESS NETNS ADDRESS\n", stderr);
        _exit(2);
    }
    r->hosts[0] = *apart ? host_of(args->words[2], args->words[3]) : here[0];
    r->hosts[1] = *apart ? host_of(args->words[4], args->words[5]) : here[1];
    if (*apart) {
        return (args->n > 6) ? nxb_args_word(args, 6, words, SINGLES) : SINGLES;
    }
    if (args->n > 2) {
        (void)fprintf(stderr, "quic_bench: unknown argument: %s\n", args->words[2]);
        _exit(2);
    }
    return word;
}

/* Measures the transport, with a second process on the other side. */
static void by_transport(run *r, size_t word, bool apart)
{
    pid_t child;

    r->side = nxb_connect(r->hosts, &child);
    (void)nxb_bandwidth(r->side, NXB_MIB, NXB_LARGE, true); /* warm-up; finds the path MTU */
    if (word < SINGLES) {
        single(r, word);
    } else if (apart) {
        (void)printf("between two network namespaces, datagrams of %zu bytes\n",
                     nxb_datagram(r->side));
        compare(r, between_hosts, sizeof(between_hosts) / sizeof(between_hosts[0]));
    } else {
        compare(r, on_loopback, sizeof(on_loopback) / sizeof(on_loopback[0]));
    }
    (void)kill(child, SIGKILL);
    (void)waitpid(child, NULL, 0);
}

static void by_ranks(run *r)
{
    r->world = nxb_ranks_join();
    nxb_pin_to(0);
    (void)nxb_ranks_bandwidth(r->world, NXB_MIB, NXB_LARGE, true);
    (void)printf("messages between two ranks\n");
    compare(r, on_loopback, sizeof(on_loopback) / sizeof(on_loopback[0]));
    nxb_ranks_end(r->world);
}

int main(int argc, char **argv)
{
    const nxb_args args = nxb_args_take(argc, argv, 7, help);
    const double seconds = nxb_args_seconds(&args, 0, 2);
    static run r;
    bool apart;
    const size_t word = read_words(&args, &r, &apart);

    r.slice = (word < SINGLES) ? seconds : seconds / ROUNDS;
    if (!apart && (word == RANKS)) {
        by_ranks(&r);
    } else {
        nxb_pin_to(0);
        by_transport(&r, word, apart);
    }
    return 0;
}
