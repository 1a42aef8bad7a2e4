/*
 * nexar.h - the public interface of nexar, a distributed runtime for C.
 *
 * Conventions
 *  - A call that can fail returns nexar_err: NEXAR_OK (0) or a negative code.
 *    nexar_last_error() returns a sentence for the calling thread.  It names what was wrong
 *    and what would have been accepted.
 *  - A call that fails leaves its outputs untouched, unless its description says otherwise.
 *  - Handles are opaque.  The caller owns what a *_create, *_init or i-call returns, and
 *    releases it with the call named in its description.
 *  - Every function may be called from any thread.
 *  - A world belongs to the process that created it.  After fork(), calls on it in the child
 *    fail with NEXAR_EINVAL and change nothing; this includes nexar_finalize().
 *  - Every blocking call ends: it completes, its timeout passes, or a rank that it needs
 *    fails or leaves.  Without a timeout, a call waits as long as the ranks that it needs
 *    are alive and have not made the matching call.
 *  - pthread_cancel() does not interrupt a call.  The thread is cancelled at its next
 *    cancellation point after the call.  Functions of the application that nexar calls
 *    (handlers, on_failure, on_shard, device adapters) run with cancellation disabled and
 *    must not enable it.  The application must not cancel a thread of nexar.  A thread with
 *    PTHREAD_CANCEL_ASYNCHRONOUS must not call nexar.
 *  - A parameter named bytes counts bytes; a parameter named count counts elements.
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
 * One list defines the enum, the names, the messages and the scopes.  The third column is
 * the scope: the largest object that the error has broken permanently.
 *   OP    the operation; it may be called again
 *   PEER  one rank; leave it out from now on
 *   COMM  the communicator; shrink or update it
 *   LIB   the library; only nexar_finalize() may be called
 */
#define NEXAR_ERROR_LIST(X)                                              \
    X(INVAL, -1, OP, "invalid argument")                                 \
    X(NOMEM, -2, OP, "out of memory")                                    \
    X(TIMEDOUT, -3, OP, "timed out")                                     \
    X(PEER, -4, PEER, "a rank that the operation needs has failed")      \
    X(REVOKED, -5, COMM, "the communicator was revoked")                 \
    X(TRUNC, -6, OP, "message is larger than the receive buffer")        \
    X(MISMATCH, -7, OP, "ranks called different collectives")            \
    X(AUTH, -8, PEER, "token, certificate or identity refused")          \
    X(PROTO, -9, PEER, "malformed or unexpected data on the wire")       \
    X(CONNECT, -10, PEER, "no route to a peer or to the seed")           \
    X(CANCELED, -11, OP, "canceled")                                     \
    X(NOTSUP, -12, OP, "not supported")                                  \
    X(NOHANDLER, -13, OP, "the function is not registered at that rank") \
    X(REMOTE, -14, OP, "the remote handler returned an error")           \
    X(DEVICE, -15, OP, "the device adapter failed")                      \
    X(SYS, -16, OP, "a system call failed")                              \
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

/* Return the name of |err| ("NEXAR_EPEER"), a short text for it, and its scope.  The strings
 * are static: they are never NULL and must not be freed.  Any value is accepted, before
 * nexar_init() too. */
NEXAR_API const char *nexar_err_name(nexar_err err);
NEXAR_API const char *nexar_strerror(nexar_err err);
NEXAR_API nexar_scope nexar_err_scope(nexar_err err);

/* Returns one sentence about the last call of this thread that failed, or "" if none has.
 * The string is valid until the next call of this thread fails. */
NEXAR_API const char *nexar_last_error(void);

/* Returns the version of the library in use, as "MAJOR.MINOR.PATCH". */
NEXAR_API const char *nexar_version(void);

/* The version of this header. */
#define NEXAR_VERSION_MAJOR 0
#define NEXAR_VERSION_MINOR 1
#define NEXAR_VERSION_PATCH 0
#define NEXAR_VERSION_NUMBER \
    (NEXAR_VERSION_MAJOR * 10000 + NEXAR_VERSION_MINOR * 100 + NEXAR_VERSION_PATCH)

/* ---- logs ---------------------------------------------------------------- */

typedef enum nexar_log_level {
    NEXAR_LOG_ERROR,
    NEXAR_LOG_WARN,
    NEXAR_LOG_INFO,
    NEXAR_LOG_DEBUG
} nexar_log_level;

/* Receives one log line, without line end; |line| is valid during the call.  nexar makes one
 * call at a time, from any thread, possibly with internal locks held.  The function must not
 * call nexar, and must not wait for a thread that does. */
typedef void (*nexar_log_fn)(nexar_log_level level, const char *line, void *arg);

/* Redirects log lines and reports of this process from stderr to |fn|.  The setting "log"
 * still selects the levels.  NULL restores stderr.  When the call returns, the previous
 * function is no longer running. */
NEXAR_API void nexar_set_log(nexar_log_fn fn, void *arg);

/* ---- element types and reductions -------------------------------------- */

typedef enum nexar_dtype {
    NEXAR_F32,
    NEXAR_F64,
    NEXAR_F16,  /* IEEE 754 binary16 */
    NEXAR_BF16, /* bfloat16: the upper half of an f32 */
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
 * A reduction combines two elements.  The result depends neither on the order of the
 * operands nor on the machine:
 *  - integer overflow wraps around;
 *  - f16 and bf16 are computed in f32 and rounded to nearest even;
 *  - a NaN result is the one quiet NaN of its type with a clear sign bit
 *    (f32 0x7fc00000, f64 0x7ff8000000000000, f16 0x7e00, bf16 0x7fc0);
 *  - MIN and MAX with a NaN operand return NaN, and -0 is less than +0.
 */
typedef enum nexar_op {
    NEXAR_SUM,
    NEXAR_PROD,
    NEXAR_MIN,
    NEXAR_MAX,
    NEXAR_AVG,  /* the sum divided by the number of ranks; truncates integers as C
                   does; not for scan and exscan */
    NEXAR_BAND, /* BAND, BOR and BXOR: integer types only */
    NEXAR_BOR,
    NEXAR_BXOR
} nexar_op;

/* A dtype for an opaque element of |bytes| bytes (1 to NEXAR_STRUCT_MAX).  Every call that
 * takes a dtype moves it unchanged.  Only an operation of nexar_op_create() can reduce it. */
#define NEXAR_STRUCT(bytes) ((nexar_dtype)(0x10000 + (bytes)))
#define NEXAR_STRUCT_MAX    65535

/* Computes inout[i] = op(inout[i], in[i]) for |count| elements; the arrays do not overlap.
 * The operation must be associative and commutative.  It may run on any thread, on several
 * at once, possibly with internal locks held.  It must not call nexar. */
typedef void (*nexar_reduce_fn)(void *inout, const void *in, size_t count, nexar_dtype dtype,
                                void *arg);

/*
 * Registers |fn| with |arg| as the reduction |id| (0 to 1023) of this process.  The
 * registration lasts until the process ends.  An |id| must mean the same on all ranks.
 *
 * Every call that reduces host memory accepts |*op|, except nexar_allreduce_compressed().
 * With it, nexar_exscan() leaves the result of rank 0 untouched.
 *
 * NEXAR_EINVAL
 *     A pointer is NULL; |id| is taken or above 1023.
 */
NEXAR_API nexar_err nexar_op_create(uint16_t id, nexar_reduce_fn fn, void *arg, nexar_op *op);

/* Returns the bytes of one element, or 0 if |dtype| is not a dtype. */
NEXAR_API size_t nexar_dtype_size(nexar_dtype dtype);

/* Return the name of a dtype ("f32", "bf16", "struct") and of an operation ("sum", "bxor",
 * "user op"), or "?" for any other value. */
NEXAR_API const char *nexar_dtype_name(nexar_dtype dtype);
NEXAR_API const char *nexar_op_name(nexar_op op);

/* ---- configuration ------------------------------------------------------
 * Every setting has a name, a default and an environment variable: "stall_report" is
 * NEXAR_STALL_REPORT.  `nexar info` lists all settings.  Durations are written "250ms" or
 * "5s" (units ns, us, ms, s, m, h).  Sizes are written "64k" or "8m" (powers of 1024, up to
 * t). */

typedef struct nexar_config nexar_config;

/*
 * Creates a config with the defaults, overlaid with the environment.  The caller releases it
 * with nexar_config_free().
 *
 * NEXAR_EINVAL
 *     The environment variable of a setting is empty or holds a value that the setting does
 *     not accept.  (A NEXAR_ variable that belongs to no setting only logs a warning.)
 * NEXAR_ENOMEM
 *     Out of memory.
 */
NEXAR_API nexar_err nexar_config_create(nexar_config **cfg);

/*
 * Sets |name| to |value|.  Both strings are borrowed for the call.  On error the setting
 * keeps its value.
 *
 * NEXAR_EINVAL
 *     No setting has that name, or the setting does not accept |value|; the sentence names
 *     what it accepts.
 * NEXAR_ENOMEM
 *     Out of memory.
 */
NEXAR_API nexar_err nexar_config_set(nexar_config *cfg, const char *name, const char *value);

/*
 * Writes the value of |name| to |value|, as text that nexar_config_set() accepts.  |size| is
 * the room in |value|, including the terminating 0.
 *
 * NEXAR_EINVAL
 *     No setting has that name.
 * NEXAR_ETRUNC
 *     |size| is too small.  |value| is untouched, and the sentence names the size needed.
 */
NEXAR_API nexar_err nexar_config_get(const nexar_config *cfg, const char *name, char *value,
                                     size_t size);

/* Frees |cfg|; NULL is allowed. */
NEXAR_API void nexar_config_free(nexar_config *cfg);

/* ---- joining and leaving a cluster -------------------------------------- */

typedef struct nexar_comm nexar_comm;

/*
 * Joins a cluster and returns its world communicator when all ranks have joined.  |cfg| is
 * only read; NULL stands for a config made from the environment alone.  The cluster is:
 *
 * - the one named by the setting "join": a join string; "file:PATH" (or the setting
 *   "join_file"), a file that holds a join string, which the call waits for; or "none", a
 *   world of this process alone;
 * - without "join", under mpirun or srun --mpi=pmix: the job of this process.  Rank 0 runs
 *   the seed, which ends in its nexar_finalize(); ranks may finalize in any order.  Several
 *   worlds may exist at a time.  After the last one has ended, a later nexar_init() of the
 *   process needs "join";
 * - otherwise a world of this process alone.
 *
 * Without the setting "rank", the process asks the seed for the number that its launcher
 * assigned to it.  The caller leaves with nexar_finalize().
 *
 * NEXAR_EINVAL
 *     A setting is wrong: the join string, a rank that is taken or too high, an interface
 *     that does not exist, a launcher variable that is not a number.  Or a launcher variable
 *     says that this process is one of several, and no cluster is named; the sentence names
 *     the variable and how to name a cluster.
 * NEXAR_ECONNECT
 *     The seed does not answer; the sentence names the addresses tried.
 * NEXAR_EAUTH
 *     The key of the seed differs from the one in the join string, or the seed refused the
 *     token.  Or a join file or token file belongs to another user, or other users can read
 *     or write it.
 * NEXAR_EPROTO
 *     The seed speaks another protocol version, or the launcher answered with an error.
 * NEXAR_ETIMEDOUT
 *     "formation_timeout" passed before all ranks had joined; the sentence names the missing
 *     ranks.  Or the join file did not appear, or some processes of the launcher did not call
 *     nexar_init().
 * NEXAR_ENOMEM, NEXAR_ESYS
 *     Out of memory; no file descriptor or socket.
 */
NEXAR_API nexar_err nexar_init(const nexar_config *cfg, nexar_comm **world);

/*
 * Leaves the cluster and destroys |world| and all communicators made from it.  The call
 * waits for RPC handlers that are running and until the receivers have taken all that this
 * rank has sent.  Then it notifies the other ranks and closes all links.  NULL is allowed.
 * |world| is destroyed whatever the call returns.
 *
 * No other thread may be in a call on this world.  Pending receives and RPCs of this rank end
 * with NEXAR_ECANCELED.  Their requests must have been waited for; the call frees the others.
 * RPCs of other ranks that have not started a handler are refused: their callers get
 * NEXAR_EPEER.
 *
 * Meanwhile this rank receives no new message and starts no collective.  On the peers,
 * messages to this rank and collectives that it has not started end with NEXAR_EPEER.  Ranks
 * that finalize at the same time therefore do not wait for each other.
 *
 * NEXAR_EPEER
 *     A rank failed, left or finalized before it received everything sent to it, or before a
 *     collective whose request was not waited for had completed.  The sentence names the rank.
 * NEXAR_EREVOKED
 *     The communicator of such a message or collective was revoked.  Other errors of a
 *     collective or a message are returned in the same way.
 */
NEXAR_API nexar_err nexar_finalize(nexar_comm *world);

/*
 * Creates |n| ranks inside this process, connected through the real transports on loopback:
 * for tests and examples.  |worlds| has room for |n| handles; worlds[i] is rank i.  Each one
 * is finalized separately.  |cfg| is used as in nexar_init(), except "join", "rank" and
 * "world_size".  Other processes and threads join by the join string of nexar_join_string(), at the
 * next nexar_comm_update().  The errors are those of nexar_init(); on error no rank remains.
 */
NEXAR_API nexar_err nexar_init_local(int n, const nexar_config *cfg, nexar_comm *worlds[]);

/*
 * Ends the whole job: prints |why| (may be NULL) with this rank, and tells every rank of the
 * world, which prints one line that names this rank and exits with |code|, 1 to 125 (another
 * |code| becomes 1), within a second.  Does not return, waits for no other rank, and may be called
 * with locks of the application held, from a handler, and from other functions of the application
 * that may call nexar.  |world| may be any communicator; NULL, and one of the parent in a child by
 * fork, end the calling process alone.
 *
 * Nothing is flushed, and functions of atexit() do not run.  On the other ranks no call returns an
 * error that this causes.  Ranks of the caller's host that are stopped are continued.  A rank that
 * has finalized is not in the world any more: its launcher ends it.
 *
 * With the setting "on_error" at "abort" every call that would return NEXAR_EINVAL, or an error of
 * the scope NEXAR_SCOPE_COMM or NEXAR_SCOPE_LIB, prints its sentence and ends the job in this way,
 * with code 1.  The setting is the process's, and that of its last nexar_init().
 */
NEXAR_API void nexar_abort(nexar_comm *world, int code, const char *why)
#if defined(__GNUC__)
    __attribute__((noreturn))
#endif
    ;

/* Return the rank of this process in |comm|, and the number of ranks; -1 for NULL. */
NEXAR_API int nexar_rank(const nexar_comm *comm);
NEXAR_API int nexar_size(const nexar_comm *comm);

/* ---- point to point ------------------------------------------------------
 * Messages from one rank with one tag arrive in the order sent.  A receive takes the oldest
 * message that matches.  Messages that match no receive yet are buffered.  A full buffer
 * holds back the sender; no message is dropped.  A rank may send to itself.
 *
 * All calls of this section share these errors:
 *
 * NEXAR_EINVAL
 *     The rank is not in the communicator; a send uses NEXAR_ANY_TAG; a pointer to more than
 *     0 bytes is NULL.
 * NEXAR_EPEER, NEXAR_ECONNECT, NEXAR_EPROTO
 *     The other rank has failed, left or called nexar_finalize(); it cannot be reached; or it
 *     sent malformed data.
 * NEXAR_EREVOKED
 *     The communicator was revoked, or the other rank has freed it.  Messages sent before the
 *     free are still received in order.  A receive or probe with NEXAR_ANY_SOURCE fails only
 *     when all other ranks have freed the communicator.
 * NEXAR_ENOMEM
 *     Out of memory.
 */

#define NEXAR_ANY_SOURCE (-1)
#define NEXAR_ANY_TAG    UINT64_MAX

typedef struct nexar_status {
    int source;
    uint64_t tag;
    size_t bytes; /* length of the message, even if it exceeds the buffer */
} nexar_status;

typedef struct nexar_request nexar_request;

/* Sends |bytes| bytes of |buf| to rank |dest| with |tag|.  Returns when |buf| may be reused,
 * which does not mean that the message was received. */
NEXAR_API nexar_err nexar_send(nexar_comm *comm, const void *buf, size_t bytes, int dest,
                               uint64_t tag);

/*
 * Receives a message of at most |bytes| bytes from |source| (or NEXAR_ANY_SOURCE) with |tag|
 * (or NEXAR_ANY_TAG).  |status| may be NULL.
 *
 * NEXAR_ETRUNC
 *     The message is larger than |buf|.  |buf| holds its beginning, the rest is discarded,
 *     and |status| is set.
 */
NEXAR_API nexar_err nexar_recv(nexar_comm *comm, void *buf, size_t bytes, int source, uint64_t tag,
                               nexar_status *status);

/* Sends and receives at the same time, so that two ranks that exchange messages cannot block
 * each other.  The buffers must not overlap (NEXAR_EINVAL).  Returns the first error after
 * both operations have ended. */
NEXAR_API nexar_err nexar_sendrecv(nexar_comm *comm, const void *sendbuf, size_t sendbytes,
                                   int dest, uint64_t sendtag, void *recvbuf, size_t recvbytes,
                                   int source, uint64_t recvtag, nexar_status *status);

/* Start a send or a receive and return a request.  The buffer belongs to nexar until the
 * request has been waited for or tested true. */
NEXAR_API nexar_err nexar_isend(nexar_comm *comm, const void *buf, size_t bytes, int dest,
                                uint64_t tag, nexar_request **req);
NEXAR_API nexar_err nexar_irecv(nexar_comm *comm, void *buf, size_t bytes, int source, uint64_t tag,
                                nexar_request **req);

/* Wait for a message that a matching receive would take, without receiving it; nexar_iprobe
 * returns at once.  |status| may be NULL; it is set if there is a message.  nexar_iprobe fails
 * with NEXAR_EPEER if there is no message and a failure means that none can come.  It finds
 * nothing from ranks that have left in order or have freed the communicator. */
NEXAR_API nexar_err nexar_probe(nexar_comm *comm, int source, uint64_t tag, nexar_status *status);
NEXAR_API nexar_err nexar_iprobe(nexar_comm *comm, int source, uint64_t tag, bool *found,
                                 nexar_status *status);

/*
 * Matched probes: like nexar_probe and nexar_iprobe, but remove the message from matching and
 * return it as |*msg|.  No other call, on any thread, can receive or find it.  Without a message
 * |*msg| is untouched.  |status| may be NULL.
 *
 * The message counts in "unexpected" until it is received.  If its sender holds it back because
 * memory is short here, it is fetched whole.  nexar_finalize() discards messages that were never
 * received.
 */
typedef struct nexar_message nexar_message;
NEXAR_API nexar_err nexar_mprobe(nexar_comm *comm, int source, uint64_t tag, nexar_message **msg,
                                 nexar_status *status);
NEXAR_API nexar_err nexar_improbe(nexar_comm *comm, int source, uint64_t tag, bool *found,
                                  nexar_message **msg, nexar_status *status);

/*
 * Receives |*msg|.  After NEXAR_OK and NEXAR_ETRUNC |*msg| is NULL.  After any other error the
 * handle is kept, and a later call returns the same reason.
 *
 * NEXAR_EINVAL
 *     A pointer is NULL, also |buf| for more than 0 bytes; the communicator was freed.
 * NEXAR_ETRUNC
 *     As in nexar_recv().
 * NEXAR_EREVOKED
 *     The communicator was revoked or rebuilt after the probe.
 * NEXAR_ECANCELED
 *     The sender cancelled the message with nexar_cancel().
 * NEXAR_EPEER, NEXAR_ECONNECT, NEXAR_EPROTO
 *     The sender failed before the whole message had arrived.
 */
NEXAR_API nexar_err nexar_mrecv(nexar_message **msg, void *buf, size_t bytes, nexar_status *status);

/* Send and receive scattered memory.  The |n| regions form one message, gathered and scattered
 * without an intermediate copy.  The two sides need not use the same regions. */
typedef struct nexar_iov {
    void *ptr;
    size_t bytes;
} nexar_iov;
NEXAR_API nexar_err nexar_sendv(nexar_comm *comm, const nexar_iov *iov, size_t n, int dest,
                                uint64_t tag);
NEXAR_API nexar_err nexar_recvv(nexar_comm *comm, const nexar_iov *iov, size_t n, int source,
                                uint64_t tag, nexar_status *status);

/* Start a send or a receive of scattered memory.  The array |iov| is read before the call
 * returns. */
NEXAR_API nexar_err nexar_isendv(nexar_comm *comm, const nexar_iov *iov, size_t n, int dest,
                                 uint64_t tag, nexar_request **req);
NEXAR_API nexar_err nexar_irecvv(nexar_comm *comm, const nexar_iov *iov, size_t n, int source,
                                 uint64_t tag, nexar_request **req);

/*
 * Waits until |*req| has completed, returns its outcome, frees it and sets |*req| to NULL.  If
 * |*req| is NULL the call returns NEXAR_OK.  |status| may be NULL; it is set by receives and by
 * probes that found a message.  Only one thread may wait for a request.
 */
NEXAR_API nexar_err nexar_wait(nexar_request **req, nexar_status *status);

/* Like nexar_wait, but returns at once.  |*done| tells whether the request has completed.  With
 * NEXAR_OK and |*done| false the request is unchanged. */
NEXAR_API nexar_err nexar_test(nexar_request **req, bool *done, nexar_status *status);

/* Waits for all |n| requests, then returns the first error in array order.  NULL entries are
 * skipped. */
NEXAR_API nexar_err nexar_wait_all(size_t n, nexar_request *reqs[]);

/* Waits until one request has completed, then returns its |*index| and its outcome.
 *
 * NEXAR_EINVAL
 *     The requests belong to several worlds; or all entries are NULL, and |*index| is |n|.
 */
NEXAR_API nexar_err nexar_wait_any(size_t n, nexar_request *reqs[], size_t *index,
                                   nexar_status *status);

/*
 * nexar_wait, nexar_wait_any and nexar_wait_all with a timeout.  0 polls once; UINT64_MAX waits
 * without a timeout.
 *
 * NEXAR_ETIMEDOUT
 *     No request has completed; for nexar_wait_all_for: some have not.  All requests stay valid
 *     and pending, and the outputs are untouched.  An operation that itself ended with
 *     NEXAR_ETIMEDOUT has completed: in that case |*req|, or reqs[*index], is NULL.
 */
NEXAR_API nexar_err nexar_wait_for(nexar_request **req, uint64_t timeout_ns, nexar_status *status);
NEXAR_API nexar_err nexar_wait_any_for(size_t n, nexar_request *reqs[], uint64_t timeout_ns,
                                       size_t *index, nexar_status *status);
NEXAR_API nexar_err nexar_wait_all_for(size_t n, nexar_request *reqs[], uint64_t timeout_ns);

/*
 * Waits until at least one request has completed, then frees every completed one.  |*done| is
 * their number; indices[k] and errs[k] are the index and the outcome of the k-th.  |indices| and
 * |errs| have room for |n|; |errs| may be NULL.  All requests belong to one world.
 *
 * Returns NEXAR_OK or the first error among the outcomes, with all outputs set.
 *
 * NEXAR_EINVAL
 *     All entries are NULL (|*done| is 0); the requests belong to several worlds; an output is
 *     NULL.
 */
NEXAR_API nexar_err nexar_wait_some(size_t n, nexar_request *reqs[], size_t indices[],
                                    nexar_err errs[], size_t *done);

/* nexar_wait_any and nexar_wait_all without waiting.  |*done| tells whether one request
 * (nexar_test_any) or every request (nexar_test_all) has completed.  With NEXAR_OK and |*done|
 * false all requests are unchanged. */
NEXAR_API nexar_err nexar_test_any(size_t n, nexar_request *reqs[], bool *done, size_t *index,
                                   nexar_status *status);
NEXAR_API nexar_err nexar_test_all(size_t n, nexar_request *reqs[], bool *done);

/* Cancels |req| if that is still possible; the request then completes with NEXAR_ECANCELED.
 * Otherwise it runs to its end.  In both cases the caller must wait for it.  A cancelled send
 * delivers nothing: a receive that has begun to take it ends with NEXAR_ECANCELED. */
NEXAR_API nexar_err nexar_cancel(nexar_request *req);

/* Returns a descriptor for event loops.  It is readable (poll, epoll) while completed requests
 * of |world| have not been waited for or tested.  The world owns it: the caller must neither
 * read nor close it.  NEXAR_ESYS: no descriptor is available. */
NEXAR_API nexar_err nexar_event_fd(nexar_comm *world, int *fd);

/* ---- memory ---------------------------------------------------------------------
 * Memory that the ranks of this host can share. */

/*
 * Allocates |bytes| bytes, page-aligned, that the other ranks of this host can map.  Collectives on
 * such memory need no copy between ranks.  Other memory works too, but may be slower.  Where there
 * is no shared memory the call returns ordinary memory.  The call is local: each rank decides for
 * itself.
 *
 * The memory belongs to the world of |comm|.  nexar_free() accepts any communicator of that world.
 * It must be called before nexar_finalize(), when no operation uses the memory.
 * nexar_free(comm, NULL) does nothing.
 *
 * NEXAR_EINVAL
 *     |comm| or |ptr| is NULL.
 * NEXAR_ENOMEM
 *     Out of memory. */
NEXAR_API nexar_err nexar_alloc(nexar_comm *comm, size_t bytes, void **ptr);
NEXAR_API void nexar_free(nexar_comm *comm, void *ptr);

/* ---- collectives --------------------------------------------------------------
 * Every rank of |comm| calls with equal count, dtype, op and root.  All ranks get the same bits,
 * whatever the algorithm and the machines.  Calls on one communicator match in the order in which
 * each rank starts them.  Several may be in flight at once.
 *
 * |sendbuf| may be NEXAR_IN_PLACE; each rank chooses for itself:
 *   allreduce, scan, exscan, and reduce on the root: recvbuf holds the input;
 *   allgather(v), and gather(v) on the root: the block of this rank is already at its position
 *   in recvbuf;
 *   reduce_scatter(v): recvbuf holds the whole input, and the result is written at its start;
 *   alltoall(v): recvbuf holds the outgoing blocks, in the layout of the incoming ones.
 * Otherwise sendbuf and recvbuf must not overlap.  Buffers that the role of a rank does not use
 * (recvbuf of a non-root in reduce and gather, sendbuf of a non-root in scatter) are ignored and
 * may be NULL.
 *
 * All collectives share these errors.  After all but the first the contents of recvbuf are
 * undefined, and the communicator can still be used:
 *
 * NEXAR_EINVAL
 *     An argument is wrong, as this rank alone can tell; nothing was sent.
 * NEXAR_EMISMATCH
 *     Ranks called different operations, or passed different counts, types, ops or roots.  Every
 *     rank gets the error; the sentence shows both calls.
 * NEXAR_EPEER, NEXAR_ECONNECT
 *     A rank has failed, has called nexar_finalize(), or cannot be reached.  Every rank gets the
 *     error.
 * NEXAR_EREVOKED
 *     A rank has revoked or freed the communicator.
 * NEXAR_ETIMEDOUT
 *     "collective_timeout" has passed on some rank.  Every rank gets the error.
 * NEXAR_ENOMEM, NEXAR_EDEVICE, NEXAR_ESYS
 *     Some rank is out of memory, or its device or a system call failed.  Every rank gets the
 *     error.
 * NEXAR_EPROTO
 *     A rank sent malformed data, or the memory that the ranks of a host share for collectives was
 *     overwritten.  In the second case other ranks may have completed the call. */

#ifdef __cplusplus
#define NEXAR_IN_PLACE (reinterpret_cast<const void *>(UINTPTR_MAX))
#else
#define NEXAR_IN_PLACE ((const void *)UINTPTR_MAX)
#endif

/* Returns when every rank has called it. */
NEXAR_API nexar_err nexar_barrier(nexar_comm *comm);

/* Sends |buf| of |root| to all ranks. */
NEXAR_API nexar_err nexar_broadcast(nexar_comm *comm, void *buf, size_t count, nexar_dtype dtype,
                                    int root);

/* Reduce |sendbuf| over all ranks; the result is in |recvbuf| on |root| (reduce) or on every rank
 * (allreduce). */
NEXAR_API nexar_err nexar_reduce(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                                 nexar_dtype dtype, nexar_op op, int root);
NEXAR_API nexar_err nexar_allreduce(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                    size_t count, nexar_dtype dtype, nexar_op op);

/* Concatenate the |count| elements of each rank, in rank order, on every rank (allgather) or on
 * |root| (gather). */
NEXAR_API nexar_err nexar_allgather(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                    size_t count, nexar_dtype dtype);
NEXAR_API nexar_err nexar_gather(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                                 nexar_dtype dtype, int root);

/* Sends block i of sendbuf on |root| to rank i.  |count| is the length of one block. */
NEXAR_API nexar_err nexar_scatter(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                  size_t count, nexar_dtype dtype, int root);

/* Reduces over all ranks and leaves block i of the result on rank i.  |count| is the length of one
 * block; sendbuf holds count * size elements. */
NEXAR_API nexar_err nexar_reduce_scatter(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                         size_t count, nexar_dtype dtype, nexar_op op);

/* Sends block i of sendbuf to rank i and receives block i of recvbuf from rank i.  |count| is the
 * length of one block. */
NEXAR_API nexar_err nexar_alltoall(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                   size_t count, nexar_dtype dtype);

/* Prefix reductions: rank i gets the reduction of ranks 0..i (scan) or 0..i-1 (exscan).  With
 * exscan rank 0 gets the identity of the operation: 0 for SUM, BOR and BXOR, 1 for PROD, all bits
 * set for BAND, the largest value (+infinity) for MIN, the smallest (-infinity) for MAX.
 * NEXAR_AVG is not accepted. */
NEXAR_API nexar_err nexar_scan(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                               nexar_dtype dtype, nexar_op op);
NEXAR_API nexar_err nexar_exscan(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                                 nexar_dtype dtype, nexar_op op);

/* Collectives with blocks of different lengths.  Counts and displacements are in elements, one per
 * rank.  displs may be NULL: the blocks then follow each other.  allgatherv and reduce_scatterv
 * need equal counts on all ranks.  In the others the length sent must equal the length that the
 * receiver expects, also for a rank's own block (NEXAR_EINVAL).  gatherv and scatterv read counts
 * on the root only. */
NEXAR_API nexar_err nexar_allgatherv(nexar_comm *comm, const void *sendbuf, size_t sendcount,
                                     void *recvbuf, const size_t counts[], const size_t displs[],
                                     nexar_dtype dtype);
NEXAR_API nexar_err nexar_gatherv(nexar_comm *comm, const void *sendbuf, size_t sendcount,
                                  void *recvbuf, const size_t counts[], const size_t displs[],
                                  nexar_dtype dtype, int root);
NEXAR_API nexar_err nexar_scatterv(nexar_comm *comm, const void *sendbuf, const size_t counts[],
                                   const size_t displs[], void *recvbuf, size_t recvcount,
                                   nexar_dtype dtype, int root);
NEXAR_API nexar_err nexar_reduce_scatterv(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                          const size_t counts[], nexar_dtype dtype, nexar_op op);
NEXAR_API nexar_err nexar_alltoallv(nexar_comm *comm, const void *sendbuf,
                                    const size_t sendcounts[], const size_t senddispls[],
                                    void *recvbuf, const size_t recvcounts[],
                                    const size_t recvdispls[], nexar_dtype dtype);

/* Reduces |n| tensors in place with one allreduce.  All tensors travel in one set of messages, and
 * the caller needs no staging buffer.  nexar packs only tensors that are so short that a copy costs
 * less. */
typedef struct nexar_tensor {
    void *ptr;
    size_t count;
} nexar_tensor;
NEXAR_API nexar_err nexar_allreduce_bucketed(nexar_comm *comm, const nexar_tensor *tensors,
                                             size_t n, nexar_dtype dtype, nexar_op op);

/*
 * Allreduce in place as a reduce-scatter followed by an allgather, for any count.  Between the two
 * phases rank r owns the reduced elements [offset, offset + n) that nexar_shard() returns.  nexar
 * then calls |on_shard| on them, so that a sharded optimizer can update them before the allgather.
 *
 * |on_shard| may be NULL.  It is called once, also for an empty shard: on the calling thread, or
 * on a thread of nexar for the form with a request.  It must not wait for another operation of this
 * world.  If it returns an error, the call ends with that error on every rank.  No rank returns
 * NEXAR_OK before |on_shard| has returned on all ranks.
 */
typedef nexar_err (*nexar_shard_fn)(void *shard, size_t offset, size_t count, void *arg);
NEXAR_API nexar_err nexar_allreduce_rs_ag(nexar_comm *comm, void *buf, size_t count,
                                          nexar_dtype dtype, nexar_op op, nexar_shard_fn on_shard,
                                          void *arg);
/* Returns the elements, of |count|, that |rank| owns; |*n| is 0 if |rank| is not in |comm|. */
NEXAR_API void nexar_shard(const nexar_comm *comm, size_t count, int rank, size_t *offset,
                           size_t *n);

/*
 * An allreduce in place that sends less than the whole tensor, with error feedback: what one call
 * does not send is kept in |residual| for the next call.  Each rank compresses
 * x = buf + residual.  |buf| becomes the sum or the average of the compressed x, bit-identical on
 * all ranks, and |residual| becomes the remainder.  Over many calls nothing is lost.
 * docs/guide/compression.md has the formulas.
 */
typedef enum nexar_compression {
    NEXAR_COMPRESS_NONE,    /* x unchanged */
    NEXAR_COMPRESS_TOPK,    /* the elements of largest magnitude, with their indexes */
    NEXAR_COMPRESS_RANDOMK, /* random elements, the same on all ranks; not rescaled */
    NEXAR_COMPRESS_F16,     /* all elements as f16 */
    NEXAR_COMPRESS_BF16,    /* all elements as bf16 */
    NEXAR_COMPRESS_INT8     /* all elements as i8, with one f32 scale per 256 elements */
} nexar_compression;
/*
 * An allreduce in place that sends a compressed form of the tensor.
 *
 * |dtype| is f32, f64, f16 or bf16; |op| is NEXAR_SUM or NEXAR_AVG.  TOPK and RANDOMK send
 * ceil(ratio * count) elements, at least one, with 0 < ratio <= 1; the result is 0 where no rank
 * sent an element.  The other methods ignore |ratio|.
 *
 * |residual| has |count| elements of |dtype| and does not overlap |buf|.  The caller sets it to
 * zero before the first call and keeps it between calls.  If it is NULL, the remainder is lost.
 *
 * A NaN or infinity that is sent reaches all ranks (as NaN with INT8) and leaves nothing in the
 * residual.  A finite number that the code cannot represent is sent as the largest representable
 * one, and the rest is sent later.  Without a residual it becomes infinity.
 *
 * After an error |buf| and |residual| are unchanged.  The exception is NONE without a residual:
 * there |buf| is undefined, as after any collective.  Some ranks may get the error after others
 * have completed.  NEXAR_EINVAL is found before anything is sent, and the sentence names what is
 * accepted.  The other errors are those of a collective.
 */
NEXAR_API nexar_err nexar_allreduce_compressed(nexar_comm *comm, void *buf, size_t count,
                                               nexar_dtype dtype, nexar_op op,
                                               nexar_compression how, double ratio, void *residual);

/* Start a collective and return a request, which nexar_wait and the related calls complete.  The
 * buffers belong to nexar until then.  Counts, displacements and the array of tensors are read
 * before the call returns.  nexar_cancel() on a collective returns NEXAR_ENOTSUP. */
NEXAR_API nexar_err nexar_ibarrier(nexar_comm *comm, nexar_request **req);
NEXAR_API nexar_err nexar_ibroadcast(nexar_comm *comm, void *buf, size_t count, nexar_dtype dtype,
                                     int root, nexar_request **req);
NEXAR_API nexar_err nexar_ireduce(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                  size_t count, nexar_dtype dtype, nexar_op op, int root,
                                  nexar_request **req);
NEXAR_API nexar_err nexar_iallreduce(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                     size_t count, nexar_dtype dtype, nexar_op op,
                                     nexar_request **req);
NEXAR_API nexar_err nexar_iallgather(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                     size_t count, nexar_dtype dtype, nexar_request **req);
NEXAR_API nexar_err nexar_igather(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                  size_t count, nexar_dtype dtype, int root, nexar_request **req);
NEXAR_API nexar_err nexar_iscatter(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                   size_t count, nexar_dtype dtype, int root, nexar_request **req);
NEXAR_API nexar_err nexar_ireduce_scatter(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                          size_t count, nexar_dtype dtype, nexar_op op,
                                          nexar_request **req);
NEXAR_API nexar_err nexar_ialltoall(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                    size_t count, nexar_dtype dtype, nexar_request **req);
NEXAR_API nexar_err nexar_iscan(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                                nexar_dtype dtype, nexar_op op, nexar_request **req);
NEXAR_API nexar_err nexar_iexscan(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                  size_t count, nexar_dtype dtype, nexar_op op,
                                  nexar_request **req);
NEXAR_API nexar_err nexar_iallgatherv(nexar_comm *comm, const void *sendbuf, size_t sendcount,
                                      void *recvbuf, const size_t counts[], const size_t displs[],
                                      nexar_dtype dtype, nexar_request **req);
NEXAR_API nexar_err nexar_igatherv(nexar_comm *comm, const void *sendbuf, size_t sendcount,
                                   void *recvbuf, const size_t counts[], const size_t displs[],
                                   nexar_dtype dtype, int root, nexar_request **req);
NEXAR_API nexar_err nexar_iscatterv(nexar_comm *comm, const void *sendbuf, const size_t counts[],
                                    const size_t displs[], void *recvbuf, size_t recvcount,
                                    nexar_dtype dtype, int root, nexar_request **req);
NEXAR_API nexar_err nexar_ireduce_scatterv(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                           const size_t counts[], nexar_dtype dtype, nexar_op op,
                                           nexar_request **req);
NEXAR_API nexar_err nexar_ialltoallv(nexar_comm *comm, const void *sendbuf,
                                     const size_t sendcounts[], const size_t senddispls[],
                                     void *recvbuf, const size_t recvcounts[],
                                     const size_t recvdispls[], nexar_dtype dtype,
                                     nexar_request **req);
NEXAR_API nexar_err nexar_iallreduce_bucketed(nexar_comm *comm, const nexar_tensor *tensors,
                                              size_t n, nexar_dtype dtype, nexar_op op,
                                              nexar_request **req);
NEXAR_API nexar_err nexar_iallreduce_rs_ag(nexar_comm *comm, void *buf, size_t count,
                                           nexar_dtype dtype, nexar_op op, nexar_shard_fn on_shard,
                                           void *arg, nexar_request **req);
NEXAR_API nexar_err nexar_iallreduce_compressed(nexar_comm *comm, void *buf, size_t count,
                                                nexar_dtype dtype, nexar_op op,
                                                nexar_compression how, double ratio, void *residual,
                                                nexar_request **req);

/* ---- communicators ------------------------------------------------------------ */

#define NEXAR_NO_COLOR (-1) /* split: this rank joins no group; *out is NULL */

/*
 * Split |comm| into one communicator per |color|, or duplicate it.  Both calls are collective.
 * nexar_comm_split: ranks with the same |color| (>= 0) form a communicator, ordered by |key| and
 * then by rank.  nexar_comm_dup: the new communicator has the same ranks.  Messages and collectives
 * of different communicators never match.  The errors are those of a collective, and:
 *
 * NEXAR_ENOTSUP
 *     No communicator id is left: 67 million for each of the first 16 ranks, a million up to rank
 *     1024, 32 000 beyond.
 */
NEXAR_API nexar_err nexar_comm_split(nexar_comm *comm, int color, int key, nexar_comm **out);
NEXAR_API nexar_err nexar_comm_dup(nexar_comm *comm, nexar_comm **out);

/* Creates a communicator of the ranks of |comm| that share a host with the caller, in rank order.
 * The call is collective.  The errors are those of nexar_comm_split(). */
NEXAR_API nexar_err nexar_comm_split_host(nexar_comm *comm, nexar_comm **host);

/*
 * Creates a communicator of the |n| ranks of |parent| listed in |ranks|, in that order.  Only the
 * listed ranks call, with equal lists and equal |tag|; no message goes to or comes from the other
 * ranks.  The call takes one round trip to the leader, one of the listed ranks.
 *
 * A rank is in one creation at a time for each |parent| and |tag|.  Creations that share a rank and
 * overlap in time therefore need different tags; all others may use the same.  The device of
 * |parent| carries over.  When a listed rank fails or leaves during the call, the call ends on the
 * others.  If that rank is the leader, some of them may have |*out|, and its operations end with
 * NEXAR_EREVOKED or NEXAR_EPEER.
 *
 * NEXAR_EINVAL
 *     A pointer is NULL; a rank is out of range or listed twice; the caller is not listed; another
 *     thread is in this call on |parent| with |tag|.
 * NEXAR_EMISMATCH
 *     The lists of two ranks differ and each of the two waits for the other.  All ranks of both
 *     lists get the error.
 * NEXAR_EPEER
 *     A listed rank has failed or left.
 * NEXAR_EREVOKED
 *     |parent| was revoked or rebuilt, or a listed rank has freed it.
 * NEXAR_ETIMEDOUT
 *     The time of nexar_comm_set_timeout() or "collective_timeout" passed before all had called.
 *     All listed ranks get the error, also those that call later.
 * NEXAR_ENOTSUP
 *     No communicator id is left, as in nexar_comm_split().
 * NEXAR_ENOMEM
 *     This rank has not begun, or another rank had no memory; or this rank has left the world, as
 *     the sentence says then, and the other ranks see it as failed.
 */
NEXAR_API nexar_err nexar_comm_create(nexar_comm *parent, const int ranks[], size_t n, uint64_t tag,
                                      nexar_comm **out);

/*
 * Returns where |rank| of |comm| runs.  A host is a machine and network namespace with one
 * "host_id", whatever "transports" says: its ranks can share memory.  Hosts are numbered from 0 in
 * the order of their lowest ranks, the ranks of a host from 0 in rank order.  The call is local.
 *
 * NEXAR_EINVAL
 *     A pointer is NULL; |rank| is not in |comm|.
 * NEXAR_EREVOKED
 *     |comm| was rebuilt for a request ("retry=on") that the caller has not waited for.
 */
typedef struct nexar_host {
    int host, hosts;            /* number of the host; number of hosts of the communicator */
    int local_rank, local_size; /* index among the ranks of the host; number of them */
    int leader;                 /* lowest rank of |comm| on that host */
    char name[64];              /* name reported by the rank; "" if the rank has left */
} nexar_host;
NEXAR_API nexar_err nexar_comm_host(nexar_comm *comm, int rank, nexar_host *where);

/*
 * Sets how long calls on |comm| wait for other ranks: collectives, nexar_comm_dup(),
 * nexar_comm_split(), nexar_comm_split_host(), nexar_comm_create(), nexar_state_sync(),
 * nexar_comm_agree(), nexar_comm_shrink() and nexar_comm_update().  A call that takes longer ends
 * with NEXAR_ETIMEDOUT on every rank, also on those that call later, and |comm| stays usable.  0
 * restores the setting "collective_timeout".
 *
 * Every rank sets the time for itself.  It counts from the rank's own call; the shortest one ends
 * the call.  For agreements (nexar_comm_agree() and the calls above that are made of one) the ranks
 * agree on the time-out as well: all live ranks get NEXAR_ETIMEDOUT, or none.
 *
 * Operations that are running keep their time.  nexar_comm_dup(), nexar_comm_split(),
 * nexar_comm_split_host() and nexar_comm_create() hand the time down.  The call is local.
 *
 * NEXAR_EINVAL
 */
NEXAR_API nexar_err nexar_comm_set_timeout(nexar_comm *comm, uint64_t timeout_ns);

/* Sets a name of at most 63 bytes for errors, reports and metrics; |name| is copied.  The initial
 * name tells how the communicator was made: "world", "world.split.1".  The name is local to this
 * rank and survives updates and rebuilds.  NEXAR_EINVAL: NULL or too long. */
NEXAR_API nexar_err nexar_comm_set_name(nexar_comm *comm, const char *name);
/* Returns the name of |comm|, or "" for NULL.  Valid until |comm| is renamed or freed. */
NEXAR_API const char *nexar_comm_name(const nexar_comm *comm);

/*
 * Frees |comm| on this rank, after the operations in flight have ended.  The call is local, and
 * communicators may be freed in any order.  NULL and the world are ignored; nexar_finalize() ends
 * the world.
 *
 * On the peers these operations on |comm| end with NEXAR_EREVOKED, and the sentence names this
 * rank: sends to this rank, receives of messages that this rank has not sent, and collectives that
 * this rank has not started.  With "recovery=automatic" they wait instead until |comm| is rebuilt
 * without this rank.
 */

NEXAR_API void nexar_comm_free(nexar_comm *comm);
/* ---- device memory ----------------------------------------------------------
 * An adapter moves memory that the CPU cannot address. */

/*
 * The functions of a device adapter.  to_host, to_device and synchronize are required.  The others
 * may be NULL; nexar then works without them.
 *
 *  - They are called from threads of nexar and from threads of the application inside a nexar call,
 *    several at once.  They are never called from a signal handler and must not call nexar.
 *  - |stream| is the argument of nexar_comm_set_stream(), or NULL.  Work on one stream is done in
 *    the order of the calls.  It may complete after the call, at the latest when synchronize of
 *    that stream returns.  Host memory stays valid until then.
 *  - Sizes are never 0.  Device pointers are those of the application or point into its buffers.
 *    Host memory is pinned only if it came from alloc_host.
 *  - They return NEXAR_OK.  Any other value ends the operation with NEXAR_EDEVICE and a sentence
 *    that names the adapter, the function and the value.  NEXAR_ENOTSUP from reduce means that
 *    nothing was done; nexar then reduces on the host.
 */
typedef struct nexar_device {
    const char *name;      /* for errors */
    bool host_addressable; /* device pointers are host pointers, and nexar uses them directly */
    nexar_err (*to_host)(void *ctx, void *host, const void *dev, size_t bytes, void *stream);
    nexar_err (*to_device)(void *ctx, void *dev, const void *host, size_t bytes, void *stream);
    nexar_err (*synchronize)(void *ctx, void *stream);
    /* dev[i] = op(dev[i], host[i]), with the bits that nexar_op defines; never NEXAR_AVG, which
     * nexar computes as a sum. */
    nexar_err (*reduce)(void *ctx, void *dev, const void *host, size_t count, nexar_dtype dtype,
                        nexar_op op, void *stream);
    /* Copy the regions to consecutive bytes of |host|, and back; |regions| is borrowed. */
    nexar_err (*gather)(void *ctx, void *host, const nexar_iov *regions, size_t n, void *stream);
    nexar_err (*scatter)(void *ctx, const nexar_iov *regions, size_t n, const void *host,
                         void *stream);
    void *(*alloc_host)(void *ctx, size_t bytes); /* pinned staging memory; NULL if none is
                                                     left, and nexar does without */
    void (*free_host)(void *ctx, void *host);     /* required together with alloc_host */
    void *ctx;
} nexar_device;

/* Returns an adapter for host memory: copies are memcpy, and streams are ignored. */
NEXAR_API const nexar_device *nexar_cpu_device(void);

/*
 * Sets the device of |comm|: from now on every buffer, in the vector forms, the regions of sendv
 * and recvv and buckets too, is memory of |device|.  NULL selects host memory.  Data and replies of
 * RPCs are always host memory.  The other ranks need not have a device.
 *
 * The table is copied.  Its ctx is in use until |comm| is freed or gets another device and the
 * operations started before have ended.  Communicators made from |comm| inherit its device and its
 * stream.
 *
 * NEXAR_EINVAL
 *     A required function is missing.
 * NEXAR_ENOMEM
 *     Out of memory.
 */
NEXAR_API nexar_err nexar_comm_set_device(nexar_comm *comm, const nexar_device *device);

/*
 * Sets the stream that nexar passes to the device for operations that start from now on.  Work that
 * the application has queued on |stream| before an operation completes before the operation reads.
 * When the operation has ended, its results are visible to any stream.
 *
 * NEXAR_EINVAL
 *     |comm| is NULL or has no device.
 */
NEXAR_API nexar_err nexar_comm_set_stream(nexar_comm *comm, void *stream);

/* ---- remote procedure calls ---------------------------------------------------
 * A rank registers functions by number.  Every rank of the communicator, the same rank included,
 * can call them.  Calls run in parallel and are answered in any order.
 *
 * Threads.  Handlers run on threads of nexar, at most "rpc_threads" at once.  Calls made by a
 * handler run on a second set of as many threads, and so on, 64 levels deep.  Handlers may
 * therefore call and wait, also in a ring of ranks, without deadlock.  Threads are started on
 * demand, at most 64 x "rpc_threads".  A thread that a handler creates counts as a thread outside
 * all handlers.  Handlers that wait for each other in any other way need at least as many
 * "rpc_threads" as there are such handlers.
 *
 * Memory.  A rank holds at most 2 x "rpc_threads" calls of each level.  Further calls wait as
 * messages: within "unexpected" at the receiver, the rest at the caller.  No call is lost.
 * Messages, collectives and replies do not wait for them.
 *
 * Time.  A call without a reply after "rpc_timeout" (0: no timeout) ends with NEXAR_ETIMEDOUT.  Its
 * handler runs to the end, and its reply is discarded.
 */

/* One call, as its handler sees it; valid until the handler returns. */
typedef struct nexar_rpc nexar_rpc;

/*
 * An RPC handler.  |data| has |bytes| bytes, is never NULL and is aligned as by malloc().  nexar
 * frees it when the handler returns.  |arg| is the argument of the registration.  Handlers run in
 * parallel, also the same one.
 *
 * If the handler returns an error, the caller gets NEXAR_EREMOTE; the sentence contains the error
 * and nexar_last_error() of this thread.  If the handler has already replied, the error is only
 * logged.  If it returns NEXAR_OK without a reply, the reply is empty.  It must not finalize the
 * world.
 */
typedef nexar_err (*nexar_rpc_fn)(nexar_rpc *call, const void *data, size_t bytes, void *arg);

/* Returns the rank of the caller in the communicator of the registration; -1 for NULL. */
NEXAR_API int nexar_rpc_caller(const nexar_rpc *call);

/*
 * Sends the reply of |call|.  Returns when |data| may be reused, which does not mean that the reply
 * was received.
 *
 * NEXAR_EINVAL
 *     The handler has already replied; |data| is NULL with more than 0 bytes.
 * NEXAR_EPEER, NEXAR_ECONNECT, NEXAR_EPROTO
 *     The caller has failed or left.
 */
NEXAR_API nexar_err nexar_rpc_reply(nexar_rpc *call, const void *data, size_t bytes);

/*
 * Registers |fn| with |arg| for calls of |fn_id| on |comm| at this rank; it replaces the previous
 * handler.  NULL removes the registration.  Registrations are local.  A call before the first
 * registration ends with NEXAR_ENOHANDLER, so ranks register first and synchronize then, for
 * example with a barrier.
 *
 * When the call returns, the previous handler is no longer running and its |arg| may be freed.
 * Inside a handler the call does not wait for that.
 *
 * NEXAR_EINVAL, NEXAR_ENOMEM
 */
NEXAR_API nexar_err nexar_rpc_register(nexar_comm *comm, uint16_t fn_id, nexar_rpc_fn fn,
                                       void *arg);

/*
 * Calls |fn_id| at |rank| with |bytes| bytes of |data| and waits for the reply.  nexar allocates
 * |*reply| with malloc(), and the caller frees it.  It is not NULL even if |*reply_bytes| is 0.  If
 * |reply| is NULL, the reply is discarded and |reply_bytes| may be NULL.
 *
 * NEXAR_EINVAL
 *     |rank| is not in |comm|; a pointer to more than 0 bytes is NULL; calls are nested more than
 *     64 levels deep.
 * NEXAR_ENOHANDLER
 *     |rank| has registered no such function.
 * NEXAR_EREMOTE
 *     The handler returned an error; the sentence contains it.
 * NEXAR_ETIMEDOUT
 *     "rpc_timeout" has passed.  |data| is borrowed until the call returns, so the call can take
 *     a little longer while |data| is in flight.
 * NEXAR_EPEER, NEXAR_ECONNECT, NEXAR_EPROTO
 *     |rank| has failed or is leaving; it cannot be reached; it sent malformed data.
 * NEXAR_ENOMEM
 *     Out of memory, on this rank or on |rank|.
 * NEXAR_ESYS
 *     |rank| has no free thread for the call and could not start one.
 */
NEXAR_API nexar_err nexar_rpc_call(nexar_comm *comm, int rank, uint16_t fn_id, const void *data,
                                   size_t bytes, void **reply, size_t *reply_bytes);

/* nexar_rpc_call with |timeout_ns| instead of "rpc_timeout"; 0: no timeout. */
NEXAR_API nexar_err nexar_rpc_call_for(nexar_comm *comm, int rank, uint16_t fn_id, const void *data,
                                       size_t bytes, uint64_t timeout_ns, void **reply,
                                       size_t *reply_bytes);

/* Starts an RPC and returns a request.  |data| belongs to nexar until the request has been waited
 * for or tested true; |*reply| and |*reply_bytes| are set then.  nexar_cancel() ends the request
 * with NEXAR_ECANCELED; the handler may run nevertheless. */
NEXAR_API nexar_err nexar_rpc_icall(nexar_comm *comm, int rank, uint16_t fn_id, const void *data,
                                    size_t bytes, void **reply, size_t *reply_bytes,
                                    nexar_request **req);

/* ---- failures ------------------------------------------------------------------
 * A rank has failed when its process ended without nexar_finalize(), when its host reports that
 * nothing listens at its address, or when it has not answered for "heartbeat_timeout".  A rank that
 * computes still answers.  All ranks of the world are notified, and the verdict is permanent.  A
 * rank that was only stopped learns on resuming that it was declared failed; its calls then return
 * an error that says so.
 *
 * Everything that needs a failed rank ends with NEXAR_EPEER, promptly and on all ranks: messages
 * and RPCs to and from it, and every collective on a communicator that contains it, also those
 * started later.  A receive with NEXAR_ANY_SOURCE stays pending while another rank of the
 * communicator is alive.  Other messages are not affected.
 *
 * To continue, the surviving ranks call nexar_comm_revoke(), which ends the pending operations of
 * all ranks, and then nexar_comm_shrink().  The setting "recovery" (below) does this
 * automatically. */

/*
 * Returns the failed ranks of |comm| that this rank knows, in ascending order.  |*n| is the room in
 * |ranks| and becomes their number, even if that is larger; |ranks| may be NULL with room for 0.
 * Ranks that have finalized are not included.  Other ranks may know more or fewer.
 *
 * After a call has ended with NEXAR_EPEER because a rank failed, the result includes that rank, on
 * all threads.  With "recovery=automatic" a rank that was removed from the rebuilt |comm| is no
 * longer included; see nexar_last_change().
 *
 * NEXAR_EINVAL
 */
NEXAR_API nexar_err nexar_comm_failed(nexar_comm *comm, int ranks[], size_t *n);

/* Called for each failed |rank| of |comm|, with a sentence, on a thread of nexar.  It may make any
 * call except nexar_finalize() and must not free a communicator. */
typedef void (*nexar_failure_fn)(nexar_comm *comm, int rank, const char *why, void *arg);

/*
 * Sets the function that nexar calls once for each rank of |comm| that has failed or fails later.
 * It replaces the previous function; NULL removes it.
 *
 * NEXAR_EINVAL, NEXAR_ENOMEM
 */
NEXAR_API nexar_err nexar_on_failure(nexar_comm *comm, nexar_failure_fn fn, void *arg);

/*
 * Revokes |comm|: every pending and later message, collective and RPC on it ends with
 * NEXAR_EREVOKED on all live ranks.  One or more ranks call.  A receive or collective that was
 * completing may still end with NEXAR_OK.  Handlers that are running finish, and their replies are
 * discarded.  nexar_comm_failed(), nexar_comm_agree(), nexar_comm_shrink() and nexar_comm_free()
 * still work.
 *
 * NEXAR_EINVAL, NEXAR_ENOMEM
 */
NEXAR_API nexar_err nexar_comm_revoke(nexar_comm *comm);

/*
 * Agrees on |*flags|: every live rank of |comm| calls, and |*flags| becomes the bitwise AND of all
 * of them, the same on every rank, even if ranks fail meanwhile.  The flags of a rank that fails
 * during the call count on all ranks or on none.
 *
 * NEXAR_EINVAL
 *     A pointer is NULL; another thread is in this call or in nexar_comm_shrink() on |comm|.
 * NEXAR_EPEER
 *     The other ranks have declared this rank failed; or, with "quorum=majority", no more than half
 *     of the ranks are alive.  (Half are enough if they include rank 0.)
 * NEXAR_ETIMEDOUT
 *     Not all live ranks have called within the time of nexar_comm_set_timeout() or
 *     "collective_timeout".  All live ranks get the error, also those that call later.
 * NEXAR_ENOMEM
 */
NEXAR_API nexar_err nexar_comm_agree(nexar_comm *comm, uint64_t *flags);

/*
 * Creates a communicator of the surviving ranks of |comm|, in their order.  Every live rank calls.
 * The ranks agree on which ranks have failed or left, even if ranks fail meanwhile.  Messages of
 * |comm| never reach |*out|.  |comm| is not freed.  A rank that fails during the call may still be
 * in |*out|; the next operation on |*out| reports it, and |*out| is shrunk in turn.
 *
 * The errors are those of nexar_comm_agree(), and:
 *
 * NEXAR_EPEER
 *     |comm| is the world, and fewer ranks survive than the highest "min_world" of any rank.  Every
 *     rank gets the error.
 * NEXAR_ENOTSUP
 *     No communicator id is left, as in nexar_comm_split().
 * NEXAR_ENOMEM
 *     This rank has no memory for the result.  It has left the world, and the other ranks see it
 *     as failed.
 */
NEXAR_API nexar_err nexar_comm_shrink(nexar_comm *comm, nexar_comm **out);

/* How a communicator has changed, as seen by one of its ranks.  |new_rank| is -1 if that rank has
 * left.  nexar_comm_update() counts a rank that finalized without nexar_comm_leave() as failed. */
typedef struct nexar_change {
    int old_rank, old_size;
    int new_rank, new_size;
    int joined, left, failed; /* number of ranks */
} nexar_change;

/*
 * Updates the membership of the world at a step boundary.  Every rank calls.  Ranks that wait at
 * the seed join, ranks that called nexar_comm_leave() leave, and failed ranks are removed.  All
 * ranks get the same result, even if ranks fail meanwhile.
 *
 * If the membership has changed, |*world| becomes the new communicator and the old one is freed.
 * The remaining ranks keep their order; the new ranks follow.  Device, stream, nexar_on_failure()
 * and RPC handlers carry over.  Operations pending on the old communicator end with NEXAR_EREVOKED;
 * no other thread may be in a call on it.  Other communicators stay.  |change| may be NULL; it
 * describes the change.
 *
 * Without a change the call costs one small collective.  A joining rank returns from nexar_init()
 * while the others are in this call.  A rank that asked to leave gets |*world| NULL: it has left as
 * by nexar_finalize().
 *
 * Call it after a collective has ended with NEXAR_EPEER or NEXAR_EREVOKED: it rebuilds the world.
 * The next collective tells the ranks that the failure has not yet affected.
 *
 * NEXAR_EINVAL
 *     NULL; |*world| is not the world communicator.
 * NEXAR_EPEER
 *     The other ranks have declared this rank failed; there is no quorum (see nexar_comm_agree());
 *     or fewer than "min_world" ranks would remain.  |*world| is unchanged; in the last case the
 *     call may be repeated when more ranks wait to join.  With "recovery=automatic" also: a rank
 *     failed and |*world| was rebuilt, as by any collective; call again ("retry=on" does so).
 * NEXAR_EMISMATCH
 *     Ranks made different calls.
 * NEXAR_ETIMEDOUT
 *     The time of nexar_comm_set_timeout() or "collective_timeout" passed before all ranks had
 *     called.  It is off by default: the call waits for every live rank.
 * NEXAR_ENOMEM
 *     This rank has left the world, and the other ranks see it as failed.  Call nexar_finalize().
 */
NEXAR_API nexar_err nexar_comm_update(nexar_comm **world, nexar_change *change);

/* Makes this rank leave at the next nexar_comm_update().  NEXAR_EINVAL: not the world. */
NEXAR_API nexar_err nexar_comm_leave(nexar_comm *world);

/*
 * Writes the join string of the cluster that |comm| belongs to, for the setting "join" of processes
 * that this rank starts: they join at the next nexar_comm_update().  It is the string by which this
 * rank has joined, with the token, and is a secret.  The call is local.
 *
 * NEXAR_EINVAL
 *     A pointer is NULL.
 * NEXAR_ENOTSUP
 *     This process is a world of its own, without a seed.
 * NEXAR_ENOMEM
 *     There was no memory to keep the string when this rank joined.
 * NEXAR_ETRUNC
 *     |size| is too small; 1024 bytes are always enough.  |buf| is untouched.
 */
NEXAR_API nexar_err nexar_join_string(const nexar_comm *comm, char *buf, size_t size);

/*
 * The setting "recovery" selects what happens automatically when a rank fails.
 *
 *   manual     Nothing: the application handles the errors.  This is the default.
 *   abort      The process ends with exit code 76 and a sentence on stderr as soon as it learns
 *              that a rank of the world has failed.  Nothing is flushed.  (A rank that has
 *              finalized has not failed.)
 *   automatic  A collective that ends with NEXAR_EPEER, blocking or with a request, rebuilds its
 *              communicator.  When it returns, or when its request is waited for or tested true,
 *              |comm| contains the surviving ranks in their order.  nexar_rank() and nexar_size()
 *              change at that point and at no other.
 *
 * With automatic, the ranks agree on the survivors as soon as one rank knows of a failure.  The
 * agreement does not depend on what the applications call.  Until the error of a collective
 * notifies a rank, its |comm| is the old one.  Messages and RPCs on the old communicator, pending
 * ones included, end with NEXAR_EREVOKED.  All collectives that were pending at the failure, or
 * start before the notification, end with NEXAR_EPEER.  The next one runs among the survivors.  A
 * rank without a pending collective gets the error from its next one.  A collective may succeed on
 * some ranks and fail on others.  After the error a program therefore agrees on where to resume,
 * for example by an allreduce with NEXAR_MIN.  With "retry=on" it need not.
 *
 * |comm| keeps its device, its stream, its nexar_on_failure() function and its RPC handlers.  (An
 * RPC may reach a rank that has not been notified yet and end with NEXAR_ENOHANDLER; after a
 * collective it cannot.)  Each communicator is rebuilt on its own.  The communicators that |comm|
 * was made from, or that were made from |comm|, do not change.
 *
 * If the ranks reach no agreement ("quorum=majority", or the others have declared this rank
 * failed), or fewer than "min_world" ranks of the world survive, |comm| stays as it is. Collectives
 * on it end with NEXAR_EPEER, and the sentence says why.  "min_world" must be equal on all ranks.
 * With too few ranks, all may call nexar_comm_update(), which rebuilds the world when enough ranks
 * wait to join.  nexar_comm_agree() and nexar_comm_shrink() are for manual recovery.  With
 * automatic, a rank whose communicator was rebuilt does not meet a rank that is in such a call on
 * the old one.
 *
 * With "retry=on" as well, a collective completes only when all ranks have its result.  If a
 * failure interrupts it, it runs again among the survivors, with the original inputs.  It then
 * returns NEXAR_OK, or its request completes with NEXAR_OK, on all ranks.  The result has the
 * contributions of the same ranks everywhere, and nexar_last_change() describes the change.
 *
 * A thread of nexar runs the requests of collectives on one communicator one after the other, in
 * the order of the calls.  A blocking collective, nexar_comm_update(), nexar_comm_agree() and
 * nexar_comm_shrink() are queued behind earlier requests.  All ranks call them in the same order,
 * as always.  nexar_comm_free() takes effect when they have ended; nexar_finalize() waits for them;
 * nexar_comm_revoke() ends them.
 *
 * A communicator may be rebuilt for a request at any time.  The application sees the change when it
 * has waited for the request (or tested it true), or when a blocking collective has returned.
 * nexar_rank(), nexar_size() and nexar_last_change() then have the values of the end of that
 * request, whatever was started later.  Until then they keep their values, messages and RPCs on
 * |comm| end with NEXAR_EREVOKED, and the ranks that the application knows call collectives.
 *
 * Ranks in the arguments of a collective, and the layout of its buffers, counts and displacements,
 * refer to the communicator at the time of the call.  In gather(v), allgather(v) and alltoall(v)
 * the blocks of the survivors keep their positions, and the blocks of failed ranks keep their
 * contents from before the call.  In scatter(v) and alltoall(v) the data for failed ranks is
 * dropped.  In reduce_scatter(v) each rank gets its own block, reduced over the survivors.  A
 * compressed allreduce restarts with the original |buf| and |residual|; with every method both are
 * unchanged after an error.
 *
 * The cost is a host-memory copy of inputs that are in place, of |buf| and |residual|, and of the
 * memory that receives blocks, plus about the time of a barrier.  Collectives on one communicator,
 * from threads or with requests, run one at a time.
 *
 * Some collectives cannot run again.  They end with NEXAR_EPEER on all ranks after |comm| was
 * rebuilt: collectives whose root has failed, and allreduce_rs_ag, because its function may have
 * run on some rank.  (A request that had not started when |comm| was rebuilt runs for the first
 * time; this includes allreduce_rs_ag.)  If a rank has no memory for a request, or its device
 * fails, before the request starts, the request ends with NEXAR_ENOMEM or NEXAR_EDEVICE on all
 * ranks. Messages and RPCs are not repeated.
 */

/*
 * Returns the last change of |comm|, made by nexar_comm_update() or automatic recovery.  Without
 * one, also on a rank that has just joined, the old and new values equal the current ones and the
 * counts are 0.  An update without a change keeps the last one.  After a recovery, |left| counts
 * the ranks that had freed the communicator.  The call is local.
 *
 * NEXAR_EINVAL
 */
NEXAR_API nexar_err nexar_last_change(nexar_comm *comm, nexar_change *change);

typedef enum nexar_change_kind {
    NEXAR_CHANGE_JOINED,
    NEXAR_CHANGE_LEFT,
    NEXAR_CHANGE_FAILED
} nexar_change_kind;

/*
 * Returns the ranks that nexar_last_change() counts, in ascending order.  The ranks that joined are
 * numbered in |comm| as it is now, those that left or failed as before the change.  |*n| is the
 * room in |ranks| and becomes their number, even if that is larger; |ranks| may be NULL with room
 * for 0. The call is local.
 *
 * NEXAR_EINVAL
 *     NULL; |kind| is not one of the above.
 */
NEXAR_API nexar_err nexar_last_change_ranks(nexar_comm *comm, nexar_change_kind kind, int ranks[],
                                            size_t *n);

/* Called for each |change| of |comm| on a thread of nexar.  It may make any call except
 * nexar_finalize() and must not free a communicator. */
typedef void (*nexar_change_fn)(nexar_comm *comm, const nexar_change *change, void *arg);

/*
 * Sets the function that nexar calls once after each later change of |comm|, made by
 * nexar_comm_update() or automatic recovery.  The calls come one after the other, in the order of
 * the changes, and not before the caller sees the change: nexar_rank() and nexar_size() have the
 * new values.  nexar_last_change() may already describe a later change.  The function carries over
 * to the updated world.  It replaces the previous function; NULL removes it, and calls that have
 * begun or are queued still come.
 *
 * NEXAR_EINVAL
 */
NEXAR_API nexar_err nexar_on_change(nexar_comm *comm, nexar_change_fn fn, void *arg);

/* ---- shared state ------------------------------------------------------------- */

/* One tensor of a job's state: parameters, optimizer state, a counter. */
typedef struct nexar_state {
    const char *name;
    void *ptr;
    size_t count;
    nexar_dtype dtype;
} nexar_state;

/* What nexar_state_sync() did. */
typedef struct nexar_sync_report {
    size_t received;         /* tensors that this rank received */
    size_t differed;         /* tensors that differed on any rank */
    uint64_t bytes_received; /* by this rank */
    uint64_t bytes_sent;     /* by this rank */
    int ranks_updated;       /* ranks that received anything */
    bool updated;            /* the tensors of this rank are those of the result */
} nexar_sync_report;

/*
 * Makes the |n| tensors of all ranks identical, for ranks that have joined or that have fallen
 * behind.  Every rank of |comm| calls, with the same names, types and counts in the same order, and
 * with its own |*revision|: the number of its last step.  A rank that joined by
 * nexar_comm_update() passes 0.
 *
 * The highest revision wins.  Where ranks with that revision disagree on the bytes of a tensor, the
 * content that most of them hold wins; of equally many, that of the lowest rank.  |*revision|
 * becomes the highest revision on every rank.
 *
 * Ranks compare contents by a 128-bit hash, whose key they draw together for each call.  A rank
 * receives only the tensors in which it differs, from several holders at once if there are several,
 * and each byte once.  Equal state costs a pass over the memory and small messages.  The tensors
 * lie where the communicator's buffers do, see nexar_comm_set_device().
 *
 * All live ranks get the same result, even if ranks fail during the call.  After an error the
 * tensors and |*revision| are as they were before.  A rank therefore needs memory for a copy of the
 * tensors that it receives, except for parts that repeat one 8-byte value, such as zeros.
 *
 * |report| may be NULL.  After an error it is all zeros.
 *
 * With "recovery=automatic" a failure rebuilds |comm|, as in a collective; with "retry=on" the call
 * runs again among the survivors.  With "recovery=manual" all live ranks that were in the call when
 * a rank failed agree on the result as by nexar_comm_agree(), and wait for each other: a rank that
 * learned of the failure earlier continues with nexar_comm_agree(), nexar_comm_shrink() or
 * nexar_comm_update().
 *
 * The errors are those of a collective, and:
 *
 * NEXAR_EINVAL
 *     |comm|, |revision|, |tensors| or a name is NULL; a tensor with elements has no memory; a type
 *     is none; there are more than 262 144 tensors.
 * NEXAR_EMISMATCH
 *     Also: names, types or counts differ.  The sentence names the first tensor that differs.
 * NEXAR_EPEER
 *     Also: the other ranks have declared this rank failed, or there is no quorum, see
 *     nexar_comm_agree().
 * NEXAR_EDEVICE
 *     If the device fails while received tensors are put back, they are mixed; the sentence says
 * so.
 */
NEXAR_API nexar_err nexar_state_sync(nexar_comm *comm, const nexar_state *tensors, size_t n,
                                     uint64_t *revision, nexar_sync_report *report);

/* ---- the seed ----------------------------------------------------------------
 * The functions behind `nexar seed`, for programs that embed a seed.  The seed admits ranks that
 * hold the token, signs their certificates and assigns ranks.  No data passes through it. */

typedef struct nexar_seed nexar_seed;

/*
 * Starts a seed for "world_size" ranks, which must be set, in a thread of its own.  It uses the
 * settings "listen", "port_range", "interfaces" and "advertise".  The caller ends it with
 * nexar_seed_stop(); the members continue without it.
 *
 * NEXAR_EINVAL
 *     A setting is wrong.
 * NEXAR_ESYS
 *     The address is in use.
 * NEXAR_ENOMEM
 *     Out of memory.
 */
NEXAR_API nexar_err nexar_seed_start(const nexar_config *cfg, nexar_seed **seed);

/* Writes the join string (addresses, token and pinned key) for the setting "join".  It is a secret.
 * NEXAR_ETRUNC: |size| is too small; 1024 bytes are always enough. */
NEXAR_API nexar_err nexar_seed_join_string(const nexar_seed *seed, char *buf, size_t size);

/* What happened at a seed. */
typedef enum nexar_seed_event_kind {
    NEXAR_SEED_JOINED,  /* a rank has joined a world that has not formed */
    NEXAR_SEED_FORMED,  /* all ranks have joined */
    NEXAR_SEED_WAITING, /* a process waits for nexar_comm_update() to let it in */
    NEXAR_SEED_CHANGED, /* the members have agreed on a new membership */
    NEXAR_SEED_LEFT,    /* a rank has finalized */
    NEXAR_SEED_FAILED,  /* the connection to a rank is lost; it may return */
    NEXAR_SEED_BACK,    /* a rank whose connection was lost has returned */
    NEXAR_SEED_REFUSED, /* a process was turned away */
    NEXAR_SEED_MISSING, /* the world has not formed in time */
    NEXAR_SEED_ENDED    /* the last rank has gone */
} nexar_seed_event_kind;

typedef struct nexar_seed_event {
    nexar_seed_event_kind kind;
    int rank;          /* that it is about; -1: none, or it has no rank yet */
    int joined, world; /* how many ranks have joined; the size of the world */
    const char *text;  /* one line for people, with host and address; valid during the call */
} nexar_seed_event;

/* Called on a thread of the seed, one call at a time; ranks cannot join meanwhile.  It must not
 * call nexar_seed_stop(). */
typedef void (*nexar_seed_event_fn)(const nexar_seed_event *event, void *arg);

/*
 * Sets the function that |seed| calls for each event from now on, instead of logging it.  NULL
 * restores the log.  When the call returns, the previous function is no longer running, unless it
 * is the caller.
 *
 * NEXAR_EINVAL
 *     |seed| is NULL.
 */
NEXAR_API nexar_err nexar_seed_on_event(nexar_seed *seed, nexar_seed_event_fn fn, void *arg);

/* Stops the seed and frees |seed|; NULL is allowed.  The members continue. */
NEXAR_API void nexar_seed_stop(nexar_seed *seed);

#ifdef __cplusplus
}
#endif
#endif /* NEXAR_H */
