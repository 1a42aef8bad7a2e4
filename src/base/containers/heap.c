/* heap.c - sift up, sift down. */
#include "heap.h"

#include "base/alloc.h"
#include "vec.h"

static bool before(const nx_heap_item *a, const nx_heap_item *b)
{
    return (a->key != b->key) ? (a->key < b->key) : (a->order < b->order);
}

static void put(nx_heap *h, size_t at, nx_heap_item *item)
{
    h->items[at] = item;
    item->place = at + 1;
}

/* Moves |item| from the free position |at| up to its position. */
static void sift_up(nx_heap *h, size_t at, nx_heap_item *item)
{
    while ((at > 0) && before(item, h->items[(at - 1) / 2])) {
        put(h, at, h->items[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    put(h, at, item);
}

static void sift_down(nx_heap *h, size_t at, nx_heap_item *item)
{
    for (;;) {
        size_t child = 2 * at + 1;

        if ((child + 1 < h->n) && before(h->items[child + 1], h->items[child])) {
            child++;
        }
        if ((child >= h->n) || !before(h->items[child], item)) {
            break;
        }
        put(h, at, h->items[child]);
        at = child;
    }
    put(h, at, item);
}

/* Sifts in both directions: at most one of the two moves the item. */
static void sift(nx_heap *h, size_t at, nx_heap_item *item)
{
    sift_up(h, at, item);
    sift_down(h, item->place - 1, item);
}

void nx_heap_fini(nx_heap *h)
{
    nx_free(h->items);
    *h = (nx_heap){0};
}

nexar_err nx_heap_push(nx_heap *h, nx_heap_item *item, uint64_t key)
{
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the elements are pointers */
    nx_heap_item **items = nx_vec_grow(h->items, &h->room, h->n + 1, sizeof(*h->items));

    if (items == NULL) {
        return nx_fail_nomem("a heap");
    }
    h->items = items;
    item->key = key;
    item->order = h->pushed++;
    h->n++;
    sift_up(h, h->n - 1, item);
    return NEXAR_OK;
}

nx_heap_item *nx_heap_top(const nx_heap *h)
{
    return (h->n == 0) ? NULL : h->items[0];
}

void nx_heap_remove(nx_heap *h, nx_heap_item *item)
{
    size_t at = item->place;
    nx_heap_item *last;

    if (at == 0) {
        return;
    }
    last = h->items[--h->n];
    item->place = 0;
    if (last != item) {
        sift(h, at - 1, last);
    }
}

void nx_heap_move(nx_heap *h, nx_heap_item *item, uint64_t key)
{
    item->key = key;
    item->order = h->pushed++;
    sift(h, item->place - 1, item);
}
