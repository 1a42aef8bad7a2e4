/* catchers.h - sends a signal to processes that it does not kill. */
#ifndef NX_CATCHERS_H
#define NX_CATCHERS_H

#include <stdbool.h>
#include <sys/types.h>

/* Sends |number| to each process of this machine whose process group |wanted| accepts, and that
 * catches the signal or blocks it (sigwait, signalfd). A process that the signal would kill does
 * not get it: its handler is not installed yet, or it is a shell around the program. */
void nx_catchers_signal(int number, bool (*wanted)(void *ctx, pid_t group), void *ctx);

#endif /* NX_CATCHERS_H */
