/* doing_fuzz.c - any bytes as questions and answers of stall reports: an accepted frame has a text,
 * and is encoded and decoded again. */
#include <string.h>

#include "core/report/doing.h"
#include "fuzz.h"

static void check(const nx_doing *d)
{
    char text[NX_DOING_TEXT];
    uint8_t buf[NX_DOING_ROOM];
    nx_doing back;

    nxt_must(d->listed <= NX_DOING_LISTED);
    nxt_must(memchr(d->now.text, '\0', sizeof(d->now.text)) != NULL);
    nxt_must(memchr(d->last.text, '\0', sizeof(d->last.text)) != NULL);
    nxt_must(memchr(d->here, '\0', sizeof(d->here)) != NULL);
    nxt_must(strlen(nx_doing_text(d, text)) < sizeof(text));
    nxt_must(nx_doing_decode(buf, nx_doing_encode(d, buf), &back));
    nxt_must((back.nfor == d->nfor) && (back.listed == d->listed) &&
             (memcmp(back.who, d->who, d->listed * sizeof(d->who[0])) == 0));
    nxt_must((strcmp(back.now.text, d->now.text) == 0) && (back.now.age_ns == d->now.age_ns));
    nxt_must((strcmp(back.last.text, d->last.text) == 0) && (back.last.age_ns == d->last.age_ns));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    nx_doing doing;
    nx_ask ask;

    if (nx_doing_decode(data, size, &doing)) {
        check(&doing);
    }
    if (nx_ask_decode(data, size, &ask)) {
        uint8_t buf[NX_ASK_SIZE];

        nxt_must((size == NX_ASK_SIZE) && (nx_ask_encode(&ask, buf) == size));
        nxt_must(memcmp(buf, data, size) == 0);
    }
    return 0;
}
