/*
 * damage.h - detects that a board was overwritten: see "Damage" in board.h, which has the
 * interface.  For board.c.
 */
#ifndef NX_DAMAGE_H
#define NX_DAMAGE_H

#include "board.h"

/* Returns |changed|; if so, records that |cell| differs from what its owner has written. */
bool nx_cell_differs(nx_board_self *self, bool changed, const char *cell);
/* Whether the cells of |rank|, the caller's, that change in an operation are as it has left them:
 * those of its slot |k|; all.  By the thread that is in the operation, or when none is. */
bool nx_slot_is_well(const nx_board *b, nx_board_self *self, uint32_t rank, int k);
bool nx_steps_are_well(const nx_board *b, nx_board_self *self, uint32_t rank);

#endif /* NX_DAMAGE_H */
