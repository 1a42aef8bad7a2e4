/* join_file.h - the join string in a file, for those who are to join. */
#ifndef NX_JOIN_FILE_H
#define NX_JOIN_FILE_H

#include "base/error.h"

/* Makes sure that there can be a join file at |path|, and that none is: whoever waits for
 * one shall not find that of a job before.  NEXAR_EINVAL, NEXAR_ESYS. */
NX_MUST_CHECK nexar_err nx_join_file_clear(const char *path);

/* Writes |join| to |path| so that a reader finds all of it or nothing, and nobody else
 * may read it.  NEXAR_EINVAL, NEXAR_ESYS. */
NX_MUST_CHECK nexar_err nx_join_file_write(const char *path, const char *join);

#endif /* NX_JOIN_FILE_H */
