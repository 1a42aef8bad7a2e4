/*
 * broadcast.c - rank 0 knows the settings of a job and broadcasts them; then each rank in turn
 * broadcasts a block of its own.
 *
 *     nexar run -n 4 ./broadcast
 */
#include <nexar.h>
#include <stdio.h>
#include <string.h>

enum { BLOCK = 50000 };

/* All ranks have the same build and machine type, so a struct may be sent as raw bytes. */
typedef struct settings {
    double rate;
    int32_t epochs;
    char name[20];
} settings;

static nexar_err share_settings(nexar_comm *world, int *wrong)
{
    settings s = {0};
    nexar_err err;

    if (nexar_rank(world) == 0) { /* as if read from a file that other ranks do not have */
        s = (settings){.rate = 0.25, .epochs = 12, .name = "small network"};
    }
    err = nexar_broadcast(world, &s, sizeof(s), NEXAR_U8, 0);
    if (err == NEXAR_OK) {
        *wrong += (s.rate != 0.25) || (s.epochs != 12) || (strcmp(s.name, "small network") != 0);
        (void)printf("rank %d: %s, %d epochs, rate %g\n", nexar_rank(world), s.name, (int)s.epochs,
                     s.rate);
    }
    return err;
}

static nexar_err share_blocks(nexar_comm *world, int *wrong)
{
    static int32_t block[BLOCK];
    nexar_err err = NEXAR_OK;

    for (int root = 0; (root < nexar_size(world)) && (err == NEXAR_OK); root++) {
        for (int i = 0; i < BLOCK; i++) {
            block[i] = (nexar_rank(world) == root) ? i ^ root : -1;
        }
        err = nexar_broadcast(world, block, BLOCK, NEXAR_I32, root);
        for (int i = 0; i < BLOCK; i++) {
            *wrong += (block[i] != (i ^ root));
        }
    }
    return err;
}

int main(void)
{
    nexar_comm *world;
    int wrong = 0;

    if ((nexar_init(NULL, &world) != NEXAR_OK) || (share_settings(world, &wrong) != NEXAR_OK) ||
        (share_blocks(world, &wrong) != NEXAR_OK) || (nexar_finalize(world) != NEXAR_OK)) {
        (void)fprintf(stderr, "broadcast: %s\n", nexar_last_error());
        return 1;
    }
    if (wrong > 0) {
        (void)fprintf(stderr, "broadcast: %d values are wrong\n", wrong);
        return 1;
    }
    return 0;
}
