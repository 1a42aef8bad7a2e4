/*
 * list.h - an intrusive doubly linked list. It allocates nothing, and a member is removed without
 * access to its list.
 *
 *     typedef struct job { nx_list link; ... } job;
 *     nx_list jobs;
 *
 *     nx_list_init(&jobs);
 *     nx_list_push_back(&jobs, &j->link);
 *     nx_list_for_each(at, &jobs) {
 *         job *j = nx_list_entry(at, job, link);
 *     }
 *
 * Invariant: the head is part of the ring. An empty head and a member that is in no list point to
 * themselves.
 */
#ifndef NX_LIST_H
#define NX_LIST_H

#include <stdbool.h>
#include <stddef.h>

typedef struct nx_list {
    struct nx_list *prev, *next;
} nx_list;

/* For heads, and for members before the first call of nx_list_linked. */
static inline void nx_list_init(nx_list *l)
{
    l->prev = l->next = l;
}

static inline bool nx_list_empty(const nx_list *head)
{
    return head->next == head;
}

/* Whether the initialised |member| is in a list. */
static inline bool nx_list_linked(const nx_list *member)
{
    return member->next != member;
}

/* Inserts |member|, which is in no list, before |at|. */
static inline void nx_list_insert(nx_list *at, nx_list *member)
{
    member->prev = at->prev;
    member->next = at;
    at->prev->next = member;
    at->prev = member;
}

static inline void nx_list_push_back(nx_list *head, nx_list *member)
{
    nx_list_insert(head, member);
}

static inline void nx_list_push_front(nx_list *head, nx_list *member)
{
    nx_list_insert(head->next, member);
}

/* Removes |member| from its list; does nothing if it is in none. */
static inline void nx_list_remove(nx_list *member)
{
    member->prev->next = member->next;
    member->next->prev = member->prev;
    nx_list_init(member);
}

/* Removes and returns the first member; NULL if the list is empty. */
static inline nx_list *nx_list_pop(nx_list *head)
{
    nx_list *first = head->next;

    if (first == head) {
        return NULL;
    }
    nx_list_remove(first);
    return first;
}

/* The TYPE whose field FIELD is |*member|. */
#define nx_list_entry(member, TYPE, FIELD) \
    ((TYPE *)(void *)((char *)(member)-offsetof(TYPE, FIELD)))

/* Iterates from the first member to the last. The body may remove |at|, and no other member. */
#define nx_list_for_each(at, head)                                            \
    for (nx_list *at = (head)->next, *at##_next = (at)->next; (at) != (head); \
         (at) = at##_next, at##_next = (at)->next)

#endif /* NX_LIST_H */
