/*
 * hello.c - every rank says hello; rank 0 collects.
 *
 *     nexar run -n 4 ./hello
 */
#include <nexar.h>
#include <stdio.h>
#include <unistd.h>

enum { TAG_HELLO = 1 };

/* The ranks 1, 2, ... send a line to rank 0, which prints them in that order. */
static nexar_err hello(nexar_comm *world)
{
    char host[64] = "", line[128];
    nexar_err err = NEXAR_OK;

    (void)gethostname(host, sizeof(host) - 1);
    (void)snprintf(line, sizeof(line), "hello from rank %d of %d on %s", nexar_rank(world),
                   nexar_size(world), host);
    if (nexar_rank(world) != 0) {
        return nexar_send(world, line, sizeof(line), 0, TAG_HELLO);
    }
    (void)puts(line);
    for (int rank = 1; (rank < nexar_size(world)) && (err == NEXAR_OK); rank++) {
        err = nexar_recv(world, line, sizeof(line), rank, TAG_HELLO, NULL);
        if (err == NEXAR_OK) {
            (void)puts(line);
        }
    }
    return err;
}

static int failed(void)
{
    (void)fprintf(stderr, "hello: %s\n", nexar_last_error());
    return 1;
}

int main(void)
{
    nexar_comm *world;

    if ((nexar_init(NULL, &world) != NEXAR_OK) || (hello(world) != NEXAR_OK) ||
        (nexar_finalize(world) != NEXAR_OK)) {
        return failed();
    }
    return 0;
}
