/*
 * hub_fuzz.c - frames about collectives from other ranks (ABORT, CALLED, DETACHED, WAITS) and
 * fingerprints of their messages, to a rank that runs collectives itself.  A failed run has an
 * error and a message, a difference is found, and every run ends.
 *
 * Input: records of an operation byte, a length byte, and that many bytes.  The lowest two bits are
 * the operation: a control frame; a fingerprint; one more run or, without bytes, the opening or
 * closing of a group, for which frames may have arrived before; time passes or, with the next bit,
 * a peer is down.  The next two bits are the peer.
 */
#include <string.h>

#include "base/log.h"
#include "coll/group/group.h"
#include "coll/run/run.h"
#include "msg/control.h"
#include "nowhere.h"
#include "wire/wire.h"

_Static_assert((NX_CONTROL_ABORT == 0x40) && (NX_CONTROL_CALLED == 0x4a) &&
                   (NX_CONTROL_DETACHED == 0x4b),
               "corpus/hub has frames by their numbers: where these move, it must follow");

enum { SIZE = 3, COMM = 5, LATE = 2 /* groups that are opened later */, RUNS = 8, COUNT = 4 };

typedef struct stage {
    nx_clock_manual clock;
    nx_loop *loop;
    nx_msg *msg;
    nx_early *early;
    nx_registry *hub;
    nx_group group, late;
    uint32_t opened; /* number of times that |late| was opened or closed */
    nxt_nowhere links[SIZE];
    unsigned begun, ended;
    float send[COUNT * SIZE], recv[COUNT * SIZE];
} stage;

static nexar_err connect_peer(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                              nx_link **link)
{
    return nxt_nowhere_connect(&((stage *)ctx)->links[peer], peer, up, up_ctx, link);
}

static nx_verdict on_mark(void *ctx, uint32_t peer, nx_context context, uint64_t tag,
                          const nx_mark *mark)
{
    return nx_registry_on_mark(((stage *)ctx)->hub, peer, context, tag, mark);
}

static const char *peer_text(void *ctx, uint32_t peer, char *buf)
{
    (void)ctx;
    buf[0] = (char)('0' + peer);
    buf[1] = '\0';
    return buf;
}

static void on_tell(void *ctx, uint32_t peer, const void *frame, size_t len)
{
    const uint8_t type = *(const uint8_t *)frame;

    (void)ctx;
    nxt_must((peer < SIZE) && (peer != 0) && (len > 9));
    nxt_must((type == NX_CONTROL_ABORT) || (type == NX_CONTROL_CALLED));
}

static void on_done(nx_run *run)
{
    stage *s = run->owner;

    nxt_must((run->err == NEXAR_OK) || (run->why[0] != '\0') || (run->err == NEXAR_ECANCELED));
    nxt_must(memchr(run->why, '\0', sizeof(run->why)) != NULL);
    s->ended++;
    nx_run_destroy(run);
}

static void begin_run(stage *s, const uint8_t *data)
{
    static const nx_coll_kind kinds[] = {NX_BARRIER, NX_ALLREDUCE, NX_BROADCAST, NX_ALLTOALL};
    const nx_coll_call call = {
        .coll = {.kind = kinds[data[0] & 3], .count = COUNT, .root = (data[0] >> 2) % SIZE},
        .dtype = NEXAR_F32,
        .op = NEXAR_SUM,
        .send = s->send,
        .recv = s->recv};
    nx_run *run = NULL;

    if ((s->begun - s->ended >= RUNS) || (nx_run_make(&run, &s->group, &call, 0) != NEXAR_OK)) {
        return;
    }
    run->on_done = on_done;
    run->owner = s;
    s->begun++;
    nx_run_begin(run);
}

static void take_mark(stage *s, uint32_t peer, const uint8_t *data, size_t len)
{
    nx_reader r = nx_reader_make(data, len);
    const nx_context context = {
        .comm = nx_read_u8(&r) & 7U, .kind = NX_KIND_COLL, .class = NX_CLASS_COLL};
    const uint64_t number = nx_read_u8(&r);
    nx_mark mark = {.word = {nx_read_u64(&r), nx_read_u64(&r)}};
    char text[NX_CALL_TEXT];

    nxt_must(strlen(nx_mark_text(&mark, text)) < sizeof(text));
    nxt_must(nx_mark_name(&mark) != NULL);
    (void)nx_registry_on_mark(s->hub, peer, context, number << NX_NUMBER_SHIFT, &mark);
}

static void replay(void *ctx, const nx_early_frame *f)
{
    const stage *s = ctx;
    const uint8_t *data = f->data;

    nxt_must((f->key.from < SIZE) && (f->key.from != 0));
    if (f->key.kind == NX_EARLY_FINISHED) {
        nx_registry_on_finished(s->hub, (uint32_t)f->key.from, (uint32_t)f->key.id, data[0]);
    } else {
        nxt_must(nx_registry_on_control(s->hub, (uint32_t)f->key.from, data, f->len));
    }
}

/* Opens the next group that does not exist yet, or closes it. */
static void open_or_close(stage *s)
{
    if (s->opened >= 2 * LATE) {
        return;
    }
    if (s->opened++ % 2 != 0) {
        nx_group_close(&s->late);
        return;
    }
    s->late = (nx_group){.hub = s->hub, .comm = COMM + (s->opened + 1) / 2, .size = SIZE};
    nxt_must(nx_group_open(&s->late) == NEXAR_OK);
    nx_early_deliver(s->early, NX_EARLY_CONTROL, s->late.comm, replay, s);
    nx_early_deliver(s->early, NX_EARLY_FINISHED, s->late.comm, replay, s);
    nxt_must(s->late.departure == NX_DEPARTURE_NONE);
}

static void act(stage *s, uint8_t op, const uint8_t *data, size_t len)
{
    const uint32_t peer = 1 + (op >> 3 & 1U);

    if ((op & 3) == 0) {
        (void)nx_registry_on_control(s->hub, peer, data, len);
    } else if ((op & 3) == 1) {
        take_mark(s, peer, data, len);
    } else if ((op & 3) == 2) {
        if (len > 0) {
            begin_run(s, data);
        } else {
            open_or_close(s);
        }
    } else if ((op & 4) != 0) {
        nx_registry_on_down(s->hub, peer, NEXAR_EPEER, "it has gone");
    } else {
        s->clock.ns += NX_CALLED_NS;
    }
    nx_loop_kick(s->loop);
    for (uint32_t i = 1; i < SIZE; i++) {
        nxt_nowhere_give_back(&s->links[i], NEXAR_OK);
    }
    nx_loop_kick(s->loop);
}

static void begin(stage *s)
{
    const nx_msg_config mc = {.peers = SIZE,
                              .inline_max = 32,
                              .eager_max = 48,
                              .connect = connect_peer,
                              .on_mark = on_mark,
                              .ctx = s};
    nx_registry_config hc = {.verify = true, .peer_text = peer_text, .tell = on_tell, .ctx = s};
    nx_msg_config with = mc;

    memset(s, 0, sizeof(*s));
    nx_clock_manual_init(&s->clock, 1);
    for (uint32_t i = 0; i < SIZE; i++) {
        nxt_nowhere_init(&s->links[i]);
    }
    nxt_must(nx_loop_create(&s->loop, &s->clock.clock) == NEXAR_OK);
    nx_loop_lock(s->loop);
    with.loop = s->loop;
    nxt_must(nx_msg_create(&s->msg, &with) == NEXAR_OK);
    hc.loop = s->loop;
    nxt_must(nx_early_create(&s->early) == NEXAR_OK);
    hc.msg = s->msg;
    hc.early = s->early;
    nxt_must(nx_registry_create(&s->hub, &hc) == NEXAR_OK);
    s->group = (nx_group){.hub = s->hub, .comm = COMM, .size = SIZE};
    nxt_must(nx_group_open(&s->group) == NEXAR_OK);
}

static void end(stage *s)
{
    nx_registry_stop(s->hub, NEXAR_ECANCELED, "the end");
    nx_msg_destroy(s->msg);
    for (uint32_t i = 1; i < SIZE; i++) {
        nxt_nowhere_give_back(&s->links[i], NEXAR_EPEER);
    }
    nx_loop_kick(s->loop);
    nxt_must(s->ended == s->begun);
    if (s->opened % 2 != 0) {
        nx_group_close(&s->late);
    }
    nx_group_close(&s->group);
    nx_registry_destroy(s->hub);
    nx_early_destroy(s->early);
    nx_loop_kick(s->loop);
    nx_loop_unlock(s->loop);
    nx_loop_destroy(s->loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static stage s;
    size_t at = 0;

    nx_log_set_level(NX_LOG_ERROR);
    begin(&s);
    while (size - at >= 2) {
        const size_t len = (data[at + 1] < size - at - 2) ? data[at + 1] : size - at - 2;

        act(&s, data[at], data + at + 2, len);
        at += 2 + len;
    }
    end(&s);
    return 0;
}
