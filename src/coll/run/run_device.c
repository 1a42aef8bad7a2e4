/*
 * run_device.c - steps of a run on device memory.
 *
 * A transfer that the device holds is in no list of its run, so the run does not cancel it through
 * msg; run->working counts it.
 */
#include <stdio.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "coll/run/dev_step.h"
#include "coll/run/run_inner.h"
#include "device/inflow.h"
#include "device/outflow.h"

struct nx_dev_flight {
    nx_run *run;
    nx_step_id step;
    nx_transfer *flight;     /* NULL: a local step */
    nx_list link;            /* in run->at_device, while the device has it, ... */
    nx_local_wait_kind does; /* ... to do this, ... */
    uint64_t begun_ns;       /* ... afterwards */
    nx_job job;
    nexar_err err; /* of the job */
    char why[NX_DEVICE_WHY];
    nx_outflow out; /* of a send, ... */
    bool with_msg;  /* ... which has its first bytes */
    nx_inflow in;   /* of a receive */
};

bool nx_run_on_device(const nx_run *run, const nx_step *step)
{
    return (run->mem.device != NULL) && !run->packed && nx_dev_step_touches(step);
}

static nx_dev_site site_of(const nx_run *run)
{
    return (nx_dev_site){.mem = run->mem,
                         .binding = &run->binding,
                         .dtype = run->dtype,
                         .op = run->op,
                         .size = run->group->size};
}

static nx_dev_flight *dev_create(nx_run *run, nx_step_id step, nx_transfer *f)
{
    nx_dev_flight *dev = nx_zalloc(sizeof(*dev));

    if (dev == NULL) {
        nx_run_fail(run, true, NEXAR_ENOMEM, "rank %u has no memory for a step on the device",
                    run->group->rank);
        return NULL;
    }
    dev->run = run;
    dev->step = step;
    dev->flight = f;
    nx_list_init(&dev->link);
    return dev;
}

void nx_run_dev_free(nx_run *run, nx_dev_flight *dev)
{
    (void)run;
    nx_free(dev);
}

static void device_failed(nx_run *run, nexar_err err, const char *why)
{
    nx_run_fail(run, true, err, "rank %u: %s", run->group->rank, why);
}

static void keep(nx_dev_flight *dev, nexar_err err)
{
    dev->err = err;
    if (err != NEXAR_OK) {
        (void)nx_sentence(dev->why, sizeof(dev->why), "%s", nexar_last_error());
    }
}

/* The device holds |dev|, to perform |does|; the second call releases it. */
static void device_begins(nx_dev_flight *dev, nx_local_wait_kind does)
{
    nx_run *run = dev->run;

    run->working++;
    dev->does = does;
    dev->begun_ns = nx_loop_now(nx_registry_config_of(run->group->hub)->loop);
    nx_list_push_back(&run->at_device, &dev->link);
}

static void device_ends(nx_dev_flight *dev)
{
    dev->run->working--;
    nx_list_remove(&dev->link);
}

/* Submits |dev| to a thread, to perform |does|; without a thread it runs here. */
static void submit(nx_dev_flight *dev, nx_local_wait_kind does, void (*work)(nx_job *),
                   void (*done)(nx_job *))
{
    dev->job = (nx_job){.work = work, .done = done};
    device_begins(dev, does);
    if (nx_worker_submit(dev->run->worker, &dev->job) != NEXAR_OK) {
        work(&dev->job);
        done(&dev->job);
    }
}

/* ---- sends ----------------------------------------------------------------------------
 *
 * The device holds a send until its first bytes are ready, and whenever msg waits for the next.
 * run->working counts the send until no thread reads for it any more. */

static nexar_err stage(nx_outflow *out, uint64_t off, void *host, size_t len)
{
    const nx_dev_flight *dev = nx_list_entry(out, nx_dev_flight, out);
    const nx_dev_site site = site_of(dev->run);
    const size_t size = dev->run->binding.elem_size;

    return nx_dev_step_stage(&site, nx_run_step(dev->run, dev->step), (size_t)off / size, host,
                             len / size);
}

static void on_ready(nx_outflow *out, const void *host, size_t len)
{
    nx_dev_flight *dev = nx_list_entry(out, nx_dev_flight, out);
    nx_msg *msg = nx_registry_config_of(dev->run->group->hub)->msg;
    nx_run *run = dev->run;
    nx_transfer *f = dev->flight;
    const nx_bytes one = {.ptr = host, .len = len};

    nx_run_enter(run);
    nx_list_remove(&dev->link);
    if ((out->err != NEXAR_OK) && (run->err == NEXAR_OK)) {
        device_failed(run, out->err, out->why);
    }
    if (dev->with_msg && (run->err != NEXAR_OK)) {
        nx_msg_send_break(msg, &f->req, NEXAR_ECANCELED, "the operation has failed");
    } else if (dev->with_msg) {
        nx_msg_send_more(msg, &f->req, one);
    } else if (run->err != NEXAR_OK) {
        nx_outflow_end(out); /* which returns the flight */
    } else {
        dev->with_msg = true;
        nx_list_push_back(&run->flying, &f->link);
        nx_transfer_send(f, &one, 1, out->total);
    }
    nx_run_leave(run);
}

/* msg requests the next bytes. */
static void on_need(nx_req *req, uint64_t off)
{
    nx_dev_flight *dev = ((nx_transfer *)req)->dev; /* its first member */

    (void)off;
    dev->begun_ns = nx_loop_now(nx_registry_config_of(dev->run->group->hub)->loop);
    nx_list_push_back(&dev->run->at_device, &dev->link);
    nx_outflow_next(&dev->out);
}

static void on_idle(nx_outflow *out)
{
    nx_dev_flight *dev = nx_list_entry(out, nx_dev_flight, out);
    nx_run *run = dev->run;
    nx_transfer *f = dev->flight;

    nx_run_enter(run);
    device_ends(dev);
    if (dev->with_msg) {
        nx_list_push_back(&run->flying, &f->link); /* the list of completed transfers */
        nx_transfer_over(f);
    } else {
        nx_transfer_give_back(f);
    }
    nx_run_leave(run);
}

void nx_run_dev_send(nx_transfer *f)
{
    nx_run *run = f->run;
    nx_dev_flight *dev = dev_create(run, f->step, f);
    nexar_err err;

    f->dev = dev;
    if (dev == NULL) {
        nx_transfer_give_back(f);
        return;
    }
    dev->out =
        (nx_outflow){.device = run->mem.device,
                     .worker = run->worker,
                     .total = (uint64_t)nx_run_step(run, f->step)->len * run->binding.elem_size,
                     .stage = stage,
                     .on_ready = on_ready,
                     .on_idle = on_idle};
    f->req.on_need = on_need;
    nx_list_remove(&f->link);
    device_begins(dev, NX_LOCAL_WAIT_SEND);
    err = nx_outflow_start(&dev->out);
    if (err != NEXAR_OK) {
        device_ends(dev);
        nx_transfer_give_back(f);
        device_failed(run, err, nexar_last_error());
    }
}

void nx_run_dev_sent(nx_transfer *f)
{
    nx_list_remove(&f->link);
    nx_outflow_end(&f->dev->out);
}

/* ---- receives ------------------------------------------------------------------------ */

static nexar_err apply(nx_inflow *in, uint64_t off, const void *data, size_t len)
{
    nx_dev_flight *dev = nx_list_entry(in, nx_dev_flight, in);
    const nx_dev_site site = site_of(dev->run);
    const size_t size = dev->run->binding.elem_size;

    return nx_dev_step_deliver(&site, nx_run_step(dev->run, dev->step), (size_t)off / size, data,
                               len / size);
}

static void take(void *ctx, uint64_t off, const void *data, size_t len)
{
    nx_dev_flight *dev = ctx;

    nx_inflow_put(&dev->in, off, data, len);
}

/* All data is on the device, or the transfer has failed. */
static void on_inflow(nx_inflow *in)
{
    nx_dev_flight *dev = nx_list_entry(in, nx_dev_flight, in);
    nx_run *run = dev->run;
    nx_transfer *f = dev->flight;

    nx_run_enter(run);
    device_ends(dev);
    nx_list_push_back(&run->flying, &f->link); /* the list of completed transfers */
    if ((f->req.err == NEXAR_OK) && (in->err != NEXAR_OK)) {
        const nexar_err err = in->err;
        char why[NX_DEVICE_WHY];

        (void)nx_sentence(why, sizeof(why), "%s", in->why);
        nx_transfer_give_back(f);
        device_failed(run, err, why);
    } else {
        nx_transfer_over(f);
    }
    nx_run_leave(run);
}

void nx_run_dev_receive(nx_transfer *f)
{
    nx_run *run = f->run;
    const size_t size = run->binding.elem_size;
    nx_sink sink = {.room = (uint64_t)nx_run_step(run, f->step)->len * size,
                    .take = take,
                    .unit = (uint32_t)size};

    f->dev = dev_create(run, f->step, f);
    if (f->dev == NULL) {
        nx_transfer_give_back(f);
        return;
    }
    f->dev->in.device = run->mem.device;
    f->dev->in.worker = run->worker;
    f->dev->in.apply = apply;
    f->dev->in.on_done = on_inflow;
    sink.ctx = f->dev;
    nx_transfer_receive(f, &sink);
}

void nx_run_dev_received(nx_transfer *f)
{
    nx_list_remove(&f->link);
    device_begins(f->dev, NX_LOCAL_WAIT_RECV);
    nx_inflow_end(&f->dev->in);
}

/* ---- local steps --------------------------------------------------------------------- */

static void local_work(nx_job *job)
{
    nx_dev_flight *dev = nx_list_entry(job, nx_dev_flight, job);
    const nx_dev_site site = site_of(dev->run);

    keep(dev, nx_dev_step_local(&site, nx_run_step(dev->run, dev->step)));
}

static void local_done(nx_job *job)
{
    nx_dev_flight *dev = nx_list_entry(job, nx_dev_flight, job);
    nx_run *run = dev->run;

    nx_run_enter(run);
    device_ends(dev);
    if (dev->err != NEXAR_OK) {
        device_failed(run, dev->err, dev->why);
    } else if (run->err == NEXAR_OK) {
        nx_run_finish_step(run, dev->step);
    }
    nx_run_dev_free(run, dev);
    nx_run_leave(run);
}

void nx_run_dev_local(nx_run *run, nx_step_id id)
{
    nx_dev_flight *dev = dev_create(run, id, NULL);

    if (dev != NULL) {
        submit(dev, NX_LOCAL_WAIT_STEP, local_work, local_done);
    }
}

/* ---- packed tensors ------------------------------------------------------------------ */

static void pack_work(nx_job *job)
{
    nx_dev_flight *dev = nx_list_entry(job, nx_dev_flight, job);
    nx_run *run = dev->run;

    keep(dev, nx_dev_read(run->mem, &run->tensors, run->binding.elem_size, run->count,
                          run->one[NX_SPACE_RECV].ptr));
}

static void unpack_work(nx_job *job)
{
    nx_dev_flight *dev = nx_list_entry(job, nx_dev_flight, job);
    nx_run *run = dev->run;

    keep(dev, nx_dev_write(run->mem, &run->tensors, run->binding.elem_size, run->count,
                           run->one[NX_SPACE_RECV].ptr));
}

static void packing_done(nx_job *job)
{
    nx_dev_flight *dev = nx_list_entry(job, nx_dev_flight, job);
    nx_run *run = dev->run;

    nx_run_enter(run);
    device_ends(dev);
    if (dev->err != NEXAR_OK) {
        device_failed(run, dev->err, dev->why);
    } else if (run->unpacking) {
        run->left -= (run->err == NEXAR_OK);
    } else if (run->err == NEXAR_OK) {
        nx_run_start_all(run);
    }
    nx_run_dev_free(run, dev);
    nx_run_leave(run);
}

void nx_run_dev_pack(nx_run *run)
{
    nx_dev_flight *dev = dev_create(run, 0, NULL);

    if (dev != NULL) {
        submit(dev, NX_LOCAL_WAIT_GATHER, pack_work, packing_done);
    }
}

void nx_run_dev_unpack(nx_run *run)
{
    nx_dev_flight *dev = dev_create(run, 0, NULL);

    if (dev != NULL) {
        submit(dev, NX_LOCAL_WAIT_SCATTER, unpack_work, packing_done);
    }
}

/* ---- for reports --------------------------------------------------------------------- */

void nx_run_dev_wait(const nx_run *run, nx_local_wait *out)
{
    const nx_dev_flight *dev = nx_list_entry(run->at_device.next, nx_dev_flight, link);

    *out = (nx_local_wait){.kind = dev->does,
                           .bytes = (uint64_t)run->count * run->binding.elem_size,
                           .begun_ns = dev->begun_ns,
                           .more = run->working - 1};
    if ((dev->does != NX_LOCAL_WAIT_GATHER) && (dev->does != NX_LOCAL_WAIT_SCATTER)) {
        const nx_step *step = nx_run_step(run, dev->step);

        out->bytes = (uint64_t)step->len * run->binding.elem_size;
        out->rank = (dev->flight != NULL) ? step->peer : 0;
    }
}
