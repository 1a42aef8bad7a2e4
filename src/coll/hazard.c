/*
 * hazard.c - extents of equal history in a treap per space.
 *
 * Most steps access exactly the extent of an earlier step: one search finds that extent, and it is
 * changed in place. Otherwise the range is cut out of the tree, rewritten in order, and joined
 * again. Nodes and readers are in two arrays and referenced by index, so that a schedule of a
 * million steps costs a handful of allocations.
 */
#include "coll/hazard.h"

#include <assert.h>
#include <stdlib.h>

#include "base/alloc.h"

#define NIL UINT32_MAX

typedef struct extent {
    size_t lo, hi;
    nx_step_id writer;
    uint32_t readers; /* list of |reader|, newest first */
    uint32_t left, right;
    uint32_t priority;
} extent;

typedef struct reader {
    nx_step_id step;
    uint32_t next;
} reader;

struct nx_hazards {
    uint32_t roots[NX_SPACES];
    extent *extents;
    uint32_t nextents, extents_room, free_extents;
    reader *readers;
    uint32_t nreaders, readers_room, free_readers;
    nx_step_id *found;
    uint32_t nfound, found_room;
    uint32_t random;
};

nx_hazards *nx_hazards_create(void)
{
    nx_hazards *h = nx_zalloc(sizeof(*h));

    if (h != NULL) {
        for (int i = 0; i < NX_SPACES; i++) {
            h->roots[i] = NIL;
        }
        h->free_extents = NIL;
        h->free_readers = NIL;
        h->random = 2463534242U;
    }
    return h;
}

void nx_hazards_destroy(nx_hazards *h)
{
    if (h == NULL) {
        return;
    }
    nx_free(h->extents);
    nx_free(h->readers);
    nx_free(h->found);
    nx_free(h);
}

/* ---- the two pools ------------------------------------------------------------------- */

/* Makes room for one more; false: no memory. */
static bool reserve(void **array, uint32_t used, uint32_t *room, size_t size)
{
    if (used < *room) {
        return true;
    }
    uint32_t more = (*room == 0) ? 16 : 2 * *room;
    void *grown = (more > *room) ? nx_grow(*array, more, size) : NULL;

    if (grown == NULL) {
        return false;
    }
    *array = grown;
    *room = more;
    return true;
}

static uint32_t extent_new(nx_hazards *h, size_t lo, size_t hi, nx_step_id writer)
{
    uint32_t i = h->free_extents;

    if (i != NIL) {
        h->free_extents = h->extents[i].left;
    } else if (reserve((void **)&h->extents, h->nextents, &h->extents_room, sizeof(extent))) {
        i = h->nextents++;
    } else {
        return NIL;
    }
    /* xorshift: the shape of the tree needs no better randomness */
    h->random ^= h->random << 13;
    h->random ^= h->random >> 17;
    h->random ^= h->random << 5;
    h->extents[i] = (extent){.lo = lo,
                             .hi = hi,
                             .writer = writer,
                             .readers = NIL,
                             .left = NIL,
                             .right = NIL,
                             .priority = h->random};
    return i;
}

static bool reader_push(nx_hazards *h, uint32_t *list, nx_step_id step)
{
    uint32_t i = h->free_readers;

    if (i != NIL) {
        h->free_readers = h->readers[i].next;
    } else if (reserve((void **)&h->readers, h->nreaders, &h->readers_room, sizeof(reader))) {
        i = h->nreaders++;
    } else {
        return false;
    }
    h->readers[i] = (reader){.step = step, .next = *list};
    *list = i;
    return true;
}

static void readers_drop(nx_hazards *h, uint32_t *list)
{
    while (*list != NIL) {
        uint32_t i = *list;

        *list = h->readers[i].next;
        h->readers[i].next = h->free_readers;
        h->free_readers = i;
    }
}

static void extent_drop(nx_hazards *h, uint32_t i)
{
    readers_drop(h, &h->extents[i].readers);
    h->extents[i].left = h->free_extents;
    h->free_extents = i;
}

/* ---- the treap ----------------------------------------------------------------------- */

/* Splits tree |t| into the extents that begin before |key| and the others. */
static void split(nx_hazards *h, uint32_t t, size_t key, uint32_t *below, uint32_t *rest)
{
    uint32_t *to_below = below, *to_rest = rest;

    while (t != NIL) {
        extent *e = &h->extents[t];

        if (e->lo < key) {
            *to_below = t;
            to_below = &e->right;
            t = e->right;
        } else {
            *to_rest = t;
            to_rest = &e->left;
            t = e->left;
        }
    }
    *to_below = NIL;
    *to_rest = NIL;
}

/* Joins two trees; all of |a| is before all of |b|. */
static uint32_t join(nx_hazards *h, uint32_t a, uint32_t b)
{
    uint32_t root = NIL;
    uint32_t *at = &root;

    while ((a != NIL) && (b != NIL)) {
        if (h->extents[a].priority > h->extents[b].priority) {
            *at = a;
            at = &h->extents[a].right;
            a = *at;
        } else {
            *at = b;
            at = &h->extents[b].left;
            b = *at;
        }
    }
    *at = (a != NIL) ? a : b;
    return root;
}

/* The last extent that begins at or before |off|; NIL if there is none. */
static uint32_t find(const nx_hazards *h, nx_space space, size_t off)
{
    uint32_t t = h->roots[space], best = NIL;

    while (t != NIL) {
        const extent *e = &h->extents[t];

        if (e->lo <= off) {
            best = t;
            t = e->right;
        } else {
            t = e->left;
        }
    }
    return best;
}

/* Makes |off| a border: an extent that spans it becomes two. */
static bool cut(nx_hazards *h, nx_space space, size_t off)
{
    uint32_t i = find(h, space, off);

    if ((i == NIL) || (h->extents[i].lo == off) || (h->extents[i].hi <= off)) {
        return true;
    }

    uint32_t upper = extent_new(h, off, h->extents[i].hi, h->extents[i].writer);
    if (upper == NIL) {
        return false;
    }
    for (uint32_t r = h->extents[i].readers; r != NIL; r = h->readers[r].next) {
        if (!reader_push(h, &h->extents[upper].readers, h->readers[r].step)) {
            return false;
        }
    }
    h->extents[i].hi = off;

    uint32_t below, rest;
    split(h, h->roots[space], off, &below, &rest);
    h->roots[space] = join(h, join(h, below, upper), rest);
    return true;
}

/* ---- waits --------------------------------------------------------------------------- */

nexar_err nx_hazards_add(nx_hazards *h, nx_step_id step)
{
    if (!reserve((void **)&h->found, h->nfound, &h->found_room, sizeof(*h->found))) {
        return nx_fail_nomem("the waits of a schedule");
    }
    h->found[h->nfound++] = step;
    return NEXAR_OK;
}

static int by_number(const void *a, const void *b)
{
    nx_step_id x = *(const nx_step_id *)a, y = *(const nx_step_id *)b;

    return (x > y) - (x < y);
}

const nx_step_id *nx_hazards_take(nx_hazards *h, uint32_t *n)
{
    uint32_t kept = 0;

    if (h->nfound > 1) {
        qsort(h->found, h->nfound, sizeof(*h->found), by_number);
    }
    for (uint32_t i = 0; i < h->nfound; i++) {
        if ((kept == 0) || (h->found[kept - 1] != h->found[i])) {
            h->found[kept++] = h->found[i];
        }
    }
    h->nfound = 0;
    *n = kept;
    return h->found;
}

/* Adds the dependencies of a write to extent |i|. */
static bool add_before_write(nx_hazards *h, uint32_t i, nx_step_id step)
{
    const extent *e = &h->extents[i];

    if ((e->readers == NIL) && (e->writer != NX_NO_STEP) && (e->writer != step)) {
        return nx_hazards_add(h, e->writer) == NEXAR_OK;
    }
    for (uint32_t r = e->readers; r != NIL; r = h->readers[r].next) {
        if ((h->readers[r].step != step) && (nx_hazards_add(h, h->readers[r].step) != NEXAR_OK)) {
            return false;
        }
    }
    /* The step read this itself, so it already waits for the writer. */
    return true;
}

static bool read_extent(nx_hazards *h, uint32_t i, nx_step_id step)
{
    extent *e = &h->extents[i];

    if ((e->readers != NIL) && (h->readers[e->readers].step == step)) {
        return true;
    }
    if ((e->writer != NX_NO_STEP) && (nx_hazards_add(h, e->writer) != NEXAR_OK)) {
        return false;
    }
    return reader_push(h, &e->readers, step);
}

/* ---- reading ------------------------------------------------------------------------- */

/* A read range: the tree becomes |out|. */
typedef struct reading {
    size_t at; /* everything before it is done */
    nx_step_id step;
    uint32_t out;
} reading;

/* Elements [r->at, hi), which no step has accessed: records their reader. */
static bool read_gap(nx_hazards *h, reading *r, size_t hi)
{
    if (r->at >= hi) {
        return true;
    }
    uint32_t gap = extent_new(h, r->at, hi, NX_NO_STEP);

    if ((gap == NIL) || !reader_push(h, &h->extents[gap].readers, r->step)) {
        return false;
    }
    r->out = join(h, r->out, gap);
    r->at = hi;
    return true;
}

/* Moves tree |t| in order into |r->out|, each extent with its new reader.  The
 * depth of a treap is logarithmic, so recursion is safe. */
static bool read_tree(nx_hazards *h, uint32_t t, reading *r) // NOLINT(misc-no-recursion)
{
    if (t == NIL) {
        return true;
    }
    uint32_t left = h->extents[t].left, right = h->extents[t].right;

    if (!read_tree(h, left, r) || !read_gap(h, r, h->extents[t].lo) ||
        !read_extent(h, t, r->step)) {
        return false;
    }
    h->extents[t].left = NIL;
    h->extents[t].right = NIL;
    r->at = h->extents[t].hi;
    r->out = join(h, r->out, t);
    return read_tree(h, right, r);
}

static bool read_range(nx_hazards *h, nx_space space, size_t lo, size_t hi, nx_step_id step)
{
    uint32_t i = find(h, space, lo);

    if ((i != NIL) && (h->extents[i].lo == lo) && (h->extents[i].hi == hi)) {
        return read_extent(h, i, step);
    }
    if (!cut(h, space, lo) || !cut(h, space, hi)) {
        return false;
    }

    uint32_t below, middle, rest, above;
    reading r = {.at = lo, .step = step, .out = NIL};

    split(h, h->roots[space], lo, &below, &rest);
    split(h, rest, hi, &middle, &above);
    if (!read_tree(h, middle, &r) || !read_gap(h, &r, hi)) {
        return false;
    }
    h->roots[space] = join(h, join(h, below, r.out), above);
    return true;
}

nexar_err nx_hazards_read(nx_hazards *h, nx_ref ref, size_t len, nx_step_id step)
{
    if ((ref.space == NX_SPACE_SEND) || (len == 0)) {
        return NEXAR_OK;
    }
    return read_range(h, (nx_space)ref.space, ref.off, ref.off + len, step)
               ? NEXAR_OK
               : nx_fail_nomem("the hazards of a schedule");
}

/* ---- writing ------------------------------------------------------------------------- */

/* Adds dependencies on all extents of tree |t|, and frees it. */
static bool write_tree(nx_hazards *h, uint32_t t, nx_step_id step) // NOLINT(misc-no-recursion)
{
    if (t == NIL) {
        return true;
    }
    uint32_t left = h->extents[t].left, right = h->extents[t].right;
    bool ok =
        add_before_write(h, t, step) && write_tree(h, left, step) && write_tree(h, right, step);

    extent_drop(h, t);
    return ok;
}

static bool write_range(nx_hazards *h, nx_space space, size_t lo, size_t hi, nx_step_id step)
{
    uint32_t i = find(h, space, lo);

    if ((i != NIL) && (h->extents[i].lo == lo) && (h->extents[i].hi == hi)) {
        if (!add_before_write(h, i, step)) {
            return false;
        }
        readers_drop(h, &h->extents[i].readers);
        h->extents[i].writer = step;
        return true;
    }
    if (!cut(h, space, lo) || !cut(h, space, hi)) {
        return false;
    }

    uint32_t below, middle, rest, above;

    split(h, h->roots[space], lo, &below, &rest);
    split(h, rest, hi, &middle, &above);
    if (!write_tree(h, middle, step)) {
        return false;
    }
    middle = extent_new(h, lo, hi, step);
    if (middle == NIL) {
        return false;
    }
    h->roots[space] = join(h, join(h, below, middle), above);
    return true;
}

nexar_err nx_hazards_write(nx_hazards *h, nx_ref ref, size_t len, nx_step_id step)
{
    assert(ref.space != NX_SPACE_SEND);
    if (len == 0) {
        return NEXAR_OK;
    }
    return write_range(h, (nx_space)ref.space, ref.off, ref.off + len, step)
               ? NEXAR_OK
               : nx_fail_nomem("the hazards of a schedule");
}
