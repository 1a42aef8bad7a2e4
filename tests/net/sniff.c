/*
 * sniff.c - listens on every interface of its network namespace and counts the
 * packets in which a text stands.
 *
 *     sniff TEXT...
 *
 * Prints "ready", listens until its standard input ends, then prints one line
 * "packets N bytes B" and for each text "found N TEXT-NUMBER".
 */
#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static unsigned char data[65536 + 64];
    unsigned long long packets = 0, bytes = 0, found[16] = {0};
    int room = 64 << 20;
    int fd = socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL));

    if ((fd < 0) || (argc > 16)) {
        perror("sniff");
        return 1;
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room));
    (void)printf("ready\n");
    (void)fflush(stdout);
    for (;;) {
        struct pollfd polls[2] = {{.fd = fd, .events = POLLIN},
                                  {.fd = STDIN_FILENO, .events = POLLIN}};

        (void)poll(polls, 2, -1);
        if (polls[0].revents != 0) {
            ssize_t len = recv(fd, data, sizeof(data), 0);

            packets += (len > 0);
            bytes += (len > 0) ? (unsigned long long)len : 0;
            for (int i = 1; (len > 0) && (i < argc); i++) {
                found[i] += memmem(data, (size_t)len, argv[i], strlen(argv[i])) != NULL;
            }
        } else if (polls[1].revents != 0) {
            break;
        }
    }
    (void)printf("packets %llu bytes %llu\n", packets, bytes);
    for (int i = 1; i < argc; i++) {
        (void)printf("found %llu text %d\n", found[i], i);
    }
    (void)close(fd);
    return 0;
}
