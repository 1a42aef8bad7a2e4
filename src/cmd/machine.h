/* machine.h - facts about this build and this machine. */
#ifndef NX_MACHINE_H
#define NX_MACHINE_H

#include <stdbool.h>
#include <stddef.h>

enum { NX_MACHINE_ROOM = 256 };

/* Each writes into the NX_MACHINE_ROOM bytes of |buf| and returns it. */
const char *nx_machine_compiler(char *buf); /* of this build: "gcc 12.2.0" */
const char *nx_machine_cpu(char *buf);      /* "x86_64, ..." */
const char *nx_machine_kernel(char *buf);   /* "Linux 6.1.0" */

/* The cores that this process may run on, and the cores that are online. */
void nx_machine_cores(int *allowed, int *online);

bool nx_machine_has_memfd(void); /* anonymous shared memory */

#endif /* NX_MACHINE_H */
