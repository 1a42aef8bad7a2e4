/*
 * report_signal.h - a signal of the process as events of its worlds.
 *
 * The handler is installed with the first world that wants the signal, if its
 * disposition is the default one then: an application that uses the signal itself
 * keeps it.  It is put back with the last one.  The handler only writes to
 * descriptors.  Any thread.
 */
#ifndef NX_REPORT_SIGNAL_H
#define NX_REPORT_SIGNAL_H

#include "base/error.h"

/*
 * From now on |fd|, an eventfd that does not block, is written when |number| (SIGUSR1 or
 * SIGUSR2) comes.  Nothing happens when the signal is the application's, or when
 * more than 1024 worlds want to know.
 */
void nx_report_signal_add(int number, int fd);
/* How often |number| has come so far, without a system call; a descriptor is written only
 * after that. */
unsigned nx_report_signal_count(int number);
/* No more; |fd| may be closed when this has returned. */
void nx_report_signal_remove(int fd);

#endif /* NX_REPORT_SIGNAL_H */
