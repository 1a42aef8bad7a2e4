/*
 * flood.c - sends garbage to UDP ports until its standard input ends.
 *
 *     flood ADDRESS:PORT...
 *
 * A third are random bytes, a third look like the first packet of a QUIC client
 * (so that the receiver needs a key and a decryption to reject them), a third like
 * packets of an unknown connection.  The sequence is always the same.  Prints "ready" after
 * the first thousand packets, and "sent N" at the end.
 */
#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_TARGETS = 8, LENGTH = 1200, BURST = 100 };

static uint64_t state = 88172645463325252U;

static uint64_t next(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* RFC 9000, 17.2.2: an Initial of version 1 with ids of 8 and 18 bytes, no token. */
static void disguise(uint8_t *packet, uint64_t kind)
{
    static const uint8_t initial[] = {0xc3, 0, 0, 0, 1, 8};

    if (kind == 1) {
        memcpy(packet, initial, sizeof(initial));
        packet[14] = 18; /* the length of the source's id, after the destination's */
        packet[33] = 0;  /* no token */
        packet[34] = 0x44;
        packet[35] = 0x8c; /* a length of 1164: everything that follows */
    } else if (kind == 2) {
        packet[0] = (uint8_t)(0x40 | (packet[0] & 0x3f));
    }
}

static size_t make_packet(uint8_t *packet)
{
    const uint64_t kind = next() % 3;

    for (size_t i = 0; i < LENGTH; i += sizeof(state)) {
        uint64_t word = next();

        memcpy(packet + i, &word, sizeof(word));
    }
    disguise(packet, kind);
    return (kind == 1) ? LENGTH : 1 + next() % LENGTH;
}

static int open_target(char *text)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char *colon = strrchr(text, ':');
    int fd = socket(AF_INET, SOCK_DGRAM, 0);

    if (colon != NULL) {
        *colon = '\0';
        to.sin_port = htons((uint16_t)atoi(colon + 1));
    }
    if ((fd < 0) || (inet_pton(AF_INET, text, &to.sin_addr) != 1) ||
        (connect(fd, (struct sockaddr *)&to, sizeof(to)) != 0)) {
        perror(text);
        exit(1);
    }
    return fd;
}

int main(int argc, char **argv)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    int fds[MOST_TARGETS], n = 0;
    unsigned long long sent = 0;
    uint8_t packet[LENGTH];

    for (int i = 1; (i < argc) && (n < MOST_TARGETS); i++) {
        fds[n++] = open_target(argv[i]);
    }
    /* A pause after each burst: a saturated network is a different test. */
    while ((n > 0) && (poll(&input, 1, 1) == 0)) {
        for (int i = 0; i < BURST; i++) {
            (void)!send(fds[i % n], packet, make_packet(packet), MSG_DONTWAIT);
        }
        sent += BURST;
        if (sent == 1000) {
            (void)printf("ready\n");
            (void)fflush(stdout);
        }
    }
    (void)printf("sent %llu\n", sent);
    return 0;
}
