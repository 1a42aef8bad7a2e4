/* error.c - names, messages and scopes of errors, and the last message of each thread. */
#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/text/sentence.h"
#include "base/text/text.h"

static _Thread_local char last_error[NX_ERROR_ROOM];

const char *nexar_err_name(nexar_err err)
{
    switch (err) {
    case NEXAR_OK:
        return "NEXAR_OK";
#define X(NAME, VALUE, SCOPE, TEXT) \
    case NEXAR_E##NAME:             \
        return "NEXAR_E" #NAME;
        NEXAR_ERROR_LIST(X)
#undef X
    }
    return "NEXAR_E?";
}

const char *nexar_strerror(nexar_err err)
{
    switch (err) {
    case NEXAR_OK:
        return "success";
#define X(NAME, VALUE, SCOPE, TEXT) \
    case NEXAR_E##NAME:             \
        return TEXT;
        NEXAR_ERROR_LIST(X)
#undef X
    }
    return "unknown error";
}

nexar_scope nexar_err_scope(nexar_err err)
{
    switch (err) {
    case NEXAR_OK:
        return NEXAR_SCOPE_NONE;
#define X(NAME, VALUE, SCOPE, TEXT) \
    case NEXAR_E##NAME:             \
        return NEXAR_SCOPE_##SCOPE;
        NEXAR_ERROR_LIST(X)
#undef X
    }
    return NEXAR_SCOPE_LIB;
}

const char *nexar_last_error(void)
{
    return last_error;
}

const char *nexar_version(void)
{
    return NEXAR_VERSION;
}

nexar_err nx_fail(nexar_err err, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)nx_sentence_v(last_error, sizeof(last_error), format, args);
    va_end(args);
    nx_clean_text(last_error, strlen(last_error));
    return err;
}

nexar_err nx_fail_sys(const char *call, const char *what, int code)
{
    char text[128] = "";

    if (code == 0) {
        return NEXAR_OK;
    }
    return nx_fail((code == ENOMEM) ? NEXAR_ENOMEM : NEXAR_ESYS, "%s%s%s: %s (errno %d)", call,
                   (what[0] == '\0') ? "" : " ", what, strerror_r(code, text, sizeof(text)), code);
}

nexar_err nx_fail_nomem(const char *what)
{
    return nx_fail(NEXAR_ENOMEM, "out of memory for %s", what);
}
