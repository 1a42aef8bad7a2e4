/*
 * content_hash.inc.h - the hash on one representation of 128-bit numbers, included once for each.
 *
 * The includer defines WIDE, the type; MAKE(hi, lo); LO(x), HI(x); ADD(a, b) modulo 2^128;
 * MULTIPLY(a, b) of 64-bit numbers; NAME(stem), the name of a function.
 */

/* A number of at most 2^127 - 1 that is |a| modulo 2^127 - 1. */
static inline WIDE NAME(fold)(WIDE a)
{
    const WIDE sum = ADD(MAKE(HI(a) & ~TOP_BIT, LO(a)), MAKE(0, HI(a) >> 63));

    /* Only 2^127 - 1 can have become 2^127. */
    return ((HI(sum) & TOP_BIT) != 0) ? MAKE(0, 1) : sum;
}

/* a * b modulo 2^127 - 1; both are below 2^127. */
static inline WIDE NAME(multiply_mod)(WIDE a, WIDE b)
{
    const WIDE high = MULTIPLY(HI(a), HI(b));                                /* below 2^126 */
    const WIDE middle = ADD(MULTIPLY(LO(a), HI(b)), MULTIPLY(HI(a), LO(b))); /* below 2^128 */
    WIDE sum = NAME(fold)(MULTIPLY(LO(a), LO(b)));

    /* middle * 2^64 and high * 2^128, where 2^128 is 2. */
    sum = NAME(fold)(ADD(sum, NAME(fold)(MAKE(LO(middle), 0))));
    sum = NAME(fold)(ADD(sum, MAKE(HI(middle) >> 63, HI(middle) << 1)));
    return NAME(fold)(ADD(sum, MAKE((HI(high) << 1) | (LO(high) >> 63), LO(high) << 1)));
}

/* h * point + coefficient, which is below 2^127. */
static inline WIDE NAME(step)(WIDE h, const nx_content_key *key, WIDE coefficient)
{
    const WIDE point = MAKE(key->point[1], key->point[0]);

    return NAME(fold)(ADD(NAME(multiply_mod)(h, point), coefficient));
}

/* The two NH results of one block are three coefficients. */
static inline WIDE NAME(take_block)(WIDE h, const nx_content_key *key, const uint8_t *block)
{
    WIDE one = MAKE(0, 0), two = MAKE(0, 0);

    for (size_t i = 0; i < BLOCK_WORDS; i += 2) {
        const uint64_t a = load(block + i * WORD), b = load(block + (i + 1) * WORD);

        one = ADD(one, MULTIPLY(a + key->nh[i], b + key->nh[i + 1]));
        two = ADD(two, MULTIPLY(a + key->nh[i + 2], b + key->nh[i + 3]));
    }
    h = NAME(step)(h, key, MAKE(HI(one) & ~TOP_BIT, LO(one)));
    h = NAME(step)(h, key, MAKE(HI(two) & ~TOP_BIT, LO(two)));
    return NAME(step)(h, key, MAKE(0, (HI(one) >> 63) | ((HI(two) >> 63) << 1)));
}

static nx_digest NAME(hash)(const nx_content_key *key, const void *data, size_t bytes)
{
    const uint8_t *at = data;
    uint8_t last[NX_CONTENT_BLOCK] = {0};
    WIDE h = MAKE(0, 1);
    size_t left = bytes;

    for (; left >= NX_CONTENT_BLOCK; left -= NX_CONTENT_BLOCK, at += NX_CONTENT_BLOCK) {
        h = NAME(take_block)(h, key, at);
    }
    if (left > 0) {
        memcpy(last, at, left);
        h = NAME(take_block)(h, key, last);
    }
    h = NAME(step)(h, key, MAKE(0, bytes));
    if ((LO(h) == UINT64_MAX) && (HI(h) == ~TOP_BIT)) { /* 2^127 - 1 is 0 */
        h = MAKE(0, 0);
    }
    h = ADD(h, MAKE(key->mask[1], key->mask[0]));
    return (nx_digest){.word = {LO(h), HI(h)}};
}
