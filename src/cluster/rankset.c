/* rankset.c - sets of ranks, and their two encodings. */
#include "cluster/rankset.h"

#include <string.h>

#include "base/alloc.h"

/* The encodings: runs of ranks, or a bitmap, whichever is shorter. */
enum { FORM_RUNS = 0, FORM_BITS = 1 };

static size_t word_count(const nx_rankset *s)
{
    return ((size_t)s->n + 63) / 64;
}

nexar_err nx_rankset_init(nx_rankset *s, uint32_t n)
{
    *s = (nx_rankset){.n = n};
    s->words = nx_calloc(word_count(s), sizeof(*s->words));
    return (s->words == NULL) ? nx_fail_nomem("a set of ranks") : NEXAR_OK;
}

void nx_rankset_fini(nx_rankset *s)
{
    nx_free(s->words);
    *s = (nx_rankset){0};
}

nexar_err nx_rankset_grow(nx_rankset *s, uint32_t n)
{
    const size_t before = word_count(s), after = word_count(&(nx_rankset){.n = n});
    uint64_t *words;

    if (after > before) {
        words = nx_grow(s->words, after, sizeof(*words));
        if (words == NULL) {
            return nx_fail_nomem("a set of ranks");
        }
        memset(words + before, 0, (after - before) * sizeof(*words));
        s->words = words;
    }
    s->n = n;
    return NEXAR_OK;
}

void nx_rankset_clear(nx_rankset *s)
{
    if (s->count > 0) {
        memset(s->words, 0, word_count(s) * sizeof(*s->words));
        s->count = 0;
    }
}

bool nx_rankset_has(const nx_rankset *s, uint32_t rank)
{
    return (rank < s->n) && (((s->words[rank / 64] >> (rank % 64)) & 1) != 0);
}

bool nx_rankset_add(nx_rankset *s, uint32_t rank)
{
    if (nx_rankset_has(s, rank)) {
        return false;
    }
    s->words[rank / 64] |= UINT64_C(1) << (rank % 64);
    s->count++;
    return true;
}

bool nx_rankset_remove(nx_rankset *s, uint32_t rank)
{
    if (!nx_rankset_has(s, rank)) {
        return false;
    }
    s->words[rank / 64] &= ~(UINT64_C(1) << (rank % 64));
    s->count--;
    return true;
}

void nx_rankset_copy(nx_rankset *to, const nx_rankset *from)
{
    if ((to->count > 0) || (from->count > 0)) {
        memcpy(to->words, from->words, word_count(to) * sizeof(*to->words));
        to->count = from->count;
    }
}

bool nx_rankset_unite(nx_rankset *to, const nx_rankset *from)
{
    const uint32_t before = to->count;

    if (from->count == 0) {
        return false;
    }
    to->count = 0;
    for (size_t i = 0; i < word_count(to); i++) {
        to->words[i] |= from->words[i];
        to->count += (uint32_t)__builtin_popcountll(to->words[i]);
    }
    return to->count != before;
}

bool nx_rankset_equal(const nx_rankset *a, const nx_rankset *b)
{
    return (a->count == b->count) &&
           ((a->count == 0) ||
            (memcmp(a->words, b->words, word_count(a) * sizeof(*a->words)) == 0));
}

/* The first set bit at or after |from|, with all bits XORed with |flip|. */
static uint32_t scan(const nx_rankset *s, uint32_t from, uint64_t flip)
{
    for (uint32_t at = from; at < s->n; at = (at / 64 + 1) * 64) {
        const uint64_t word = (s->words[at / 64] ^ flip) >> (at % 64);

        if (word != 0) {
            const uint32_t found = at + (uint32_t)__builtin_ctzll(word);

            return (found < s->n) ? found : s->n;
        }
    }
    return s->n;
}

uint32_t nx_rankset_next(const nx_rankset *s, uint32_t from)
{
    return scan(s, from, 0);
}

uint32_t nx_rankset_next_out(const nx_rankset *s, uint32_t from)
{
    return scan(s, from, UINT64_MAX);
}

uint32_t nx_rankset_index_out(const nx_rankset *s, uint32_t rank)
{
    uint32_t in = 0;

    if (s->count == 0) {
        return rank;
    }
    for (uint32_t i = 0; i < rank / 64; i++) {
        in += (uint32_t)__builtin_popcountll(s->words[i]);
    }
    if (rank % 64 != 0) {
        in += (uint32_t)__builtin_popcountll(s->words[rank / 64] << (64 - rank % 64));
    }
    return rank - in;
}

uint32_t nx_rankset_nth_out(const nx_rankset *s, uint32_t index)
{
    uint32_t left = index, at = 0;

    if (index >= s->n - s->count) {
        return s->n;
    }
    if (s->count == 0) {
        return index;
    }
    for (;; at += 64) {
        const uint32_t out = 64 - (uint32_t)__builtin_popcountll(s->words[at / 64]);

        if (left < out) {
            break;
        }
        left -= out;
    }
    at = nx_rankset_next_out(s, at);
    for (; left > 0; left--) {
        at = nx_rankset_next_out(s, at + 1);
    }
    return at;
}

uint32_t nx_rankset_after_out(const nx_rankset *s, uint32_t self, uint32_t far)
{
    uint32_t rank = nx_rankset_next_out(s, (uint32_t)(((uint64_t)self + far) % s->n));

    if (rank == s->n) {
        rank = nx_rankset_next_out(s, 0);
    }
    /* Passing |self| means: a nearer rank is found, or there is none. */
    return ((rank == s->n) || ((rank + s->n - self) % s->n < far)) ? self : rank;
}

typedef struct run {
    uint32_t first, end;
} run;

/* The first run of ranks at or after |from|; empty at n. */
static run run_from(const nx_rankset *s, uint32_t from)
{
    run r;

    r.first = nx_rankset_next(s, from);
    r.end = nx_rankset_next_out(s, r.first);
    return r;
}

/* The number of runs, and their encoded size; stops at |most| bytes. */
static size_t runs_size(const nx_rankset *s, size_t most, uint32_t *runs)
{
    size_t size = 0;
    uint32_t at = 0, k = 0;

    for (run r = run_from(s, 0); (r.first < s->n) && (size <= most); r = run_from(s, at)) {
        size += nx_varint_size(r.first - at) + nx_varint_size(r.end - r.first);
        at = r.end;
        k++;
    }
    *runs = k;
    return size + nx_varint_size(k);
}

static void encode_bits(nx_writer *w, const nx_rankset *s)
{
    nx_write_u8(w, FORM_BITS);
    for (uint32_t at = 0; at < s->n; at += 8) {
        nx_write_u8(w, (uint8_t)(s->words[at / 64] >> (at % 64)));
    }
}

void nx_rankset_encode(nx_writer *w, const nx_rankset *s)
{
    const size_t bits = ((size_t)s->n + 7) / 8;
    uint32_t runs, at = 0;

    if (runs_size(s, bits, &runs) > bits) {
        encode_bits(w, s);
        return;
    }
    nx_write_u8(w, FORM_RUNS);
    nx_write_varint(w, runs);
    for (run r = run_from(s, 0); r.first < s->n; r = run_from(s, at)) {
        nx_write_varint(w, r.first - at);
        nx_write_varint(w, r.end - r.first);
        at = r.end;
    }
}

/* Sets [first, end), of which no rank is set yet. */
static void add_run(nx_rankset *s, uint32_t first, uint32_t end)
{
    for (uint32_t rank = first; rank < end; rank++) {
        s->words[rank / 64] |= UINT64_C(1) << (rank % 64);
    }
    s->count += end - first;
}

static void decode_runs(nx_reader *r, nx_rankset *s)
{
    const uint64_t runs = nx_read_varint(r);
    uint32_t at = 0;

    for (uint64_t i = 0; (i < runs) && !r->failed; i++) {
        const uint64_t skip = nx_read_varint(r), len = nx_read_varint(r);

        /* Only the first run may begin at the end of the previous one. */
        if (r->failed || (len == 0) || ((i > 0) && (skip == 0)) || (skip >= s->n - at) ||
            (len > s->n - at - skip)) {
            r->failed = true;
            return;
        }
        add_run(s, at + (uint32_t)skip, at + (uint32_t)(skip + len));
        at += (uint32_t)(skip + len);
    }
}

static void decode_bits(nx_reader *r, nx_rankset *s)
{
    const uint8_t *bytes = nx_read_bytes(r, ((size_t)s->n + 7) / 8);

    if (bytes == NULL) {
        return;
    }
    if ((s->n % 8 != 0) && ((bytes[s->n / 8] >> (s->n % 8)) != 0)) {
        r->failed = true;
        return;
    }
    for (uint32_t at = 0; at < s->n; at += 8) {
        s->words[at / 64] |= (uint64_t)bytes[at / 8] << (at % 64);
        s->count += (uint32_t)__builtin_popcount(bytes[at / 8]);
    }
}

void nx_rankset_decode(nx_reader *r, nx_rankset *s)
{
    const uint8_t form = nx_read_u8(r);

    nx_rankset_clear(s);
    switch (form) {
    case FORM_RUNS:
        decode_runs(r, s);
        break;
    case FORM_BITS:
        decode_bits(r, s);
        break;
    default:
        r->failed = true;
    }
    if (r->failed) {
        memset(s->words, 0, word_count(s) * sizeof(*s->words));
        s->count = 0;
    }
}
