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

/* What the transports make use of where the kernel offers it. */
bool nx_machine_has_memfd(void);
bool nx_machine_has_udp_segment(void); /* one send, many datagrams */
bool nx_machine_has_udp_gro(void);     /* one receive, many datagrams */

#endif /* NX_MACHINE_H */
