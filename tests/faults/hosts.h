/*
 * hosts.h - hosts for test programs: anonymous network namespaces, connected by the wire of
 * tests/net/wire.c.  A namespace ends with its last process, however that process ends.
 */
#ifndef NXT_HOSTS_H
#define NXT_HOSTS_H

#include <stdbool.h>
#include <sys/types.h>

enum { NXT_HOSTS_MOST = 8 };

typedef struct nxt_hosts {
    int n, namespaces[NXT_HOSTS_MOST];
    pid_t wire;
    int orders, answers; /* pipes to and from it */
} nxt_hosts;

/* Creates |n| hosts, 10.90.0.1 and up, on a wire that the program |wire| runs; hosts of two calls
 * are not connected.  False: not possible here; the reason is on stderr. */
bool nxt_hosts_open(nxt_hosts *h, int n, const char *wire);

/* Moves this process to host |i|. */
void nxt_hosts_enter(const nxt_hosts *h, int i);

/* |word| is cut, mute (frames from the host are lost), deaf (frames to the host are lost) or heal;
 * in effect on return. */
void nxt_hosts_order(nxt_hosts *h, const char *word, int i);

/* The number of abstract sockets on host |i|. */
int nxt_hosts_sockets(const nxt_hosts *h, int i);

void nxt_hosts_close(nxt_hosts *h);

#endif /* NXT_HOSTS_H */
