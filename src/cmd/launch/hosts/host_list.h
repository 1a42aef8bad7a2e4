/*
 * host_list.h - the hosts of a job: names, slots, and the ranks of each host.
 *
 * An entry of a list is [USER@]NAME[:SLOTS]; an IPv6 address is in brackets. Without SLOTS a host
 * has one slot. A host that appears twice gets the slots of both entries, at its first position.
 */
#ifndef NX_HOST_LIST_H
#define NX_HOST_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { NX_HOST_MAX = 256, NX_HOST_SLOTS_MAX = 4096, NX_HOST_RANKS_MAX = 65536 };

typedef struct nx_host {
    char target[NX_HOST_MAX]; /* the argument of ssh: USER@NAME, an address without brackets */
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
 *     A bad line, or no host at all: the message names file and line.
 * NEXAR_ESYS, NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_host_list_read(nx_host_list *list, const char *path);

uint64_t nx_host_list_slots(const nx_host_list *list);

/* Assigns |n| ranks to the hosts in order, to each up to its number of slots; 0: one rank per
 * slot. Removes hosts without ranks. NEXAR_EINVAL: there are fewer slots. */
NX_MUST_CHECK nexar_err nx_host_list_assign(nx_host_list *list, uint64_t n);

/* Whether |host| is this machine: localhost, its host name, or an address of an interface. A
 * host with USER@ does not count: it names another account. */
bool nx_host_is_here(const nx_host *host);

#endif /* NX_HOST_LIST_H */
