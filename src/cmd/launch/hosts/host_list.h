/*
 * host_list.h - the hosts of a job: names, slots, and which ranks run where.
 *
 * An entry of a list is [USER@]NAME[:SLOTS]; an IPv6 address stands in brackets.  Without SLOTS a
 * host has one.  A host that is named again gets the slots of both entries, at its first place.
 */
#ifndef NX_HOST_LIST_H
#define NX_HOST_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { NX_HOST_MAX = 256, NX_HOST_SLOTS_MAX = 4096, NX_HOST_RANKS_MAX = 65536 };

typedef struct nx_host {
    char target[NX_HOST_MAX]; /* what ssh takes: USER@NAME, an address without brackets */
    const char *name;         /* the same without USER@; in |target| */
    uint32_t slots;
    uint32_t first, ranks; /* ranks first to first + ranks - 1 run there */
} nx_host;

/* Zero-initialised is empty. */
typedef struct nx_host_list {
    nx_host **hosts;
    size_t n, room;
} nx_host_list;

void nx_host_list_fini(nx_host_list *list);

/* Adds one host.  NEXAR_EINVAL: it is no host name; NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_host_list_add(nx_host_list *list, const char *target, uint64_t slots);

/* Adds the entries of "node1:4,user@node2,[fd00::3]:2".  NEXAR_EINVAL: names the bad entry;
 * NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_host_list_parse(nx_host_list *list, const char *text);

/*
 * Adds the lines of the file |path|: "node1", "node1:4" (MPICH), "node1 slots=4 max_slots=8" (Open
 * MPI); "-" is standard input.  '#' begins a comment.
 *
 * NEXAR_EINVAL
 *     A bad line, or no host at all: the sentence names file and line.
 * NEXAR_ESYS, NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_host_list_read(nx_host_list *list, const char *path);

uint64_t nx_host_list_slots(const nx_host_list *list);

/* Gives |n| ranks to the hosts in their order, to each as many as it has slots; 0: as many as there
 * are slots.  Hosts that get none leave the list.  NEXAR_EINVAL: there are fewer slots. */
NX_MUST_CHECK nexar_err nx_host_list_assign(nx_host_list *list, uint64_t n);

/* Whether |host| is this machine: localhost, its host name, or an address of an interface.  A host
 * with USER@ is not: it is another user's. */
bool nx_host_is_here(const nx_host *host);

#endif /* NX_HOST_LIST_H */
