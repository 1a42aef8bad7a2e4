/*
 * crowd.c - many concurrent connections to the seed, by a process that knows the seed's
 * address and key, has no token, and never sends a HELLO.
 *
 *     NEXAR_JOIN=... crowd COUNT
 *
 * Prints "up N" and "ready" when each connection has come up or failed, or after 20 s, or later
 * when a fifth has come up, and keeps the connections until its standard input ends.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/random.h"
#include "cluster/join/join_string.h"
#include "loop/loop.h"
#include "transport/quic/quic.h"

typedef struct crowd {
    nx_loop *loop;
    nx_quic *quic;
    nx_join_string seed;
    size_t wanted, enough, up, settled;
    nx_event all, crowded, end;
    nx_fd input;
} crowd;

static const uint64_t PATIENCE_NS = UINT64_C(20000000000), MOST_NS = UINT64_C(60000000000);

static crowd all;

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "crowd: %s: %s\n", what, nexar_last_error());
    exit(1);
}

static void settle(void)
{
    if (++all.settled == all.wanted) {
        nx_event_set(all.loop, &all.all);
    }
    if ((all.up >= all.enough) || (all.settled == all.wanted)) {
        nx_event_set(all.loop, &all.crowded);
    }
}

static void on_up(void *ctx, nx_link *link)
{
    bool *up = ctx;

    (void)link;
    *up = true;
    all.up++;
    settle();
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    const bool *up = ctx;

    (void)err;
    nx_link_close(link, false);
    if (!*up) {
        if (all.settled == all.up) {
            (void)fprintf(stderr, "crowd: the first that failed: %s\n", why);
        }
        settle();
    }
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    (void)ctx;
    (void)link;
    (void)lane;
    (void)data;
    (void)len;
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    (void)ctx;
    (void)link;
    (void)id;
    (void)off;
    (void)data;
    (void)len;
}

static const nx_link_up up = {.on_up = on_up,
                              .on_frame = on_frame,
                              .on_data = on_data,
                              .on_sent = nx_link_sent_ignored,
                              .on_down = on_down};

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    (void)ctx;
    (void)member;
    nx_link_close(link, false);
}

static void on_input(nx_fd *self, uint32_t events)
{
    (void)self;
    (void)events;
    nx_event_set(all.loop, &all.end);
}

/* With the loop's lock held. */
static void dial_all(bool *ups)
{
    const nx_quic_target target = {
        .pin = all.seed.pin, .addresses = all.seed.addresses, .n = all.seed.naddresses};

    for (size_t i = 0; i < all.wanted; i++) {
        nx_link *link;

        if (nx_quic_dial(all.quic, &target, &up, &ups[i], &link) != NEXAR_OK) {
            die("dial");
        }
    }
}

static void open_all(const char *join)
{
    nx_quic_config config = {
        .random = &nx_random_system,
        .handshake_timeout_ns = MOST_NS,
        .peers = 1,
        .on_accept = on_accept,
    };

    if ((nx_join_string_parse(join, &all.seed) != NEXAR_OK) ||
        (nx_loop_create(&all.loop, &nx_clock_system) != NEXAR_OK)) {
        die("start");
    }
    config.loop = all.loop;
    nx_loop_lock(all.loop);
    if (nx_quic_open(&all.quic, &config) != NEXAR_OK) {
        die("open");
    }
}

int main(int argc, char **argv)
{
    const char *join = getenv("NEXAR_JOIN");
    bool *ups;

    all.wanted = (argc > 1) ? (size_t)strtoull(argv[1], NULL, 10) : 1000;
    all.enough = all.wanted / 5;
    ups = calloc(all.wanted, sizeof(*ups));
    if ((join == NULL) || (ups == NULL)) {
        (void)fprintf(stderr, "crowd: NEXAR_JOIN=... crowd COUNT\n");
        free(ups);
        return 1;
    }
    open_all(join);
    all.input = (nx_fd){.fd = STDIN_FILENO, .on_ready = on_input};
    if (nx_loop_fd_add(all.loop, &all.input, EPOLLIN) != NEXAR_OK) {
        die("input");
    }
    dial_all(ups);
    (void)nx_loop_wait(all.loop, &all.all, nx_loop_now(all.loop) + PATIENCE_NS);
    (void)nx_loop_wait(all.loop, &all.crowded, nx_loop_now(all.loop) + MOST_NS);
    (void)printf("up %zu\nready\n", all.up);
    (void)fflush(stdout);
    (void)nx_loop_wait(all.loop, &all.end, UINT64_MAX);
    nx_loop_fd_remove(all.loop, &all.input);
    nx_quic_close(all.quic);
    nx_loop_unlock(all.loop);
    nx_loop_destroy(all.loop);
    free(ups);
    return 0;
}
