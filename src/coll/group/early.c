/* early.c - frames for operations that this rank has not begun. */
#include <stdio.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "group_inner.h"

/* Bound on early records, against a misbehaving peer. Credit stops a correct rank long before. */
enum { EARLY_MAX = 65536 };

/* Records of an operation that this rank has not begun. */
typedef struct early {
    uint64_t key;
    nx_mark mark[2]; /* the first, and the first that differs from it */
    uint32_t peer[2];
    unsigned marks;
    nexar_err err; /* another rank has ended it already */
    char why[NX_RUN_WHY];
} early;

static uint64_t early_key(uint32_t comm, uint32_t place)
{
    return (((uint64_t)comm << NX_PART_ID_BITS) | place) + 1;
}

static early *note(nx_registry *hub, uint32_t comm, uint32_t place)
{
    const uint64_t key = early_key(comm, place);
    early *e = nx_map_get(&hub->early, key);

    if ((e != NULL) || (hub->early.n >= EARLY_MAX)) {
        return e;
    }
    e = nx_zalloc(sizeof(*e));
    if ((e != NULL) && (nx_map_put(&hub->early, key, e) != NEXAR_OK)) {
        nx_free(e);
        e = NULL;
    }
    if (e != NULL) {
        e->key = key;
    }
    return e;
}

void nx_group_note_mark(nx_registry *hub, uint32_t comm, uint32_t place, uint32_t peer,
                        const nx_mark *mark)
{
    early *e = note(hub, comm, place);

    if ((e != NULL) && (e->marks < 2) && ((e->marks == 0) || !nx_mark_equal(&e->mark[0], mark))) {
        e->mark[e->marks] = *mark;
        e->peer[e->marks++] = peer;
    }
}

void nx_group_note_abort(nx_registry *hub, uint32_t comm, uint32_t place, nexar_err err,
                         const char *why)
{
    early *e = note(hub, comm, place);

    if ((e != NULL) && (e->err == NEXAR_OK)) {
        e->err = err;
        (void)nx_sentence(e->why, sizeof(e->why), "%s", why);
    }
}

void nx_group_use_early(nx_group *g, nx_run *run)
{
    early *e =
        nx_map_take(&g->hub->early, early_key(g->comm, nx_group_part_id(run->number, run->part)));

    if (e == NULL) {
        return;
    }
    for (unsigned i = 0; i < e->marks; i++) {
        if (!nx_mark_equal(&e->mark[i], &run->mark)) {
            nx_group_mismatch(g, run, e->peer[i], &e->mark[i]);
        }
    }
    if (e->err != NEXAR_OK) {
        nx_run_fail(run, false, e->err, "%s", e->why);
    }
    nx_free(e);
}

void nx_group_forget_early(nx_group *g, uint32_t number, uint32_t part)
{
    if (g->hub->early.n != 0) {
        nx_free(nx_map_take(&g->hub->early, early_key(g->comm, nx_group_part_id(number, part))));
    }
}

void nx_group_drop_early(nx_registry *hub, const uint32_t *comm)
{
    early *e;
    size_t at = 0;

    while ((e = nx_map_next(&hub->early, &at)) != NULL) {
        if ((comm == NULL) || ((e->key - 1) >> NX_PART_ID_BITS == *comm)) {
            nx_free(nx_map_take(&hub->early, e->key));
            at--;
        }
    }
}

const char *nx_group_aborted(const nx_group *g, uint32_t number, nexar_err *err)
{
    const early *e =
        (g->hub->early.n == 0)
            ? NULL
            : nx_map_get(&g->hub->early, early_key(g->comm, nx_group_part_id(number, 0)));

    if ((e == NULL) || (e->err == NEXAR_OK)) {
        return NULL;
    }
    *err = e->err;
    return e->why;
}
