/*
 * state_undo.h - the old contents of tensors that are about to be received: put back if the ranks
 * do not agree that all have the new ones.
 *
 * A part of a tensor that repeats one word of 8 bytes, as memory that was only cleared does, is
 * kept as that word.
 */
#ifndef NX_STATE_UNDO_H
#define NX_STATE_UNDO_H

#include "device/device.h"

typedef struct nx_state_leaf nx_state_leaf;

typedef struct nx_state_undo {
    nx_devmem mem; /* borrowed */
    unsigned threads;
    size_t n;
    nx_state_leaf *leaves;
    uint8_t *copies;
} nx_state_undo;

/*
 * Keeps the |n| |regions|, which lie in |mem|, borrowed until the end.
 *
 * NEXAR_ENOMEM, NEXAR_EDEVICE
 */
NX_MUST_CHECK nexar_err nx_state_undo_init(nx_state_undo *u, nx_devmem mem,
                                           const nexar_iov *regions, size_t n, unsigned threads);
/* Puts the contents back.  NEXAR_EDEVICE. */
NX_MUST_CHECK nexar_err nx_state_undo_restore(const nx_state_undo *u);
/* Forgets them; a zero |u| is allowed. */
void nx_state_undo_fini(nx_state_undo *u);

#endif /* NX_STATE_UNDO_H */
