/*
 * board.h - memory that the ranks of one host share for the collectives of one communicator: each
 * rank's input and progress, sleeping ranks, errors.
 *
 * Episodes.  An operation on the board is an episode.  Each rank writes its contribution (its
 * fingerprint, and its input or the input's address) into its slot, then the number of the
 * operation into |seq| of the slot (release).  It waits until it has seen |seq| of all ranks
 * (acquire).  Slots are double: completed episodes alternate between them.
 *
 *  1. A rank completes episode t only when all ranks have arrived in it.
 *  2. So a rank that writes its slot for episode t + 2 has completed t + 1. All ranks had arrived
 *     in t + 1 after they were done with t. So no rank still reads the writer's contribution to t,
 *     which is in the same slot.
 *
 * An operation may take several rounds, for more of its input; in these the ranks report their
 * progress in |step|, not in the slots. Episodes that access the memory of other ranks end with a
 * wait for the last step. Each rank reports that it is done with the memory of all others, and no
 * buffer returns to its owner before all ranks have reported.
 *
 * Ranks that do not arrive. A rank may run an operation by the engine that another rank begins
 * here. It called another form, it does not know yet that all ranks have the board, or the board is
 * broken. Each rank records the operations that it has begun here (|begun|) and by the engine
 * (|engine|), in the order of their numbers. engine >= n and begun < n: it never arrives in
 * operation n. No rank completes that episode then, nothing has been written to any buffer, and all
 * ranks run it by the engine. The same holds if a rank arrives and |declines|. Such an episode is
 * not counted: the next uses the same slots, and a rank that finds a |seq| beyond n there has
 * missed the others, which continued by the engine. Since such a slot may be written while it is
 * read, its owner clears |seq| first, and a reader checks |seq| again after it has read the marks.
 *
 * Errors. A rank on which an operation fails writes the number and the reason into its own cells,
 * then its bit into |broken|. All ranks in that operation, or that reach it later, fail with this
 * reason. The engine runs every later one: see 1, no rank completes it here. A failed rank is never
 * named on the board. A rank that ends an operation because of a failed rank reports only that it
 * ends. Each rank waits until it is notified of the failure itself (NEXAR_OK below). An error in a
 * later operation than a rank's own does not affect that rank: the rank that reported it has
 * completed this operation, so all ranks have arrived in it, and have contributed everything.
 *
 * Leaving. A buffer returns to its owner when no rank accesses it any more, also after an error. A
 * rank that has seen all ranks arrive checks |broken| before it accesses the memory of other ranks.
 * A rank that leaves a broken operation reports it (|left|). If it had seen all ranks arrive, it
 * waits until all others have left, or have failed. If it had not, then for some rank it found, in
 * this order, |broken| set and |seq| not. A rank that sees that one arrive finds |broken| set (all
 * accesses are sequentially consistent), and does not begin.
 *
 * Sleeping. A rank that waits for rank p reads p's |bell|, sets p's |asleep|, polls once more, and
 * sleeps on the bell (futex) while it has that value. After publishing, p loads its |asleep|; if
 * set, p clears it, changes the bell, and wakes all. All accesses are sequentially consistent:
 * either the sleeper sees what was published, or p sees the flag. If p has cleared the flag before
 * it was set, p's publication preceded that too. No rank makes a system call while none sleeps. If
 * a process is killed before it wakes the others, its links report the failure.
 *
 * Values written by other ranks are never trusted: no length or index is taken from the board, nor
 * its size once it was validated (nx_board_is).
 *
 * Damage. A faulty process may overwrite the board. Every cell above has one writer, its owner,
 * which keeps a copy (nx_board_copy); each rank owns its bit of |broken|, the first rank owns the
 * head. The owner compares the cell with the copy whenever it writes the cell, before each sleep,
 * and, while no operation of it is on the board, every |check_ns| (nx_board_check). A waiting rank
 * polls again after |check_ns|, woken or not. A reader checks cells against each other. A |seq| or
 * |step| of a later operation needs an |engine| or |begun| that admits it; a rank that has left
 * needs a reason that all ranks see. A rank that finds a difference ends with NX_EPISODE_DAMAGED
 * and breaks the board; the ABORT of its last two operations here reaches ranks that were misled
 * into waiting elsewhere (host_coll.h). A rank that was misled in operation n has not arrived in a
 * later one, so no rank has completed the next on the board.
 *
 * So a change of a cell that lasts until its owner checks ends in an error, or the operations
 * continue by the engine, and no rank waits for longer than |check_ns|. A hostile process that can
 * write to the board can still change inputs and results on it, and the addresses in arenas that
 * are named there. It can change a cell and restore it before the owner checks, and so let a rank
 * wait for messages that do not arrive, until the collective time-out. It can stay silent, as any
 * rank can.
 */
#ifndef NX_BOARD_H
#define NX_BOARD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <nexar.h>

#include "base/clock.h"
#include "base/wait/wait_policy.h"
#include "loop/loop.h"

enum {
    NX_BOARD_RANKS = 64,
    NX_BOARD_LINE = 128, /* two lines: processors fetch them in pairs */
    NX_BOARD_ROOM =
        256 << 10, /* bytes that a rank can contribute; see docs/internals/shared-memory.md */
    NX_BOARD_WHY = 320
};

/* A rank's contribution.  An input of 32 bytes shares the line with its flag. */
typedef struct nx_board_slot {
    _Alignas(NX_BOARD_LINE) _Atomic uint64_t seq;
    _Atomic uint64_t mark[2];
    _Atomic uint32_t declines;
    uint32_t lends : 2;    /* nx_lends: its input is elsewhere */
    uint32_t took_ns : 30; /* time of its previous operation: path_choice.h; 0: not reported */
    uint8_t data[NX_BOARD_ROOM];
} nx_board_slot;
_Static_assert(offsetof(nx_board_slot, data) == 32, "short input is in the line of its flag");

typedef struct nx_board_rank {
    _Alignas(NX_BOARD_LINE) _Atomic uint64_t begun, engine;
    _Alignas(NX_BOARD_LINE) _Atomic uint64_t step;
    _Atomic uint64_t left; /* the operation that has failed for it */
    _Alignas(NX_BOARD_LINE) _Atomic uint32_t bell, asleep;

    /* Identity: written before |mapped|.  |token| is at |token_at| in its memory. */
    _Alignas(NX_BOARD_LINE) _Atomic uint32_t mapped;
    _Atomic uint32_t ready; /* nx_board_ready; all were mapped */
    int64_t pid;
    uint64_t token_at, token;

    /* Trouble: written before its bit in |broken|. */
    uint64_t number;
    int32_t err;
    char why[NX_BOARD_WHY];
} nx_board_rank;

typedef enum nx_board_ready {
    NX_BOARD_NOT_READY,
    NX_BOARD_SLOTS, /* it cannot read the memory of all other ranks */
    NX_BOARD_READS  /* it can */
} nx_board_ready;

typedef struct nx_board {
    uint64_t magic;
    uint32_t version, size; /* how many ranks */
    uint32_t roomy;         /* each rank has its own core: waiting often is cheap */
    _Alignas(NX_BOARD_LINE) _Atomic uint64_t broken;
    nx_board_rank ranks[NX_BOARD_RANKS];
    nx_board_slot slots[]; /* of rank r: 2 r and 2 r + 1 */
} nx_board;

/* Bytes of the board of |size| ranks. */
size_t nx_board_bytes(uint32_t size);
/* Makes a board of memory that is zero. */
void nx_board_init(nx_board *b, uint32_t size, bool roomy);
/* Whether this is a board of |size| ranks. */
bool nx_board_is(const nx_board *b, uint32_t size);

static inline nx_board_slot *nx_board_slot_of(nx_board *b, uint32_t rank, uint64_t turn)
{
    return &b->slots[2 * (size_t)rank + (turn & 1)];
}

/* What a rank has written into its cells. */
typedef struct nx_board_copy {
    uint64_t begun, engine, step, left;
    uint32_t mapped, ready;
    struct {
        uint64_t seq, mark[2];
        uint32_t declines, lends, took_ns;
    } slots[2];
    bool broke; /* its bit in |broken| is set; then */
    uint64_t number;
    int32_t err;
} nx_board_copy;

/* Private state of a rank, initially zero. */
typedef struct nx_board_self {
    nx_wait_history waits;
    nx_board_copy copy;
    _Atomic(const char *) damaged; /* a cell that was found changed; NULL: none */
} nx_board_self;

/* One rank in one operation. */
typedef struct nx_episode {
    nx_board *board;
    uint32_t rank, size;
    uint64_t number; /* of the operation */
    uint64_t turn;   /* how many were completed before */
    const nx_wait_policy *waits;
    const nx_clock *clock; /* clock of deadlines and waits */
    nx_loop *loop;         /* for nx_loop_migrate_unlocked; NULL: waits stay on their core */
    nx_board_self *self;
    uint64_t deadline_ns; /* on |clock|; 0: none */
    uint64_t check_ns;    /* see "Damage"; 0: never */
} nx_episode;

typedef enum nx_episode_end {
    NX_EPISODE_ON,     /* the awaited event has happened */
    NX_EPISODE_ENGINE, /* no rank completes it here */
    NX_EPISODE_BROKEN, /* nx_episode_trouble says why */
    NX_EPISODE_LATE,   /* the deadline has passed */
    NX_EPISODE_DAMAGED /* |self->damaged| names the cell */
} nx_episode_end;

/* In order of operation numbers: the rank begins |number| here, or by the engine. */
void nx_board_begun(nx_board *b, nx_board_self *self, uint32_t rank, uint64_t number);
void nx_board_engine(nx_board *b, nx_board_self *self, uint32_t rank, uint64_t number);

/* |rank| has mapped the board; returns whether it can read the memory of all other ranks. */
void nx_board_mapped(nx_board *b, nx_board_self *self, uint32_t rank);
void nx_board_ready_as(nx_board *b, nx_board_self *self, uint32_t rank, nx_board_ready how);

/* Whether the cells of |rank| have the values that it has written. Checks the cells that change
 * under the caller's lock and, if none of its operations is on the board (|idle|), all others.
 * False: |self->damaged| names one. After it has broken the board it only repeats that, and returns
 * true. */
bool nx_board_check(nx_board *b, nx_board_self *self, uint32_t rank, bool idle);

/* Before arriving: whether the board was broken, in this operation or before. */
nx_episode_end nx_episode_check(const nx_episode *t);
static inline nx_board_slot *nx_episode_slot(const nx_episode *t, uint32_t rank)
{
    return nx_board_slot_of(t->board, rank, t->turn);
}
/* The memory for this rank's contribution, NX_BOARD_ROOM bytes; then arrive. */
void *nx_episode_open(const nx_episode *t);
void nx_episode_arrive(const nx_episode *t, const uint64_t mark[2], bool declines);
/* Waits for all ranks.  NX_EPISODE_ENGINE also if one has declined; report that by nx_board_engine
 * before this rank begins another operation here. */
nx_episode_end nx_episode_all_here(const nx_episode *t);
/* Afterwards: the first rank whose mark is not |mark|; the size: all are equal. */
uint32_t nx_episode_odd_one(const nx_episode *t, const uint64_t mark[2], uint64_t its[2]);

/* This rank has reached |step| of the operation, from 1 to NX_EPISODE_DONE, rising; waits until all
 * ranks have. */
enum { NX_EPISODE_STEP_BITS = 20, NX_EPISODE_DONE = (1 << NX_EPISODE_STEP_BITS) - 1 };
nx_episode_end nx_episode_all_at(const nx_episode *t, uint32_t step);
/* Its halves: reports the step; waits until |rank| has reached |step|. */
void nx_episode_report(const nx_episode *t, uint32_t step);
nx_episode_end nx_episode_wait_for(const nx_episode *t, uint32_t rank, uint32_t step);
/* The operation has failed for this rank, which accesses no other rank's memory any more. */
void nx_episode_leave(const nx_episode *t);
/* Whether |rank| has left so, or has reached the last step. */
bool nx_episode_is_out(const nx_episode *t, uint32_t rank);
/* Whether |rank| has reached NX_EPISODE_DONE. */
bool nx_episode_is_done(const nx_episode *t, uint32_t rank);

/* Operation |number| has failed on |rank|, which may be in it or about to begin it: it fails on all
 * other ranks. Once per rank: the first counts. */
void nx_board_break(nx_board *b, nx_board_self *self, uint32_t rank, uint64_t number, nexar_err err,
                    const char *why);
/* Why the operation is broken. NEXAR_OK, here and there: the whole group is broken, and its ranks
 * receive the reason by reliable broadcast. */
nexar_err nx_episode_trouble(const nx_episode *t, char why[NX_BOARD_WHY]);
/* Ranks that have not arrived in it, as bits. */
uint64_t nx_episode_missing(const nx_episode *t);

#endif /* NX_BOARD_H */
