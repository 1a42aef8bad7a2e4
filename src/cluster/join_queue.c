/* join_queue.c - the joiners that wait at the seed, as members know them. */
#include "join_queue.h"

#include <string.h>

#include "base/alloc.h"

void nx_join_queue_clear(nx_join_queue *waiting)
{
    waiting->version += (waiting->n > 0) ? 1 : 0;
    waiting->n = 0;
}

void nx_join_queue_fini(nx_join_queue *waiting)
{
    nx_free(waiting->list);
    *waiting = (nx_join_queue){0};
}

/* The index of |id|, or of its place in the order. */
static uint32_t place_of(const nx_join_queue *waiting, uint64_t id)
{
    uint32_t low = 0, high = waiting->n;

    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;

        if (waiting->list[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool has(const nx_join_queue *waiting, uint32_t at, uint64_t id)
{
    return (at < waiting->n) && (waiting->list[at].id == id);
}

static nexar_err grow(nx_join_queue *waiting)
{
    const uint32_t room = (waiting->room == 0) ? 4 : waiting->room * 2;
    nx_member *list = nx_calloc(room, sizeof(*list));

    if (list == NULL) {
        return nx_fail_nomem("the waiting joiners");
    }
    if (waiting->n > 0) {
        memcpy(list, waiting->list, waiting->n * sizeof(*list));
    }
    nx_free(waiting->list);
    waiting->list = list;
    waiting->room = room;
    return NEXAR_OK;
}

nexar_err nx_join_queue_add(nx_join_queue *waiting, const nx_member *m)
{
    const uint32_t at = place_of(waiting, m->id);
    nexar_err err = NEXAR_OK;

    if (has(waiting, at, m->id)) {
        return NEXAR_OK;
    }
    if (waiting->n == waiting->room) {
        err = grow(waiting);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    memmove(&waiting->list[at + 1], &waiting->list[at], (waiting->n - at) * sizeof(*m));
    waiting->list[at] = *m;
    waiting->n++;
    waiting->version++;
    return NEXAR_OK;
}

bool nx_join_queue_remove(nx_join_queue *waiting, uint64_t id)
{
    const uint32_t at = place_of(waiting, id);

    if (!has(waiting, at, id)) {
        return false;
    }
    waiting->n--;
    waiting->version++;
    memmove(&waiting->list[at], &waiting->list[at + 1],
            (waiting->n - at) * sizeof(waiting->list[0]));
    return true;
}

const nx_member *nx_join_queue_find(const nx_join_queue *waiting, uint64_t id)
{
    const uint32_t at = place_of(waiting, id);

    return has(waiting, at, id) ? &waiting->list[at] : NULL;
}

uint32_t nx_join_queue_encode(const nx_join_queue *waiting, nx_writer *w, uint32_t max)
{
    nx_writer number = *w, one;
    uint32_t n = 0;

    max = (max < NX_JOIN_QUEUE_LIST_MAX) ? max : NX_JOIN_QUEUE_LIST_MAX;
    max = (max < waiting->n) ? max : waiting->n;
    if (w->failed || (w->room - w->len < sizeof(uint32_t))) {
        return 0;
    }
    nx_write_u32(w, 0);
    for (; n < max; n++) {
        one = *w;
        nx_member_encode(&one, &waiting->list[n]);
        if (one.failed) {
            break;
        }
        *w = one;
    }
    nx_write_u32(&number, n);
    return n;
}

nexar_err nx_join_queue_decode(nx_reader *r, nx_member **joined, uint32_t *n)
{
    const uint32_t count = (nx_reader_left(r) == 0) ? 0 : nx_read_u32(r);
    nx_member *list;

    /* Allocates only what the received bytes can fill. */
    if (r->failed || (count > NX_JOIN_QUEUE_LIST_MAX) ||
        (nx_reader_left(r) / NX_MEMBER_ENCODED_MIN < count)) {
        return nx_fail(NEXAR_EPROTO, "a list of joiners that is cut short or too long");
    }
    if (count == 0) {
        *joined = NULL;
        *n = 0;
        return NEXAR_OK;
    }
    list = nx_calloc(count, sizeof(*list));
    if (list == NULL) {
        return nx_fail_nomem("the joiners");
    }
    for (uint32_t i = 0; i < count; i++) {
        nx_member_decode(r, &list[i]);
        if (r->failed || (list[i].id <= ((i == 0) ? 0 : list[i - 1].id))) {
            nx_free(list);
            return nx_fail(NEXAR_EPROTO, "a list of joiners whose member %u is malformed", i);
        }
    }
    *joined = list;
    *n = count;
    return NEXAR_OK;
}
