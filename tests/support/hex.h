/* hex.h - decodes hexadecimal test vectors. */
#ifndef NXT_HEX_H
#define NXT_HEX_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Decodes |text| into |out|; returns the number of bytes. */
static inline size_t nxt_unhex(const char *text, uint8_t *out)
{
    size_t n = strlen(text) / 2;

    for (size_t i = 0; i < n; i++) {
        char pair[3] = {text[2 * i], text[2 * i + 1], '\0'};

        out[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return n;
}

#endif /* NXT_HEX_H */
