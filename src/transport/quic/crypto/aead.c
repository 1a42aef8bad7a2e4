/* aead.c - selects the AES-GCM implementation, and limits the use of a key. */
#include "aead.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "aead_kernels.h"
#include "base/alloc.h"

struct nx_aead {
    nx_aead_key key;
    const nx_aead_kernels *by;
    uint64_t used; /* blocks sealed */
};

/* ---- choice of the implementation ---------------------------------------------------- */

static atomic_bool gnutls_only;

/* NULL: none in this build, or none that this CPU supports. */
static const nx_aead_kernels *own(void)
{
#if defined(__x86_64__)
    return nx_aead_vaes.runs() ? &nx_aead_vaes : NULL;
#else
    return NULL;
#endif
}

bool nx_aead_usable(void)
{
    return own() != NULL;
}

void nx_aead_choose(nx_aead_choice choice)
{
    atomic_store_explicit(&gnutls_only, choice == NX_AEAD_GNUTLS, memory_order_relaxed);
}

bool nx_aead_in_use(void)
{
    return !atomic_load_explicit(&gnutls_only, memory_order_relaxed) && nx_aead_usable();
}

const char *nx_aead_name(void)
{
    const nx_aead_kernels *kernels = nx_aead_in_use() ? own() : NULL;

    return (kernels != NULL) ? kernels->name : "gnutls";
}

/* ---- a key --------------------------------------------------------------------------- */

nx_aead *nx_aead_create(const uint8_t *key, size_t len)
{
    const nx_aead_kernels *kernels = own();
    nx_aead *a;

    assert((kernels != NULL) && ((len == 16) || (len == 32)));
    a = nx_alloc_aligned(_Alignof(nx_aead), sizeof(*a));
    if (a == NULL) {
        return NULL;
    }
    a->by = kernels;
    a->used = 0;
    a->by->init(&a->key, key, len);
    return a;
}

void nx_aead_destroy(nx_aead *a)
{
    if (a != NULL) {
        explicit_bzero(a, sizeof(*a));
        nx_free(a);
    }
}

static uint64_t blocks_of(size_t len)
{
    return (uint64_t)(len / NX_AEAD_BLOCK) + ((len % NX_AEAD_BLOCK) != 0);
}

bool nx_aead_seal(nx_aead *a, const nx_aead_text *text, uint8_t *out)
{
    uint64_t blocks = blocks_of(text->head_len) + blocks_of(text->len) + 2; /* lengths, tag */

    if ((text->len > NX_AEAD_TEXT_MAX) || (blocks > NX_AEAD_BLOCKS_MAX - a->used)) {
        return false;
    }
    a->used += blocks;
    a->by->seal(&a->key, text, out);
    return true;
}

bool nx_aead_open(nx_aead *a, const nx_aead_text *text, uint8_t *out)
{
    nx_aead_text sealed = *text;

    if ((text->len < NX_AEAD_TAG) || (text->len - NX_AEAD_TAG > NX_AEAD_TEXT_MAX)) {
        return false;
    }
    sealed.len -= NX_AEAD_TAG;
    assert((text->place.at == NULL) ||
           ((text->place.from <= text->place.to) && (text->place.to <= sealed.len)));
    if (a->by->open(&a->key, &sealed, text->in + sealed.len, out)) {
        return true;
    }
    if (sealed.len > 0) {
        memset(out, 0, sealed.len); /* the caller must not use unauthenticated bytes */
    }
    if (text->place.at != NULL) {
        memset(text->place.at, 0, text->place.to - text->place.from);
    }
    return false;
}

void nx_aead_peek(const nx_aead *a, const nx_aead_text *text, size_t from, size_t to, uint8_t *out)
{
    assert((from <= to) && (to <= text->len - NX_AEAD_TAG));
    a->by->peek(&a->key, text, from, to, out);
}

void nx_aead_block(const nx_aead *a, const uint8_t in[NX_AEAD_BLOCK], uint8_t out[NX_AEAD_BLOCK])
{
    a->by->block(&a->key, in, out);
}

uint64_t nx_aead_used(const nx_aead *a)
{
    return a->used;
}

void nx_aead_set_used(nx_aead *a, uint64_t blocks)
{
    a->used = blocks;
}
