/* party.h - the processes of a test: on hosts, with settings, gone when the test is. */
#ifndef NXT_PARTY_H
#define NXT_PARTY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <nexar.h>

#include "hosts.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define NXT_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define NXT_SANITIZED 1
#endif
#ifndef NXT_SANITIZED
#define NXT_SANITIZED 0
#endif

/* What a seed tells those who join; in memory that processes share. */
typedef struct nxt_seed_place {
    char join[1024];
    _Atomic bool ready;
} nxt_seed_place;

typedef struct nxt_process {
    pid_t pid; /* 0: none, or reaped */
    int said;  /* a file: what it writes to stderr; 0: none */
} nxt_process;

/* A process on host |host|, which is killed when this one ends.  false in it. */
bool nxt_process_start(nxt_process *p, const nxt_hosts *hosts, int host);
/* Writes to stderr what it has said, the end of it if that is much. */
void nxt_process_tell(const nxt_process *p);
/* Kills it, if it is there, and forgets what it wrote. */
void nxt_process_end(nxt_process *p, int *status);

/* A child of this process that has not ended, other than |but|; 0: there is none. */
pid_t nxt_find_child(pid_t but);

/* For this process: "name=value name=value", and one alone. */
void nxt_set_all(const char *settings);
void nxt_set(const char *name, const char *value);

/* Is a seed for |ranks|, until it is killed. */
_Noreturn void nxt_be_seed(nxt_seed_place *place, int ranks);

/* A link from everybody to everybody: then all worlds of one size need the same. */
nexar_err nxt_link_all(nexar_comm *w);

/* CLOCK_MONOTONIC, and a moment for those who wait for memory that is shared. */
uint64_t nxt_now_ns(void);
void nxt_nap(void);
/* Of a process, 0: this one; -1: it is not there. */
int nxt_open_files(pid_t pid);
/* What this process has open, in words. */
void nxt_name_files(char *text, size_t size);
long nxt_resident_kib(pid_t pid);

#endif /* NXT_PARTY_H */
