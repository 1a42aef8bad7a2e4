/* alloc.c - malloc with a switch that makes it fail. */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local long fail_after = -1;
static _Thread_local bool has_failed;

static bool must_fail(void)
{
    if (fail_after < 0) {
        return false;
    }
    if (fail_after-- == 0) {
        has_failed = true;
        return true;
    }
    return false;
}

void *nx_zalloc(size_t size)
{
    return must_fail() ? NULL : calloc(1, (size == 0) ? 1 : size);
}

void *nx_calloc(size_t count, size_t size)
{
    if ((size != 0) && (count > SIZE_MAX / size)) {
        return NULL;
    }
    return nx_zalloc(count * size);
}

void *nx_grow(void *old, size_t count, size_t size)
{
    if (must_fail() || ((size != 0) && (count > SIZE_MAX / size))) {
        return NULL;
    }
    return realloc(old, (count * size == 0) ? 1 : count * size);
}

void *nx_alloc_aligned(size_t align, size_t size)
{
    size_t rounded = (size + align - 1) & ~(align - 1);

    if (must_fail() || (rounded < size)) {
        return NULL;
    }
    return aligned_alloc(align, (rounded == 0) ? align : rounded);
}

char *nx_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = nx_zalloc(size);

    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

void nx_free(void *ptr)
{
    free(ptr);
}

void nx_alloc_fail_after(long n)
{
    fail_after = n;
    has_failed = false;
}

bool nx_alloc_failed(void)
{
    return has_failed;
}
