/* cut.c - the k-th largest magnitude, found digit by digit of its bits. */
#include "coll/compress/cut.h"

#include "base/alloc.h"
#include "reduce/scalar.h"

/* Bits of a digit: more with many elements, since a pass over them costs more than a histogram that
 * only the second-level cache holds. */
enum { DIGIT_FEW = 11, DIGIT_MANY = 16, MANY = 1 << 18 };

void nx_cut_load(const nx_cut_tensor *t, size_t at, size_t n, nx_lanes *x)
{
    const size_t offset = at * nexar_dtype_size(t->dtype);

    nx_lanes_load(x, t->dtype, (const char *)t->buf + offset, n);
    if (t->residual != NULL) {
        nx_lanes more;

        nx_lanes_load(&more, t->dtype, (const char *)t->residual + offset, n);
        nx_lanes_add(x, &more, nx_lanes_work(t->dtype));
    }
}

/*
 * Most elements are far from the cut: they are skipped in blocks, by comparisons that the compiler
 * vectorises. Magnitudes of f32 have 31 bits: the comparison is signed.
 */
enum { BLOCK = 16 };
_Static_assert(NX_PIECE % BLOCK == 0, "a piece is of whole blocks");

static inline int32_t magnitude(float x)
{
    return (int32_t)(nx_f32_bits(x) & 0x7fffffff);
}

static inline bool any_from(const float *x, int32_t least)
{
    int32_t any = 0;

    for (size_t i = 0; i < BLOCK; i++) {
        any |= (magnitude(x[i]) >= least) ? -1 : 0;
    }
    return any != 0;
}

static void magnitudes(const double *x, size_t n, uint64_t out[NX_PIECE])
{
    for (size_t i = 0; i < n; i++) {
        out[i] = nx_f64_bits(x[i]) & UINT64_C(0x7fffffffffffffff);
    }
}

/* The known part of the cut: its bits from |shift| up, in |prefix|; |left| elements remain to be
 * taken of those that begin with these bits. */
typedef struct search {
    uint64_t prefix;
    unsigned shift, digit;
    size_t left;
} search;

/* Counts each digit at |shift| after the prefix. */
static void count_digits(const nx_cut_tensor *t, const search *s, size_t *bins)
{
    const unsigned shift = s->shift, above = s->shift + s->digit;
    const uint64_t mask = (UINT64_C(1) << s->digit) - 1;
    uint64_t m[NX_PIECE];
    nx_lanes x;

    for (size_t at = 0; at < t->count; at += NX_PIECE) {
        const size_t rest = t->count - at, n = (rest < NX_PIECE) ? rest : NX_PIECE;

        nx_cut_load(t, at, n, &x);
        magnitudes(x.f64, n, m);
        for (size_t i = 0; i < n; i++) {
            if (m[i] >> above == s->prefix) {
                bins[m[i] >> shift & mask]++;
            }
        }
    }
}

/* The same for |n| elements of f32, at most a block. */
static void count_some_f32(const float *x, size_t n, const search *s, size_t *bins)
{
    const unsigned above = s->shift + s->digit;
    const uint32_t mask = (UINT32_C(1) << s->digit) - 1;

    for (size_t i = 0; i < n; i++) {
        const uint32_t m = (uint32_t)magnitude(x[i]);

        if (m >> above == s->prefix) {
            bins[m >> s->shift & mask]++;
        }
    }
}

/* The same for f32, with less work: few elements begin with the prefix, except in the first round,
 * which has none. */
static void count_digits_f32(const nx_cut_tensor *t, const search *s, size_t *bins)
{
    const int32_t least = (int32_t)(s->prefix << (s->shift + s->digit));
    nx_lanes x;

    for (size_t at = 0; at < t->count; at += NX_PIECE) {
        const size_t rest = t->count - at, n = (rest < NX_PIECE) ? rest : NX_PIECE;

        nx_cut_load(t, at, n, &x);
        for (size_t b = 0; b < n; b += BLOCK) {
            if ((least == 0) || any_from(x.f32 + b, least)) {
                count_some_f32(x.f32 + b, (n - b < BLOCK) ? n - b : BLOCK, s, bins);
            }
        }
    }
}

/* The next digit of the cut. */
static void narrow_down(search *s, const size_t *bins)
{
    size_t bin = (size_t)1 << s->digit, n = 0;

    do {
        s->left -= n;
        bin--;
        n = bins[bin];
    } while ((n < s->left) && (bin > 0));
    s->prefix = s->prefix << s->digit | bin;
}

nexar_err nx_cut_find(const nx_cut_tensor *t, size_t k, nx_cut *cut)
{
    search s = {.shift = (nx_lanes_work(t->dtype) == NEXAR_F64) ? 63 : 31, .left = k};
    const unsigned digit = (t->count < MANY) ? DIGIT_FEW : DIGIT_MANY;
    size_t *bins;

    *cut = (nx_cut){.magnitude = UINT64_MAX};
    if (k == 0) {
        return NEXAR_OK;
    }
    bins = nx_calloc((size_t)1 << digit, sizeof *bins);
    if (bins == NULL) {
        return nx_fail_nomem("a histogram of magnitudes");
    }
    while (s.shift > 0) {
        s.digit = (s.shift < digit) ? s.shift : digit;
        s.shift -= s.digit;
        memset(bins, 0, sizeof *bins << digit);
        if (nx_lanes_work(t->dtype) == NEXAR_F32) {
            count_digits_f32(t, &s, bins);
        } else {
            count_digits(t, &s, bins);
        }
        narrow_down(&s, bins);
    }
    nx_free(bins);
    cut->magnitude = s.prefix;
    cut->ties = (s.prefix == 0) ? 0 : s.left;
    return NEXAR_OK;
}

/* Takes the elements of at least |least|, without a branch, which would be unpredictable. */
static size_t take_from(const uint64_t *m, size_t n, uint64_t least, uint16_t *taken)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        taken[found] = (uint16_t)i;
        found += (m[i] >= least);
    }
    return found;
}

/* The same for f32. */
static size_t take_from_f32(const float *x, size_t n, int32_t least, uint16_t *taken)
{
    size_t found = 0;

    for (size_t b = 0; b < n; b += BLOCK) {
        const size_t end = (n - b < BLOCK) ? n : b + BLOCK;

        for (size_t i = any_from(x + b, least) ? b : end; i < end; i++) {
            taken[found] = (uint16_t)i;
            found += (magnitude(x[i]) >= least);
        }
    }
    return found;
}

static uint64_t magnitude_at(const nx_lanes *x, size_t i, nexar_dtype work)
{
    return (work == NEXAR_F64) ? nx_f64_bits(x->f64[i]) & UINT64_C(0x7fffffffffffffff)
                               : (uint64_t)magnitude(x->f32[i]);
}

size_t nx_cut_take(nx_cut *cut, const nx_lanes *x, size_t n, nexar_dtype work,
                   uint16_t taken[NX_PIECE])
{
    const uint64_t least = cut->magnitude + (cut->ties == 0);
    size_t found, kept = 0;

    if (cut->magnitude == UINT64_MAX) {
        return 0;
    }
    if (work == NEXAR_F64) {
        uint64_t m[NX_PIECE];

        magnitudes(x->f64, n, m);
        found = take_from(m, n, least, taken);
    } else {
        /* No f32 has a magnitude above INT32_MAX. */
        found = (least > INT32_MAX) ? 0 : take_from_f32(x->f32, n, (int32_t)least, taken);
    }
    if (cut->ties == 0) {
        return found;
    }
    for (size_t i = 0; i < found; i++) {
        const bool tie = (magnitude_at(x, taken[i], work) == cut->magnitude);

        if (!tie || (cut->ties > 0)) {
            cut->ties -= tie;
            taken[kept++] = taken[i];
        }
    }
    return kept;
}
