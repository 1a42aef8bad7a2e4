/* join_file.h - the join string in a file, for those who are to join. */
#ifndef NX_JOIN_FILE_H
#define NX_JOIN_FILE_H

#include "base/error.h"

/* Writes |join| to |path|, or where it leads by symbolic links.  A file, or nothing there, is
 * replaced so that a reader finds all of it or nothing, and nobody else may read it.  To a
 * FIFO, which is to have a reader within 10 s, or to a device it is written straight. NEXAR_EINVAL,
 * NEXAR_ESYS. */
NX_MUST_CHECK nexar_err nx_join_file_write(const char *path, const char *join);

#endif /* NX_JOIN_FILE_H */
