/*
 * nexar: a distributed runtime for C.
 *
 * Conventions
 *  - Every call that can fail returns nexar_err: NEXAR_OK (0) or a negative
 *    code.  nexar_last_error() gives the calling thread one sentence that says
 *    what was wrong and what would have been accepted.
 *  - A call that fails leaves its outputs untouched, unless it says otherwise.
 *  - Handles are opaque.  What a *_create call returns is the caller's, and is
 *    given back by the call named beside it.
 *  - Every function may be called from any thread.
 *  - Sizes are bytes where the parameter is called bytes, elements where it is
 *    called count.
 */
#ifndef NEXAR_H
#define NEXAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define NEXAR_API __attribute__((visibility("default")))
#else
#define NEXAR_API
#endif

/* ---- errors ------------------------------------------------------------ */

/*
 * One list makes the enum, the names, the messages and the scopes.  The third
 * column is the largest thing that the error has broken for good: after an OP
 * error call again, after a PEER error that rank must be left out, after a
 * COMM error the communicator must be shrunk or updated, after a LIB error
 * only nexar_finalize() is left.
 */
#define NEXAR_ERROR_LIST(X)                                            \
    X(INVAL, -1, OP, "invalid argument")                               \
    X(NOMEM, -2, OP, "out of memory")                                  \
    X(TIMEDOUT, -3, OP, "timed out")                                   \
    X(PEER, -4, PEER, "a rank that the operation needs has failed")    \
    X(REVOKED, -5, COMM, "the communicator was revoked")               \
    X(TRUNC, -6, OP, "message is larger than the receive buffer")      \
    X(MISMATCH, -7, COMM, "ranks called different collectives")        \
    X(AUTH, -8, PEER, "token, certificate or identity refused")        \
    X(PROTO, -9, PEER, "malformed or unexpected data on the wire")     \
    X(CONNECT, -10, PEER, "no route to a peer or to the seed")         \
    X(CANCELED, -11, OP, "canceled")                                   \
    X(NOTSUP, -12, OP, "not supported")                                \
    X(NOHANDLER, -13, OP, "the function is not registered over there") \
    X(REMOTE, -14, OP, "the handler over there returned an error")     \
    X(DEVICE, -15, COMM, "the device adapter failed")                  \
    X(SYS, -16, OP, "a system call failed")                            \
    X(INTERNAL, -17, LIB, "a bug in nexar")

typedef enum nexar_err {
    NEXAR_OK = 0,
#define NEXAR_ERROR_ENUM(NAME, VALUE, SCOPE, TEXT) NEXAR_E##NAME = (VALUE),
    NEXAR_ERROR_LIST(NEXAR_ERROR_ENUM)
#undef NEXAR_ERROR_ENUM
} nexar_err;

typedef enum nexar_scope {
    NEXAR_SCOPE_NONE, /* NEXAR_OK: nothing is broken */
    NEXAR_SCOPE_OP,
    NEXAR_SCOPE_PEER,
    NEXAR_SCOPE_COMM,
    NEXAR_SCOPE_LIB
} nexar_scope;

/* The name ("NEXAR_EPEER"), a short text, and the scope of |err|.  Never NULL,
 * never to be freed, for any value; usable before everything else. */
NEXAR_API const char *nexar_err_name(nexar_err err);
NEXAR_API const char *nexar_strerror(nexar_err err);
NEXAR_API nexar_scope nexar_err_scope(nexar_err err);

/* One sentence on the last call of this thread that failed; "" before the
 * first.  Valid until the next call of this thread that fails. */
NEXAR_API const char *nexar_last_error(void);

/* "MAJOR.MINOR.PATCH" of the library that is running. */
NEXAR_API const char *nexar_version(void);

/* ---- element types and reductions -------------------------------------- */

typedef enum nexar_dtype {
    NEXAR_F32,
    NEXAR_F64,
    NEXAR_F16,  /* IEEE 754 binary16 */
    NEXAR_BF16, /* the upper half of an f32 */
    NEXAR_I8,
    NEXAR_I32,
    NEXAR_I64,
    NEXAR_U8,
    NEXAR_U32,
    NEXAR_U64,
    NEXAR_I16,
    NEXAR_U16
} nexar_dtype;

/*
 * How two elements become one.  The result depends neither on the order of the
 * two operands nor on the machine:
 *  - integer overflow wraps;
 *  - f16 and bf16 are computed in f32 and rounded to nearest even;
 *  - a result that is not a number is the one quiet NaN of its type, sign
 *    clear (f32 0x7fc00000, f64 0x7ff8000000000000, f16 0x7e00, bf16 0x7fc0);
 *  - MIN and MAX of anything and NaN is NaN, and -0 is less than +0.
 */
typedef enum nexar_op {
    NEXAR_SUM,
    NEXAR_PROD,
    NEXAR_MIN,
    NEXAR_MAX,
    NEXAR_AVG,  /* sum divided by the size, C division on integers; not in
                   scan and exscan */
    NEXAR_BAND, /* the bitwise ones: integer types only */
    NEXAR_BOR,
    NEXAR_BXOR
} nexar_op;

/* Bytes of one element; 0 for a value that is no dtype. */
NEXAR_API size_t nexar_dtype_size(nexar_dtype dtype);

/* "f32", "bf16", ...; "sum", "bxor", ...; "?" for a value that is none. */
NEXAR_API const char *nexar_dtype_name(nexar_dtype dtype);
NEXAR_API const char *nexar_op_name(nexar_op op);

/* ---- configuration ------------------------------------------------------
 * Every setting has a name, a default, and an environment variable:
 * "stall_report" is NEXAR_STALL_REPORT.  `nexar info` lists them all.
 * Durations take "250ms", "5s" (ns, us, ms, s, m, h); sizes take "64k", "8m"
 * (powers of 1024, up to t). */

typedef struct nexar_config nexar_config;

/*
 * Makes a config that holds the defaults overlaid with the environment.  The
 * caller gives it back with nexar_config_free().
 *
 * NEXAR_EINVAL
 *     The environment variable of a setting holds a value that the setting
 *     does not accept.  (A variable that begins with NEXAR_ and belongs to no
 *     setting is only warned of in the log.)
 * NEXAR_ENOMEM
 *     Out of memory.
 */
NEXAR_API nexar_err nexar_config_create(nexar_config **cfg);

/*
 * Sets |name| to |value|, both borrowed for the call.  On error the setting
 * keeps its value.
 *
 * NEXAR_EINVAL
 *     No setting has that name, or |value| is not accepted; the sentence says
 *     what is.
 * NEXAR_ENOMEM
 *     Out of memory.
 */
NEXAR_API nexar_err nexar_config_set(nexar_config *cfg, const char *name, const char *value);

/*
 * Writes the value of |name|, as text that nexar_config_set() takes, with its
 * terminating 0, into the |size| bytes of |value|.
 *
 * NEXAR_EINVAL
 *     No setting has that name.
 * NEXAR_ETRUNC
 *     |size| is too small; |value| is untouched and the sentence says how much
 *     is needed.
 */
NEXAR_API nexar_err nexar_config_get(const nexar_config *cfg, const char *name, char *value,
                                     size_t size);

/* NULL is allowed. */
NEXAR_API void nexar_config_free(nexar_config *cfg);

#ifdef __cplusplus
}
#endif
#endif /* NEXAR_H */
