/* catchers.h - a signal for those that it does not kill. */
#ifndef NX_CATCHERS_H
#define NX_CATCHERS_H

#include <stdbool.h>
#include <sys/types.h>

/* Sends |number| to each process of this machine whose process group |wanted| accepts, and that
 * catches the signal or blocks it (sigwait, signalfd).  A process that would die of it, since it
 * has not installed its handler yet or is a shell around the program, does not get it. */
void nx_catchers_signal(int number, bool (*wanted)(void *ctx, pid_t group), void *ctx);

#endif /* NX_CATCHERS_H */
