/*
 * shm_test.c - pairing, falling back, a corrupted segment, and processes that are killed.
 */
#include "transport/shm/shm.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "shm_inner.h"
#include "unit.h"

enum { FAR = 64 << 20 };

typedef struct end {
    nx_loop *loop;
    nx_shm *shm;
    nx_shm_offer offers[2]; /* of members 1 and 2 */
    nx_link *link;
    nx_end ended;
    int ups, downs, accepts, frames, moves, fallbacks;
    nexar_err err;
    uint64_t bytes, sent;
    bool bad;
    uint8_t *place; /* NULL: bytes are only checked */
    nx_link *other; /* the link that fallback returns */
    int passes;     /* descriptors that arrived; the last one wrote its name */
} end;

static uint8_t at(uint64_t off)
{
    return (uint8_t)(off * 31 + (off >> 12));
}

static void on_up(void *ctx, nx_link *link)
{
    end *e = ctx;

    e->link = link;
    e->ups++;
}

static void on_frame(void *ctx, nx_link *link, nx_lane lane, const void *data, size_t len)
{
    (void)link;
    (void)lane;
    (void)data;
    (void)len;
    ((end *)ctx)->frames++;
}

static void on_data(void *ctx, nx_link *link, uint64_t id, uint64_t off, const void *data,
                    size_t len)
{
    end *e = ctx;

    (void)link;
    (void)id;
    for (size_t i = 0; i < len; i += 509) {
        e->bad = e->bad || (((const uint8_t *)data)[i] != at(off + i));
    }
    e->bytes += len;
}

static void *on_want(void *ctx, nx_link *link, uint64_t id, uint64_t off, size_t *len)
{
    end *e = ctx;

    (void)link;
    (void)id;
    if ((e->place == NULL) || (off >= FAR)) {
        return NULL;
    }
    *len = (*len < FAR - off) ? *len : (size_t)(FAR - off);
    return e->place + off;
}

static void on_sent(void *ctx, nx_link *link, nx_tx *tx, nexar_err err)
{
    (void)link;
    (void)tx;
    (void)err;
    ((end *)ctx)->sent++;
}

static void on_down(void *ctx, nx_link *link, nexar_err err, const char *why)
{
    end *e = ctx;

    (void)why;
    e->downs++;
    e->err = err;
    e->ended = link->ended;
    nx_link_close(link, false);
    e->link = NULL;
}

static void on_moved(void *ctx, nx_link *link, nx_link *to)
{
    end *e = ctx;

    assert_true(e->link == link);
    e->link = to;
    e->moves++;
}

static const nx_link_up UP = {.on_up = on_up,
                              .on_frame = on_frame,
                              .on_data = on_data,
                              .on_sent = on_sent,
                              .on_down = on_down,
                              .on_want = on_want,
                              .on_moved = on_moved};

static bool find(void *ctx, uint64_t member, nx_shm_offer *offer)
{
    *offer = ((end *)ctx)->offers[member - 1];
    return true;
}

static void on_accept(void *ctx, nx_link *link, uint64_t member)
{
    (void)member;
    ((end *)ctx)->accepts++;
    link->up = &UP;
    link->up_ctx = ctx;
}

static nexar_err fall_back(void *ctx, uint64_t member, const char *why, const nx_link_up *up,
                           void *up_ctx, nx_link **out)
{
    end *e = ctx;

    (void)member;
    assert_true(why[0] != '\0');
    assert_true((up == &UP) && (up_ctx == e));
    e->fallbacks++;
    *out = e->other;
    return NEXAR_OK;
}

/* Writes the name into the descriptor. */
static void on_pass(void *ctx, uint64_t member, uint64_t name, int fd)
{
    end *e = ctx;

    e->passes++;
    name += member << 32;
    assert_int_equal(write(fd, &name, sizeof(name)), sizeof(name));
    (void)close(fd);
}

static void open_end(end *e, nx_loop *loop, uint64_t member, bool no_reading)
{
    const nx_shm_config config = {.loop = loop,
                                  .random = &nx_random_system,
                                  .no_reading = no_reading,
                                  .find = find,
                                  .on_accept = on_accept,
                                  .on_pass = on_pass,
                                  .fallback = (e->other != NULL) ? fall_back : NULL,
                                  .ctx = e};

    e->loop = loop;
    assert_int_equal(nx_shm_open(&e->shm, &config), NEXAR_OK);
    assert_int_equal(nx_shm_start(e->shm, member), NEXAR_OK);
    e->offers[member - 1] = *nx_shm_offer_of(e->shm);
}

static void dial(end *e, uint64_t member)
{
    assert_int_equal(nx_shm_dial(e->shm, member, &UP, e, &e->link), NEXAR_OK);
}

static void say(end *e, int n)
{
    const nx_bytes bytes = {.ptr = "hello", .len = 5};

    while (n-- > 0) {
        assert_int_equal(nx_link_send_frame(e->link, NX_LANE_MESSAGE, &bytes, 1), NEXAR_OK);
    }
}

/* One iteration, or a short sleep. */
static void turn(nx_loop *loop)
{
    nx_event never = {0};

    (void)nx_loop_wait(loop, &never, nx_loop_refresh(loop) + 200000);
}

/* Iterates until |*what| is at least |n|. */
static void until(nx_loop *loop, const int *what, int n)
{
    uint64_t end_ns = nx_loop_refresh(loop) + UINT64_C(60000000000);

    while (*what < n) {
        assert_true(nx_loop_refresh(loop) < end_ns);
        turn(loop);
    }
}

/* ---- two ends on one loop ------------------------------------------------------------ */

typedef struct both {
    nx_loop *loop;
    end a, b; /* members 1 and 2 */
} both;

static void begin(both *t, nx_link *other)
{
    memset(t, 0, sizeof(*t));
    t->a.other = t->b.other = other;
    assert_int_equal(nx_loop_create(&t->loop, &nx_clock_system), NEXAR_OK);
    nx_loop_lock(t->loop);
    open_end(&t->a, t->loop, 1, false);
    open_end(&t->b, t->loop, 2, false);
    t->a.offers[1] = t->b.offers[1];
    t->b.offers[0] = t->a.offers[0];
}

static void finish(both *t)
{
    nx_shm_close(t->a.shm);
    nx_shm_close(t->b.shm);
    nx_loop_unlock(t->loop);
    nx_loop_destroy(t->loop);
}

static void test_crossing_dials_settle_on_one_link(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        both t;

        begin(&t, NULL);
        dial((order == 0) ? &t.a : &t.b, (order == 0) ? 2 : 1);
        dial((order == 0) ? &t.b : &t.a, (order == 0) ? 1 : 2);
        say(&t.a, 3);
        say(&t.b, 4);
        until(t.loop, &t.a.frames, 4);
        until(t.loop, &t.b.frames, 3);
        assert_int_equal(t.a.ups + t.b.ups, 2);
        assert_int_equal(t.a.accepts + t.b.accepts, 0);
        assert_int_equal(t.a.downs + t.b.downs, 0);
        assert_int_equal(t.a.frames + t.b.frames, 7);
        finish(&t);
    }
}

static void test_a_peer_without_the_key_is_rejected(void **state)
{
    both t;

    (void)state;
    begin(&t, NULL);
    t.a.offers[0].key[5] ^= 1; /* it does not know its own key */
    memcpy(((nx_shm_offer *)nx_shm_offer_of(t.a.shm))->key, t.a.offers[0].key, NX_SHM_KEY_SIZE);
    dial(&t.a, 2);
    until(t.loop, &t.a.downs, 1);
    assert_int_equal(t.a.err, NEXAR_ECONNECT);
    assert_int_equal(t.b.accepts, 0);
    assert_true(t.b.shm->by_member.n == 0);
    finish(&t);
}

/* Sends |w| on a socket of its own; the endpoint must hang up, and share nothing. */
static void be_rude(both *t, const nx_shm_word *w, size_t cut)
{
    struct sockaddr_storage address;
    socklen_t len = nx_shm_address(t->b.offers[1].name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), hung = 0;
    uint8_t data[NX_SHM_WORD_MAX], got[256];
    size_t n = nx_shm_word_encode(w, data);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, len), 0);
    assert_true(send(fd, data, n - cut, MSG_NOSIGNAL) > 0);
    for (int i = 0; (i < 100000) && !hung; i++) {
        ssize_t r = recv(fd, got, sizeof(got), MSG_DONTWAIT);

        hung = (r == 0) || ((r > 0) && (got[4] == NX_SHM_REFUSED));
        turn(t->loop);
    }
    assert_true(hung);
    (void)close(fd);
}

static void test_unauthenticated_peers_are_rejected(void **state)
{
    nx_shm_word w = {.type = NX_SHM_HELLO, .from = 1, .to = 3};
    both t;

    (void)state;
    begin(&t, NULL);
    be_rude(&t, &w, 0); /* to another member */
    w.to = 2;
    be_rude(&t, &w, 1); /* cut short */
    w.type = NX_SHM_PROOF;
    be_rude(&t, &w, 0); /* without a HELLO */
    w.type = NX_SHM_WELCOME;
    be_rude(&t, &w, 0);
    assert_int_equal(t.b.accepts, 0);
    dial(&t.a, 2); /* and the others are unaffected */
    say(&t.a, 1);
    until(t.loop, &t.b.frames, 1);
    finish(&t);
}

/* A caller of another user; only root can be one. */
static void call_as_another(both *t, const struct sockaddr_storage *address, socklen_t len)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(seteuid(65534), 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)address, len), 0);
    assert_int_equal(seteuid(0), 0);
    turn(t->loop);
    (void)close(fd);
}

/* A caller that cannot prove its identity. */
static void call_without_key(both *t, const struct sockaddr_storage *address, socklen_t len)
{
    const nx_shm_word hello = {.type = NX_SHM_HELLO, .from = 1, .to = 2},
                      proof = {.type = NX_SHM_PROOF};
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)address, len), 0);
    assert_int_equal(nx_shm_send(fd, &hello, NULL, 0), NEXAR_OK);
    assert_int_equal(nx_shm_send(fd, &proof, (const int[]){fd, fd}, 2), NEXAR_OK);
    turn(t->loop);
    turn(t->loop);
    (void)close(fd);
}

/* The number of lines that |calls| calls write to stderr. */
static unsigned lines_of(both *t, int calls,
                         void (*call)(both *t, const struct sockaddr_storage *address,
                                      socklen_t len))
{
    struct sockaddr_storage address;
    socklen_t len = nx_shm_address(t->b.offers[1].name, &address);
    const int saved = dup(STDERR_FILENO);
    FILE *lines = tmpfile();
    unsigned n = 0;
    char line[512];

    assert_true((saved >= 0) && (lines != NULL));
    assert_true(dup2(fileno(lines), STDERR_FILENO) >= 0);
    for (int i = 0; i < calls; i++) {
        call(t, &address, len);
    }
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    (void)close(saved);
    rewind(lines);
    while (fgets(line, sizeof(line), lines) != NULL) {
        n++;
    }
    (void)fclose(lines);
    return n;
}

static void test_a_flood_of_callers_writes_few_lines(void **state)
{
    enum { CALLS = 3000 };
    const uint64_t began_ns = nx_now(&nx_clock_system);
    unsigned lines, seconds;
    both t;

    (void)state;
    begin(&t, NULL);
    lines = lines_of(&t, CALLS, call_without_key);
    if (geteuid() == 0) {
        lines += lines_of(&t, CALLS, call_as_another);
    }
    seconds = (unsigned)((nx_now(&nx_clock_system) - began_ns) / UINT64_C(1000000000));
    assert_true((lines > 0) && (lines <= (seconds + 1) * (NX_LOG_LIMIT_LINES + 1)));
    assert_int_equal(t.b.accepts, 0);
    dial(&t.a, 2); /* and the others are unaffected */
    say(&t.a, 1);
    until(t.loop, &t.b.frames, 1);
    finish(&t);
}

/* ---- falling back -------------------------------------------------------------------- */

typedef struct plain {
    nx_link base;
    int frames, parts, closes;
} plain;

static nexar_err plain_frame(nx_link *link, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    (void)lane;
    (void)bytes;
    (void)n;
    ((plain *)(void *)link)->frames++;
    return NEXAR_OK;
}

static nexar_err plain_part(nx_link *link, nx_tx *tx)
{
    (void)tx;
    ((plain *)(void *)link)->parts++;
    return NEXAR_OK;
}

static void plain_close(nx_link *link, bool drain)
{
    (void)drain;
    ((plain *)(void *)link)->closes++;
}

static const nx_link_ops plain_ops = {
    .name = "plain", .send_frame = plain_frame, .send_part = plain_part, .close = plain_close};

static void test_a_link_that_cannot_pair_moves_with_all_it_has(void **state)
{
    const nx_bytes bytes = {.ptr = "part", .len = 4};
    nx_tx tx = {.id = 1, .len = 4, .bytes = &bytes, .nbytes = 1};
    plain other = {.base = {.ops = &plain_ops}};
    both t;

    (void)state;
    begin(&t, &other.base);
    t.a.offers[1].name[0] ^= 1; /* nothing listens there */
    dial(&t.a, 2);
    say(&t.a, 3);
    assert_int_equal(nx_link_send_part(t.a.link, &tx), NEXAR_OK);
    until(t.loop, &t.a.moves, 1);
    assert_true(t.a.link == &other.base);
    assert_int_equal(other.frames, 3);
    assert_int_equal(other.parts, 1);
    assert_int_equal(t.a.fallbacks, 1);
    assert_int_equal(t.a.ups + t.a.downs, 0);
    finish(&t);
}

static void test_a_link_that_is_pairing_can_be_moved(void **state)
{
    plain other = {.base = {.ops = &plain_ops}};
    both t;

    (void)state;
    begin(&t, NULL);
    dial(&t.a, 2);
    say(&t.a, 2);
    assert_true(nx_shm_is(t.a.link) && nx_shm_pairing(t.a.link));
    assert_int_equal(nx_shm_move(t.a.link, &other.base), NEXAR_OK);
    assert_int_equal(t.a.moves, 1);
    assert_int_equal(other.frames, 2);
    for (int i = 0; i < 50; i++) {
        turn(t.loop);
    }
    assert_true(nx_list_empty(&t.a.shm->links));
    assert_int_equal(t.b.accepts, 0);
    finish(&t);
}

static void test_a_closed_link_moves_what_it_owes(void **state)
{
    plain other = {.base = {.ops = &plain_ops}};
    both t;

    (void)state;
    begin(&t, &other.base);
    t.a.offers[1].name[0] ^= 1;
    dial(&t.a, 2);
    say(&t.a, 2);
    nx_link_close(t.a.link, true);
    until(t.loop, &other.closes, 1);
    assert_int_equal(other.frames, 2);
    finish(&t);
}

/* ---- a corrupted segment ------------------------------------------------------------- */

static void scribble(nx_random_seeded *r, nx_segment *s)
{
    uint8_t *bytes = (uint8_t *)s;

    for (int i = 0; i < 8; i++) {
        bool first = nx_random_below(&r->random, 2) == 0;
        size_t where = first ? (size_t)nx_random_below(&r->random, sizeof(*s))
                             : (size_t)nx_random_below(&r->random, NX_SEGMENT_SIZE);

        bytes[where] = (uint8_t)nx_random_below(&r->random, 256);
    }
}

static void test_descriptors_are_passed(void **state)
{
    static uint8_t memory[200000];
    const nx_bytes bytes = {.ptr = memory, .len = sizeof(memory)};
    const nx_shm_word hello = {.type = NX_SHM_HELLO, .from = 1, .to = 2};
    nx_tx tx = {.id = 1, .len = sizeof(memory), .bytes = &bytes, .nbytes = 1};
    uint64_t name = 0;
    int ends[2];
    both t;

    (void)state;
    begin(&t, NULL);
    assert_int_equal(pipe(ends), 0);
    dial(&t.a, 2);
    assert_int_equal(nx_shm_pass(t.a.link, 7, ends[1]), NEXAR_ESYS);
    until(t.loop, &t.b.ups, 1);
    until(t.loop, &t.a.ups, 1);
    for (uint64_t i = 0; i < 5; i++) {
        end *from = (i % 2 == 0) ? &t.a : &t.b, *to = (i % 2 == 0) ? &t.b : &t.a;

        assert_int_equal(nx_shm_pass(from->link, 100 + i, ends[1]), NEXAR_OK);
        until(t.loop, &to->passes, 1 + (int)(i / 2));
        assert_int_equal(read(ends[0], &name, sizeof(name)), sizeof(name));
        assert_int_equal(name, 100 + i + ((i % 2 == 0) ? UINT64_C(1) << 32 : UINT64_C(2) << 32));
    }
    /* A part is read even while descriptors wait to be taken, one per iteration. */
    assert_int_equal(nx_link_send_part(t.a.link, &tx), NEXAR_OK);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(nx_shm_pass(t.a.link, 0, ends[1]), NEXAR_OK);
    }
    until(t.loop, &t.b.passes, 3 + 8);
    for (int i = 0; (i < 100000) && (t.a.sent == 0); i++) {
        turn(t.loop);
    }
    assert_int_equal(t.b.bytes, sizeof(memory));
    say(&t.a, 1); /* the link is unchanged */
    until(t.loop, &t.b.frames, 1);
    assert_int_equal(nx_shm_send(nx_shm_from_base(t.a.link)->socket.fd, &hello, NULL, 0), NEXAR_OK);
    until(t.loop, &t.b.downs, 1);
    finish(&t);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

static void test_a_scribbler_ends_its_link_and_nothing_else(void **state)
{
    static uint8_t memory[200000];
    const nx_bytes bytes = {.ptr = memory, .len = sizeof(memory)};
    int downs = 0;

    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        nx_random_seeded r;
        nx_tx tx[2];
        both t;

        begin(&t, NULL);
        nx_random_seeded_init(&r, seed);
        dial(&t.a, 2);
        until(t.loop, &t.b.ups, 1);
        until(t.loop, &t.a.ups, 1);
        for (int i = 0; i < 2; i++) {
            tx[i] = (nx_tx){.id = 1, .len = sizeof(memory), .bytes = &bytes, .nbytes = 1};
            assert_int_equal(nx_link_send_part((i == 0) ? t.a.link : t.b.link, &tx[i]), NEXAR_OK);
        }
        for (int i = 0; (i < 400) && (t.a.downs + t.b.downs < 2); i++) {
            nx_event never = {0};

            if ((t.a.link != NULL) && (t.b.link != NULL)) {
                say(&t.a, 1);
                say(&t.b, 1);
                scribble(&r, nx_shm_from_base(t.a.link)->segment);
            }
            (void)nx_loop_wait(t.loop, &never, 0);
        }
        downs += t.a.downs + t.b.downs;
        finish(&t);
        assert_int_equal(t.a.sent + t.b.sent, 2);
    }
    assert_true(downs > 60); /* most of them were detected */
}

/* ---- two processes ------------------------------------------------------------------- */

typedef struct child {
    pid_t pid;
    int in, out;
} child;

static void swap(end *e, uint64_t member, int in, int out)
{
    assert_int_equal(write(out, &e->offers[member - 1], sizeof(nx_shm_offer)),
                     sizeof(nx_shm_offer));
    assert_int_equal(read(in, &e->offers[2 - member], sizeof(nx_shm_offer)), sizeof(nx_shm_offer));
}

/* Sends parts of every size, then of 64 MiB endlessly. */
static void run_child(int in, int out, bool no_reading)
{
    static const uint64_t sizes[] = {0, 1, 4096, 16384, 32768, 65537, 1 << 20, FAR};
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    uint8_t *memory = malloc(FAR);
    nx_bytes bytes[SIZES];
    nx_tx tx[SIZES];
    nx_loop *loop;
    end e = {0};

    assert_true((memory != NULL) && (nx_loop_create(&loop, &nx_clock_system) == NEXAR_OK));
    for (uint64_t i = 0; i < FAR; i++) {
        memory[i] = at(i);
    }
    nx_loop_lock(loop);
    open_end(&e, loop, 2, no_reading);
    swap(&e, 2, in, out);
    dial(&e, 1);
    for (uint64_t round = 0;; round++) {
        for (int i = 0; i < SIZES; i++) {
            bytes[i] = (nx_bytes){.ptr = memory, .len = sizes[i]};
            tx[i] = (nx_tx){.id = 1, .len = sizes[i], .bytes = &bytes[i], .nbytes = 1};
            assert_int_equal(nx_link_send_part(e.link, &tx[i]), NEXAR_OK);
        }
        while (e.sent < (round + 1) * SIZES) {
            turn(loop);
        }
        say(&e, 1);
    }
}

static child spawn(bool no_reading)
{
    int down[2], up[2];
    child c;

    assert_int_equal(pipe(down) + pipe(up), 0);
    c.pid = fork();
    assert_true(c.pid >= 0);
    if (c.pid == 0) {
        run_child(down[0], up[1], no_reading);
        _exit(0);
    }
    (void)close(down[0]);
    (void)close(up[1]);
    c.in = up[0];
    c.out = down[1];
    return c;
}

static void kill_in_the_middle(bool no_reading, bool placed)
{
    child c = spawn(no_reading);
    nx_loop *loop;
    end e = {0};

    e.place = placed ? malloc(FAR) : NULL;
    assert_int_equal(nx_loop_create(&loop, &nx_clock_system), NEXAR_OK);
    nx_loop_lock(loop);
    open_end(&e, loop, 1, no_reading);
    swap(&e, 1, c.in, c.out);
    until(loop, &e.frames, 1); /* a round is complete, and was right */
    assert_false(e.bad);
    assert_true(e.bytes >= FAR);
    assert_int_equal(nx_shm_from_base(e.link)->pid, c.pid);
    for (uint64_t before = e.bytes; e.bytes < before + 1000000;) {
        turn(loop);
    }
    assert_int_equal(kill(c.pid, SIGKILL), 0);
    until(loop, &e.downs, 1);
    assert_int_equal(e.err, NEXAR_EPEER);
    assert_false(e.bad);
    assert_int_equal(waitpid(c.pid, NULL, 0), c.pid);
    nx_shm_close(e.shm);
    nx_loop_unlock(loop);
    nx_loop_destroy(loop);
    (void)close(c.in);
    (void)close(c.out);
    free(e.place);
}

static void test_a_process_that_is_killed_is_noticed(void **state)
{
    (void)state;
    kill_in_the_middle(false, false);
    kill_in_the_middle(false, true);
    kill_in_the_middle(true, false);
}

/* ---- long parts ---------------------------------------------------------------------- */

enum { PARTS = 3, PART = 600 << 10 };

/* |n| at a time, until all have arrived. */
static void send_parts(both *t, const uint8_t *memory, int n)
{
    const nx_bytes bytes = {.ptr = memory, .len = PART};
    const uint64_t sent = t->a.sent + (uint64_t)n, came = t->b.bytes + (uint64_t)n * PART;
    const uint64_t end_ns = nx_loop_refresh(t->loop) + UINT64_C(60000000000);
    nx_tx tx[PARTS];

    for (int i = 0; i < n; i++) {
        tx[i] = (nx_tx){.id = 1, .len = PART, .bytes = &bytes, .nbytes = 1};
        assert_int_equal(nx_link_send_part(t->a.link, &tx[i]), NEXAR_OK);
    }
    while ((t->a.sent < sent) || (t->b.bytes < came)) {
        assert_true(nx_loop_refresh(t->loop) < end_ns);
        turn(t->loop);
    }
    assert_false(t->b.bad);
    assert_int_equal(t->b.bytes, came);
}

/* A pair of which the second reads what the first sends; returns the memory to send. */
static uint8_t *begin_reading(both *t)
{
    uint8_t *memory = malloc(PART);
    nx_shm_link *link;

    assert_non_null(memory);
    for (uint64_t i = 0; i < PART; i++) {
        memory[i] = at(i);
    }
    begin(t, NULL);
    dial(&t->a, 2);
    dial(&t->b, 1);
    say(&t->a, 1);
    until(t->loop, &t->b.frames, 1);
    until(t->loop, &t->a.ups, 1);
    link = nx_shm_from_base(t->b.link);
    for (int i = 0; i < NX_SHM_LENGTHS; i++) {
        nx_adaptive_init(&link->ways[i], NX_BY_READING);
    }
    return memory;
}

static void test_a_receiver_reads_at_once_where_that_is_faster(void **state)
{
    const nx_shm_link *link;
    uint8_t *memory;
    both t;

    (void)state;
    memory = begin_reading(&t);
    link = nx_shm_from_base(t.b.link);
    send_parts(&t, memory, 1);
    assert_int_equal(link->way, NX_BY_READING);
    assert_int_equal(link->ways[1].costs[NX_BY_READING], 1);
    for (int i = 0; i < 3 * NX_ADAPTIVE_FIRST; i++) { /* the ring is tried in between */
        send_parts(&t, memory, 1 + i % PARTS);
    }
    assert_int_equal(t.a.downs + t.b.downs, 0);
    finish(&t);
    free(memory);
}

static bool interrupts; /* every other call of ppoll */
static int interrupted;

/* Instead of libc's. */
// NOLINTNEXTLINE(readability-inconsistent-declaration-parameter-name): it has reserved ones
int ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout, const sigset_t *mask)
{
    static int calls;
    struct timespec ts = {0};

    if (interrupts && (calls++ % 2 == 0)) {
        interrupted++;
        errno = EINTR;
        return -1;
    }
    if (timeout != NULL) {
        ts = *timeout; /* the kernel writes the rest there */
    }
    return (int)syscall(SYS_ppoll, fds, n, (timeout == NULL) ? NULL : &ts, mask, 8);
}

static void test_a_signal_loses_nothing_of_what_is_read(void **state)
{
    uint8_t *memory;
    both t;

    (void)state;
    memory = begin_reading(&t);
    interrupts = true;
    send_parts(&t, memory, PARTS);
    interrupts = false;
    assert_true(interrupted > 0);
    assert_int_equal(t.a.downs + t.b.downs, 0);
    finish(&t);
    free(memory);
}

/* ---- a peer that ends while the pair is made ----------------------------------------- */

/* A process that listens at |offer|, and exits when |talks| packets have arrived from a caller, or
 * before any call. */
static pid_t fleeting(const nx_shm_offer *offer, int talks, int *ready)
{
    struct sockaddr_storage address;
    socklen_t len = nx_shm_address(offer->name, &address);
    int pipes[2];
    pid_t pid;

    assert_int_equal(pipe(pipes), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        char word[256];
        int caller = -1;

        if ((bind(fd, (const struct sockaddr *)&address, len) != 0) || (listen(fd, 4) != 0) ||
            (write(pipes[1], "r", 1) != 1)) {
            _exit(1);
        }
        caller = accept(fd, NULL, NULL);
        while ((talks-- > 0) && (recv(caller, word, sizeof(word), 0) > 0)) {
        }
        _exit(0); /* the caller's socket first, or the other one: in the kernel's order */
    }
    (void)close(pipes[1]);
    *ready = pipes[0];
    return pid;
}

static void end_while_pairing(int talks)
{
    nx_shm_offer offer = {0};
    char byte;
    int ready;
    nx_loop *loop;
    end e = {0};
    pid_t pid;

    nx_random_fill(&nx_random_system, offer.name, sizeof(offer.name));
    pid = fleeting(&offer, talks, &ready);
    assert_int_equal(read(ready, &byte, 1), 1);
    assert_int_equal(nx_loop_create(&loop, &nx_clock_system), NEXAR_OK);
    nx_loop_lock(loop);
    open_end(&e, loop, 1, false);
    e.offers[1] = offer;
    dial(&e, 2);
    say(&e, 1);
    until(loop, &e.downs, 1);
    assert_int_equal(e.err, NEXAR_EPEER);
    assert_int_equal(e.ended, NX_END_GONE);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    nx_shm_close(e.shm);
    nx_loop_unlock(loop);
    nx_loop_destroy(loop);
    (void)close(ready);
}

static void test_a_peer_that_ends_while_pairing_is_gone(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        end_while_pairing(i % 2);
    }
}

static void test_a_peer_that_has_ended_is_gone(void **state)
{
    both t;

    (void)state;
    begin(&t, NULL);
    nx_shm_close(t.b.shm);
    dial(&t.a, 2);
    until(t.loop, &t.a.downs, 1);
    assert_int_equal(t.a.err, NEXAR_EPEER);
    assert_int_equal(t.a.ended, NX_END_GONE);
    nx_shm_close(t.a.shm);
    nx_loop_unlock(t.loop);
    nx_loop_destroy(t.loop);
}

/* A process that closes its links because it was declared failed, or is out of memory, has not
 * left. */
static void test_a_close_without_drain_is_no_goodbye(void **state)
{
    both t;

    (void)state;
    for (int drain = 0; drain < 2; drain++) {
        begin(&t, NULL);
        dial(&t.a, 2);
        say(&t.a, 1);
        until(t.loop, &t.b.frames, 1);
        until(t.loop, &t.a.ups, 1);
        say(&t.a, 1);
        nx_link_close(t.a.link, drain != 0);
        t.a.link = NULL;
        until(t.loop, &t.b.downs, 1);
        assert_int_equal(t.b.err, NEXAR_EPEER);
        assert_int_equal(t.b.ended, (drain != 0) ? NX_END_LEFT : NX_END_GONE);
        assert_true((drain == 0) || (t.b.frames == 2));
        finish(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_crossing_dials_settle_on_one_link),
        cmocka_unit_test(test_a_peer_without_the_key_is_rejected),
        cmocka_unit_test(test_unauthenticated_peers_are_rejected),
        cmocka_unit_test(test_a_flood_of_callers_writes_few_lines),
        cmocka_unit_test(test_a_link_that_cannot_pair_moves_with_all_it_has),
        cmocka_unit_test(test_a_link_that_is_pairing_can_be_moved),
        cmocka_unit_test(test_a_closed_link_moves_what_it_owes),
        cmocka_unit_test(test_descriptors_are_passed),
        cmocka_unit_test(test_a_scribbler_ends_its_link_and_nothing_else),
        cmocka_unit_test(test_a_process_that_is_killed_is_noticed),
        cmocka_unit_test(test_a_receiver_reads_at_once_where_that_is_faster),
        cmocka_unit_test(test_a_signal_loses_nothing_of_what_is_read),
        cmocka_unit_test(test_a_peer_that_ends_while_pairing_is_gone),
        cmocka_unit_test(test_a_peer_that_has_ended_is_gone),
        cmocka_unit_test(test_a_close_without_drain_is_no_goodbye),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
