/*
 * ptx_run.h - runs the PTX that nexar-cuda is made of, one thread after the other, as
 * the PTX ISA says: the instructions that it uses, and no others.
 */
#ifndef NXT_PTX_RUN_H
#define NXT_PTX_RUN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct nxt_ptx_entry nxt_ptx_entry;

enum { NXT_PTX_PARAMS = 8 };

/* The entry |name| of the module |text|, read; NULL: there is none, or it has something
 * that is not understood, and |why| (of 128 bytes) says what. */
nxt_ptx_entry *nxt_ptx_read(const char *text, const char *name, char *why);
void nxt_ptx_free(nxt_ptx_entry *entry);

size_t nxt_ptx_nparams(const nxt_ptx_entry *entry);

/* Where it runs. */
typedef struct nxt_ptx_launch {
    uint32_t grid, block; /* in x */
    uint64_t params[NXT_PTX_PARAMS];
    /* The memory behind |bytes| at a device address; NULL: none. */
    void *(*memory)(void *ctx, uint64_t address, size_t bytes);
    void *ctx;
} nxt_ptx_launch;

/* False: an access to memory that is not there, or that is not aligned. */
bool nxt_ptx_run(const nxt_ptx_entry *entry, const nxt_ptx_launch *launch);

#endif /* NXT_PTX_RUN_H */
