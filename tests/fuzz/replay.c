/* replay.c - stands in for libFuzzer: runs a target over the files named. */
#include <stdio.h>

#include "fuzz.h"

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        static uint8_t data[1 << 17]; /* an upper bound for all targets: scripts/fuzz.sh */
        FILE *file = fopen(argv[i], "rbe");
        size_t size;

        if (file == NULL) {
            perror(argv[i]);
            return 1;
        }
        size = fread(data, 1, sizeof(data), file);
        (void)fclose(file);
        (void)LLVMFuzzerTestOneInput(data, size);
    }
    (void)printf("%d inputs\n", argc - 1);
    return (argc > 1) ? 0 : 1;
}
