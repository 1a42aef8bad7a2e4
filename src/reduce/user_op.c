/*
 * user_op.c - the registry of the application's reductions.
 *
 * An entry is written once, under the lock, and published by |ready|; readers take no lock.
 */
#include "reduce/user_op.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/error.h"

typedef struct user_op {
    nexar_reduce_fn fn;
    void *arg;
    atomic_bool ready;
} user_op;

static user_op ops[NX_OPS_USER];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

bool nx_user_op_is(nexar_op op)
{
    return nx_op_is_user(op) && atomic_load(&ops[(unsigned)op - NX_OP_USER].ready);
}

void nx_user_op_apply(void *out, const void *a, const void *b, size_t count, nexar_dtype dtype,
                      nexar_op op)
{
    const user_op *u = &ops[(unsigned)op - NX_OP_USER];

    if (count == 0) {
        return;
    }
    if (out == b) { /* |fn| is commutative */
        u->fn(out, a, count, dtype, u->arg);
        return;
    }
    if (out != a) {
        memcpy(out, a, count * nexar_dtype_size(dtype));
    }
    u->fn(out, b, count, dtype, u->arg);
}

nexar_err nexar_op_create(uint16_t id, nexar_reduce_fn fn, void *arg, nexar_op *op)
{
    nexar_err err = NEXAR_OK;

    if ((fn == NULL) || (op == NULL)) {
        return nx_fail(NEXAR_EINVAL, "op_create: %s is NULL", (fn == NULL) ? "fn" : "op");
    }
    if (id >= NX_OPS_USER) {
        return nx_fail(NEXAR_EINVAL, "op_create: the id %u; 0 to %d are accepted", id,
                       NX_OPS_USER - 1);
    }
    (void)pthread_mutex_lock(&lock);
    if (atomic_load(&ops[id].ready)) {
        err = nx_fail(NEXAR_EINVAL, "op_create: the id %u is taken in this process", id);
    } else {
        ops[id].fn = fn;
        ops[id].arg = arg;
        atomic_store(&ops[id].ready, true);
        *op = (nexar_op)(NX_OP_USER + id);
    }
    (void)pthread_mutex_unlock(&lock);
    return err;
}
