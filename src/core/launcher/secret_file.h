/* secret_file.h - a file of one line that only its owner may read: a join string, a token. */
#ifndef NX_SECRET_FILE_H
#define NX_SECRET_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Reads the first line of |path| into |line|, without its end.  Waits up to |wait_ns| until the
 * file exists and the line is complete; logs once that it waits.  |what| is for messages: "join
 * file".
 *
 * NEXAR_EAUTH
 *     It belongs neither to this user nor to root, or others may read or write it.
 * NEXAR_EINVAL
 *     It is not a regular file; the line is empty, or longer than |size|.
 * NEXAR_ETIMEDOUT
 *     It does not exist, or its line has no end.
 * NEXAR_ESYS
 */
NX_MUST_CHECK nexar_err nx_secret_file_read(const char *path, const char *what, uint64_t wait_ns,
                                            char *line, size_t size);

#endif /* NX_SECRET_FILE_H */
