/*
 * private_file.h - files for secrets: complete, and for their owner alone.
 *
 * A path may lie in a directory where other users can create names.  Nothing that they put there is
 * written to, followed or believed: a symbolic link, a FIFO, a device and a file of another user
 * are refused, and the sentence says what was found and what to do.
 *
 * |what| names the file in sentences: "the join file".  All functions may be called from any
 * thread, and block for the disk.
 */
#ifndef NX_PRIVATE_FILE_H
#define NX_PRIVATE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Puts a new file with |bytes| at |path|, mode 0600 whatever the umask.  A reader finds all of it
 * or what was there before, also after a crash.  What was there is never opened: other names of it
 * (hard links) keep the old contents.
 *
 * NEXAR_EINVAL
 *     At |path| is a symbolic link or something else that is not a regular file.
 * NEXAR_EAUTH
 *     At |path| is a file of another user.
 * NEXAR_ESYS, NEXAR_ENOMEM
 *     In all cases what was there is unchanged.
 */
NX_MUST_CHECK nexar_err nx_private_file_write(const char *what, const char *path, const void *bytes,
                                              size_t len);

/*
 * Reads all of |path|, at most |most| bytes; |*bytes| is the caller's, to be wiped and freed with
 * nx_free.  |*there| false: there is no such file, which is no error.
 *
 * NEXAR_EINVAL
 *     As above; or the file is longer.
 * NEXAR_EAUTH
 *     As above; or others may read or write it.
 * NEXAR_ESYS, NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_private_file_read(const char *what, const char *path, size_t most,
                                             uint8_t **bytes, size_t *len, bool *there);

/* Whether every user can replace the file at |path|: its directory is writable for all, without the
 * sticky bit. */
bool nx_private_file_exposed(const char *path);

#endif /* NX_PRIVATE_FILE_H */
