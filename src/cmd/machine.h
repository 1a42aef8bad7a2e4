/* machine.h - what this build and this machine are, found by asking them. */
#ifndef NX_MACHINE_H
#define NX_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

enum { NX_MACHINE_ROOM = 256 };

/* Each writes into the NX_MACHINE_ROOM bytes of |buf| and returns it. */
const char *nx_machine_compiler(char *buf); /* that made this build: "gcc 12.2.0" */
const char *nx_machine_cpu(char *buf);      /* "x86_64, ..." */
const char *nx_machine_kernel(char *buf);   /* "Linux 6.1.0" */

/* Cores that this process may run on, and that there are. */
void nx_machine_cores(int *allowed, int *online);

bool nx_machine_has_memfd(void); /* memory to share without a name */

#endif /* NX_MACHINE_H */
