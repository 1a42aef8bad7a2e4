/*
 * clock.h - the clock as an interface, so that tests control time.
 */
#ifndef NX_CLOCK_H
#define NX_CLOCK_H

#include <stddef.h>
#include <stdint.h>

typedef struct nx_clock {
    /* Nanoseconds from some fixed point; never goes backwards. */
    uint64_t (*now_ns)(void *ctx);
    void *ctx;
} nx_clock;

static inline uint64_t nx_now(const nx_clock *clock)
{
    return clock->now_ns(clock->ctx);
}

/* CLOCK_MONOTONIC. */
extern const nx_clock nx_clock_system;

/* A clock that tests set. */
typedef struct nx_clock_manual {
    nx_clock clock; /* use this; ctx points to its owner */
    uint64_t ns;
} nx_clock_manual;
void nx_clock_manual_init(nx_clock_manual *m, uint64_t start_ns);

/* The time of day for messages, "09:31:05 UTC"; returns |text|. */
enum { NX_TIME_TEXT = 16 };
const char *nx_time_text(char text[NX_TIME_TEXT]);

#endif /* NX_CLOCK_H */
