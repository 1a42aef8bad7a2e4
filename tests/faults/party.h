/* party.h - the processes of a test: on hosts, with settings; they end with the test. */
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

/* The seed's message to joiners, in memory that processes share. */
typedef struct nxt_seed_place {
    char join[1024];
    _Atomic bool ready;
} nxt_seed_place;

typedef struct nxt_process {
    pid_t pid; /* 0: not started, or reaped */
    int said;  /* a file: its stderr; 0: none */
} nxt_process;

/* Starts a process on host |host|, which is killed when this one ends.  Returns false in the new
 * process. */
bool nxt_process_start(nxt_process *p, const nxt_hosts *hosts, int host);
/* Prints the process's output to stderr; only the end if it is long. */
void nxt_process_tell(const nxt_process *p);
/* Kills the process, if it runs, and discards its output. */
void nxt_process_end(nxt_process *p, int *status);

/* A live child of this process other than |but|; 0: none. */
pid_t nxt_find_child(pid_t but);

/* Settings of this process: "name=value name=value", and a single one. */
void nxt_set_all(const char *settings);
void nxt_set(const char *name, const char *value);

/* Runs a seed for |ranks|, until it is killed. */
_Noreturn void nxt_be_seed(nxt_seed_place *place, int ranks);

/* Connects every rank to every other: then all worlds of one size use the same resources. */
nexar_err nxt_link_all(nexar_comm *w);

/* CLOCK_MONOTONIC, and a pause for processes that poll shared memory. */
uint64_t nxt_now_ns(void);
void nxt_nap(void);
/* Of a process, 0: this one; -1: it does not exist. */
int nxt_open_files(pid_t pid);
/* The open descriptors of this process, as text. */
void nxt_name_files(char *text, size_t size);
long nxt_resident_kib(pid_t pid);

#endif /* NXT_PARTY_H */
