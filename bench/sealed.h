/*
 * sealed.h - internals of sealed_ceiling: ranks that only transfer bytes to each other.
 *
 *   sealed_ceiling.c  arguments, processes, rounds, figures
 *   sealed_key.c      AES-128-GCM, by the implementation that nexar uses on this CPU
 *   sealed_udp.c      datagrams; shared memory shows all ranks the number in flight
 *   sealed_tcp.c      records of 16 KiB, a connection for each pair
 */
#ifndef NXB_SEALED_H
#define NXB_SEALED_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    NXB_RANKS_MOST = 16,
    NXB_ROUNDS_MOST = 4096,
    NXB_TAG = 16,
    NXB_BATCH = 65536, /* bytes of a system call, and room for any datagram */
};

/* A key. NULL stands for a key that only copies. */
typedef struct nxb_key nxb_key;
nxb_key *nxb_key_create(void);
/* What identifies a record: |number| is never used twice for a pair. */
typedef struct nxb_record {
    uint64_t pair, number;
    const uint8_t *head;
    size_t head_len;
} nxb_record;
/* |out| gets |len| bytes, and the tag if there is a key. */
void nxb_seal(nxb_key *key, const nxb_record *record, const uint8_t *in, size_t len, uint8_t *out);
/* The reverse; |len| is that of the plain bytes. */
void nxb_open(nxb_key *key, const nxb_record *record, const uint8_t *in, size_t len, uint8_t *out);

/* One direction between two ranks in one round: |len| bytes at |at|, |times| times. */
typedef struct nxb_flow {
    uint8_t *at;
    size_t len, times;
    size_t done;   /* bytes sealed or opened */
    size_t unsent; /* sealed bytes that the socket has not accepted yet, with tags and heads */
    uint64_t number, base; /* of datagrams or records: in all, and before this round */
} nxb_flow;

/* Shared by all processes. |got| [a][b]: datagrams of a that b has received, in all. */
typedef struct nxb_common {
    atomic_uint arrived, round;
    atomic_bool over;
    _Alignas(64) atomic_ulong got[NXB_RANKS_MOST][NXB_RANKS_MOST];
    double us[NXB_RANKS_MOST][NXB_ROUNDS_MOST];
    struct sockaddr_in at[NXB_RANKS_MOST];
} nxb_common;

typedef struct nxb_rank {
    nxb_common *all;
    nxb_key *key;
    size_t me, n;
    size_t part; /* plain bytes of a datagram */
    nxb_flow out[NXB_RANKS_MOST], in[NXB_RANKS_MOST];
    int fd;                   /* of UDP */
    int fds[NXB_RANKS_MOST];  /* of TCP, by peer */
    uint8_t *packet, *buffer; /* send and receive buffers */
    struct nxb_pipe *pipes;   /* of TCP, by peer */
    size_t last;              /* the receiver of the last datagram */
} nxb_rank;

_Noreturn void nxb_give_up(const char *what);
void *nxb_memory(size_t bytes);

static inline size_t nxb_flow_left(const nxb_flow *f)
{
    return f->len * f->times - f->done;
}

/* The next piece of |f|: at most |most| bytes, all of one message. */
static inline size_t nxb_flow_piece(const nxb_flow *f, size_t most)
{
    const size_t left = f->len - f->done % f->len;

    return (left < most) ? left : most;
}

/* A transport. push and pull move as many bytes as possible without waiting; true: some were
 * moved. */
typedef struct nxb_over {
    const char *name;
    void (*prepare)(nxb_rank *ranks, size_t n); /* sockets of all ranks; before the forks */
    void (*start)(nxb_rank *r);                 /* in its process */
    bool (*push)(nxb_rank *r);
    bool (*pull)(nxb_rank *r);
} nxb_over;

extern const nxb_over nxb_over_udp, nxb_over_tcp;

#endif /* NXB_SEALED_H */
