/*
 * sim_memory.h - memory of a simulated device. A CPU access to its addresses faults; its bytes
 * are in another mapping.
 */
#ifndef NXT_SIM_MEMORY_H
#define NXT_SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

typedef struct nxt_sim_memory {
    char *device; /* PROT_NONE */
    char *real;   /* the same pages */
    size_t bytes, used;
} nxt_sim_memory;

/* False: out of memory. */
bool nxt_sim_memory_init(nxt_sim_memory *mem, size_t bytes);
void nxt_sim_memory_fini(nxt_sim_memory *mem);

/* |bytes| at a multiple of 256, not cleared; NULL: none left. Freed only with |mem|. */
void *nxt_sim_memory_alloc(nxt_sim_memory *mem, size_t bytes);
void nxt_sim_memory_reset(nxt_sim_memory *mem);

/* The host address of |bytes| at the device address |dev|; NULL: not entirely in this memory. */
char *nxt_sim_memory_real(const nxt_sim_memory *mem, const void *dev, size_t bytes);

/* Whether any of the |bytes| at |ptr| has a device address. */
bool nxt_sim_memory_touches(const nxt_sim_memory *mem, const void *ptr, size_t bytes);

#endif /* NXT_SIM_MEMORY_H */
