/* program_check.h - checks in advance whether a program can be run here. */
#ifndef NX_PROGRAM_CHECK_H
#define NX_PROGRAM_CHECK_H

#include "base/error.h"

/*
 * Looks for |name| as execvp does, and asks the dynamic loader of an ELF program for its
 * libraries; the program does not run. Blocks until the loader has finished.
 *
 * NEXAR_EINVAL
 *     The program does not exist or is not executable, or a library is missing: the message names
 *     it.
 * NEXAR_ESYS, NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_compiled_check(const char *name);

#endif /* NX_PROGRAM_CHECK_H */
