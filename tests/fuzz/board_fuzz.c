/*
 * board_fuzz.c - a board into which another process has written anything: a rank in an episode
 * completes it, and accepts nothing invalid from the board.
 *
 * Input: a byte for the size and the rank, one for the number of the operation, one for the
 * episode; then writes, each of an offset of two bytes (times 8, after the head of the board or,
 * with the highest bit, in its slots) and 8 bytes.
 */
#include <string.h>

#include "base/alloc.h"
#include "coll/host/board.h"
#include "fuzz.h"
#include "wire/wire.h"

enum { MOST = 4 };

static void garble(nx_board *b, nx_reader *r)
{
    while (nx_reader_left(r) >= 10) {
        const uint16_t off = nx_read_u16(r);
        const size_t at = (size_t)(off & 0x7fff) * 8;
        const uint8_t *bytes = nx_read_bytes(r, 8);

        if (off < 0x8000) { /* all of the ranks, and the size of the board */
            memcpy((uint8_t *)b + at % offsetof(nx_board, slots), bytes, 8);
        } else {
            memcpy((uint8_t *)&b->slots[at / 32 % (2 * (size_t)MOST)] + at % 32, bytes, 8);
        }
    }
}

static void take_turn(const nx_episode *t)
{
    const uint64_t mark[2] = {1, 2};
    char why[NX_BOARD_WHY];
    uint64_t its[2];

    (void)nx_episode_check(t);
    (void)nx_board_check(t->board, t->self, t->rank, true);
    nx_board_begun(t->board, t->self, t->rank, t->number);
    nxt_must(nx_episode_open(t) != NULL);
    nx_episode_arrive(t, mark, false);
    if (nx_episode_all_here(t) == NX_EPISODE_ON) {
        nxt_must(nx_episode_odd_one(t, mark, its) <= t->size);
        (void)nx_episode_all_at(t, 1);
        (void)nx_episode_all_at(t, NX_EPISODE_DONE);
    }
    nxt_must((nx_episode_missing(t) >> t->size) == 0);
    for (uint32_t rank = 0; rank < t->size; rank++) {
        (void)nx_episode_is_out(t, rank);
    }
    nx_board_break(t->board, t->self, t->rank, t->number, NEXAR_EPEER, "it ends");
    nxt_must((int)nx_episode_trouble(t, why) <= 0); /* NEXAR_OK: a rank has failed */
    nxt_must(memchr(why, '\0', sizeof(why)) != NULL);
    nx_episode_leave(t);
    nx_board_engine(t->board, t->self, t->rank, t->number);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static nx_board *board; /* exactly as large as the mapping of the other ranks */
    nx_reader r = nx_reader_make(data, size);
    const uint8_t how = nx_read_u8(&r);
    const uint32_t n = 2 + how % (MOST - 1);
    nx_board_self self = {0};
    const nx_wait_policy waits = {.poll_ns = 1, .spin_ns = 1, .pause_ns = 1};
    nx_episode t = {.size = n,
                    .rank = (uint32_t)(how >> 4) % n,
                    .waits = &waits,
                    .clock = &nx_clock_system,
                    .deadline_ns = 1,
                    .check_ns = 1,
                    .self = &self};

    t.number = (uint64_t)nx_read_u8(&r) + 1;
    t.turn = nx_read_u8(&r);
    if (board == NULL) {
        board = nx_alloc_aligned(NX_BOARD_LINE, nx_board_bytes(MOST));
        nxt_must(board != NULL);
    }
    memset(board, 0, offsetof(nx_board, slots));
    for (size_t i = 0; i < 2 * (size_t)MOST; i++) {
        memset(&board->slots[i], 0, 32);
    }
    nx_board_init(board, n, false);
    garble(board, &r);
    t.board = board;
    take_turn(&t);
    return 0;
}
