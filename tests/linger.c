/* linger.c - a rank that says who it is and stays until its standard input ends. */
#include <nexar.h>
#include <stdio.h>

int main(void)
{
    nexar_comm *world = NULL;
    int rank = -1, size = 0;
    nexar_err err = nexar_init(NULL, &world);

    if (err == NEXAR_OK) {
        rank = nexar_rank(world);
        size = nexar_size(world);
        (void)printf("rank %d of %d\n", rank, size);
        (void)fflush(stdout);
        while (getchar() != EOF) {
        }
        err = nexar_barrier(world);
    }
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "linger: %s\n", nexar_last_error());
    }
    if ((world != NULL) && (nexar_finalize(world) != NEXAR_OK)) {
        err = NEXAR_EINTERNAL;
    }
    return (err == NEXAR_OK) ? 0 : 1;
}
