/* path_choice.c - the board or reading. */
#include "path_choice.h"

#include <sys/uio.h>
#include <unistd.h>

#include "base/os/sys.h"

/* Bytes of a call: the least length with a choice; the classes of lengths. */
static const size_t classes[NX_PATH_CHOICE_LENGTHS] = {32 << 10, 128 << 10, 1 << 20, 8 << 20};

void nx_path_choice_init(nx_path_choice *t)
{
    *t = (nx_path_choice){.cell = -1, .last = -1};
    for (int i = 0; i < NX_PATH_CHOICE_CELLS; i++) {
        nx_adaptive_init(&t->ways[i], NX_PATH_CHOICE_SLOTS);
    }
}

static size_t bytes_of(const nx_coll_call *call, uint32_t size)
{
    const nx_coll *c = &call->coll;
    const bool blocks =
        (c->kind == NX_ALLGATHER) || (c->kind == NX_ALLTOALL) || (c->kind == NX_REDUCE_SCATTER);

    return c->count * nexar_dtype_size(call->dtype) * (blocks ? size : 1);
}

/* Whether both paths give the same bits: an allreduce of three or more ranks combines in another
 * order when it reads. Decided from values that all ranks know. */
static bool has_choice(const nx_coll *c, uint32_t size)
{
    switch ((int)c->kind) {
    case NX_ALLREDUCE:
    case NX_REDUCE:
        return (size == 2) && !c->hook;
    case NX_BROADCAST:
    case NX_ALLGATHER:
    case NX_ALLTOALL:
    case NX_REDUCE_SCATTER:
    case NX_SCAN:
    case NX_EXSCAN:
        return true;
    default:
        return false;
    }
}

/* -1: there is no choice. */
static int cell_of(const nx_coll_call *call, uint32_t size)
{
    const size_t bytes = bytes_of(call, size);
    int length = NX_PATH_CHOICE_LENGTHS - 1;

    if (!has_choice(&call->coll, size) || (bytes < classes[0])) {
        return -1;
    }
    while (bytes < classes[length]) {
        length--;
    }
    return (int)call->coll.kind * NX_PATH_CHOICE_LENGTHS + length;
}

unsigned nx_path_choice_begin(nx_path_choice *t, const nx_coll_call *call, uint32_t size)
{
    t->cell = cell_of(call, size);
    if (t->cell < 0) {
        return NX_PATH_CHOICE_SLOTS;
    }
    t->bytes = bytes_of(call, size);
    t->before = t->ways[t->cell];
    return nx_adaptive_next(&t->ways[t->cell]);
}

void nx_path_choice_undo(nx_path_choice *t)
{
    if (t->cell >= 0) {
        t->ways[t->cell] = t->before;
        t->cell = -1;
    }
}

void nx_path_choice_end(nx_path_choice *t, unsigned way, uint64_t ns)
{
    t->last = t->cell;
    t->last_way = way;
    t->last_bytes = t->bytes;
    t->took_ns = (uint32_t)((ns < NX_PATH_CHOICE_LONGEST) ? ns : NX_PATH_CHOICE_LONGEST);
    t->cell = -1;
}

uint32_t nx_path_choice_time(const nx_path_choice *t)
{
    return (t->last < 0) ? 0 : t->took_ns;
}

void nx_path_choice_record(nx_path_choice *t, uint32_t longest_ns)
{
    if ((t->last >= 0) && (longest_ns > 0)) {
        nx_adaptive_took(&t->ways[t->last], t->last_way, t->last_bytes, longest_ns);
    }
    t->last = -1;
}

/* Whether other processes can read a byte at |at|. */
static bool can_read(const uint8_t *at)
{
    uint8_t byte;
    const struct iovec to = {.iov_base = &byte, .iov_len = 1};
    const struct iovec from = {.iov_base = (void *)(uintptr_t)at, .iov_len = 1};

    return nx_sys_process_vm_readv(getpid(), &to, 1, &from, 1) == 1;
}

bool nx_path_choice_readable(nx_path_choice *t, int which, const void *at, size_t len)
{
    const uint8_t *from = at;

    if ((t->known[which].at == at) && (t->known[which].len >= len)) {
        return true;
    }
    if (!can_read(from) || !can_read(from + len - 1)) {
        return false;
    }
    t->known[which].at = at;
    t->known[which].len = len;
    return true;
}
