/* early.c - rank 1 leaves before the others are done: early exit|finalize|linked. */
#include <stdio.h>
#include <string.h>

#include <nexar.h>

static int leave(nexar_comm *world, const char *how)
{
    return (strcmp(how, "exit") == 0) ? 0 : nexar_finalize(world) != NEXAR_OK;
}

int main(int argc, char **argv)
{
    nexar_comm *world;

    if ((argc != 2) || (nexar_init(NULL, &world) != NEXAR_OK)) {
        (void)fprintf(stderr, "early: %s\n", nexar_last_error());
        return 1;
    }
    if ((strcmp(argv[1], "linked") == 0) && (nexar_barrier(world) != NEXAR_OK)) {
        (void)fprintf(stderr, "early: %s\n", nexar_last_error());
        return 1;
    }
    if (nexar_rank(world) == 1) {
        return leave(world, argv[1]);
    }
    if (nexar_barrier(world) == NEXAR_OK) {
        (void)fprintf(stderr, "early: the barrier did not fail\n");
        return 1;
    }
    (void)printf("%s\n", nexar_last_error());
    return nexar_finalize(world) != NEXAR_OK;
}
