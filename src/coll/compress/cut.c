/* cut.c - the k-th largest magnitude, one digit of its bits after the other. */
#include "coll/compress/cut.h"

#include "base/alloc.h"
#include "reduce/scalar.h"

/* Bits of a digit: of many elements more, since a walk over them costs more than a
 * histogram that only the second-level cache holds. */
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
static void count_digits(const nx_cut_tensor *t, const search *s, size_t *bins)
{
    const nexar_dtype work = nx_lanes_work(t->dtype);
    const unsigned shift = s->shift, above = s->shift + s->digit;
    const uint64_t mask = (UINT64_C(1) << s->digit) - 1;
    uint64_t m[NX_PIECE];
    nx_lanes x;

    for (size_t at = 0; at < t->count; at += NX_PIECE) {
        const size_t rest = t->count - at, n = (rest < NX_PIECE) ? rest : NX_PIECE;

        nx_cut_load(t, at, n, &x);
        magnitudes(&x, n, work, m);
        for (size_t i = 0; i < n; i++) {
            if (m[i] >> above == s->prefix) {
                bins[m[i] >> shift & mask]++;
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
        count_digits(t, &s, bins);
        narrow_down(&s, bins);
    }
    nx_free(bins);
    cut->magnitude = s.prefix;
    cut->ties = (s.prefix == 0) ? 0 : s.left;
    return NEXAR_OK;
}

/* Those of at least |least|: no branch, since none could be foreseen. */
static size_t take_from(const uint64_t *m, size_t n, uint64_t least, uint16_t *taken)
{
    size_t found = 0;

    for (size_t i = 0; i < n; i++) {
        taken[found] = (uint16_t)i;
        found += (m[i] >= least);
    }
    return found;
}

size_t nx_cut_take(nx_cut *cut, const nx_lanes *x, size_t n, nexar_dtype work,
                   uint16_t taken[NX_PIECE])
{
    const uint64_t level = cut->magnitude;
    uint64_t m[NX_PIECE];
    size_t found, kept = 0;

    magnitudes(x, n, work, m);
    if (cut->ties == 0) {
        return (level == UINT64_MAX) ? 0 : take_from(m, n, level + 1, taken);
    }
    found = take_from(m, n, level, taken);
    for (size_t i = 0; i < found; i++) {
        const bool tie = (m[taken[i]] == level);

        if (!tie || (cut->ties > 0)) {
            cut->ties -= tie;
            taken[kept++] = taken[i];
        }
    }
    return kept;
}
