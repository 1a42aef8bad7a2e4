/* p2p_device.c - sends from a device and receives to one. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "core/p2p/p2p_op.h"
#include "device/inflow.h"
#include "device/outflow.h"

enum { REGIONS = 64 }; /* handed to the adapter together */

typedef struct nx_op_device {
    nx_op *op;
    nexar_iov one, *regions; /* of the device; owned if there are several */
    size_t n;
    size_t bytes; /* of all regions */

    /* A send. */
    nx_list link;  /* in inc->staged */
    nx_bytes host; /* the data sent first; or the caller's own ... */
    const nx_bytes *many;
    size_t nmany; /* ... in this many regions */
    nx_outflow out;
    bool with_msg; /* holds its first bytes */
    bool waits;    /* for the device, to read the next */
    bool ready, cancelled;
    uint64_t begun_ns; /* when the device got it; of a receive, all of it */
    void *memory;      /* a send to this rank itself, staged as a whole */
    nx_job job;
    nexar_err err;
    char why[NX_DEVICE_WHY];

    nx_inflow in; /* a receive */
} op_device;

static nx_worker *worker_of(const nx_op *op)
{
    return op->comm->world->device_worker;
}

/* Ends |op| before it was passed to msg. */
static void refuse(nx_op *op, nexar_err err, const char *why)
{
    op->req.err = err;
    (void)nx_sentence(op->req.why, sizeof(op->req.why), "%s", why);
    op->req.done = true;
    if (op->device == NULL) {
        nx_op_over(op);
    } else {
        nx_op_device_sent(op);
    }
}

/* Allocates |n| regions.  False: out of memory, and |op| has ended. */
static bool create(nx_op *op, size_t n)
{
    op_device *d = nx_zalloc(sizeof(*d));

    if (d != NULL) {
        d->op = op;
        d->n = n;
        nx_list_init(&d->link);
        d->regions = (n <= 1) ? &d->one : nx_calloc(n, sizeof(*d->regions));
    }
    op->device = d;
    if ((d == NULL) || (d->regions == NULL)) {
        refuse(op, NEXAR_ENOMEM, "no memory for a message of a device");
        return false;
    }
    return true;
}

void nx_op_device_free(nx_op *op)
{
    op_device *d = op->device;

    if (d == NULL) {
        return;
    }
    op->device = NULL;
    nx_list_remove(&d->link);
    if (d->regions != &d->one) {
        nx_free(d->regions);
    }
    nx_free(d->memory);
    nx_free(d);
}

/* Copies bytes [off, off + len) of the message between their regions and |host| with |move|,
 * several regions at a time. */
static nexar_err by_regions(const op_device *d, uint64_t off, char *host, size_t len,
                            nexar_err (*move)(const op_device *d, const nexar_iov *some, size_t n,
                                              char *host))
{
    nexar_err err = NEXAR_OK;
    size_t i = 0;

    while ((i < d->n) && (off >= d->regions[i].bytes)) {
        off -= d->regions[i++].bytes;
    }
    while ((err == NEXAR_OK) && (len != 0) && (i < d->n)) {
        nexar_iov some[REGIONS];
        size_t n = 0, bytes = 0;

        for (; (n < REGIONS) && (len != 0) && (i < d->n); i++) {
            const size_t left = d->regions[i].bytes - (size_t)off;

            some[n].ptr = (char *)d->regions[i].ptr + off;
            some[n].bytes = (len < left) ? len : left;
            len -= some[n].bytes;
            bytes += some[n++].bytes;
            off = 0;
        }
        err = move(d, some, n, host);
        host += bytes;
    }
    return err;
}

/* ---- sends ---------------------------------------------------------------------------
 *
 * Messages of a communicator are passed to msg in the order in which they were started, each
 * when its first chunk is staged.  The rest of a long message is read while it is sent.  A
 * message to this rank itself is staged as a whole. */

/* Passes the first bytes of |d| to msg. */
static void send_first(op_device *d)
{
    nx_op *op = d->op;
    const nx_context context = nx_incarnation_user(op->inc);
    nx_msg *msg = op->comm->world->msg;

    d->with_msg = true;
    if (d->many != NULL) {
        nx_msg_send(msg, &op->req, op->to, context, op->tag, d->many, d->nmany);
    } else if ((op->mem.device != NULL) && (d->host.len < d->bytes)) {
        nx_msg_send_stream(msg, &op->req, op->to, context, op->tag, d->host, d->bytes);
    } else {
        nx_msg_send(msg, &op->req, op->to, context, op->tag, &d->host, 1);
    }
}

/* Passes staged messages to msg, in the order in which they were started. */
static void send_ready(nx_incarnation *inc)
{
    (void)nx_incarnation_hold(inc); /* a rejected one has ended */
    while (!nx_list_empty(&inc->staged)) {
        op_device *d = nx_list_entry(inc->staged.next, op_device, link);
        nx_op *op = d->op;

        if (!d->ready) {
            break;
        }
        nx_list_remove(&d->link);
        if (d->err != NEXAR_OK) {
            refuse(op, d->err, d->why);
        } else if (d->cancelled) {
            refuse(op, NEXAR_ECANCELED, "canceled");
        } else if (inc->revoked) {
            refuse(op, NEXAR_EREVOKED, "the communicator was revoked");
        } else {
            send_first(d);
        }
    }
    nx_incarnation_release(inc);
}

static nexar_err gather_some(const op_device *d, const nexar_iov *some, size_t n, char *host)
{
    return nx_device_gather(d->op->mem, host, some, n);
}

static nexar_err gather(const op_device *d, uint64_t off, void *host, size_t len)
{
    return by_regions(d, off, host, len, gather_some);
}

static nexar_err stage(nx_outflow *out, uint64_t off, void *host, size_t len)
{
    return gather(nx_list_entry(out, op_device, out), off, host, len);
}

static void on_ready(nx_outflow *out, const void *host, size_t len)
{
    op_device *d = nx_list_entry(out, op_device, out);
    nx_msg *msg = d->op->comm->world->msg;

    d->waits = false;
    if (d->with_msg && (out->err != NEXAR_OK)) {
        nx_msg_send_break(msg, &d->op->req, out->err, out->why);
    } else if (d->with_msg) {
        nx_msg_send_more(msg, &d->op->req, (nx_bytes){.ptr = host, .len = len});
    } else {
        d->err = out->err;
        (void)nx_sentence(d->why, sizeof(d->why), "%s", out->why);
        d->host = (nx_bytes){.ptr = host, .len = len};
        d->ready = true;
        send_ready(d->op->inc);
    }
}

/* msg requests the next bytes. */
static void on_need(nx_req *req, uint64_t off)
{
    op_device *d = ((nx_op *)req)->device; /* its first member */

    (void)off;
    d->waits = true;
    d->begun_ns = nx_loop_now(d->op->comm->world->loop);
    nx_outflow_next(&d->out);
}

/* The request of the send is done, and no thread reads for it any more. */
static void on_idle(nx_outflow *out)
{
    nx_op_over(nx_list_entry(out, op_device, out)->op);
}

static void whole_work(nx_job *job)
{
    op_device *d = nx_list_entry(job, op_device, job);

    d->err = gather(d, 0, d->memory, d->bytes);
    if (d->err != NEXAR_OK) {
        (void)nx_sentence(d->why, sizeof(d->why), "%s", nexar_last_error());
    }
}

static void whole_done(nx_job *job)
{
    op_device *d = nx_list_entry(job, op_device, job);

    d->ready = true;
    send_ready(d->op->inc);
}

static nexar_err stage_whole(op_device *d)
{
    d->memory = nx_alloc_aligned(64, d->bytes);
    if (d->memory == NULL) {
        return nx_fail_nomem("staging memory");
    }
    d->host = (nx_bytes){.ptr = d->memory, .len = d->bytes};
    d->job = (nx_job){.work = whole_work, .done = whole_done};
    if (nx_worker_submit(worker_of(d->op), &d->job) != NEXAR_OK) {
        whole_work(&d->job);
        whole_done(&d->job);
    }
    return NEXAR_OK;
}

static nexar_err start_staging(op_device *d)
{
    nx_op *op = d->op;
    nexar_err err;

    d->begun_ns = nx_loop_now(op->comm->world->loop);
    if (op->to == op->comm->world->self) {
        return stage_whole(d);
    }
    d->out = (nx_outflow){.device = op->mem.device,
                          .worker = worker_of(op),
                          .total = d->bytes,
                          .stage = stage,
                          .on_ready = on_ready,
                          .on_idle = on_idle};
    op->req.on_need = on_need;
    err = nx_outflow_start(&d->out);
    if (err != NEXAR_OK) {
        d->out.stage = NULL; /* nothing to wait for */
    }
    return err;
}

void nx_op_device_send(nx_op *op, const nx_bytes *bytes, size_t n)
{
    nexar_err err = NEXAR_OK;
    op_device *d;

    if (!create(op, n)) {
        return;
    }
    d = op->device;
    for (size_t i = 0; i < n; i++) {
        d->regions[i] = (nexar_iov){.ptr = (void *)bytes[i].ptr, .bytes = bytes[i].len};
        d->bytes += bytes[i].len;
    }
    nx_list_push_back(&op->inc->staged, &d->link);
    d->ready = (op->mem.device == NULL) || (d->bytes == 0);
    if (op->mem.device == NULL) { /* host memory: waits only for its position in the order */
        d->many = (n == 1) ? NULL : bytes;
        d->nmany = n;
        d->host = (n == 1) ? bytes[0] : (nx_bytes){0};
    } else if (!d->ready) {
        err = start_staging(d);
    }
    if (err != NEXAR_OK) {
        nx_list_remove(&d->link);
        refuse(op, err, nexar_last_error());
    } else if (op->device == d) {
        send_ready(op->inc);
    }
}

void nx_op_device_sent(nx_op *op)
{
    op_device *d = op->device;

    if (d->out.stage != NULL) {
        nx_outflow_end(&d->out);
    } else {
        nx_op_over(op);
    }
}

bool nx_op_device_cancel(nx_op *op)
{
    if ((op->device == NULL) || !op->sending || !nx_list_linked(&op->device->link)) {
        return false;
    }
    op->device->cancelled = true;
    return true;
}

/* ---- receives ------------------------------------------------------------------------ */

static nexar_err scatter_some(const op_device *d, const nexar_iov *some, size_t n, char *host)
{
    return nx_device_scatter(d->op->mem, some, n, host);
}

static nexar_err apply(nx_inflow *in, uint64_t off, const void *data, size_t len)
{
    return by_regions(nx_list_entry(in, op_device, in), off, (char *)(uintptr_t)data, len,
                      scatter_some);
}

static void take(void *ctx, uint64_t off, const void *data, size_t len)
{
    op_device *d = ctx;

    nx_inflow_put(&d->in, off, data, len);
}

static void on_inflow(nx_inflow *in)
{
    op_device *d = nx_list_entry(in, op_device, in);
    nx_op *op = d->op;
    nx_world *world = op->comm->world;

    if ((in->err != NEXAR_OK) && ((op->req.err == NEXAR_OK) || (op->req.err == NEXAR_ETRUNC))) {
        op->req.err = in->err;
        (void)nx_sentence(op->req.why, sizeof(op->req.why), "%s", in->why);
    }
    nx_op_over(op);
    nx_world_end(world);
}

void nx_op_device_recv(nx_op *op, const nx_iov_span *iov, size_t n)
{
    nx_sink sink = {.take = take, .unit = 1};
    op_device *d;

    if (!create(op, n)) {
        return;
    }
    d = op->device;
    for (size_t i = 0; i < n; i++) {
        d->regions[i] = (nexar_iov){.ptr = iov[i].ptr, .bytes = iov[i].len};
        d->bytes += iov[i].len;
    }
    d->in.device = op->mem.device;
    d->in.worker = worker_of(op);
    d->in.apply = apply;
    d->in.on_done = on_inflow;
    sink.room = d->bytes;
    sink.ctx = d;
    nx_op_post(op, &sink);
}

/* The world waits for copies that the device has not finished. */
void nx_op_device_received(nx_op *op)
{
    nx_world_begin(op->comm->world);
    op->device->begun_ns = nx_loop_now(op->comm->world->loop);
    nx_inflow_end(&op->device->in);
}

/* ---- for reports --------------------------------------------------------------------- */

const nx_op *nx_op_device_wait(const nx_op *op, nx_local_wait *snag)
{
    const op_device *d = op->device;

    if (d == NULL) {
        return NULL;
    }
    if (op->sending && nx_list_linked(&d->link)) {
        d = nx_list_entry(op->inc->staged.next, op_device, link); /* it delays the others */
    } else if (op->sending ? !d->waits : !d->in.ended) {
        return NULL;
    }
    *snag = (nx_local_wait){.kind = op->sending ? NX_LOCAL_WAIT_SEND : NX_LOCAL_WAIT_RECV,
                            .bytes = d->bytes,
                            .begun_ns = d->begun_ns};
    return d->op;
}
