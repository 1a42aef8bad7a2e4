/* join_file.h - the join string in a file, for joiners. */
#ifndef NX_JOIN_FILE_H
#define NX_JOIN_FILE_H

#include "base/error.h"

/*
 * Writes |join| and a line feed to |path|, as nx_private_file_write and with its errors.
 *
 * "-", /dev/stdout, /dev/stderr, /dev/fd/N and /proc/self/fd/N name a descriptor that this
 * process was started with: a pipe, say. The line is written to that descriptor. A descriptor
 * above 2 is then closed, so that its reader sees the end. NEXAR_EINVAL: there is no such
 * descriptor.
 */
NX_MUST_CHECK nexar_err nx_join_file_write(const char *path, const char *join);

#endif /* NX_JOIN_FILE_H */
