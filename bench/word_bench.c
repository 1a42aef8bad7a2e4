/*
 * word_bench.c - the distance between two cores of this machine at this moment.
 *
 *     word_bench
 *
 * Prints one line: nanoseconds for a word from one core to the other, and the bandwidth (GB/s) of
 * copying data that the other core has just written. A hypervisor may move virtual cores: figures
 * from before and after a move are not comparable. Takes about 20 ms. With one core both figures
 * are 0.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "args.h"

static const char help[] =
    "usage: word_bench\n"
    "\n"
    "How near two cores of this machine are: nanoseconds that a word takes from one to the\n"
    "other, and GB a second at which one copies what the other has just written.\n";

enum { POLLS = 1 << 12 };
enum { BATCHES = 25, WORDS = 1000, COPIES = 101, BYTES = 128 << 10, LINE = 128 };

static _Alignas(LINE) atomic_uint to_other;
static _Alignas(LINE) atomic_uint back;
static _Alignas(4096) uint8_t fresh[BYTES];
static _Alignas(4096) uint8_t copied[BYTES];

static double now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), by_value);
    return values[n / 2];
}

/* Migrates the calling thread to the core |at| of |all|. */
static int go_to(const cpu_set_t *all, int at)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    for (size_t core = 0; core < CPU_SETSIZE; core++) {
        if (CPU_ISSET(core, all) && (at-- == 0)) {
            CPU_SET(core, &one);
        }
    }
    return sched_setaffinity(0, sizeof(one), &one) == 0;
}

static void await(atomic_uint *word, unsigned value)
{
    for (unsigned polls = 1; atomic_load_explicit(word, memory_order_acquire) != value; polls++) {
        if (polls % POLLS == 0) {
            (void)sched_yield(); /* another thread may occupy the other core */
        }
    }
}

static void say(atomic_uint *word, unsigned value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

/* Answers every word; the last answer follows after writing |fresh|. */
static void *other(void *arg)
{
    if (!go_to(arg, 1)) {
        _exit(1);
    }
    for (unsigned i = 1; i <= BATCHES * WORDS; i++) {
        await(&to_other, i);
        say(&back, i);
    }
    for (unsigned i = BATCHES * WORDS + 1; i <= BATCHES * WORDS + COPIES; i++) {
        await(&to_other, i);
        memset(fresh, (int)i, sizeof(fresh));
        say(&back, i);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    double words[BATCHES], copies[COPIES];
    cpu_set_t all; /* that both threads may use */
    pthread_t thread;
    unsigned i = 0;

    (void)nxb_args_take(argc, argv, 0, help);
    if ((sched_getaffinity(0, sizeof(all), &all) != 0) || (CPU_COUNT(&all) < 2) ||
        !go_to(&all, 0) || (pthread_create(&thread, NULL, other, &all) != 0)) {
        (void)printf("word_ns 0 fresh_gb_s 0\n");
        return 0;
    }
    for (int batch = 0; batch < BATCHES; batch++) {
        const double start = now_ns();

        for (int k = 0; k < WORDS; k++) {
            say(&to_other, ++i);
            await(&back, i);
        }
        words[batch] = (now_ns() - start) / (2 * WORDS);
    }
    for (int copy = 0; copy < COPIES; copy++) {
        double start;

        say(&to_other, ++i);
        await(&back, i);
        start = now_ns();
        memcpy(copied, fresh, sizeof(copied));
        __asm__ volatile("" : : "r"(copied) : "memory"); /* keeps the copy alive */
        copies[copy] = BYTES / (now_ns() - start);
    }
    (void)pthread_join(thread, NULL);
    (void)printf("word_ns %.0f fresh_gb_s %.1f\n", median(words, BATCHES), median(copies, COPIES));
    return 0;
}
