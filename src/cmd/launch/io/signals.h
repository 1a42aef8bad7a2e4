/* signals.h - the signals that a launcher handles, as a descriptor. */
#ifndef NX_SIGNALS_H
#define NX_SIGNALS_H

#include <stdbool.h>

#include "base/error.h"

/*
 * From now on the signals of users, terminals and children are read from |*fd|, a non-blocking
 * signalfd. Signals that the parent process has set to ignored (nohup) stay ignored. SIGPIPE is
 * ignored. NEXAR_ESYS
 */
NX_MUST_CHECK nexar_err nx_signals_open(int *fd);

/* The next signal; 0: none is pending. */
int nx_signals_next(int fd);

/* Whether signal |number| requests the end. */
bool nx_signal_ends(int number);

#endif /* NX_SIGNALS_H */
