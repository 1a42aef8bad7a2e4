/* text_fuzz.c - numbers in any text: a parsed number is formatted and parsed again. */
#include "base/text/text.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[NXT_FUZZ_ROOM], shown[NX_NUMBER_ROOM];

    (void)nxt_fuzz_text(data, size, text);
    for (int kind = 0; kind < NX_NUMBER_KINDS; kind++) {
        const nx_number *number = &nx_numbers[kind];
        uint64_t value = 4711, back = 0;

        if (number->parse(text, &value)) {
            nxt_must(number->parse(number->format(value, shown), &back));
            nxt_must(back == value);
        } else {
            nxt_must(value == 4711);
        }
    }
    return 0;
}
