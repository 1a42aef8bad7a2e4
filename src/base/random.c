/* random.c - the kernel's random bytes, and xoshiro256** for simulations. */
#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/os/sys.h"

static void system_fill(void *ctx, void *out, size_t bytes)
{
    (void)ctx;
    if (nx_sys_random(out, bytes) != 0) {
        nx_log(NX_LOG_ERROR, "getrandom: %s: the process cannot run without it",
               strerrordesc_np(errno));
        abort(); /* any other source would make weak keys */
    }
}

nexar_err nx_random_check(void)
{
    unsigned char byte;

    return (nx_sys_random(&byte, sizeof(byte)) == 0)
               ? NEXAR_OK
               : nx_fail_sys("getrandom", "random bytes for keys (a sandbox must allow it)", errno);
}

const nx_random nx_random_system = {.fill = system_fill, .ctx = NULL};

uint64_t nx_random_below(const nx_random *r, uint64_t limit)
{
    /* Numbers below 2^64 mod |limit| are rejected: they would make small results more likely. */
    uint64_t unfair = (UINT64_MAX - limit + 1) % limit, x;

    do {
        unsigned char bytes[sizeof(x)];

        nx_random_fill(r, bytes, sizeof(bytes));
        x = 0;
        for (size_t i = sizeof(bytes); i > 0; i--) {
            x = (x << 8) | bytes[i - 1];
        }
    } while (x < unfair);
    return x % limit;
}

static uint64_t splitmix64(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t rotated(uint64_t x, unsigned int by)
{
    return (x << by) | (x >> (64 - by));
}

uint64_t nx_random_seeded_next(nx_random_seeded *r)
{
    uint64_t *s = r->s, result = rotated(s[1] * 5, 7) * 9, t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotated(s[3], 45);
    return result;
}

/* Lowest byte first on every machine. */
static void seeded_fill(void *ctx, void *out, size_t bytes)
{
    nx_random_seeded *r = ctx;
    unsigned char *at = out;
    uint64_t word = 0;

    for (size_t i = 0; i < bytes; i++) {
        word = (i % 8 == 0) ? nx_random_seeded_next(r) : word >> 8;
        at[i] = (unsigned char)(word & 0xff);
    }
}

void nx_random_seeded_init(nx_random_seeded *r, uint64_t seed)
{
    r->random = (nx_random){.fill = seeded_fill, .ctx = r};
    for (int i = 0; i < 4; i++) {
        r->s[i] = splitmix64(&seed);
    }
}
