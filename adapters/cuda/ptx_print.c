/* ptx_print.c - prints the module of nexar-cuda, for an assembler. */
#include <stdio.h>

#include "inner.h"

int main(void)
{
    for (size_t i = 0; i < nx_cu_ptx_parts; i++) {
        (void)fputs(nx_cu_ptx[i], stdout);
    }
    return 0;
}
