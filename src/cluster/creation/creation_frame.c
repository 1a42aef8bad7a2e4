/* creation_frame.c - encoding and decoding of the frames of creations. */
#include "cluster/creation/creation_frame.h"

#include "cluster/view.h"
#include "msg/control.h"

uint64_t nx_creation_print(const uint32_t slots[], uint32_t n)
{
    uint64_t h = n;

    for (uint32_t i = 0; i < n; i++) { /* the steps of splitmix64 */
        h += slots[i] + UINT64_C(0x9e3779b97f4a7c15);
        h = (h ^ (h >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        h = (h ^ (h >> 27)) * UINT64_C(0x94d049bb133111eb);
        h ^= h >> 31;
    }
    return h;
}

/* ---- members, as runs ---------------------------------------------------------------- */

typedef struct run_of_slots {
    uint32_t first, step, length;
} run_of_slots;

/* The longest run at the start of |slots|. */
static run_of_slots run_at(const uint32_t slots[], uint32_t n)
{
    run_of_slots r = {.first = slots[0], .length = 1};

    if (n > 1) {
        r.step = slots[1] - slots[0]; /* may be negative: modulo 2^32 */
        while ((r.length < n) && (slots[r.length] - slots[r.length - 1] == r.step)) {
            r.length++;
        }
    }
    return r;
}

static void write_runs(nx_writer *w, const uint32_t slots[], uint32_t n)
{
    for (uint32_t i = 0; (i < n) && !w->failed;) {
        const run_of_slots r = run_at(slots + i, n - i);

        nx_write_u32(w, r.first);
        nx_write_u32(w, r.step);
        nx_write_u32(w, r.length);
        i += r.length;
    }
}

static run_of_slots read_run(nx_reader *r)
{
    const uint32_t first = nx_read_u32(r), step = nx_read_u32(r);

    return (run_of_slots){.first = first, .step = step, .length = nx_read_u32(r)};
}

/* Whether the runs in |r| are |n| members of a world. */
static bool runs_are(nx_reader r, uint32_t n)
{
    uint32_t have = 0;

    while (!r.failed && (nx_reader_left(&r) > 0)) {
        const run_of_slots run = read_run(&r);

        if ((run.length == 0) || (run.length > n - have)) {
            return false;
        }
        have += run.length;
    }
    return !r.failed && (have == n);
}

void nx_creation_members(const nx_creation_frame *f, uint32_t slots[])
{
    nx_reader r = f->runs;

    for (uint32_t i = 0; i < f->n;) {
        const run_of_slots run = read_run(&r);

        for (uint32_t k = 0; k < run.length; k++) {
            slots[i++] = run.first + k * run.step;
        }
    }
}

/* ---- frames -------------------------------------------------------------------------- */

static bool has_error(nx_creation_form form)
{
    return (form == NX_CREATION_FAIL) || (form == NX_CREATION_WITHDRAW);
}

static bool has_sentence(nx_creation_form form)
{
    return has_error(form) || (form == NX_CREATION_DIFFERS);
}

static bool has_id(nx_creation_form form)
{
    return (form == NX_CREATION_JOIN) || (form == NX_CREATION_DONE) ||
           (form == NX_CREATION_DIFFERS) || (form == NX_CREATION_HAVE);
}

size_t nx_creation_encode(const nx_creation_frame *f, uint8_t *buf, size_t room)
{
    nx_writer w = nx_writer_make(buf, room);

    nx_write_u8(&w, NX_CONTROL_CREATE);
    nx_write_u8(&w, (uint8_t)f->form);
    nx_write_u32(&w, f->key.parent);
    nx_write_u64(&w, f->key.tag);
    nx_write_u64(&w, f->key.print);
    if (has_id(f->form)) {
        nx_write_u32(&w, f->id);
        nx_write_u32(&w, f->n);
    }
    if (has_error(f->form)) {
        nx_write_u8(&w, (uint8_t)-f->err);
    }
    if (has_sentence(f->form)) {
        nx_write_sentence(&w, f->why, NX_CREATION_WHY);
    }
    if (f->form == NX_CREATION_HAVE) {
        write_runs(&w, f->slots, f->n);
    }
    return w.failed ? 0 : w.len;
}

/* The error of a frame; rejects NEXAR_OK and any value that is no error. */
static nexar_err read_error(nx_reader *r)
{
    const nexar_err err = (nexar_err) - (int)nx_read_u8(r);

    r->failed = r->failed || (err == NEXAR_OK) || (err < NEXAR_EINTERNAL);
    return err;
}

nexar_err nx_creation_decode(const void *data, size_t len, nx_creation_frame *out)
{
    nx_reader r = nx_reader_make(data, len);
    bool good;

    *out = (nx_creation_frame){.form = NX_CREATION_FORMS};
    good = (nx_read_u8(&r) == NX_CONTROL_CREATE);
    out->form = (nx_creation_form)nx_read_u8(&r);
    good = good && (out->form >= NX_CREATION_JOIN) && (out->form < NX_CREATION_FORMS);
    out->key.parent = nx_read_u32(&r);
    out->key.tag = nx_read_u64(&r);
    out->key.print = nx_read_u64(&r);
    if (good && has_id(out->form)) {
        out->id = nx_read_u32(&r);
        out->n = nx_read_u32(&r);
    }
    if (good && has_error(out->form)) {
        out->err = read_error(&r);
    }
    if (good && has_sentence(out->form)) {
        nx_read_sentence(&r, out->why, sizeof(out->why));
    }
    if (good && (out->form == NX_CREATION_HAVE)) {
        out->runs = r;
        good = (out->n > 0) && (out->n <= NX_WORLD_MAX) && runs_are(r, out->n);
    } else {
        good = good && nx_reader_done(&r);
    }
    return good && !r.failed ? NEXAR_OK
                             : nx_fail(NEXAR_EPROTO, "a frame of a creation is malformed");
}
