/* state_table.c - tables of names: encoded, compared and described. */
#include "core/state/state_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "coll/distribution/distribution.h"
#include "reduce/reduce.h"
#include "wire/wire.h"

/* Each tensor has at most one piece more than it has segments. */
enum { MOST_TENSORS = NX_DISTRIBUTION_PIECES / 2 };

/* Type and count, before the name. */
enum { NAME_MAX_BYTES = UINT32_MAX >> 1, FIXED = 4 + 8 + 4 };

static nexar_err check_one(const nexar_state *t, size_t i, size_t *sum)
{
    size_t bytes;

    if (t->name == NULL) {
        return nx_fail(NEXAR_EINVAL, "state_sync: the name of tensor %zu is NULL", i);
    }
    if (strlen(t->name) > NAME_MAX_BYTES) {
        return nx_fail(NEXAR_EINVAL, "state_sync: the name of tensor %zu is longer than 2 GiB", i);
    }
    if (nexar_dtype_size(t->dtype) == 0) {
        return nx_fail(NEXAR_EINVAL, "state_sync: tensor %zu, \"%.80s\": %d is no dtype", i,
                       t->name, (int)t->dtype);
    }
    if ((t->ptr == NULL) && (t->count != 0)) {
        return nx_fail(NEXAR_EINVAL, "state_sync: tensor %zu, \"%.80s\", of %zu elements is NULL",
                       i, t->name, t->count);
    }
    if (__builtin_mul_overflow(t->count, nexar_dtype_size(t->dtype), &bytes) ||
        __builtin_add_overflow(*sum, bytes, sum) || (*sum > PTRDIFF_MAX)) {
        return nx_fail(NEXAR_EINVAL, "state_sync: the tensors have more than PTRDIFF_MAX bytes");
    }
    return NEXAR_OK;
}

nexar_err nx_state_check(const nexar_state *tensors, size_t n)
{
    nexar_err err = NEXAR_OK;
    size_t sum = 0;

    if ((tensors == NULL) && (n != 0)) {
        return nx_fail(NEXAR_EINVAL, "state_sync: tensors is NULL, and n is %zu", n);
    }
    if (n > MOST_TENSORS) {
        return nx_fail(NEXAR_EINVAL, "state_sync: %zu tensors; at most %d are accepted, join some",
                       n, (int)MOST_TENSORS);
    }
    for (size_t i = 0; (i < n) && (err == NEXAR_OK); i++) {
        err = check_one(&tensors[i], i, &sum);
    }
    return err;
}

size_t nx_state_table_size(const nexar_state *tensors, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += FIXED + strlen(tensors[i].name);
    }
    return sum;
}

void nx_state_table_write(const nexar_state *tensors, size_t n, uint8_t *table)
{
    nx_writer w = nx_writer_make(table, nx_state_table_size(tensors, n));

    for (size_t i = 0; i < n; i++) {
        const size_t len = strlen(tensors[i].name);

        nx_write_u32(&w, (uint32_t)tensors[i].dtype);
        nx_write_u64(&w, tensors[i].count);
        nx_write_u32(&w, (uint32_t)len);
        nx_write_bytes(&w, tensors[i].name, len);
    }
}

nx_digest nx_state_table_digest(const uint8_t *table, size_t bytes)
{
    const uint64_t seed[NX_CONTENT_SEED] = {0};
    nx_content_key key;

    nx_content_key_init(&key, seed);
    return nx_content_hash(&key, table, bytes);
}

/* ---- comparison -------------------------------------------------------------------------- */

/* One tensor of a table. */
typedef struct entry {
    uint32_t dtype;
    uint64_t count;
    const uint8_t *name;
    size_t len;
} entry;

/* False: the end of the table, or malformed (the reader tells which). */
static bool next_entry(nx_reader *r, entry *e)
{
    if (nx_reader_left(r) == 0) {
        return false;
    }
    e->dtype = nx_read_u32(r);
    e->count = nx_read_u64(r);
    e->len = nx_read_u32(r);
    e->name = nx_read_bytes(r, e->len);
    return e->name != NULL;
}

static bool is_same(const nexar_state *t, const entry *e)
{
    return ((uint32_t)t->dtype == e->dtype) && (t->count == e->count) &&
           (strlen(t->name) == e->len) && (memcmp(t->name, e->name, e->len) == 0);
}

nexar_err nx_state_table_compare(const nexar_state *tensors, size_t n, const uint8_t *table,
                                 size_t bytes, uint64_t *first)
{
    nx_reader r = nx_reader_make(table, bytes);
    uint64_t at = 0, differs = UINT64_MAX;
    entry e;

    for (; next_entry(&r, &e); at++) {
        if ((differs == UINT64_MAX) && ((at >= n) || !is_same(&tensors[at], &e))) {
            differs = at;
        }
    }
    if (!nx_reader_done(&r)) {
        return nx_fail(NEXAR_EPROTO, "the table of tensors of rank 0 is malformed");
    }
    if ((differs == UINT64_MAX) && (at < n)) {
        differs = at;
    }
    *first = differs;
    return NEXAR_OK;
}

static void describe(char text[NX_STATE_TEXT], const char *name, size_t len, uint64_t count,
                     nexar_dtype dtype)
{
    char size[24] = "";

    if (nx_dtype_is_struct(dtype)) {
        (void)snprintf(size, sizeof(size), "(%zu)", nexar_dtype_size(dtype));
    }
    (void)snprintf(text, NX_STATE_TEXT, "\"%.*s\" (%" PRIu64 " x %s%s)", (len > 60) ? 60 : (int)len,
                   name, count, nexar_dtype_name(dtype), size);
}

static void describe_none(char text[NX_STATE_TEXT])
{
    (void)snprintf(text, NX_STATE_TEXT, "no tensor");
}

void nx_state_describe(const nexar_state *tensors, size_t n, uint64_t index,
                       char text[NX_STATE_TEXT])
{
    if (index >= n) {
        describe_none(text);
        return;
    }
    describe(text, tensors[index].name, strlen(tensors[index].name), tensors[index].count,
             tensors[index].dtype);
}

void nx_state_table_describe(const uint8_t *table, size_t bytes, uint64_t index,
                             char text[NX_STATE_TEXT])
{
    nx_reader r = nx_reader_make(table, bytes);
    entry e;

    for (uint64_t at = 0; next_entry(&r, &e); at++) {
        if (at == index) {
            describe(text, (const char *)e.name, e.len, e.count, (nexar_dtype)e.dtype);
            return;
        }
    }
    describe_none(text);
}
