/*
 * creation_frame.h - the frames by which ranks create a communicator from a list.
 *
 * creation.h has the protocol.  Every frame names the creation by its parent, its tag and the
 * fingerprint of its list:
 *
 *     kind u8 (NX_CONTROL_CREATE), form u8, parent u32, tag u64, fingerprint u64
 *
 *     JOIN      to the leader      this rank has called; id u32 that it offers, ranks u32 in its
 * list DONE      to the members     the communicator has the id u32 FAIL      to a member        it
 * has failed: error u8, sentence WITHDRAW  to the leader      let it fail, unless it is done: error
 * u8, sentence DIFFERS   to the leader      the member id u32 has called with another list, of u32
 * ranks: sentence ASK to any member does this creation wait for a rank that will not call? LACK
 * to the members     the leader is gone, and this rank has no communicator HAVE      the answer
 * there is one: id u32, ranks u32, and these as runs, of each first u32, step u32, length u32
 */
#ifndef NX_CREATION_FRAME_H
#define NX_CREATION_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "transport/transport.h"
#include "wire/wire.h"

typedef enum nx_creation_form {
    NX_CREATION_JOIN = 1,
    NX_CREATION_DONE,
    NX_CREATION_FAIL,
    NX_CREATION_WITHDRAW,
    NX_CREATION_DIFFERS,
    NX_CREATION_ASK,
    NX_CREATION_LACK,
    NX_CREATION_HAVE,
    NX_CREATION_FORMS
} nx_creation_form;

enum {
    NX_CREATION_WHY = 384,                       /* a message, its 0 included */
    NX_CREATION_FRAME_MAX = NX_CREATION_WHY + 64 /* of all forms but HAVE */
};

/* Identifies a creation: a rank runs at most one with a given parent and tag. */
typedef struct nx_creation_key {
    uint32_t parent;
    uint64_t tag, print;
} nx_creation_key;

/* A frame; which fields it has follows from |form|. */
typedef struct nx_creation_frame {
    nx_creation_form form;
    nx_creation_key key;
    uint32_t id, n; /* JOIN: offered, in the list; DONE, HAVE: the communicator's, its members;
                       DIFFERS: a slot, in its list */
    nexar_err err;
    char why[NX_CREATION_WHY];
    const uint32_t *slots; /* HAVE, to be encoded */
    nx_reader runs;        /* HAVE, decoded: borrows the frame */
} nx_creation_frame;

/* The fingerprint of a list; the order matters. */
uint64_t nx_creation_print(const uint32_t slots[], uint32_t n);

/* The length of |f| encoded in |buf|; 0: a HAVE whose list does not fit into |room|. */
size_t nx_creation_encode(const nx_creation_frame *f, uint8_t *buf, size_t room);
/* NEXAR_EPROTO */
NX_MUST_CHECK nexar_err nx_creation_decode(const void *data, size_t len, nx_creation_frame *out);
/* The |f->n| members of a HAVE, into |slots|. */
void nx_creation_members(const nx_creation_frame *f, uint32_t slots[]);

#endif /* NX_CREATION_FRAME_H */
