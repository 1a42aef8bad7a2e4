/*
 * sniff.c - listens on every interface of its network namespace and counts the packets that contain
 * given bytes.
 *
 *     sniff TEXT|hex:DIGITS...
 *
 * Prints "ready", listens until its standard input ends, then prints one line
 * "packets N bytes B missed M" and for each pattern "found N pattern I".
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MOST_PATTERNS = 16, MOST_LENGTH = 256 };

static struct pattern {
    unsigned char bytes[MOST_LENGTH];
    size_t len;
    unsigned long long found;
} patterns[MOST_PATTERNS];
static int npatterns;
static unsigned long long packets, bytes;

static int add_pattern(const char *text)
{
    struct pattern *p = &patterns[npatterns++];
    unsigned byte;

    if (strncmp(text, "hex:", 4) != 0) {
        p->len = strnlen(text, MOST_LENGTH);
        memcpy(p->bytes, text, p->len);
        return 0;
    }
    for (text += 4; (p->len < MOST_LENGTH) && (sscanf(text, "%2x", &byte) == 1); text += 2) {
        p->bytes[p->len++] = (unsigned char)byte;
        if (text[1] == '\0') {
            return -1;
        }
    }
    return (*text == '\0') ? 0 : -1;
}

static void look(int fd)
{
    static unsigned char data[65536 + 64];
    ssize_t len = recv(fd, data, sizeof(data), 0);

    if (len <= 0) {
        return;
    }
    packets++;
    bytes += (unsigned long long)len;
    for (int i = 0; i < npatterns; i++) {
        patterns[i].found += memmem(data, (size_t)len, patterns[i].bytes, patterns[i].len) != NULL;
    }
}

int main(int argc, char **argv)
{
    struct tpacket_stats stats = {0};
    socklen_t size = sizeof(stats);
    int room = 64 << 20;
    int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));

    if ((fd < 0) || (argc > MOST_PATTERNS)) {
        perror("sniff");
        return 1;
    }
    for (int i = 1; i < argc; i++) {
        if (add_pattern(argv[i]) != 0) {
            (void)fprintf(stderr, "sniff: not hexadecimal: %s\n", argv[i]);
            return 1;
        }
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
    (void)printf("ready\n");
    (void)fflush(stdout);
    for (;;) {
        struct pollfd polls[2] = {{.fd = fd, .events = POLLIN},
                                  {.fd = STDIN_FILENO, .events = POLLIN}};

        (void)poll(polls, 2, -1);
        if (polls[0].revents != 0) {
            look(fd);
        } else if (polls[1].revents != 0) {
            break;
        }
    }
    (void)getsockopt(fd, SOL_PACKET, PACKET_STATISTICS, &stats, &size);
    (void)printf("packets %llu bytes %llu missed %u\n", packets, bytes, stats.tp_drops);
    for (int i = 0; i < npatterns; i++) {
        (void)printf("found %llu pattern %d\n", patterns[i].found, i + 1);
    }
    (void)close(fd);
    return 0;
}
