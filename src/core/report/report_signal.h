/*
 * report_signal.h - a process signal as events of its worlds.
 *
 * The handler is installed with the first world that wants the signal, if its disposition is the
 * default then: an application that uses the signal keeps it.  The disposition is restored with the
 * last world.  The handler only writes to descriptors.  Any thread.
 */
#ifndef NX_REPORT_SIGNAL_H
#define NX_REPORT_SIGNAL_H

#include "base/error.h"

/*
 * From now on |fd|, a non-blocking eventfd, is written when |number| (SIGUSR1 or SIGUSR2) arrives.
 * No effect if the application uses the signal, or above 1024 worlds.
 */
void nx_report_signal_add(int number, int fd);
/* How often |number| has arrived, without a system call; a descriptor is written only after
 * that. */
unsigned nx_report_signal_count(int number);
/* No more; |fd| may be closed when this has returned. */
void nx_report_signal_remove(int fd);

#endif /* NX_REPORT_SIGNAL_H */
