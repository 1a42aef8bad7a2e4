/*
 * block.c - memory for messages of unknown length.
 *
 * Large blocks are kept when they are released.  The next object of that size then needs no new
 * pages from the kernel, which cost as much as the transfer.  A program that receives into one
 * object while it holds the previous one alternates between two blocks.
 */
#include "binding.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    KEPT = 4,        /* kept blocks, ... */
    LARGE = 1 << 20, /* ... each of at least this size: malloc allocates smaller ones */
    HUGE_PAGE = 2 << 20,
    HEAD = 64 /* before each block: its size; the block is aligned to a cache line */
};

typedef struct block {
    size_t size; /* including the head; 0: allocated by malloc */
} block;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block *kept[KEPT]; /* the most recent first */

static block *map_block(size_t bytes)
{
    const size_t page = (bytes >= HUGE_PAGE) ? HUGE_PAGE : (size_t)getpagesize();
    const size_t size = (bytes + page - 1) / page * page;
    block *b = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (b == MAP_FAILED) {
        return NULL;
    }
    (void)madvise(b, size, MADV_HUGEPAGE); /* an optimisation: fewer page faults */
    b->size = size;
    return b;
}

/* A kept block for |bytes|, larger by at most an eighth and a huge page; NULL: none. */
static block *find_kept(size_t bytes)
{
    block *found = NULL;

    (void)pthread_mutex_lock(&lock);
    for (size_t i = 0; (found == NULL) && (i < KEPT) && (kept[i] != NULL); i++) {
        if ((kept[i]->size >= bytes) && (kept[i]->size - bytes <= bytes / 8 + HUGE_PAGE)) {
            found = kept[i];
            for (; i + 1 < KEPT; i++) {
                kept[i] = kept[i + 1];
            }
            kept[KEPT - 1] = NULL;
        }
    }
    (void)pthread_mutex_unlock(&lock);
    return found;
}

void *nxp_block_take(size_t bytes, void *unused)
{
    block *b;

    (void)unused;
    if (bytes > (size_t)PY_SSIZE_T_MAX - HUGE_PAGE - HEAD) {
        return NULL;
    }
    if (bytes < LARGE) {
        b = malloc(HEAD + bytes);
        if (b != NULL) {
            b->size = 0;
        }
    } else {
        b = find_kept(HEAD + bytes);
        b = (b != NULL) ? b : map_block(HEAD + bytes);
    }
    return (b != NULL) ? (char *)b + HEAD : NULL;
}

void nxp_block_give(void *at)
{
    block *b = (block *)(void *)((char *)at - HEAD), *oldest;

    if (b->size == 0) {
        free(b);
        return;
    }
    (void)pthread_mutex_lock(&lock);
    oldest = kept[KEPT - 1];
    for (size_t i = KEPT - 1; i > 0; i--) {
        kept[i] = kept[i - 1];
    }
    kept[0] = b;
    (void)pthread_mutex_unlock(&lock);
    if (oldest != NULL) {
        (void)munmap(oldest, oldest->size);
    }
}
