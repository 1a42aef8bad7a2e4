/* error.h - the message of an error code. */
#ifndef NX_ERROR_H
#define NX_ERROR_H

#include <nexar.h>

/* For every internal function whose result must not be ignored. */
#define NX_MUST_CHECK __attribute__((warn_unused_result))

enum { NX_ERROR_ROOM = 512 }; /* size of a message, including its 0 */

/* Sets the message of nexar_last_error() for this thread and returns |err|: `return
 * nx_fail(NEXAR_EINVAL, "rank %d ...", rank);`. Called where the error is decided; callers pass the
 * code on silently. A long message is cut after a word. It is always one line (nx_clean_text). */
nexar_err nx_fail(nexar_err err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for the errno value |code| of |call| on |what| ("" for none):
 * NEXAR_ENOMEM for ENOMEM, NEXAR_ESYS otherwise, NEXAR_OK for 0. */
nexar_err nx_fail_sys(const char *call, const char *what, int code);

/* The same for an allocation: NEXAR_ENOMEM. */
nexar_err nx_fail_nomem(const char *what);

#endif /* NX_ERROR_H */
