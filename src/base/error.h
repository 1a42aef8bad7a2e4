/* error.h - the sentence behind an error code. */
#ifndef NX_ERROR_H
#define NX_ERROR_H

#include <nexar.h>

/* On every internal function whose result must not be dropped. */
#define NX_MUST_CHECK __attribute__((warn_unused_result))

enum { NX_ERROR_ROOM = 512 }; /* bytes of the sentence, its 0 included */

/* Makes the sentence that nexar_last_error() of this thread returns, and
 * returns |err|: `return nx_fail(NEXAR_EINVAL, "rank %d ...", rank);`.  Called
 * where the error is decided; callers pass the code on in silence.  What does
 * not fit is cut behind a word; it is one line, whatever it is made of (nx_clean_text). */
nexar_err nx_fail(nexar_err err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for the errno value |code| of |call| on |what| ("" for none):
 * NEXAR_ENOMEM for ENOMEM, NEXAR_ESYS otherwise, NEXAR_OK for 0. */
nexar_err nx_fail_sys(const char *call, const char *what, int code);

/* The same for an allocation: NEXAR_ENOMEM. */
nexar_err nx_fail_nomem(const char *what);

#endif /* NX_ERROR_H */
