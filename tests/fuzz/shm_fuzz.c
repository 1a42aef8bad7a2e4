/* shm_fuzz.c - any bytes as a packet of the shm handshake: an accepted packet is encoded to the
 * same bytes. */
#include <string.h>

#include "fuzz.h"
#include "transport/shm/handshake.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t back[NX_SHM_WORD_MAX];
    nx_shm_word w = {.type = NX_SHM_HELLO, .from = 77};

    if (nx_shm_word_decode(data, size, &w) != NEXAR_OK) {
        nxt_must((w.type == NX_SHM_HELLO) && (w.from == 77));
        return 0;
    }
    nxt_must(nx_shm_word_encode(&w, back) == size);
    nxt_must(memcmp(back, data, size) == 0);
    return 0;
}
