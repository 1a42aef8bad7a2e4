/*
 * hosts.h - hosts for programs that test: network namespaces without a name, on the wire of
 * tests/net/wire.c.  They end with the last process in them, however that ends.
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

/* |n| hosts, 10.90.0.1 and on, on the wire that the program |wire| is; those of two calls do
 * not see each other.  false: not possible here, and why is said on stderr. */
bool nxt_hosts_open(nxt_hosts *h, int n, const char *wire);

/* This process is on host |i| from now on. */
void nxt_hosts_enter(const nxt_hosts *h, int i);

/* |word| is cut, mute (what it sends is lost), deaf (what it is sent is lost) or heal, in
 * effect when the call returns. */
void nxt_hosts_order(nxt_hosts *h, const char *word, int i);

/* How many abstract sockets there are on host |i|. */
int nxt_hosts_sockets(const nxt_hosts *h, int i);

void nxt_hosts_close(nxt_hosts *h);

#endif /* NXT_HOSTS_H */
