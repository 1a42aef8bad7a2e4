/* board.c - arriving, waiting, sleeping and breaking. */
#include "board.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/sys.h"
#include "base/text/sentence.h"
#include "base/text/text.h"
#include "base/wait/cpu.h"
#include "damage.h"

static const uint64_t MAGIC = UINT64_C(0x6e78626f61726431);
enum { VERSION = 7 };

size_t nx_board_bytes(uint32_t size)
{
    return offsetof(nx_board, slots) + 2 * (size_t)size * sizeof(nx_board_slot);
}

void nx_board_init(nx_board *b, uint32_t size, bool roomy)
{
    b->roomy = roomy;
    b->magic = MAGIC;
    b->version = VERSION;
    b->size = size;
}

bool nx_board_is(const nx_board *b, uint32_t size)
{
    return (b->magic == MAGIC) && (b->version == VERSION) && (b->size == size);
}

/* ---- sleeping ------------------------------------------------------------------------ */

static void futex_wake(_Atomic uint32_t *word)
{
    nx_sys_futex(word, FUTEX_WAKE, INT_MAX, NULL);
}

/* Sleeps while |word| is |value|, for |span_ns| of real time at most. */
static void futex_sleep(_Atomic uint32_t *word, uint32_t value, uint64_t span_ns)
{
    const struct timespec span = nx_sys_timespec(span_ns);

    nx_sys_futex(word, FUTEX_WAIT, value, (span_ns == UINT64_MAX) ? NULL : &span);
}

static void ring(nx_board_rank *r)
{
    atomic_store(&r->asleep, 0);
    atomic_fetch_add(&r->bell, 1);
    futex_wake(&r->bell);
}

/* Wakes rank |r| after a sequentially consistent store has published a cell. */
static void wake(nx_board_rank *r)
{
    if (atomic_load(&r->asleep) != 0) {
        ring(r);
    }
}

/* ---- errors -------------------------------------------------------------------------- */

void nx_board_break(nx_board *b, nx_board_self *self, uint32_t rank, uint64_t number, nexar_err err,
                    const char *why)
{
    nx_board_rank *r = &b->ranks[rank];

    if (self->copy.broke) {
        return;
    }
    self->copy.broke = true;
    self->copy.number = number;
    self->copy.err = (int32_t)err;
    r->number = number;
    r->err = (int32_t)err;
    (void)nx_sentence(r->why, sizeof(r->why), "%s", why);
    atomic_fetch_or(&b->broken, UINT64_C(1) << rank);
    for (uint32_t i = 0; i < NX_BOARD_RANKS;
         i++) { /* whatever damage other ranks have done to |size| */
        ring(&b->ranks[i]);
    }
}

/* The rank that has broken this operation; the size: none. */
static uint32_t breaker(const nx_episode *t, uint64_t broken)
{
    uint32_t rank = 0;

    while ((rank < t->size) &&
           (((broken >> rank & 1) == 0) || (t->board->ranks[rank].number != t->number))) {
        rank++;
    }
    return rank;
}

static bool broken_before(const nx_episode *t, uint64_t broken)
{
    for (uint32_t rank = 0; rank < t->size; rank++) {
        const uint64_t number = t->board->ranks[rank].number;

        /* 0: the rank has reported nothing, and its bit is damage. */
        if (((broken >> rank & 1) != 0) && (number != 0) && (number < t->number)) {
            return true;
        }
    }
    return false;
}

nx_episode_end nx_episode_check(const nx_episode *t)
{
    const uint64_t broken = atomic_load(&t->board->broken);

    if (broken == 0) {
        return NX_EPISODE_ON;
    }
    if (breaker(t, broken) < t->size) {
        return NX_EPISODE_BROKEN;
    }
    return broken_before(t, broken) ? NX_EPISODE_ENGINE : NX_EPISODE_ON;
}

nexar_err nx_episode_trouble(const nx_episode *t, char why[NX_BOARD_WHY])
{
    const uint32_t rank = breaker(t, atomic_load(&t->board->broken));
    const nx_board_rank *r = &t->board->ranks[rank % NX_BOARD_RANKS];
    const nexar_err err = (nexar_err)r->err;

    memcpy(why, r->why, NX_BOARD_WHY);
    why[NX_BOARD_WHY - 1] = '\0';
    nx_clean_text(why, strlen(why));
    return ((err <= NEXAR_OK) && (err >= NEXAR_EINTERNAL)) ? err : NEXAR_EPROTO;
}

/* ---- waiting ------------------------------------------------------------------------- */

/* The condition that |t| waits for: |*word|, of |rank|, is |value| or more. */
typedef struct want {
    uint32_t rank;
    const _Atomic uint64_t *word;
    uint64_t value;
    bool arriving;
} want;

/* Sequentially consistent with |broken|: see "Leaving". */
static bool is_there(const want *w)
{
    return atomic_load(w->word) >= w->value;
}

/* Checks the rarer conditions. NX_EPISODE_ON: nothing. */
static nx_episode_end look_round(const nx_episode *t, const want *w)
{
    const nx_board_rank *r = &t->board->ranks[w->rank];
    nx_episode_end end = nx_episode_check(t);

    if (w->arriving) {
        /* In this order: see nx_board_begun. */
        if ((end == NX_EPISODE_ON) && (atomic_load(&r->engine) >= t->number) &&
            (atomic_load(&r->begun) < t->number)) {
            return NX_EPISODE_ENGINE;
        }
        return end;
    }
    if (end == NX_EPISODE_ENGINE) {
        end = NX_EPISODE_ON; /* all have arrived: the call completes here */
    }
    /* A rank leaves only for a reason that it has announced before, or that all ranks find
     * alike. */
    if ((end == NX_EPISODE_ON) && (atomic_load(&r->left) >= t->number) && !is_there(w)) {
        end = nx_episode_check(t);
        (void)nx_cell_differs(t->self, end != NX_EPISODE_BROKEN, "left");
        end = (end == NX_EPISODE_BROKEN) ? end : NX_EPISODE_DAMAGED;
    }
    return end;
}

/* Polls |n| times. */
static bool comes_within(const want *w, unsigned n)
{
    while ((n > 0) && !is_there(w)) {
        nx_cpu_pause();
        n--;
    }
    return n > 0;
}

/* Polls as long as the policy allows. NX_EPISODE_ON: the awaited value is there, or the policy
 * parks. */
static nx_episode_end poll_for(const nx_episode *t, const want *w, nx_wait *wait)
{
    uint64_t now_ns = wait->begun_ns;
    nx_wait_step step;

    while ((step = nx_wait_next(wait, now_ns)) != NX_WAIT_PARK) {
        nx_episode_end end;

        if ((step == NX_WAIT_YIELD) && (t->loop != NULL)) {
            (void)nx_loop_migrate_unlocked(t->loop, now_ns);
        }
        nx_wait_relax(wait, step);
        if (comes_within(w, nx_wait_spins(t->waits, wait->history) ? nx_wait_polls_of_spin(t->waits)
                                                                   : 1)) {
            nx_wait_arrived(wait, nx_now(t->clock));
            return NX_EPISODE_ON;
        }
        end = look_round(t, w);
        now_ns = nx_now(t->clock);
        if ((end != NX_EPISODE_ON) || ((t->deadline_ns != 0) && (now_ns >= t->deadline_ns))) {
            return end;
        }
    }
    return NX_EPISODE_ON;
}

/* Sleeps until |rank| has published something, or the board breaks. */
static nx_episode_end doze(const nx_episode *t, const want *w)
{
    nx_board_rank *r = &t->board->ranks[w->rank];
    const uint32_t bell = atomic_load(&r->bell);
    nx_episode_end end;

    atomic_store(&r->asleep, 1);
    if (atomic_load(w->word) >= w->value) {
        return NX_EPISODE_ON;
    }
    end = look_round(t, w);
    if (end != NX_EPISODE_ON) {
        return end;
    }
    const uint64_t now_ns = nx_now(t->clock);
    uint64_t span_ns = UINT64_MAX;

    if ((t->deadline_ns != 0) && (now_ns >= t->deadline_ns)) {
        return NX_EPISODE_LATE;
    }
    if (!nx_steps_are_well(t->board, t->self, t->rank)) {
        return NX_EPISODE_DAMAGED;
    }
    if (t->deadline_ns != 0) {
        span_ns = t->deadline_ns - now_ns;
    }
    if ((t->check_ns != 0) && (span_ns > t->check_ns)) {
        span_ns = t->check_ns; /* |asleep| may have been overwritten */
    }
    futex_sleep(&r->bell, bell, span_ns);
    return NX_EPISODE_ON;
}

/* Sleeps until the awaited value is there. */
static nx_episode_end sleep_for(const nx_episode *t, const want *w)
{
    nx_episode_end end = NX_EPISODE_ON;

    while ((end == NX_EPISODE_ON) && !is_there(w)) {
        end = doze(t, w);
    }
    return end;
}

/* Polls, then sleeps; the policy learns from both. */
static nx_episode_end poll_or_sleep(const nx_episode *t, const want *w)
{
    nx_wait_history *history = &t->self->waits;

    /* An answer that arrives within a spin costs no reading of the clock. */
    if (nx_wait_spins(t->waits, history) && comes_within(w, nx_wait_polls_of_spin(t->waits))) {
        return NX_EPISODE_ON;
    }
    nx_wait wait = nx_wait_begin(t->waits, history, nx_now(t->clock));
    nx_episode_end end = poll_for(t, w, &wait);

    if ((end != NX_EPISODE_ON) || is_there(w)) {
        return end;
    }
    end = sleep_for(t, w);
    nx_wait_woken(&wait, nx_now(t->clock), end == NX_EPISODE_ON);
    return end;
}

/* A value that is there counts, whatever failed later. */
static nx_episode_end wait_for(const nx_episode *t, const want *w)
{
    nx_episode_end end = NX_EPISODE_ON;

    if (!is_there(w)) {
        end = poll_or_sleep(t, w);
    }
    return is_there(w) ? NX_EPISODE_ON : end;
}

/* ---- episodes ------------------------------------------------------------------------ */

void nx_board_begun(nx_board *b, nx_board_self *self, uint32_t rank, uint64_t number)
{
    const uint64_t was = self->copy.begun;

    self->copy.begun = number;
    (void)nx_cell_differs(self, atomic_exchange(&b->ranks[rank].begun, number) != was, "begun");
}

void nx_board_engine(nx_board *b, nx_board_self *self, uint32_t rank, uint64_t number)
{
    nx_board_rank *r = &b->ranks[rank];
    const uint64_t was = self->copy.engine;

    if (was < number) {
        self->copy.engine = number;
        (void)nx_cell_differs(self, atomic_exchange(&r->engine, number) != was, "engine");
        wake(r);
    }
}

void *nx_episode_open(const nx_episode *t)
{
    nx_board_slot *s = nx_episode_slot(t, t->rank);

    (void)nx_slot_is_well(t->board, t->self, t->rank, (int)(t->turn & 1));
    t->self->copy.slots[t->turn & 1].seq = 0;
    atomic_store_explicit(&s->seq, 0, memory_order_relaxed);
    return s->data;
}

/* Releases the fields before |seq|: a reader of them sees that |seq| was cleared. */
void nx_episode_arrive(const nx_episode *t, const uint64_t mark[2], bool declines)
{
    nx_board_slot *s = nx_episode_slot(t, t->rank);
    nx_board_copy *copy = &t->self->copy;
    const int k = (int)(t->turn & 1);

    copy->slots[k].declines = declines;
    copy->slots[k].mark[0] = mark[0];
    copy->slots[k].mark[1] = mark[1];
    copy->slots[k].lends = s->lends;
    copy->slots[k].took_ns = s->took_ns;
    copy->slots[k].seq = t->number;
    atomic_store_explicit(&s->declines, declines, memory_order_release);
    atomic_store_explicit(&s->mark[0], mark[0], memory_order_release);
    atomic_store_explicit(&s->mark[1], mark[1], memory_order_release);
    (void)nx_cell_differs(t->self, atomic_exchange(&s->seq, t->number) != 0, "seq");
    wake(&t->board->ranks[t->rank]);
}

nx_episode_end nx_episode_all_here(const nx_episode *t)
{
    bool declined = false, passed = false;

    /* Each rank begins with the rank after it: so not all sleep on the same rank. */
    for (uint32_t i = 0; i < t->size; i++) {
        const uint32_t rank = (t->rank + i) % t->size;
        const nx_board_slot *s = nx_episode_slot(t, rank);
        const want w = {.rank = rank, .word = &s->seq, .value = t->number, .arriving = true};
        const nx_episode_end end = wait_for(t, &w);

        if (end != NX_EPISODE_ON) {
            return end;
        }
        declined = declined || (atomic_load_explicit(&s->declines, memory_order_acquire) != 0);
        if (atomic_load_explicit(&s->seq, memory_order_relaxed) != t->number) {
            passed = true;
            /* That rank is ahead of this operation, and so has run it by the engine. */
            if (nx_cell_differs(t->self, atomic_load(&t->board->ranks[rank].engine) < t->number,
                                "seq")) {
                return NX_EPISODE_DAMAGED;
            }
        }
    }
    return (declined || passed) ? NX_EPISODE_ENGINE : NX_EPISODE_ON;
}

uint32_t nx_episode_odd_one(const nx_episode *t, const uint64_t mark[2], uint64_t its[2])
{
    for (uint32_t rank = 0; rank < t->size; rank++) {
        const nx_board_slot *s = nx_episode_slot(t, rank);

        its[0] = atomic_load_explicit(&s->mark[0], memory_order_relaxed);
        its[1] = atomic_load_explicit(&s->mark[1], memory_order_relaxed);
        if ((its[0] != mark[0]) || (its[1] != mark[1])) {
            return rank;
        }
    }
    return t->size;
}

static uint64_t step_value(const nx_episode *t, uint32_t step)
{
    return (t->number << NX_EPISODE_STEP_BITS) | step;
}

void nx_episode_report(const nx_episode *t, uint32_t step)
{
    nx_board_rank *own = &t->board->ranks[t->rank];

    const uint64_t was = t->self->copy.step;

    t->self->copy.step = step_value(t, step);
    (void)nx_cell_differs(t->self, atomic_exchange(&own->step, t->self->copy.step) != was, "step");
    wake(own);
}

nx_episode_end nx_episode_wait_for(const nx_episode *t, uint32_t rank, uint32_t step)
{
    const nx_board_rank *r = &t->board->ranks[rank];
    const want w = {.rank = rank, .word = &r->step, .value = step_value(t, step)};
    const nx_episode_end end = wait_for(t, &w);
    const uint64_t now = atomic_load(&r->step) >> NX_EPISODE_STEP_BITS;

    /* That rank is ahead of this operation, and has begun the operation |now|. */
    if ((end == NX_EPISODE_ON) && (now != t->number) &&
        nx_cell_differs(t->self, atomic_load(&r->begun) < now, "step")) {
        return NX_EPISODE_DAMAGED;
    }
    return end;
}

void nx_episode_leave(const nx_episode *t)
{
    t->self->copy.left = t->number;
    atomic_store(&t->board->ranks[t->rank].left, t->number);
}

bool nx_episode_is_done(const nx_episode *t, uint32_t rank)
{
    return atomic_load(&t->board->ranks[rank].step) >= step_value(t, NX_EPISODE_DONE);
}

bool nx_episode_is_out(const nx_episode *t, uint32_t rank)
{
    return (atomic_load(&t->board->ranks[rank].left) >= t->number) || nx_episode_is_done(t, rank);
}

nx_episode_end nx_episode_all_at(const nx_episode *t, uint32_t step)
{
    nx_episode_end end = NX_EPISODE_ON;

    nx_episode_report(t, step);
    for (uint32_t i = 1; (i < t->size) && (end == NX_EPISODE_ON); i++) {
        end = nx_episode_wait_for(t, (t->rank + i) % t->size, step);
    }
    return end;
}

uint64_t nx_episode_missing(const nx_episode *t)
{
    uint64_t missing = 0;

    for (uint32_t rank = 0; rank < t->size; rank++) {
        if (atomic_load(&nx_episode_slot(t, rank)->seq) < t->number) {
            missing |= UINT64_C(1) << rank;
        }
    }
    return missing;
}
