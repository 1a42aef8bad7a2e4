/*
 * board.h - memory that the ranks of one host share for the collectives of one
 * communicator: what each brings, how far each is, who sleeps, what went wrong.
 *
 * Turns.  An operation on the board is a turn.  Each rank writes what it brings (its
 * fingerprint, and its input or where that lies) into its slot, then the number of the
 * operation into |seq| of the slot (release).  It waits until it has seen |seq| of all
 * ranks (acquire).  Slots are double: turns that were completed alternate between them.
 *
 *  1. A rank completes turn t only when all ranks have arrived in it.
 *  2. So a rank that writes its slot for turn t + 2 has completed t + 1, in which all
 *     ranks had arrived, after they were done with t: nobody reads what it wrote for t,
 *     which is in the same slot, any more.
 *
 * An operation may take more turns, for more of its input; in these the ranks say in
 * |step| how far they are, not in the slots.  Turns that work in the memory of other
 * ranks end with a wait for the last step: each says that it is done with the memory of
 * all others, and no buffer is given back to its owner before all have said so.
 *
 * Who does not come.  A rank may run an operation by the engine that another begins
 * here: it called another form, it does not know yet that all have the board, or the
 * board is broken.  Each says which operations it has begun here (|begun|) and otherwise
 * (|engine|), in the order of their numbers.  engine >= n and begun < n: it never comes
 * to operation n.  Nobody completes that turn then, nothing has been written to any
 * buffer, and all run it by the engine.  The same if a rank comes and |declines|.  Such
 * a turn is not counted: the next uses the same slots, and a rank that finds a |seq|
 * beyond n there has missed the others, who went on by the engine.  Since such a slot may
 * be written while it is looked at, its owner clears |seq| first, and who has read the
 * marks looks at |seq| again.
 *
 * Trouble.  A rank on which an operation fails writes which one and why into its own
 * place, then its bit into |broken|.  All who are in that operation, or come to it, end
 * with these words.  Every later one is run by the engine: see 1, nobody completes it
 * here.  A failed rank is never named on the board: whoever ends an operation because of one says
 * only that it ends, and each rank waits until it hears of the failure itself (NEXAR_OK below).
 * Trouble in a later operation than one's own is no matter: whoever wrote it has
 * completed this one, so all have arrived, and have said what they had to say.
 *
 * Leaving.  Buffers are their owner's again when nobody works in them any more, also when
 * the operation has failed.  A rank that has seen all arrive looks at |broken| before it
 * works in the memory of others.  One that leaves a broken operation says so (|left|); if it
 * had seen all arrive, it waits until all others have, or are dead.  If it had not, then for
 * some rank it found, in this order, |broken| set and |seq| not: whoever sees that rank
 * arrive finds |broken| set (all are sequentially consistent), and does not begin to work.
 *
 * Sleeping.  Who waits for rank p takes the value of p's |bell|, sets p's |asleep|, looks
 * once more, and sleeps on the bell (futex) as long as it has that value.  p, when it has
 * published something, looks at its |asleep|; if set, it clears it, changes the bell, and
 * wakes all.  Both are sequentially consistent: either the sleeper sees what was
 * published, or p sees the flag.  If p has cleared the flag before it was set, what it
 * had published was there before too.  Nobody makes a system call while nobody sleeps.
 * A process that is killed before it wakes the others is found dead by its links.
 *
 * What others write is never trusted: no length or index is taken from the board, nor its
 * size once it was seen to be one (nx_board_is).
 *
 * Damage.  Somebody may have written over the board.  Every cell above has one writer, its owner,
 * which keeps a copy (nx_board_copy); of |broken| each rank owns its bit, of the head the first
 * rank all.  The owner compares the cell with the copy whenever it writes the cell, before each
 * sleep, and, while no operation of it is on the board, every |check_ns| (nx_board_check).  A rank
 * that waits looks again after |check_ns|, whether it was woken or not.  A rank that reads holds
 * cells against each other: a |seq| or |step| of a later operation needs an |engine| or |begun|
 * that admits it, a rank that has left needs a reason that all see.  Who finds a difference ends
 * with NX_EPISODE_DAMAGED and breaks the board; the ABORT of its last two operations here reaches
 * ranks that were misled into waiting elsewhere (direct.h): a rank that was misled in operation n
 * has not arrived in a later one, so nobody has completed the next on the board.
 *
 * So a change of a cell that lasts until its owner looks ends in an error, or the operations go
 * on by the engine, and no rank waits for longer than |check_ns|.  What a hostile process that
 * can write to the board can still do: change inputs and results on it, and the places in arenas
 * that are named there; change a cell and change it back before the owner looks, and so let a
 * rank wait for messages that do not come, until the collective time-out; say nothing, as any
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
        256 << 10, /* bytes that a rank can bring; see docs/internals/shared-memory.md */
    NX_BOARD_WHY = 320
};

/* What a rank brings.  An input of 32 bytes is in one line with its flag. */
typedef struct nx_board_slot {
    _Alignas(NX_BOARD_LINE) _Atomic uint64_t seq;
    _Atomic uint64_t mark[2];
    _Atomic uint32_t declines;
    uint32_t lends : 2; /* nx_lends: what it brings stands elsewhere */
    uint32_t
        took_ns : 30; /* what its owner took for an operation before: path_choice.h; 0: unsaid */
    uint8_t data[NX_BOARD_ROOM];
} nx_board_slot;
_Static_assert(offsetof(nx_board_slot, data) == 32, "short input is in the line of its flag");

typedef struct nx_board_rank {
    _Alignas(NX_BOARD_LINE) _Atomic uint64_t begun, engine;
    _Alignas(NX_BOARD_LINE) _Atomic uint64_t step;
    _Atomic uint64_t left; /* the operation that has failed for it */
    _Alignas(NX_BOARD_LINE) _Atomic uint32_t bell, asleep;

    /* Who it is: written before |mapped|.  |token| stands at |token_at| in its memory. */
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
    NX_BOARD_SLOTS, /* it cannot read the memory of all others */
    NX_BOARD_READS  /* it can */
} nx_board_ready;

typedef struct nx_board {
    uint64_t magic;
    uint32_t version, size; /* how many ranks */
    uint32_t roomy;         /* there is a core for each: waiting often costs little */
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

/* What a rank knows of itself; its own, zero at first. */
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
    const nx_clock *clock; /* of deadlines and waits */
    nx_loop *loop;         /* for nx_loop_migrate_unlocked; NULL: waits stay on their core */
    nx_board_self *self;
    uint64_t deadline_ns; /* on |clock|; 0: none */
    uint64_t check_ns;    /* see "Damage"; 0: never */
} nx_episode;

typedef enum nx_episode_end {
    NX_EPISODE_ON,     /* what was waited for is there */
    NX_EPISODE_ENGINE, /* nobody completes it here */
    NX_EPISODE_BROKEN, /* nx_episode_trouble says why */
    NX_EPISODE_LATE,   /* the deadline has passed */
    NX_EPISODE_DAMAGED /* |self->damaged| says what */
} nx_episode_end;

/* With the rank's other operations in order of their numbers: it begins |number| here,
 * or by the engine. */
void nx_board_begun(nx_board *b, nx_board_self *self, uint32_t rank, uint64_t number);
void nx_board_engine(nx_board *b, nx_board_self *self, uint32_t rank, uint64_t number);

/* |rank| has the board; whether it can read the memory of all others. */
void nx_board_mapped(nx_board *b, nx_board_self *self, uint32_t rank);
void nx_board_ready_as(nx_board *b, nx_board_self *self, uint32_t rank, nx_board_ready how);

/* Whether the cells of |rank| are what it has written: those that change with the caller's lock,
 * and if none of its operations is on the board, |idle|, the others too.  False: |self->damaged|
 * names one.  Once it has broken the board it only says so again, and all are well. */
bool nx_board_check(nx_board *b, nx_board_self *self, uint32_t rank, bool idle);

/* Before arriving: whether the board has broken, and in this operation or before. */
nx_episode_end nx_episode_check(const nx_episode *t);
static inline nx_board_slot *nx_episode_slot(const nx_episode *t, uint32_t rank)
{
    return nx_board_slot_of(t->board, rank, t->turn);
}
/* Where to put what this rank brings, NX_BOARD_ROOM bytes; then arrive. */
void *nx_episode_open(const nx_episode *t);
void nx_episode_arrive(const nx_episode *t, const uint64_t mark[2], bool declines);
/* Waits for all.  NX_EPISODE_ENGINE also if one has declined; it is to be said by nx_board_engine
 * before this rank begins another operation here. */
nx_episode_end nx_episode_all_here(const nx_episode *t);
/* After it: the first rank whose mark is not |mark|; the size: all are equal. */
uint32_t nx_episode_odd_one(const nx_episode *t, const uint64_t mark[2], uint64_t its[2]);

/* This rank has come to |step| of the operation, from 1 to NX_EPISODE_DONE, growing; waits
 * until all have. */
enum { NX_EPISODE_STEP_BITS = 20, NX_EPISODE_DONE = (1 << NX_EPISODE_STEP_BITS) - 1 };
nx_episode_end nx_episode_all_at(const nx_episode *t, uint32_t step);
/* The halves of it: says so; waits until |rank| has come to |step|. */
void nx_episode_say(const nx_episode *t, uint32_t step);
nx_episode_end nx_episode_wait_for(const nx_episode *t, uint32_t rank, uint32_t step);
/* The operation has failed for this rank, which works in no other's memory any more. */
void nx_episode_leave(const nx_episode *t);
/* Whether that is so of |rank|, or it has come to the last step. */
bool nx_episode_is_out(const nx_episode *t, uint32_t rank);
/* Whether |rank| has come to NX_EPISODE_DONE. */
bool nx_episode_is_done(const nx_episode *t, uint32_t rank);

/* The operation |number| has failed on |rank|, which may be in it or about to begin
 * it: all others end.  Once for a rank: the first counts. */
void nx_board_break(nx_board *b, nx_board_self *self, uint32_t rank, uint64_t number, nexar_err err,
                    const char *why);
/* Why the operation is broken.  NEXAR_OK, here and there: the whole group is, and its ranks hear
 * why by reliable broadcast. */
nexar_err nx_episode_trouble(const nx_episode *t, char why[NX_BOARD_WHY]);
/* Ranks that have not arrived in it, as bits. */
uint64_t nx_episode_missing(const nx_episode *t);

#endif /* NX_BOARD_H */
