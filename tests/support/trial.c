/* trial.c - runs a built collective and compares it with the oracle. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inputs.h"
#include "memory.h"
#include "oracle.h"
#include "rand.h"
#include "sched_plan.h"
#include "world_fixture.h"

/* ---- data ------------------------------------------------------------------- */

/* A vector per rank. */
typedef struct image {
    char **at;
    char *block;
    size_t bytes;
} image;

static image image_make(const nxt_world *w, const size_t *lens, size_t elem_size)
{
    image im = {.at = nxt_calloc(w->call.size, sizeof(char *))};
    size_t at = 0;

    for (uint32_t r = 0; r < w->call.size; r++) {
        im.bytes += lens[r] * elem_size;
    }
    im.block = nxt_calloc(im.bytes, 1);
    for (uint32_t r = 0; r < w->call.size; r++) {
        im.at[r] = im.block + at;
        at += lens[r] * elem_size;
    }
    return im;
}

static void image_free(image *im)
{
    free(im->at);
    free(im->block);
}

/* The data of one run. */
typedef struct stage {
    nxt_world *w;
    const nxt_trial *t;
    size_t elem_size;
    image send, recv; /* before */
    image want, got;
    image loose;
    nxt_memory memory;
    uint32_t *calls; /* per rank: how often its hook was called */
    nxt_verdict *v;
} stage;

static void draw_inputs(stage *st)
{
    const nxt_call *call = &st->w->call;
    nxt_inputs in = {
        .dtype = st->t->dtype, .op = st->t->op, .size = call->size, .seed = st->t->data_seed};

    nxt_fill_random(st->t->data_seed + 1, st->send.block, st->send.bytes);
    nxt_fill_random(st->t->data_seed + 2, st->recv.block, st->recv.bytes);
    if (!nx_coll_reduces(call->kind)) {
        return;
    }
    for (uint32_t r = 0; r < call->size; r++) {
        char *at = call->in_place[r] ? st->recv.at[r] : st->send.at[r];
        size_t len = call->in_place[r] ? call->recv_len[r] : call->send_len[r];

        for (size_t i = 0; i < len; i++) {
            (st->t->wild ? nxt_input_wild : nxt_input_exact)(&in, r, i, at + (i * st->elem_size));
        }
    }
}

static void bind(stage *st)
{
    const nxt_call *call = &st->w->call;
    nxt_rand rand = {nxt_mix(st->t->seed)};
    size_t(*rooms)[NX_SPACES] = nxt_calloc(call->size, sizeof(*rooms));
    unsigned char poison = nxt_one_in(&rand, 2) ? 0xFF : 0xAB; /* NaN; odd numbers */

    for (uint32_t r = 0; r < call->size; r++) {
        rooms[r][NX_SPACE_SEND] = call->send_len[r];
        rooms[r][NX_SPACE_RECV] = call->recv_len[r];
        rooms[r][NX_SPACE_SCRATCH] = st->w->scheds[r].scratch;
    }
    nxt_memory_init(&st->memory, call->size, st->elem_size, (const size_t(*)[NX_SPACES])rooms,
                    st->w->what.cut, &rand);
    for (uint32_t r = 0; r < call->size; r++) {
        nxt_memory_write(&st->memory, r, NX_SPACE_SEND, st->send.at[r]);
        nxt_memory_write(&st->memory, r, NX_SPACE_RECV, st->recv.at[r]);
        nxt_memory_poison(&st->memory, r, NX_SPACE_SCRATCH, poison);
    }
    free(rooms);
}

static void stage_open(stage *st)
{
    const nxt_call *call = &st->w->call;

    st->elem_size = nexar_dtype_size(st->t->dtype);
    st->send = image_make(st->w, call->send_len, st->elem_size);
    st->recv = image_make(st->w, call->recv_len, st->elem_size);
    st->want = image_make(st->w, call->recv_len, st->elem_size);
    st->got = image_make(st->w, call->recv_len, st->elem_size);
    st->loose = image_make(st->w, call->recv_len, sizeof(bool));
    st->calls = nxt_calloc(call->size, sizeof(uint32_t));
    draw_inputs(st);
    bind(st);

    nxt_data data = {.call = call,
                     .dtype = st->t->dtype,
                     .op = st->t->op,
                     .send = st->send.at,
                     .recv = st->recv.at};

    nxt_oracle(&data, st->want.at, (bool *const *)st->loose.at);
}

static void stage_close(stage *st)
{
    image_free(&st->send);
    image_free(&st->recv);
    image_free(&st->want);
    image_free(&st->got);
    image_free(&st->loose);
    nxt_memory_fini(&st->memory);
    free(st->calls);
}

/* ---- the hook ----------------------------------------------------------------- */

/* The hook's result for byte |i| of a shard. */
static char hooked(char byte, uint32_t rank, size_t i)
{
    return (char)(byte ^ (char)(nxt_hash(99, rank, i) | 1));
}

static void on_shard(void *ctx, uint32_t rank, nx_ref dst, size_t len, void *content)
{
    stage *st = ctx;
    nx_span own = nxt_shard(st->w->call.count, st->w->call.size, rank);
    char *bytes = content;

    st->calls[rank]++;
    if ((dst.space != NX_SPACE_RECV) || (dst.off != own.off) || (len != own.len)) {
        (void)nxt_find(st->v, NXT_WRONG_DATA, rank, 0,
                       "rank %u: the hook is called on [%llu, +%zu), the shard is [%zu, +%zu)",
                       rank, (unsigned long long)dst.off, len, own.off, own.len);
        return;
    }
    if (!st->t->wild && (memcmp(content, st->want.at[rank] + (own.off * st->elem_size),
                                len * st->elem_size) != 0)) {
        (void)nxt_find(st->v, NXT_WRONG_DATA, rank, 0,
                       "rank %u: the hook is called on a shard that is not reduced", rank);
    }
    for (size_t i = 0; i < len * st->elem_size; i++) {
        bytes[i] = hooked(bytes[i], rank, i);
    }
}

/* Applies the hook to all shards of the expected result. Called after the run, so that the hook
 * can compare with the earlier values. */
static void want_hooked(stage *st)
{
    uint32_t size = st->w->call.size;

    for (uint32_t shard = 0; shard < size; shard++) {
        nx_span own = nxt_shard(st->w->call.count, size, shard);

        for (uint32_t r = 0; r < size; r++) {
            char *at = st->want.at[r] + (own.off * st->elem_size);

            for (size_t i = 0; i < own.len * st->elem_size; i++) {
                at[i] = hooked(at[i], shard, i);
            }
        }
    }
}

/* ---- the result ----------------------------------------------------------------- */

static bool differs(const stage *st, uint32_t rank, size_t i, const char *wanted)
{
    return !((const bool *)st->loose.at[rank])[i] &&
           (memcmp(st->got.at[rank] + (i * st->elem_size), wanted + (i * st->elem_size),
                   st->elem_size) != 0);
}

static void hex(const char *from, size_t n, char *to)
{
    for (size_t i = 0; i < n; i++) {
        snprintf(to + (2 * i), 3, "%02x", (unsigned char)from[n - 1 - i]);
    }
}

static bool compare(stage *st, uint32_t rank, const char *wanted)
{
    char want[20] = "";
    char got[20] = "";

    for (size_t i = 0; i < st->w->call.recv_len[rank]; i++) {
        if (differs(st, rank, i, wanted)) {
            hex(wanted + (i * st->elem_size), st->elem_size, want);
            hex(st->got.at[rank] + (i * st->elem_size), st->elem_size, got);
            return nxt_find(st->v, NXT_WRONG_DATA, rank, 0,
                            "rank %u element %zu: 0x%s, wanted 0x%s", rank, i, got, want);
        }
    }
    return true;
}

static bool send_kept(stage *st)
{
    const nxt_call *call = &st->w->call;
    bool ok = true;

    for (uint32_t r = 0; (r < call->size) && ok; r++) {
        size_t bytes = call->send_len[r] * st->elem_size;
        char *now = nxt_calloc(bytes, 1);

        nxt_memory_read(&st->memory, r, NX_SPACE_SEND, now);
        ok = (memcmp(now, st->send.at[r], bytes) == 0) ||
             nxt_find(st->v, NXT_WRONG_DATA, r, 0, "rank %u: the send buffer has changed", r);
        free(now);
    }
    return ok;
}

static bool calls_right(stage *st)
{
    for (uint32_t r = 0; r < st->w->call.size; r++) {
        if (st->calls[r] != (st->w->what.hook ? 1U : 0U)) {
            return nxt_find(st->v, NXT_WRONG_DATA, r, 0, "rank %u: the hook was called %u times", r,
                            st->calls[r]);
        }
    }
    return true;
}

static void digest(stage *st)
{
    const nxt_call *call = &st->w->call;
    uint64_t sum = 0;

    for (uint32_t r = 0; r < call->size; r++) {
        for (size_t i = 0; i < call->recv_len[r]; i++) {
            uint64_t bits = 0;

            if (!((const bool *)st->loose.at[r])[i]) {
                memcpy(&bits, st->got.at[r] + (i * st->elem_size), st->elem_size);
                sum = nxt_hash(sum, bits, i);
            }
        }
    }
    st->w->digest = sum;
}

static bool results_right(stage *st)
{
    const nxt_call *call = &st->w->call;

    for (uint32_t r = 0; r < call->size; r++) {
        nxt_memory_read(&st->memory, r, NX_SPACE_RECV, st->got.at[r]);
    }
    digest(st);
    if (!nxt_memory_guarded(&st->memory)) {
        return nxt_find(st->v, NXT_WRONG_DATA, 0, 0, "something was written beside the buffers");
    }
    if (!send_kept(st) || !calls_right(st)) {
        return false;
    }
    if (st->w->what.hook) {
        want_hooked(st);
    }
    for (uint32_t r = 0; r < call->size; r++) {
        bool all_equal = (call->kind == NX_ALLREDUCE);

        if (st->t->wild && !all_equal) {
            continue;
        }
        if (!compare(st, r, st->t->wild ? st->got.at[0] : st->want.at[r])) {
            return false;
        }
    }
    return true;
}

bool nxt_world_run(nxt_world *w, const nxt_trial *t, nxt_verdict *v)
{
    stage st = {.w = w, .t = t, .v = v};
    nxt_verdict from_hook = {.finding = NXT_FINE};

    stage_open(&st);
    nxt_run run = {.bindings = st.memory.bindings,
                   .dtype = t->dtype,
                   .op = t->op,
                   .seed = t->seed,
                   .on_call = w->what.hook ? on_shard : NULL,
                   .ctx = &st,
                   .hold = t->hold,
                   .hold_rank = t->hold_rank,
                   .hold_step = t->hold_step};

    st.v = &from_hook;
    bool ok = nxt_plan_run(w->plan, &run, v);

    st.v = v;
    if (ok && (from_hook.finding != NXT_FINE)) {
        *v = from_hook;
        ok = false;
    }
    ok = ok && results_right(&st);
    stage_close(&st);
    return ok;
}
