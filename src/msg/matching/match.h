/*
 * match.h - tag matching: MPI's rules as a data structure.
 *
 * Two sets: *posted* receives, which may leave peer or tag open, and *held* (unexpected) messages,
 * which arrived before a matching receive. An arriving message takes the oldest receive that
 * matches; a new receive takes the oldest message that matches.
 *
 * A receive has one of four forms (peer open or not, tag open or not), with a hash table for each.
 * A posted receive is in the table of its form. A message looks up its key in all four tables, and
 * the oldest receive wins. A held message is in the table of every form that has ever been used. So
 * a receive looks once, in the table of its form, whose queues are in order of arrival. All
 * operations take constant time, with 10 000 items as with one.
 *
 * Items are the caller's memory. No operation fails: a table that cannot grow becomes slower.
 *
 * Invariants
 *  - no posted receive matches a held message, provided the caller calls nx_match_arrive before
 *    it holds and nx_match_find before it posts;
 *  - in a table, items with equal keys form one ring, oldest first; only the oldest is in a
 *    chain of the table.
 */
#ifndef NX_MATCH_H
#define NX_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/containers/list.h"

#define NX_ANY_PEER UINT32_MAX
#define NX_ANY_TAG  UINT64_MAX

/* Bits of a form: the open fields. */
enum { NX_OPEN_PEER = 1, NX_OPEN_TAG = 2, NX_FORMS = 4 };

/* Of a message: all fields set. Of a receive: peer and tag may be NX_ANY_*. */
typedef struct nx_key {
    uint64_t context;
    uint64_t tag;
    uint32_t peer;
} nx_key;

/* Links of an item in one table. */
typedef struct nx_match_slot {
    struct nx_match_slot *next, **at; /* the chain; at NULL: not in it */
    nx_list same;                     /* the ring of equal keys */
} nx_match_slot;

/* A receive.  Zero-initialised: in no set. */
typedef struct nx_posted {
    nx_key key;
    uint64_t seq; /* order of posting */
    nx_match_slot slot;
} nx_posted;

/* A message.  Zero-initialised: in no set. */
typedef struct nx_held {
    nx_key key;
    nx_match_slot slots[NX_FORMS];
    nx_list order; /* of arrival, in nx_match.held */
} nx_held;

enum { NX_TABLE_FIRST = 16 }; /* chains */

typedef struct nx_match_table {
    nx_match_slot **chains;
    nx_match_slot *first[NX_TABLE_FIRST]; /* initial |chains| */
    size_t nchains, keys;                 /* a power of two; number of different keys */
    size_t offset;                        /* offset of the slot in its item */
    unsigned form;
} nx_match_table;

typedef struct nx_match {
    nx_match_table posted[NX_FORMS], held_by[NX_FORMS];
    nx_list held;     /* all messages, in the order of arrival */
    unsigned indexed; /* the forms that held_by has, as bits */
    uint64_t seed, seq;
    size_t nposted, nheld;
} nx_match;

/* |seed| makes the hash unpredictable for peers, which choose the tags. */
void nx_match_init(nx_match *m, uint64_t seed);
/* Frees the tables; does not touch the items. */
void nx_match_fini(nx_match *m);

unsigned nx_key_form(const nx_key *key);
/* Whether the receive |want| matches the message |have|. */
bool nx_key_fits(const nx_key *want, const nx_key *have);

/* Adds |r|, whose key is set, as the youngest receive. */
void nx_match_post(nx_match *m, nx_posted *r);
/* Removes |r|, which is posted. */
void nx_match_unpost(nx_match *m, nx_posted *r);
/* The oldest receive that matches a message |key|, without removing it; NULL: none. */
nx_posted *nx_match_arrive(const nx_match *m, const nx_key *key);

/* Adds |h|, whose key is set, as the youngest message. */
void nx_match_hold(nx_match *m, nx_held *h);
/* Removes |h|, which is held. */
void nx_match_drop(nx_match *m, nx_held *h);
/* The oldest message that matches the receive |key|, without removing it; NULL: none. The first
 * lookup of each form visits every message once. */
nx_held *nx_match_find(nx_match *m, const nx_key *key);

#endif /* NX_MATCH_H */
