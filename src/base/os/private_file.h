/*
 * private_file.h - files for secrets: complete, and readable by their owner only.
 *
 * A path may lie in a directory where other users can create names. Nothing that they create is
 * written to, followed or trusted: a symbolic link, a FIFO, a device and a file of another user
 * are rejected. The message says what was found and what to do.
 *
 * |what| names the file in messages: "the join file". Every function is thread-safe and blocks for
 * the disk.
 */
#ifndef NX_PRIVATE_FILE_H
#define NX_PRIVATE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * Creates or replaces the file |path| with |bytes|, mode 0600 regardless of the umask. A reader
 * sees the complete new or the complete old content, also after a crash. The old file is never
 * opened: other hard links keep the old contents.
 *
 * NEXAR_EINVAL
 *     |path| is a symbolic link or not a regular file.
 * NEXAR_EAUTH
 *     |path| is a file of another user.
 * NEXAR_ESYS, NEXAR_ENOMEM
 *     In all cases the old file is unchanged.
 */
NX_MUST_CHECK nexar_err nx_private_file_write(const char *what, const char *path, const void *bytes,
                                              size_t len);

/*
 * Reads all of |path|, at most |most| bytes; the caller wipes |*bytes| and frees it with nx_free.
 * |*there| false: there is no such file, which is no error.
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
