/* waiting_fuzz.c - any bytes as a list of waiting joiners, as agreements carry it: an accepted list
 * is in order, and is encoded and decoded again. */
#include <string.h>

#include "base/alloc.h"
#include "cluster/join_queue.h"
#include "fuzz.h"

enum { ROOM = 1 << 16 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[ROOM];
    nx_reader r = nx_reader_make(data, size);
    nx_writer w = nx_writer_make(bytes, sizeof(bytes));
    nx_member *joined = NULL, *back = NULL;
    nx_join_queue waiting = {0};
    uint32_t n = 0, again = 0;

    if (nx_join_queue_decode(&r, &joined, &n) != NEXAR_OK) {
        nxt_must((joined == NULL) && (n == 0));
        return 0;
    }
    for (uint32_t i = n; i-- > 0;) {
        nxt_must((joined[i].id > 0) && ((i == 0) || (joined[i].id > joined[i - 1].id)));
        nxt_must(nx_join_queue_add(&waiting, &joined[i]) == NEXAR_OK);
    }
    nxt_must(waiting.n == n);
    nxt_must(nx_join_queue_encode(&waiting, &w, UINT32_MAX) == n);
    r = nx_reader_make(bytes, w.len);
    nxt_must((nx_join_queue_decode(&r, &back, &again) == NEXAR_OK) && (again == n));
    nxt_must(nx_reader_done(&r));
    nxt_must((n == 0) || (memcmp(joined, back, n * sizeof(*joined)) == 0));
    nx_free(joined);
    nx_free(back);
    nx_join_queue_fini(&waiting);
    return 0;
}
