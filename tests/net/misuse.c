/*
 * misuse.c - incorrect programs, for tests of the error messages about them.
 *
 *     misuse late GO COME   two barriers, then an allreduce: all when the file GO
 *                           exists, the last but one only when COME exists too
 *     misuse agree GO COME  the same with an agreement instead of the allreduce
 *     misuse cross          ranks 0 and 1 each wait for the other's message
 *     misuse tags           rank 0 waits for tag 7 of rank 1, which has sent tag 8
 *     misuse ring           every rank sends a long message to the next, and none receives
 *     misuse serve GO       rank 0 waits in a barrier and serves calls until the file GO is there
 *     misuse idle GO        waits in user code for the file GO
 *     misuse request GO     an iallreduce of rank 0, which computes until the file GO is there;
 *                           the others call it only then
 *     misuse local N GO     as idle, N ranks in one process
 *     misuse differ WHAT    operation #7 differs on rank 1: kind, count, dtype, op
 *                           or root
 *
 * Every rank first prints "rank R pid P".  differ prints the error message of every
 * rank, and its delay: the slowest rank of the best of ROUNDS.
 */
#include <nexar.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { COUNT = 1024, ROUNDS = 5, BARRIERS = 6, MOST_RANKS = 64 };

static nexar_comm *world;

static _Noreturn void die(const char *what)
{
    (void)fprintf(stderr, "misuse: %s: %s\n", what, nexar_last_error());
    exit(1);
}

static void must(nexar_err err, const char *what)
{
    if (err != NEXAR_OK) {
        die(what);
    }
}

static double now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* Waits in user code until |path| exists. */
static void await_file(const char *path)
{
    const struct timespec pause = {.tv_nsec = 10000000};

    while (access(path, F_OK) != 0) {
        (void)nanosleep(&pause, NULL);
    }
}

static void begin_late(const char *go, const char *come)
{
    must(nexar_barrier(world), "barrier");
    must(nexar_barrier(world), "barrier");
    await_file(go);
    if (nexar_rank(world) == nexar_size(world) - 2) {
        await_file(come);
    }
}

static void agree(const char *go, const char *come)
{
    uint64_t flags = 1;

    begin_late(go, come);
    must(nexar_comm_agree(world, &flags), "comm_agree");
    (void)printf("agree ok\n");
}

static void late(const char *go, const char *come)
{
    float data[COUNT] = {0};

    begin_late(go, come);
    must(nexar_allreduce(world, NEXAR_IN_PLACE, data, COUNT, NEXAR_F32, NEXAR_SUM), "allreduce");
    (void)printf("late ok\n");
}

static void tags(void)
{
    char byte = 0;

    if (nexar_rank(world) == 1) {
        must(nexar_send(world, &byte, 1, 0, 8), "send");
        must(nexar_recv(world, &byte, 1, 0, 9, NULL), "recv");
    } else {
        must(nexar_recv(world, &byte, 1, 1, 7, NULL), "recv");
    }
}

static void ring(void)
{
    enum { LONG = 1 << 26 };
    char *data = calloc(LONG, 1);

    if (data == NULL) {
        die("no memory");
    }
    must(nexar_send(world, data, LONG, (nexar_rank(world) + 1) % nexar_size(world), 7), "send");
    free(data);
}

static nexar_err on_call(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)arg;
    return nexar_rpc_reply(call, data, bytes);
}

static void serve(const char *go)
{
    if (nexar_rank(world) == 0) {
        must(nexar_rpc_register(world, 1, on_call, NULL), "rpc_register");
    }
    must(nexar_barrier(world), "barrier");
    while ((nexar_rank(world) != 0) && (access(go, F_OK) != 0)) {
        const struct timespec pause = {.tv_nsec = 10000000};
        void *reply = NULL;
        size_t bytes;

        must(nexar_rpc_call(world, 0, 1, "x", 1, &reply, &bytes), "rpc_call");
        free(reply);
        (void)nanosleep(&pause, NULL);
    }
    must(nexar_barrier(world), "barrier");
    (void)printf("serve ok\n");
}

static void request(const char *go)
{
    float data[COUNT] = {0};
    nexar_request *req;

    if (nexar_rank(world) != 0) {
        await_file(go);
    }
    must(nexar_iallreduce(world, NEXAR_IN_PLACE, data, COUNT, NEXAR_F32, NEXAR_SUM, &req),
         "iallreduce");
    await_file(go);
    must(nexar_wait(&req, NULL), "wait");
    (void)printf("request ok\n");
}

static void cross(void)
{
    const int rank = nexar_rank(world);
    char byte;

    if (rank < 2) {
        must(nexar_recv(world, &byte, 1, 1 - rank, 7, NULL), "recv");
    }
}

static nexar_err call(const char *what, bool odd)
{
    double data[COUNT + 1] = {0};
    const nexar_dtype dtype = (odd && (strcmp(what, "dtype") == 0)) ? NEXAR_F64 : NEXAR_F32;
    const nexar_op op = (odd && (strcmp(what, "op") == 0)) ? NEXAR_MAX : NEXAR_SUM;
    const size_t count = (odd && (strcmp(what, "count") == 0)) ? COUNT + 1 : COUNT;

    if (strcmp(what, "root") == 0) {
        return nexar_broadcast(world, data, COUNT, NEXAR_F32, odd ? 2 : 0);
    }
    if (odd && (strcmp(what, "kind") == 0)) {
        return nexar_broadcast(world, data, COUNT, NEXAR_F32, 0);
    }
    return nexar_allreduce(world, NEXAR_IN_PLACE, data, count, dtype, op);
}

static void differ(const char *what)
{
    double best = 1e9;

    for (int round = 0; round < ROUNDS; round++) {
        double took;
        nexar_err err;

        for (int i = 0; i < BARRIERS; i++) {
            must(nexar_barrier(world), "barrier");
        }
        took = now_s();
        err = call(what, nexar_rank(world) == 1);
        took = now_s() - took;
        if (err != NEXAR_EMISMATCH) {
            (void)fprintf(stderr, "misuse: %s: %s\n", nexar_err_name(err), nexar_last_error());
            exit(1);
        }
        if (round == 0) {
            (void)printf("sentence: %s\n", nexar_last_error());
        }
        must(nexar_allreduce(world, NEXAR_IN_PLACE, &took, 1, NEXAR_F64, NEXAR_MAX), "allreduce");
        best = (took < best) ? took : best;
    }
    if (nexar_rank(world) == 0) {
        (void)printf("all know after %.6f s\n", best);
    }
}

static void local(int n, const char *go)
{
    nexar_comm *worlds[MOST_RANKS];

    must(nexar_init_local(n, NULL, worlds), "init_local");
    (void)printf("rank 0 pid %ld\n", (long)getpid());
    (void)fflush(stdout);
    await_file(go);
    for (int i = 0; i < n; i++) {
        must(nexar_finalize(worlds[i]), "finalize");
    }
}

int main(int argc, char **argv)
{
    const char *mode = (argc > 1) ? argv[1] : "";

    if ((argc == 4) && (strcmp(mode, "local") == 0)) {
        local((int)strtol(argv[2], NULL, 10), argv[3]);
        return 0;
    }
    must(nexar_init(NULL, &world), "init");
    (void)printf("rank %d pid %ld\n", nexar_rank(world), (long)getpid());
    (void)fflush(stdout);
    if ((argc == 4) && (strcmp(mode, "late") == 0)) {
        late(argv[2], argv[3]);
    } else if ((argc == 4) && (strcmp(mode, "agree") == 0)) {
        agree(argv[2], argv[3]);
    } else if ((argc == 2) && (strcmp(mode, "cross") == 0)) {
        cross();
    } else if ((argc == 2) && (strcmp(mode, "tags") == 0)) {
        tags();
    } else if ((argc == 2) && (strcmp(mode, "ring") == 0)) {
        ring();
    } else if ((argc == 3) && (strcmp(mode, "serve") == 0)) {
        serve(argv[2]);
    } else if ((argc == 3) && (strcmp(mode, "idle") == 0)) {
        await_file(argv[2]);
    } else if ((argc == 3) && (strcmp(mode, "request") == 0)) {
        request(argv[2]);
    } else if ((argc == 3) && (strcmp(mode, "differ") == 0)) {
        differ(argv[2]);
    } else {
        (void)fprintf(stderr, "misuse: what is '%s'?\n", mode);
        return 2;
    }
    must(nexar_finalize(world), "finalize");
    return 0;
}
