/* roster.c - the members of a world that is forming. */
#include "cluster/seed/roster.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/text.h"

/* A list names this many entries and counts the rest. */
enum { NAMED_MAX = 12 };

typedef struct place {
    nx_list link;
    nx_member member;
} place;

static place *place_of(nx_member *m)
{
    return (place *)(void *)((char *)m - offsetof(place, member));
}

nexar_err nx_member_table_init(nx_member_table *r, uint32_t size)
{
    *r = (nx_member_table){.size = size};
    nx_list_init(&r->places);
    r->asked = nx_calloc(size, sizeof(nx_member *));
    return (r->asked == NULL) ? nx_fail_nomem("the list of ranks") : NEXAR_OK;
}

void nx_member_table_clear(nx_member_table *r)
{
    nx_list *at;

    while ((at = nx_list_pop(&r->places)) != NULL) {
        nx_free(nx_list_entry(at, place, link));
    }
    memset(r->asked, 0, r->size * sizeof(nx_member *));
    r->joined = 0;
    r->ngone = 0;
}

void nx_member_table_fini(nx_member_table *r)
{
    nx_member_table_clear(r);
    nx_free(r->asked);
    r->asked = NULL;
}

const char *nx_member_text(const nx_member *m, char *buf)
{
    if (m->rank == NX_RANK_ANY) {
        (void)snprintf(buf, NX_MEMBER_TEXT, "%s pid %" PRIu32, m->host, m->process.pid);
    } else {
        (void)snprintf(buf, NX_MEMBER_TEXT, "rank %" PRIu32 " (%s pid %" PRIu32 ")", m->rank,
                       m->host, m->process.pid);
    }
    return buf;
}

nexar_err nx_member_table_check(const nx_member_table *r, uint32_t rank, nx_refusal *why)
{
    *why = NX_REFUSAL_SETTING;
    if ((rank != NX_RANK_ANY) && (rank >= r->size)) {
        return nx_fail(NEXAR_EINVAL,
                       "rank %" PRIu32 " was asked for; a world of %" PRIu32
                       " has ranks 0 to %" PRIu32,
                       rank, r->size, r->size - 1);
    }
    if ((rank != NX_RANK_ANY) && (r->asked[rank] != NULL)) {
        return nx_fail(NEXAR_EINVAL, "rank %" PRIu32 " is taken by %s pid %" PRIu32, rank,
                       r->asked[rank]->host, r->asked[rank]->process.pid);
    }
    if (r->joined == r->size) {
        *why = NX_REFUSAL_FULL;
        return nx_fail(NEXAR_EINVAL, "all %" PRIu32 " places of the world are taken", r->size);
    }
    return NEXAR_OK;
}

/* A new member has taken the place of one that had left. */
static void forget_gone(nx_member_table *r, uint32_t rank)
{
    for (size_t i = 0; i < r->ngone; i++) {
        if (r->gone[i].rank == rank) {
            r->ngone--;
            memmove(&r->gone[i], &r->gone[i + 1], (r->ngone - i) * sizeof(r->gone[0]));
            return;
        }
    }
}

nexar_err nx_member_table_add(nx_member_table *r, const nx_member *m, nx_member **out)
{
    place *p = nx_zalloc(sizeof(*p));

    if (p == NULL) {
        return nx_fail_nomem("a member");
    }
    p->member = *m;
    nx_list_push_back(&r->places, &p->link);
    if (m->rank != NX_RANK_ANY) {
        r->asked[m->rank] = &p->member;
    }
    r->joined++;
    forget_gone(r, m->rank);
    *out = &p->member;
    return NEXAR_OK;
}

void nx_member_table_remove(nx_member_table *r, nx_member *m, const char *why)
{
    place *p = place_of(m);
    char who[NX_MEMBER_TEXT];
    nx_gone *gone;

    if (r->ngone == NX_GONE_MAX) {
        r->ngone--;
        memmove(&r->gone[0], &r->gone[1], r->ngone * sizeof(r->gone[0]));
    }
    gone = &r->gone[r->ngone++];
    gone->rank = m->rank;
    (void)snprintf(gone->text, sizeof(gone->text), "%s: %.80s", nx_member_text(m, who), why);
    if (m->rank != NX_RANK_ANY) {
        r->asked[m->rank] = NULL;
    }
    r->joined--;
    nx_list_remove(&p->link);
    nx_free(p);
}

/* The members by requested rank, of |size| ranks; NULL: no member. */
static void give_out(const nx_member_table *r, const nx_member **ranks)
{
    uint32_t next = 0;

    nx_list_for_each (at, &r->places) {
        const nx_member *m = &nx_list_entry(at, place, link)->member;

        if (m->rank == NX_RANK_ANY) {
            while (r->asked[next] != NULL) {
                next++;
            }
            ranks[next++] = m;
        } else {
            ranks[m->rank] = m;
        }
    }
}

nexar_err nx_member_table_view(const nx_member_table *r, const nx_job_id *job, uint64_t epoch,
                               nx_view **out)
{
    nx_view *view = nx_view_create(r->joined);
    const nx_member **ranks = nx_calloc(r->size, sizeof(const nx_member *));
    uint32_t rank = 0;

    if ((view == NULL) || (ranks == NULL)) {
        nx_view_destroy(view);
        nx_free(ranks);
        return nx_fail_nomem("a view");
    }
    give_out(r, ranks);
    view->job = *job;
    view->epoch = epoch;
    view->slots = r->joined;
    for (uint32_t i = 0; i < r->size; i++) {
        if (ranks[i] != NULL) {
            view->members[rank] = *ranks[i];
            view->members[rank].rank = rank;
            view->members[rank].slot = rank;
            rank++;
        }
    }
    nx_free(ranks);
    *out = view;
    return NEXAR_OK;
}

/* Appends ranges of ranks, "1, 3-5"; counts the rest. */
typedef struct ranges {
    nx_text *text;
    uint32_t first, last, named, left;
    bool open;
} ranges;

static void ranges_flush(ranges *g)
{
    if (!g->open) {
        return;
    }
    g->open = false;
    if (g->named == NAMED_MAX) {
        g->left += g->last - g->first + 1;
        return;
    }
    nx_text_addf(g->text, "%s%" PRIu32, (g->named == 0) ? "" : ", ", g->first);
    if (g->last > g->first) {
        nx_text_addf(g->text, "-%" PRIu32, g->last);
    }
    g->named++;
}

static void ranges_add(ranges *g, uint32_t rank)
{
    if (g->open && (rank == g->last + 1)) {
        g->last = rank;
        return;
    }
    ranges_flush(g);
    g->open = true;
    g->first = g->last = rank;
}

static void add_missing(const nx_member_table *r, nx_text *text)
{
    ranges g = {.text = text};
    uint32_t any = 0;

    nx_list_for_each (at, &r->places) {
        any += (nx_list_entry(at, place, link)->member.rank == NX_RANK_ANY);
    }
    nx_text_addf(text, (r->size - r->joined == 1) ? "; missing: rank " : "; missing: ranks ");
    for (uint32_t rank = 0; rank < r->size; rank++) {
        if (r->asked[rank] != NULL) {
            continue;
        }
        /* Members without a requested rank get the lowest free ranks. */
        if (any > 0) {
            any--;
        } else {
            ranges_add(&g, rank);
        }
    }
    ranges_flush(&g);
    if (g.left > 0) {
        nx_text_addf(text, " and %" PRIu32 " more", g.left);
    }
}

static void add_here(const nx_member_table *r, nx_text *text)
{
    uint32_t named = 0;
    char who[NX_MEMBER_TEXT];

    nx_list_for_each (at, &r->places) {
        const nx_member *m = &nx_list_entry(at, place, link)->member;

        if (named == NAMED_MAX) {
            nx_text_addf(text, " and %" PRIu32 " more", r->joined - named);
            return;
        }
        nx_text_addf(text, "%s%s", (named == 0) ? "; here: " : ", ", nx_member_text(m, who));
        named++;
    }
}

const char *nx_member_table_text(const nx_member_table *r, char *buf, size_t size)
{
    nx_text text = {0};
    const char *made;

    nx_text_addf(&text, "%" PRIu32 " of %" PRIu32 " %s joined", r->joined, r->size,
                 (r->size == 1) ? "rank has" : "ranks have");
    if (r->joined < r->size) {
        add_missing(r, &text);
    }
    for (size_t i = 0; i < r->ngone; i++) {
        nx_text_addf(&text, "%s%s", (i == 0) ? "; gone: " : ", ", r->gone[i].text);
    }
    add_here(r, &text);
    made = nx_text_str(&text);
    (void)snprintf(buf, size, "%s", (made == NULL) ? "not all ranks have joined" : made);
    nx_text_fini(&text);
    return buf;
}
