/* host_world.h - for tests: communicators with host collectives. */
#ifndef NXT_HOST_WORLD_H
#define NXT_HOST_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

/* The number of host collectives of |comm|; 0 without a board. */
uint64_t nxt_host_count(const nexar_comm *comm);

/* Runs collectives until all ranks use the board; fails after a time limit. */
void nxt_host_warm_up(nexar_comm *w);

/* Runs |fn| on |n| ranks of a world with a setting. */
void nxt_host_with_setting(int n, const char *name, const char *value,
                           void (*fn)(nexar_comm *w, void *arg));

/* Allocates shared or private memory, so that tests cover every access path. */
void *nxt_host_take(nexar_comm *w, bool shared, size_t bytes);
void nxt_host_give_back(nexar_comm *w, bool shared, void *at);

#endif /* NXT_HOST_WORLD_H */
