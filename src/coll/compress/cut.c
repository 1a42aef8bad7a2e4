/* cut.c - the k-th largest magnitude, one digit of its bits after the other. */
#include "coll/compress/cut.h"

#include "base/alloc.h"
#include "reduce/scalar.h"

enum {
    DIGIT = 11, /* bits: a histogram stays in the first-level cache */
    BINS = 1 << DIGIT,
    COPIES = 2, /* of the histogram: equal neighbours need not wait for each other */
};

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

static void magnitudes(const nx_lanes *x, size_t n, nexar_dtype work, uint64_t out[NX_PIECE])
{
    if (work == NEXAR_F64) {
        for (size_t i = 0; i < n; i++) {
            out[i] = nx_f64_bits(x->f64[i]) & UINT64_C(0x7fffffffffffffff);
        }
    } else {
        for (size_t i = 0; i < n; i++) {
            out[i] = nx_f32_bits(x->f32[i]) & 0x7fffffff;
        }
    }
}

/* What is known of the cut: its bits from |shift| up, in |prefix|; |left| are still to be
 * taken of the elements that begin with these. */
typedef struct search {
    uint64_t prefix;
    unsigned shift, digit;
    size_t left;
} search;

/* How often each digit comes after the prefix, the digit being that at |shift|. */
static void count_digits(const nx_cut_tensor *t, const search *s, size_t (*bins)[BINS])
{
    const nexar_dtype work = nx_lanes_work(t->dtype);
    const unsigned shift = s->shift, above = s->shift + s->digit;
    uint64_t m[NX_PIECE];
    nx_lanes x;

    for (size_t at = 0; at < t->count; at += NX_PIECE) {
        const size_t rest = t->count - at, n = (rest < NX_PIECE) ? rest : NX_PIECE;

        nx_cut_load(t, at, n, &x);
        magnitudes(&x, n, work, m);
        for (size_t i = 0; i < n; i++) {
            if (m[i] >> above == s->prefix) {
                bins[i % COPIES][m[i] >> shift & ((UINT64_C(1) << s->digit) - 1)]++;
            }
        }
    }
}

/* The next digit of the cut. */
static void narrow_down(search *s, size_t (*bins)[BINS])
{
    size_t bin = (size_t)1 << s->digit, n = 0;

    do {
        s->left -= n;
        bin--;
        n = bins[0][bin] + bins[1][bin];
    } while ((n < s->left) && (bin > 0));
    s->prefix = s->prefix << s->digit | bin;
}

nexar_err nx_cut_find(const nx_cut_tensor *t, size_t k, nx_cut *cut)
{
    search s = {.shift = (nx_lanes_work(t->dtype) == NEXAR_F64) ? 63 : 31, .left = k};
    size_t(*bins)[BINS];

    *cut = (nx_cut){.magnitude = UINT64_MAX};
    if (k == 0) {
        return NEXAR_OK;
    }
    bins = nx_calloc(COPIES, sizeof *bins);
    if (bins == NULL) {
        return nx_fail_nomem("a histogram of magnitudes");
    }
    while (s.shift > 0) {
        s.digit = (s.shift < DIGIT) ? s.shift : DIGIT;
        s.shift -= s.digit;
        memset(bins, 0, COPIES * sizeof *bins);
        count_digits(t, &s, bins);
        narrow_down(&s, bins);
    }
    nx_free(bins);
    cut->magnitude = s.prefix;
    cut->ties = (s.prefix == 0) ? 0 : s.left;
    return NEXAR_OK;
}

size_t nx_cut_take(nx_cut *cut, const nx_lanes *x, size_t n, nexar_dtype work,
                   uint16_t taken[NX_PIECE])
{
    uint64_t m[NX_PIECE];
    size_t found = 0;

    magnitudes(x, n, work, m);
    for (size_t i = 0; i < n; i++) {
        if (m[i] < cut->magnitude) {
            continue;
        }
        if (m[i] == cut->magnitude) {
            if (cut->ties == 0) {
                continue;
            }
            cut->ties--;
        }
        taken[found++] = (uint16_t)i;
    }
    return found;
}
