/*
 * time_of_day.c - to preload: a process whose time of day is another one.
 *
 * To every reading of it the seconds are added that stand in the file $TIME_OF_DAY, which may
 * change while the process runs.  Clocks that cannot be set stay as they are.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#pragma GCC visibility push(default) /* of what is declared here */

static time_t shift(void)
{
    const char *path = getenv("TIME_OF_DAY"); // NOLINT(concurrency-mt-unsafe): nobody sets it
    const int fd = (path == NULL) ? -1 : open(path, O_RDONLY | O_CLOEXEC);
    char text[32];
    ssize_t n = 0;

    if (fd >= 0) {
        n = read(fd, text, sizeof(text) - 1);
        (void)close(fd);
    }
    text[(n > 0) ? n : 0] = '\0';
    return (time_t)strtoll(text, NULL, 10);
}

int clock_gettime(clockid_t clock_id, struct timespec *tp)
{
    const long rc = syscall(SYS_clock_gettime, clock_id, tp);

    if ((rc == 0) && ((clock_id == CLOCK_REALTIME) || (clock_id == CLOCK_REALTIME_COARSE))) {
        tp->tv_sec += shift();
    }
    return (int)rc;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
    struct timespec ts;

    (void)tz;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *timer)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_REALTIME, &ts);
    if (timer != NULL) {
        *timer = ts.tv_sec;
    }
    return ts.tv_sec;
}
