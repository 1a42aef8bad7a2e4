/*
 * ptx_run.h - interprets the PTX of nexar-cuda, one thread after the other, as the PTX ISA
 * defines. It supports only the instructions that nexar-cuda uses.
 */
#ifndef NXT_PTX_RUN_H
#define NXT_PTX_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nxt_ptx_entry nxt_ptx_entry;

enum { NXT_PTX_PARAMS = 8 };

/* Parses the entry |name| of the module |text|. NULL: there is none, or it has an unsupported
 * instruction, which |why| (128 bytes) names. */
nxt_ptx_entry *nxt_ptx_read(const char *text, const char *name, char *why);
void nxt_ptx_free(nxt_ptx_entry *entry);

size_t nxt_ptx_nparams(const nxt_ptx_entry *entry);

/* The parameters of a launch. */
typedef struct nxt_ptx_launch {
    uint32_t grid, block; /* in x */
    uint64_t params[NXT_PTX_PARAMS];
    /* The memory behind |bytes| at a device address; NULL: none. */
    void *(*memory)(void *ctx, uint64_t address, size_t bytes);
    void *ctx;
} nxt_ptx_launch;

/* False: an access to unmapped memory, or an unaligned one. */
bool nxt_ptx_run(const nxt_ptx_entry *entry, const nxt_ptx_launch *launch);

#endif /* NXT_PTX_RUN_H */
