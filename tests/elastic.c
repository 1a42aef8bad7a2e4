/*
 * elastic.c - a program whose world changes: `elastic STEPS [RANKS]` runs in steps, and does
 * not count those with fewer ranks.  A rank with LEAVE_AT=n in its environment leaves after
 * step n, one with DIE_AT=n is killed there.  Those that are there at the end say how many
 * they are.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <nexar.h>

static int fail(const char *what)
{
    (void)fprintf(stderr, "%s: %s\n", what, nexar_last_error());
    return 1;
}

static long number(const char *name)
{
    // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody changes it
    const char *text = getenv(name);

    return (text == NULL) ? -1 : strtol(text, NULL, 10);
}

/* The step that all have come to: who joins begins there. */
static nexar_err agree_on_step(nexar_comm *w, int64_t *step)
{
    return nexar_allreduce(w, NEXAR_IN_PLACE, step, 1, NEXAR_I64, NEXAR_MAX);
}

int main(int argc, char **argv)
{
    const long steps = (argc > 1) ? strtol(argv[1], NULL, 10) : 10;
    const long ranks = (argc > 2) ? strtol(argv[2], NULL, 10) : 1;
    const long leave_at = number("LEAVE_AT"), die_at = number("DIE_AT");
    const struct timespec nap = {.tv_nsec = 5000000};
    nexar_comm *w = NULL;
    nexar_err err;

    if (nexar_init(NULL, &w) != NEXAR_OK) {
        return fail("init");
    }
    for (int64_t step = 0; step < steps; step++) {
        err = agree_on_step(w, &step);
        if (step == die_at) {
            (void)raise(SIGKILL);
        }
        if ((step == leave_at) && (nexar_comm_leave(w) != NEXAR_OK)) {
            return fail("leave");
        }
        if ((err != NEXAR_OK) && (err != NEXAR_EPEER) && (err != NEXAR_EREVOKED)) {
            return fail("allreduce");
        }
        if (nexar_comm_update(&w, NULL) != NEXAR_OK) {
            return fail("update");
        }
        if (w == NULL) {
            (void)printf("left after step %ld\n", leave_at);
            return 0;
        }
        if (nexar_size(w) < ranks) {
            step--;
        }
        (void)nanosleep(&nap, NULL); /* a step that computes */
    }
    (void)printf("%d of %d at the end\n", nexar_rank(w), nexar_size(w));
    return (nexar_finalize(w) == NEXAR_OK) ? 0 : fail("finalize");
}
