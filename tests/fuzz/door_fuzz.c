/*
 * door_fuzz.c - datagrams of unauthenticated senders to an endpoint: it does not crash, admits
 * none, and answers at most three times the received bytes.
 *
 * Input: datagrams, each after two bytes for its length.  The highest bit of the length pads the
 * datagram to the minimum size of a first packet; the next one lets a second pass before it.
 */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "fuzz.h"
#include "transport/quic/quic.h"
#include "wire/wire.h"

enum { MOST = 4096, FIRST = 1200, PADDED = 0x8000, LATER = 0x4000 };

typedef struct stage {
    nx_clock_manual clock;
    nx_loop *loop;
    nx_quic *quic;
    int fd;
    size_t said, answered;
} stage;

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    (void)ctx;
    (void)member;
    nxt_must(link == NULL); /* no random input gets this far */
}

static void begin(stage *s, const nx_authority *authority, nx_random_seeded *random)
{
    nx_quic_config config = {.authority = authority, .on_accept = on_accept, .ctx = s};
    struct sockaddr_in to = {.sin_family = AF_INET};

    nx_random_seeded_init(random, 1);
    nx_clock_manual_init(&s->clock, UINT64_C(1000000000));
    nxt_must(nx_loop_create(&s->loop, &s->clock.clock) == NEXAR_OK);
    nx_loop_lock(s->loop);
    config.loop = s->loop;
    config.random = &random->random;
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    memcpy(&config.listen, &to, sizeof(to));
    nxt_must(nx_quic_open(&s->quic, &config) == NEXAR_OK);
    to.sin_port = htons(nx_quic_port(s->quic));
    s->fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    nxt_must((s->fd >= 0) && (connect(s->fd, (struct sockaddr *)&to, sizeof(to)) == 0));
}

/* Sends the datagram, lets the endpoint handle it, and receives the answers. */
static void say(stage *s, const uint8_t *data, size_t len)
{
    uint8_t answer[1 << 16];
    ssize_t got;

    nxt_must(send(s->fd, data, len, 0) == (ssize_t)len);
    nx_loop_kick(s->loop);
    nx_loop_kick(s->loop);
    while ((got = recv(s->fd, answer, sizeof(answer), 0)) > 0) {
        s->answered += (size_t)got;
    }
    s->said += len;
    nxt_must(s->answered <= 3 * s->said); /* RFC 9000, 8.1; some of it arrives later */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const nx_job_id job = {{1}};
    static nx_authority *authority; /* kept: making one costs a millisecond */
    nx_reader r = nx_reader_make(data, size);
    nx_random_seeded random;
    stage s = {0};

    nx_log_set_level(NX_LOG_ERROR);
    if (authority == NULL) {
        nxt_must(nx_authority_create(&authority, &job) == NEXAR_OK);
    }
    begin(&s, authority, &random);
    while (nx_reader_left(&r) > 2) {
        uint8_t datagram[MOST] = {0};
        const uint16_t how = nx_read_u16(&r);
        const size_t want = how % MOST, left = nx_reader_left(&r);
        size_t len = (want < left) ? want : left;

        if (len > 0) {
            memcpy(datagram, nx_read_bytes(&r, len), len);
        }
        len = (((how & PADDED) != 0) && (len < FIRST)) ? FIRST : len;
        s.clock.ns += ((how & LATER) != 0) ? UINT64_C(1000000000) : 1000;
        say(&s, datagram, len);
    }
    nx_quic_close(s.quic);
    (void)close(s.fd);
    nx_loop_kick(s.loop);
    nx_loop_unlock(s.loop);
    nx_loop_destroy(s.loop);
    return 0;
}
