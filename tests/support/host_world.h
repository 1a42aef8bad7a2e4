/* host_world.h - for tests: communicators whose collectives are direct. */
#ifndef NXT_HOST_WORLD_H
#define NXT_HOST_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

/* How many collectives of |comm| were direct; 0 without a board. */
uint64_t nxt_host_count(const nexar_comm *comm);

/* Until all ranks use the board; fails if it is not there after a while. */
void nxt_host_warm_up(nexar_comm *w);

/* |fn| on |n| ranks of a world with a setting. */
void nxt_host_with_setting(int n, const char *name, const char *value,
                           void (*fn)(nexar_comm *w, void *arg));

/* Memory of one kind or the other: all ways of getting at it meet. */
void *nxt_host_take(nexar_comm *w, bool shared, size_t bytes);
void nxt_host_give_back(nexar_comm *w, bool shared, void *at);

#endif /* NXT_HOST_WORLD_H */
