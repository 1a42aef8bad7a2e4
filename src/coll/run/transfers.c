/* transfers.c - the messages of a run: creation, posting, completion, cancellation. */
#include "base/alloc.h"
#include "reduce/reduce.h"
#include "run_inner.h"

enum { SPARE_FLIGHTS = 512 };

/* ---- life ---------------------------------------------------------------------------- */

static nx_transfer *flight_take(nx_run *run, nx_step_id step)
{
    nx_list *spare = nx_list_pop(&run->group->flights);
    nx_transfer *f =
        (spare != NULL) ? nx_list_entry(spare, nx_transfer, link) : nx_zalloc(sizeof(*f));

    if (f == NULL) {
        return NULL;
    }
    run->group->nflights -= (spare != NULL);
    f->run = run;
    f->step = step;
    f->cancelled = f->said = false;
    f->many = NULL;
    f->landing = NULL;
    f->dev = NULL;
    nx_list_push_back(&run->flying, &f->link);
    return f;
}

void nx_transfer_give_back(nx_transfer *f)
{
    nx_group *g = f->run->group;

    nx_list_remove(&f->link);
    nx_free(f->many);
    nx_free(f->landing);
    nx_run_dev_free(f->run, f->dev);
    if (g->nflights < SPARE_FLIGHTS) {
        nx_list_push_front(&g->flights, &f->link);
        g->nflights++;
    } else {
        nx_free(f);
    }
}

void nx_run_free_flights(nx_list *flights)
{
    nx_list *at;

    while ((at = nx_list_pop(flights)) != NULL) {
        nx_free(nx_list_entry(at, nx_transfer, link));
    }
}

/* ---- completion ---------------------------------------------------------------------- */

/* The message |f| has failed, though this run did not cancel it. */
static void flight_failed(nx_transfer *f)
{
    nx_run *run = f->run;
    const nx_registry_config *hub = nx_registry_config_of(run->group->hub);
    const nx_step *step = nx_run_step(run, f->step);
    char text[NX_REGISTRY_TEXT];

    if (f->req.err == NEXAR_ECANCELED) {
        /* The sender's run has failed: its ABORT follows. */
        nx_list_remove(&f->link);
        nx_list_push_back(&run->orphans, &f->link);
        return;
    }
    if ((f->req.err == NEXAR_ETRUNC) || (f->req.err == NEXAR_EMISMATCH)) {
        const nx_uneven u = {.from = step->peer,
                             .to = run->group->rank,
                             .sent = f->req.bytes / run->binding.elem_size,
                             .expected = step->len};
        char why[NX_RUN_WHY];

        nx_mark_uneven(why, sizeof(why), run->number, &run->mark, &u);
        nx_run_fail(run, true, NEXAR_EMISMATCH, "%s", why);
    } else {
        nx_run_fail(run, true, f->req.err, "%s: %s",
                    hub->peer_text(hub->ctx, nx_group_peer(run->group, step->peer), text),
                    f->req.why);
    }
    nx_transfer_give_back(f);
}

void nx_transfer_over(nx_transfer *f)
{
    nx_run *run = f->run;

    if (f->req.err == NEXAR_OK) {
        nx_step_id id = f->step;

        if (f->landing != NULL) {
            const nx_step *step = nx_run_step(run, id);

            nx_step_deliver(step, &run->binding, run->dtype, run->op, 0, f->landing, step->len);
        }
        nx_transfer_give_back(f);
        nx_run_finish_step(run, id);
    } else if (f->cancelled || (run->err != NEXAR_OK)) {
        nx_transfer_give_back(f);
    } else {
        flight_failed(f);
    }
}

static void on_flight(nx_req *req)
{
    nx_transfer *f = (nx_transfer *)req; /* its first member */
    nx_run *run = f->run;
    const nx_step *step = nx_run_step(run, f->step);
    const bool sent = (step->kind == NX_STEP_SEND);

    nx_run_enter(run);
    if ((req->err == NEXAR_OK) && !sent && (req->bytes != step->len * run->binding.elem_size)) {
        req->err = NEXAR_EMISMATCH; /* shorter than the step */
    }
    nx_group_conclude(run->group, run); /* before the run can end, successfully or by a length */
    if ((f->dev != NULL) && sent) {
        nx_run_dev_sent(f);
    } else if (f->dev != NULL) {
        nx_run_dev_received(f);
    } else {
        nx_transfer_over(f);
    }
    nx_run_leave(run);
}

void nx_transfer_cancel_all(nx_run *run)
{
    nx_msg *msg = nx_registry_config_of(run->group->hub)->msg;
    nx_list all;

    /* Cancelling one transfer may complete others, which then leave their list. */
    nx_list_init(&all);
    while (!nx_list_empty(&run->flying)) {
        nx_list *at = nx_list_pop(&run->flying);

        nx_list_push_back(&all, at);
    }
    while (!nx_list_empty(&all)) {
        nx_transfer *f = nx_list_entry(nx_list_pop(&all), nx_transfer, link);

        nx_list_push_back(&run->flying, &f->link);
        f->cancelled = true;
        (void)nx_msg_cancel(msg, &f->req);
    }
}

/* ---- start --------------------------------------------------------------------------- */

static uint64_t step_tag(const nx_run *run, const nx_step *step)
{
    return ((uint64_t)nx_group_part_id(run->number, run->part) << NX_PART_SHIFT) |
           nx_step_tag(step->round, step->segment);
}

void nx_transfer_send(nx_transfer *f, const nx_bytes *bytes, size_t n, uint64_t total)
{
    const nx_group *g = f->run->group;
    const nx_step *step = nx_run_step(f->run, f->step);
    const uint32_t peer = nx_group_peer(g, step->peer);
    nx_msg *msg = nx_registry_config_of(g->hub)->msg;

    f->req.mark = f->run->mark;
    if (total > bytes[0].len) {
        nx_msg_send_stream(msg, &f->req, peer, nx_group_context(g), step_tag(f->run, step),
                           bytes[0], total);
    } else {
        nx_msg_send(msg, &f->req, peer, nx_group_context(g), step_tag(f->run, step), bytes, n);
    }
}

void nx_transfer_receive(nx_transfer *f, const nx_sink *sink)
{
    const nx_group *g = f->run->group;
    const nx_step *step = nx_run_step(f->run, f->step);

    nx_msg_recv(nx_registry_config_of(g->hub)->msg, &f->req, nx_group_peer(g, step->peer),
                nx_group_context(g), step_tag(f->run, step), sink);
}

/* Appends |stretch| as number |n| to |f|'s own array; false: no memory. */
static bool append(nx_transfer *f, nx_bytes stretch, size_t n)
{
    /* Capacity is a power of two, from 8 on: full when |n| is one. */
    if ((n == 0) || ((n >= 8) && ((n & (n - 1)) == 0))) {
        nx_bytes *grown = nx_grow(f->many, (n == 0) ? 8 : 2 * n, sizeof(*grown));

        if (grown == NULL) {
            return false;
        }
        f->many = grown;
    }
    f->many[n] = stretch;
    return true;
}

/* The memory that a send reads, into |one| or into memory of |f|; 0: out of memory. */
static size_t gather(nx_transfer *f, const nx_step *step, nx_bytes *one, const nx_bytes **out)
{
    const nx_binding *b = &f->run->binding;
    nx_cursor c = nx_cursor_start(b, step->a, step->len);
    nx_piece piece = {0};
    size_t n = 0;

    *one = (nx_bytes){0};
    *out = one;
    if (nx_cursor_room(&c) == step->len) {
        (void)nx_cursor_next(&c, SIZE_MAX, &piece);
        *one = (nx_bytes){.ptr = piece.ptr, .len = piece.len * b->elem_size};
        return 1;
    }
    for (; nx_cursor_next(&c, SIZE_MAX, &piece); n++) {
        const nx_bytes stretch = {.ptr = piece.ptr, .len = piece.len * b->elem_size};

        if (!append(f, stretch, n)) {
            return 0;
        }
    }
    *out = f->many;
    return n;
}

/* Consumes bytes of a receive that need more than a copy. */
static void take(void *ctx, uint64_t off, const void *data, size_t len)
{
    const nx_transfer *f = ctx;
    const nx_run *run = f->run;
    const size_t size = run->binding.elem_size;

    nx_step_deliver(nx_run_step(run, f->step), &run->binding, run->dtype, run->op,
                    (size_t)off / size, data, len / size);
}

static void fail_nomem(nx_run *run, nx_transfer *f)
{
    nx_transfer_give_back(f);
    nx_run_fail(run, true, NEXAR_ENOMEM, "rank %u has no memory for a message", run->group->rank);
}

/* Whether elements are reduced on arrival: sinks are cut at powers of two, and the application's
 * operations need aligned elements. */
static bool is_taken_on_arrival(const nx_run *run)
{
    return !nx_dtype_is_struct(run->dtype) && !nx_op_is_user(run->op);
}

static void start_receive(nx_run *run, nx_transfer *f, const nx_step *step)
{
    const size_t size = run->binding.elem_size;
    nx_cursor c = nx_cursor_start(&run->binding, step->dst, step->len);
    nx_sink sink = {.room = (uint64_t)step->len * size, .unit = (uint32_t)size};
    nx_iov_span span = {0};
    nx_piece piece;

    if ((step->kind == NX_STEP_RECV) && (nx_cursor_room(&c) == step->len)) {
        if (nx_cursor_next(&c, SIZE_MAX, &piece)) {
            span = (nx_iov_span){.ptr = piece.ptr, .len = piece.len * size};
        }
        sink.iov = &span;
        sink.niov = 1;
    } else if (is_taken_on_arrival(run)) {
        sink.take = take;
        sink.ctx = f;
    } else {
        f->landing = nx_calloc(step->len + 1, size);
        if (f->landing == NULL) {
            fail_nomem(run, f);
            return;
        }
        span = (nx_iov_span){.ptr = f->landing, .len = step->len * size};
        sink.iov = &span;
        sink.niov = 1;
    }
    nx_transfer_receive(f, &sink);
}

static void start_send(nx_run *run, nx_transfer *f, const nx_step *step)
{
    const nx_bytes *bytes;
    nx_bytes one;
    size_t n = gather(f, step, &one, &bytes);

    if (n == 0) {
        fail_nomem(run, f);
        return;
    }
    nx_transfer_send(f, bytes, n, 0);
}

void nx_transfer_start(nx_run *run, nx_step_id id)
{
    const nx_step *step = nx_run_step(run, id);
    const bool on_device = nx_run_on_device(run, step);
    nx_transfer *f = flight_take(run, id);

    if (f == NULL) {
        nx_run_fail(run, true, NEXAR_ENOMEM, "rank %u has no memory for a message",
                    run->group->rank);
        return;
    }
    f->req.on_done = on_flight;
    f->req.event = NULL;
    if (step->kind != NX_STEP_SEND) {
        if (on_device) {
            nx_run_dev_receive(f);
        } else {
            start_receive(run, f, step);
        }
    } else if (on_device) {
        nx_run_dev_send(f);
    } else {
        start_send(run, f, step);
    }
}

/* ---- pending messages ---------------------------------------------------------------- */

void nx_run_waiting(const nx_run *run,
                    void (*each)(void *ctx, uint32_t rank, bool receiving, uint64_t bytes),
                    void *ctx)
{
    const nx_list *lists[] = {&run->flying, &run->orphans};

    for (size_t i = 0; i < 2; i++) {
        for (const nx_list *at = lists[i]->next; at != lists[i]; at = at->next) {
            const nx_transfer *f = nx_list_entry(at, nx_transfer, link);
            const nx_step *step = nx_run_step(run, f->step);

            each(ctx, step->peer, step->kind != NX_STEP_SEND,
                 (uint64_t)step->len * run->binding.elem_size);
        }
    }
}

bool nx_run_take_unannounced(nx_run *run, uint32_t *rank)
{
    bool found = false;

    for (const nx_list *at = run->flying.next; at != &run->flying; at = at->next) {
        nx_transfer *f = nx_list_entry(at, nx_transfer, link);
        const nx_step *step = nx_run_step(run, f->step);

        if (!f->said && (step->kind != NX_STEP_SEND) && (!found || (step->peer == *rank))) {
            f->said = found = true;
            *rank = step->peer;
        }
    }
    return found;
}

bool nx_run_waits_for_cancelled(const nx_run *run, uint32_t rank)
{
    for (const nx_list *at = run->orphans.next; at != &run->orphans; at = at->next) {
        const nx_transfer *f = nx_list_entry(at, nx_transfer, link);

        if (run->program->sched.steps[f->step].peer == rank) {
            return true;
        }
    }
    return false;
}
