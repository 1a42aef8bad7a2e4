/*
 * survive.c - a rank that reduces again and again, and goes on with those who are left when
 * one fails.
 *
 *     NEXAR_JOIN=... survive STOP
 *
 * Prints "rank R pid P", then "ready", and a line for each recovery: "went on: S of N ranks,
 * MS ms after the error, SENTENCE".  Ends when the file STOP is there, on all ranks alike.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <nexar.h>

static double now_ms(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void check(nexar_err err, const char *what)
{
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n", what, nexar_err_name(err), nexar_last_error());
        _exit(1);
    }
}

/* One step; |*stop| when any rank has seen the file. */
static nexar_err step(nexar_comm *c, const char *file, int *stop)
{
    int64_t v[2] = {nexar_rank(c) + 1, access(file, F_OK) == 0};
    const int64_t n = nexar_size(c);
    nexar_err err = nexar_allreduce(c, NEXAR_IN_PLACE, v, 2, NEXAR_I64, NEXAR_SUM);

    if ((err == NEXAR_OK) && (v[0] != n * (n + 1) / 2)) {
        (void)fprintf(stderr, "the sum over %d ranks is %d\n", (int)n, (int)v[0]);
        _exit(1);
    }
    *stop = (err == NEXAR_OK) && (v[1] != 0);
    return err;
}

/* A communicator of those who are left, in place of |*c|. */
static void go_on(nexar_comm *w, nexar_comm **c)
{
    nexar_comm *next = NULL;

    check(nexar_comm_revoke(*c), "revoke");
    check(nexar_comm_shrink(*c, &next), "shrink");
    if (*c != w) {
        nexar_comm_free(*c);
    }
    *c = next;
}

int main(int argc, char **argv)
{
    nexar_comm *w = NULL, *c;
    double failed = 0;
    char why[512] = "";
    nexar_err err;
    int stop = 0;

    if (argc != 2) {
        return 2;
    }
    check(nexar_init(NULL, &w), "init");
    c = w;
    check(step(c, argv[1], &stop), "the first step");
    printf("rank %d pid %d\nready\n", nexar_rank(w), (int)getpid());
    (void)fflush(stdout);
    while (!stop) {
        err = step(c, argv[1], &stop);
        if ((err == NEXAR_EPEER) || (err == NEXAR_EREVOKED)) {
            if (failed == 0) {
                failed = now_ms();
                (void)snprintf(why, sizeof(why), "%s: %s", nexar_err_name(err), nexar_last_error());
            }
            go_on(w, &c);
        } else {
            check(err, "a step");
            if (failed > 0) {
                printf("went on: %d of %d ranks, %.1f ms after the error, %s\n", nexar_size(c),
                       nexar_size(w), now_ms() - failed, why);
                (void)fflush(stdout);
                failed = 0;
            }
        }
    }
    if (c != w) {
        nexar_comm_free(c);
    }
    check(nexar_finalize(w), "finalize");
    return 0;
}
