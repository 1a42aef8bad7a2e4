/* state_undo.c - saves and restores memory, in leaves. */
#include "core/state/state_undo.h"

#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "core/state/state_digests.h"

/* Fresh pages cost more than the copy that fills them: uses huge pages where the kernel has
 * them. */
enum { COPY_ALIGN = 2 << 20 };

struct nx_state_leaf {
    uint8_t *at;
    size_t len;
    uint8_t *copy; /* NULL: it repeats ... */
    uint64_t word; /* ... this word */
    bool uniform;
};

static void look_at(void *ctx, size_t index)
{
    nx_state_leaf *leaf = &((nx_state_undo *)ctx)->leaves[index];

    if ((leaf->len > sizeof(leaf->word)) &&
        (memcmp(leaf->at, leaf->at + sizeof(leaf->word), leaf->len - sizeof(leaf->word)) == 0)) {
        memcpy(&leaf->word, leaf->at, sizeof(leaf->word));
        leaf->uniform = true;
    }
}

static void keep(void *ctx, size_t index)
{
    nx_state_leaf *leaf = &((nx_state_undo *)ctx)->leaves[index];

    if (leaf->copy != NULL) {
        memcpy(leaf->copy, leaf->at, leaf->len);
    }
}

/* Fills |len| bytes with copies of |word|. */
static void fill(uint8_t *at, uint64_t word, size_t len)
{
    size_t done = sizeof(word);

    memcpy(at, &word, sizeof(word));
    while (done < len) {
        const size_t more = (len - done < done) ? len - done : done;

        memcpy(at + done, at, more);
        done += more;
    }
}

static void put_back(void *ctx, size_t index)
{
    const nx_state_leaf *leaf = &((const nx_state_undo *)ctx)->leaves[index];

    if (leaf->copy != NULL) {
        memcpy(leaf->at, leaf->copy, leaf->len);
    } else {
        fill(leaf->at, leaf->word, leaf->len);
    }
}

static nexar_err keep_device(nx_state_undo *u)
{
    nexar_err err = NEXAR_OK;

    for (size_t i = 0; (i < u->n) && (err == NEXAR_OK); i++) {
        err = nx_device_read(u->mem, u->leaves[i].copy, u->leaves[i].at, u->leaves[i].len);
    }
    return err;
}

/* Divides |regions| into leaves.  NEXAR_ENOMEM */
static nexar_err cut(nx_state_undo *u, const nexar_iov *regions, size_t n)
{
    size_t leaves = 0;

    for (size_t i = 0; i < n; i++) {
        leaves += (regions[i].bytes + NX_STATE_LEAF - 1) / NX_STATE_LEAF;
    }
    u->leaves = nx_calloc(leaves, sizeof(*u->leaves));
    for (size_t i = 0; (i < n) && (u->leaves != NULL); i++) {
        for (size_t off = 0; off < regions[i].bytes; off += NX_STATE_LEAF) {
            const size_t left = regions[i].bytes - off;

            u->leaves[u->n++] =
                (nx_state_leaf){.at = (uint8_t *)regions[i].ptr + off,
                                .len = (left < NX_STATE_LEAF) ? left : NX_STATE_LEAF};
        }
    }
    return (u->leaves == NULL) ? NEXAR_ENOMEM : NEXAR_OK;
}

/* Copies each leaf that needs a copy.  NEXAR_ENOMEM */
static nexar_err take_memory(nx_state_undo *u)
{
    size_t bytes = 0;

    for (size_t i = 0; i < u->n; i++) {
        bytes += u->leaves[i].uniform ? 0 : u->leaves[i].len;
    }
    if (bytes == 0) {
        return NEXAR_OK;
    }
    u->copies = nx_alloc_aligned((bytes < COPY_ALIGN) ? sizeof(uint64_t) : COPY_ALIGN, bytes);
    if (u->copies == NULL) {
        return NEXAR_ENOMEM;
    }
    if (bytes >= COPY_ALIGN) {
        (void)madvise(u->copies, bytes, MADV_HUGEPAGE); /* a kernel without huge pages refuses */
    }
    for (size_t i = 0, off = 0; i < u->n; i++) {
        u->leaves[i].copy = u->leaves[i].uniform ? NULL : u->copies + off;
        off += u->leaves[i].uniform ? 0 : u->leaves[i].len;
    }
    return NEXAR_OK;
}

nexar_err nx_state_undo_init(nx_state_undo *u, nx_devmem mem, const nexar_iov *regions, size_t n,
                             unsigned threads)
{
    const bool host = (mem.device == NULL);
    nexar_err err;

    *u = (nx_state_undo){.mem = mem, .threads = threads};
    err = cut(u, regions, n);
    if ((err == NEXAR_OK) && host) {
        nx_parallel(u->n, threads, look_at, u);
    }
    err = (err == NEXAR_OK) ? take_memory(u) : err;
    if (err != NEXAR_OK) {
        err = nx_fail_nomem("a copy of the tensors that state_sync replaces");
    } else if (host) {
        nx_parallel(u->n, threads, keep, u);
    } else {
        err = keep_device(u);
    }
    if (err != NEXAR_OK) {
        nx_state_undo_fini(u);
    }
    return err;
}

nexar_err nx_state_undo_restore(const nx_state_undo *u)
{
    nexar_err err = NEXAR_OK;

    if (u->mem.device == NULL) {
        nx_parallel(u->n, u->threads, put_back, (void *)(uintptr_t)u);
        return NEXAR_OK;
    }
    for (size_t i = 0; (i < u->n) && (err == NEXAR_OK); i++) {
        err = nx_device_write(u->mem, u->leaves[i].at, u->leaves[i].copy, u->leaves[i].len);
    }
    return err;
}

void nx_state_undo_fini(nx_state_undo *u)
{
    nx_free(u->leaves);
    nx_free(u->copies);
    *u = (nx_state_undo){0};
}
