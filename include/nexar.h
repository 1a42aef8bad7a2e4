/*
 * nexar: a distributed runtime for C.
 *
 * Conventions
 *  - Every call that can fail returns nexar_err: NEXAR_OK (0) or a negative
 *    code.  nexar_last_error() gives the calling thread one sentence that says
 *    what was wrong and what would have been accepted.
 *  - A call that fails leaves its outputs untouched, unless it says otherwise.
 *  - Handles are opaque.  What *_create, _init or an i-call returns is the
 *    caller's, and is given back by the call named beside it.
 *  - Every function may be called from any thread.
 *  - A world belongs to the process that made it: in a child by fork every call on it
 *    ends with NEXAR_EINVAL and touches nothing (nexar_finalize() too).
 *  - No call blocks for ever: each one ends, by completion, by its timeout or by
 *    the failure of a rank that it needs.
 *  - pthread_cancel() does not interrupt a call: a thread is not cancelled inside it, but at
 *    its next cancellation point after it.  Functions of the application that nexar calls
 *    (handlers, on_failure, on_shard, device adapters) run with cancellation disabled and
 *    must not enable it; threads of nexar are never cancelled.  A thread whose cancellation
 *    is asynchronous (PTHREAD_CANCEL_ASYNCHRONOUS) must not call nexar.
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
    X(MISMATCH, -7, OP, "ranks called different collectives")          \
    X(AUTH, -8, PEER, "token, certificate or identity refused")        \
    X(PROTO, -9, PEER, "malformed or unexpected data on the wire")     \
    X(CONNECT, -10, PEER, "no route to a peer or to the seed")         \
    X(CANCELED, -11, OP, "canceled")                                   \
    X(NOTSUP, -12, OP, "not supported")                                \
    X(NOHANDLER, -13, OP, "the function is not registered over there") \
    X(REMOTE, -14, OP, "the handler over there returned an error")     \
    X(DEVICE, -15, OP, "the device adapter failed")                    \
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

/* |line| is one line without line end, valid during the call.  Called from any thread, one call at
 * a time, perhaps with locks of nexar held: it makes no call to nexar, and does not wait for
 * another thread that does. */
typedef void (*nexar_log_fn)(nexar_log_level level, const char *line, void *arg);

/* From now on log lines up to the level of the setting "log", and the lines of reports, go to |fn|
 * instead of stderr; NULL restores stderr.  For the whole process.  When it returns, the previous
 * function no longer runs. */
NEXAR_API void nexar_set_log(nexar_log_fn fn, void *arg);

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

/* An opaque element of |bytes| bytes (1 to NEXAR_STRUCT_MAX) for every call that takes a dtype: it
 * is moved as it is, and reduced only by an operation of nexar_op_create(). */
#define NEXAR_STRUCT(bytes) ((nexar_dtype)(0x10000 + (bytes)))
#define NEXAR_STRUCT_MAX    65535

/* inout[i] = op(inout[i], in[i]) for |count| elements, which do not overlap.  It must be
 * associative and commutative, makes no call to nexar, and may run on any thread, by several at
 * once, perhaps with locks of nexar held. */
typedef void (*nexar_reduce_fn)(void *inout, const void *in, size_t count, nexar_dtype dtype,
                                void *arg);

/*
 * Registers |fn| with |arg| under |id| (0 to 1023) in this process, until it ends; the same |id|
 * must mean the same on all ranks.  |*op| may be given to every call that reduces host memory, but
 * to nexar_allreduce_compressed().  nexar_exscan() leaves the result of rank 0 untouched with it.
 *
 * NEXAR_EINVAL
 *     NULL; an |id| that is taken or above 1023.
 */
NEXAR_API nexar_err nexar_op_create(uint16_t id, nexar_reduce_fn fn, void *arg, nexar_op *op);

/* Bytes of one element; 0 for a value that is no dtype. */
NEXAR_API size_t nexar_dtype_size(nexar_dtype dtype);

/* "f32", "bf16", ..., "struct"; "sum", "bxor", ..., "user op"; "?" for a value that is none. */
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
 *     The environment variable of a setting is empty, or holds a value that the setting
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

/* ---- joining and leaving a cluster -------------------------------------- */

typedef struct nexar_comm nexar_comm;

/*
 * Joins a cluster, and returns the world communicator when all ranks are there.  NULL is a config
 * made from the environment alone; |cfg| is only read.  Which cluster:
 *
 * - that of the setting "join": a join string; "file:PATH" (also "join_file"), a file that holds
 *   one and is waited for; or "none", a world of one.
 * - Where "join" is not set and mpirun or srun --mpi=pmix started the process: that of its job.
 *   Rank 0 has the seed, which ends in its nexar_finalize(); ranks may finalize in any order.
 *   Several worlds may exist at a time; after the last has ended, another nexar_init() of the
 *   process fails unless "join" is set.
 * - Without launcher the world is this process alone.
 *
 * With no "rank" given, the process asks for the number that its launcher gave to it.  The caller
 * leaves with nexar_finalize().
 *
 * NEXAR_EINVAL
 *     A setting: the join string, a rank that is taken or too high, an interface
 *     that is not there; a variable of a launcher that is no number.  A launcher or a setting says
 *     that this process is one of several, and there is no cluster to join: the sentence names the
 *     variable and the ways to name one.
 * NEXAR_ECONNECT
 *     The seed does not answer; the sentence names the addresses that were tried.
 * NEXAR_EAUTH
 *     The seed has another key than the join string says, or refused the token.  A join file or
 *     token file belongs to another user, or others may read or write it.
 * NEXAR_EPROTO
 *     The seed speaks another version.  The launcher answers an error.
 * NEXAR_ETIMEDOUT
 *     Not all ranks came within "formation_timeout"; names those missing.  The join file did not
 *     come, or not all processes of the launcher called nexar_init().
 * NEXAR_ENOMEM, NEXAR_ESYS
 *     No memory, no descriptors, no socket.
 */
NEXAR_API nexar_err nexar_init(const nexar_config *cfg, nexar_comm **world);

/*
 * Leaves: waits for handlers of remote calls that run and for what this rank has
 * sent, tells the others, closes all links and frees every communicator made from
 * |world|.  Calls of others that wait for a thread are refused: they end with
 * NEXAR_EPEER over there.  Receives and calls of our own that are still pending end
 * with NEXAR_ECANCELED; their requests must have been waited for or are freed here.  No other
 * thread may be in a call on this world.  The world is gone whatever is returned; NULL is allowed.
 *
 * While it waits for what is on its way it receives and begins nothing more: what others send
 * to this rank, and collectives that it has not begun, end with NEXAR_EPEER over there.  So
 * ranks that finalize do not wait for each other.
 *
 * NEXAR_EPEER
 *     A rank failed, left or finalized before it had taken all that was sent to it, or taken
 *     part in a collective whose request was not waited for; the sentence names it.
 * NEXAR_EREVOKED and others
 *     Such a collective, or a message, has ended with that.
 */
NEXAR_API nexar_err nexar_finalize(nexar_comm *world);

/*
 * |n| ranks inside this process, over the real transports on loopback: for tests
 * and examples.  |worlds| has room for |n| handles, worlds[i] is rank i, and each
 * is finalized by itself.  |cfg| as in nexar_init(); its "join", "rank" and
 * "world_size" are not used.  Errors as there; on error no rank is left.
 */
NEXAR_API nexar_err nexar_init_local(int n, const nexar_config *cfg, nexar_comm *worlds[]);

/* This process's rank, and how many there are.  -1 for NULL. */
NEXAR_API int nexar_rank(const nexar_comm *comm);
NEXAR_API int nexar_size(const nexar_comm *comm);

/* ---- point to point ------------------------------------------------------
 * Messages from one rank with one tag arrive in the order sent.  A receive takes
 * the oldest message that matches; messages that match nothing yet wait, bounded
 * by backpressure on the sender, never by loss.  A rank may send to itself.
 *
 * These errors are common to all calls here:
 *
 * NEXAR_EINVAL
 *     A rank that is not in the communicator, a tag of NEXAR_ANY_TAG in a send,
 *     NULL for memory of more than 0 bytes.
 * NEXAR_EPEER, NEXAR_ECONNECT, NEXAR_EPROTO
 *     The other rank has failed, left or called nexar_finalize(), cannot be reached, or
 *     sent what no nexar sends.
 * NEXAR_EREVOKED
 *     The communicator was revoked; or the other rank has freed it.  What that had sent before
 *     is still received, in order; only what nothing can match any more ends, and a receive or
 *     probe from NEXAR_ANY_SOURCE only when all other ranks have freed it.
 * NEXAR_ENOMEM
 *     Out of memory.
 */

#define NEXAR_ANY_SOURCE (-1)
#define NEXAR_ANY_TAG    UINT64_MAX

typedef struct nexar_status {
    int source;
    uint64_t tag;
    size_t bytes; /* of the message, also when it was larger than the buffer */
} nexar_status;

typedef struct nexar_request nexar_request;

/* Sends; returns when |buf| may be reused, which says nothing of whether the
 * message was received. */
NEXAR_API nexar_err nexar_send(nexar_comm *comm, const void *buf, size_t bytes, int dest,
                               uint64_t tag);

/*
 * Receives a message of at most |bytes| bytes from |source| (or
 * NEXAR_ANY_SOURCE) with |tag| (or NEXAR_ANY_TAG).  |status| may be NULL.
 *
 * NEXAR_ETRUNC
 *     The message was larger: its beginning is in |buf|, the rest is lost, and
 *     |status| is set.
 */
NEXAR_API nexar_err nexar_recv(nexar_comm *comm, void *buf, size_t bytes, int source, uint64_t tag,
                               nexar_status *status);

/* Both at once, so that two ranks that exchange cannot block each other.  The
 * buffers must not overlap (NEXAR_EINVAL).  The first error, after both have ended. */
NEXAR_API nexar_err nexar_sendrecv(nexar_comm *comm, const void *sendbuf, size_t sendbytes,
                                   int dest, uint64_t sendtag, void *recvbuf, size_t recvbytes,
                                   int source, uint64_t recvtag, nexar_status *status);

/* The same without waiting: the buffer is nexar's until the request has been
 * waited for, or tested true. */
NEXAR_API nexar_err nexar_isend(nexar_comm *comm, const void *buf, size_t bytes, int dest,
                                uint64_t tag, nexar_request **req);
NEXAR_API nexar_err nexar_irecv(nexar_comm *comm, void *buf, size_t bytes, int source, uint64_t tag,
                                nexar_request **req);

/* Waits for a message that a receive would take, and leaves it; iprobe only
 * looks: it ends with NEXAR_EPEER where there is none, and none can come because of a failure;
 * of ranks that have left in order, or freed the communicator, it finds nothing.  |status| may be
 * NULL, and is set when there is one. */
NEXAR_API nexar_err nexar_probe(nexar_comm *comm, int source, uint64_t tag, nexar_status *status);
NEXAR_API nexar_err nexar_iprobe(nexar_comm *comm, int source, uint64_t tag, bool *found,
                                 nexar_status *status);

/*
 * Matched probe: as nexar_probe and nexar_iprobe, but the message found is taken out of matching
 * and belongs to |*msg|: no other call, of this thread or another, can receive or find it.
 * Without a message |*msg| is untouched.  |status| may be NULL.
 *
 * The message counts in "unexpected" until it is received.  A message that its sender holds back
 * for want of memory here is fetched whole.  One that is never received is dropped by
 * nexar_finalize().
 */
typedef struct nexar_message nexar_message;
NEXAR_API nexar_err nexar_mprobe(nexar_comm *comm, int source, uint64_t tag, nexar_message **msg,
                                 nexar_status *status);
NEXAR_API nexar_err nexar_improbe(nexar_comm *comm, int source, uint64_t tag, bool *found,
                                  nexar_message **msg, nexar_status *status);

/*
 * Receives |*msg|.  After NEXAR_OK and NEXAR_ETRUNC |*msg| is NULL; after any other error it is
 * kept, and a later call says why it is lost.
 *
 * NEXAR_EINVAL
 *     NULL, also for memory of more than 0 bytes; the communicator was freed.
 * NEXAR_ETRUNC
 *     As of nexar_recv().
 * NEXAR_EREVOKED
 *     The communicator was revoked or rebuilt since the message was found.
 * NEXAR_ECANCELED
 *     The sender took the message back (nexar_cancel).
 * NEXAR_EPEER, NEXAR_ECONNECT, NEXAR_EPROTO
 *     The sender failed before all of the message had come.
 */
NEXAR_API nexar_err nexar_mrecv(nexar_message **msg, void *buf, size_t bytes, nexar_status *status);

/* Scattered memory: the |n| regions are one message, gathered and scattered
 * without a copy in between.  Either side may be scattered and the other not. */
typedef struct nexar_iov {
    void *ptr;
    size_t bytes;
} nexar_iov;
NEXAR_API nexar_err nexar_sendv(nexar_comm *comm, const nexar_iov *iov, size_t n, int dest,
                                uint64_t tag);
NEXAR_API nexar_err nexar_recvv(nexar_comm *comm, const nexar_iov *iov, size_t n, int source,
                                uint64_t tag, nexar_status *status);

/* The same with a request.  The array |iov| is read before the call returns. */
NEXAR_API nexar_err nexar_isendv(nexar_comm *comm, const nexar_iov *iov, size_t n, int dest,
                                 uint64_t tag, nexar_request **req);
NEXAR_API nexar_err nexar_irecvv(nexar_comm *comm, const nexar_iov *iov, size_t n, int source,
                                 uint64_t tag, nexar_request **req);

/*
 * Waits until |*req| has completed, gives its outcome, frees it and sets |*req|
 * to NULL; of a request that is NULL already the outcome is NEXAR_OK.  |status|
 * may be NULL; it is set for receives and probes that got a message.  One thread
 * waits for a request.
 */
NEXAR_API nexar_err nexar_wait(nexar_request **req, nexar_status *status);

/* The same without waiting: |*done| says whether it had completed.  NEXAR_OK
 * with |*done| false leaves the request alone. */
NEXAR_API nexar_err nexar_test(nexar_request **req, bool *done, nexar_status *status);

/* Waits for all |n|; returns the first error in order of the array, after all
 * have ended.  Those that are NULL are passed over. */
NEXAR_API nexar_err nexar_wait_all(size_t n, nexar_request *reqs[]);

/* Waits until one has completed, and gives that one's |*index| and outcome.  All belong to
 * one world: else NEXAR_EINVAL.  NEXAR_EINVAL with |*index| = n: all are NULL. */
NEXAR_API nexar_err nexar_wait_any(size_t n, nexar_request *reqs[], size_t *index,
                                   nexar_status *status);

/*
 * nexar_wait, nexar_wait_any and nexar_wait_all with a time-out of |timeout_ns|; 0 polls once,
 * UINT64_MAX waits without a time-out.
 *
 * NEXAR_ETIMEDOUT
 *     Nothing had completed; for nexar_wait_all_for: not everything had.  Every request stays
 *     valid and pending, the outputs are untouched.  An operation that itself ended with
 *     NEXAR_ETIMEDOUT has completed: then |*req|, or reqs[*index], is NULL.
 */
NEXAR_API nexar_err nexar_wait_for(nexar_request **req, uint64_t timeout_ns, nexar_status *status);
NEXAR_API nexar_err nexar_wait_any_for(size_t n, nexar_request *reqs[], uint64_t timeout_ns,
                                       size_t *index, nexar_status *status);
NEXAR_API nexar_err nexar_wait_all_for(size_t n, nexar_request *reqs[], uint64_t timeout_ns);

/*
 * Waits until at least one request has completed, then claims every one that has: |*done| is their
 * number, indices[k] and errs[k] are the index and the outcome of the k-th.  |indices| and |errs|
 * have room for |n|; |errs| may be NULL.  All requests belong to one world.
 *
 * Returns NEXAR_OK or the first error among the outcomes, with all outputs set.
 *
 * NEXAR_EINVAL
 *     Every request is NULL (|*done| is 0); requests of two worlds; NULL for an output.
 */
NEXAR_API nexar_err nexar_wait_some(size_t n, nexar_request *reqs[], size_t indices[],
                                    nexar_err errs[], size_t *done);

/* nexar_wait_any and nexar_wait_all without waiting.  |*done| says whether one request
 * (nexar_test_any) or every request (nexar_test_all) had completed; NEXAR_OK with |*done| false
 * leaves all requests as they are. */
NEXAR_API nexar_err nexar_test_any(size_t n, nexar_request *reqs[], bool *done, size_t *index,
                                   nexar_status *status);
NEXAR_API nexar_err nexar_test_all(size_t n, nexar_request *reqs[], bool *done);

/* Asks for an end: a request that can still be ended completes with
 * NEXAR_ECANCELED, another runs on.  It must be waited for in either case.  Nothing is
 * received of a send that was ended: a receive that had begun to take it ends with
 * NEXAR_ECANCELED, too. */
NEXAR_API nexar_err nexar_cancel(nexar_request *req);

/* For event loops: |*fd| is readable (poll, epoll) whenever requests of this
 * world have completed that were not yet waited for or tested.  It belongs to
 * the world: neither read it nor close it.  NEXAR_ESYS: no descriptor. */
NEXAR_API nexar_err nexar_event_fd(nexar_comm *world, int *fd);

/* ---- memory ---------------------------------------------------------------------
 * |*ptr| is memory of |bytes| bytes, on a page of its own, that the ranks of this host
 * can see: collectives on it need no copy between them.  Memory from anywhere else works
 * as well; this is only faster, and where there is no shared memory it is the same.
 * Every rank calls for itself, when it likes.  The memory belongs to the world of |comm|:
 * it is given back with nexar_free, on any communicator of that world, when no operation
 * uses it any more and before nexar_finalize.  nexar_free(comm, NULL) does nothing.
 *
 * NEXAR_EINVAL
 *     |comm| or |ptr| is NULL.
 * NEXAR_ENOMEM
 *     There is no such memory. */
NEXAR_API nexar_err nexar_alloc(nexar_comm *comm, size_t bytes, void **ptr);
NEXAR_API void nexar_free(nexar_comm *comm, void *ptr);

/* ---- collectives --------------------------------------------------------------
 * Every rank of |comm| calls, with equal count, dtype, op and root.  All ranks get
 * the same bits, by whatever algorithm, on whatever machines.  Calls on one
 * communicator are matched in the order in which each rank starts them; several
 * may be on their way at once.
 *
 * |sendbuf| may be NEXAR_IN_PLACE, on each rank by itself:
 *   allreduce, scan, exscan, and reduce on the root: recvbuf holds the input;
 *   allgather(v), and gather(v) on the root: this rank's part already stands at
 *   its place in recvbuf;
 *   reduce_scatter(v): recvbuf holds the whole input, the result is written at its
 *   start;
 *   alltoall(v): recvbuf holds what goes out, laid out as what comes in.
 * Otherwise sendbuf and recvbuf must not overlap.  Buffers that a rank's role does
 * not use (recvbuf of a non-root in reduce and gather, sendbuf of a non-root in
 * scatter) are ignored and may be NULL.
 *
 * What each may return beside NEXAR_OK; after all but the first the contents of
 * recvbuf are undefined, and the communicator can still be used:
 *
 * NEXAR_EINVAL
 *     An argument that this rank alone can know to be wrong; nothing was sent.
 * NEXAR_EMISMATCH
 *     Ranks called different operations, or with different counts, types, ops or
 *     roots; on every rank, with both calls in the sentence.
 * NEXAR_EPEER, NEXAR_ECONNECT
 *     A rank has failed or called nexar_finalize(), or cannot be reached; on every rank.
 * NEXAR_EREVOKED
 *     The communicator was revoked, or some rank has freed it.
 * NEXAR_ETIMEDOUT
 *     "collective_timeout" has passed, on some rank; on every rank.
 * NEXAR_ENOMEM, NEXAR_EDEVICE, NEXAR_ESYS
 *     Some rank has no memory, its device has failed, or a system call; on every rank.
 * NEXAR_EREVOKED
 *     nexar_comm_revoke() was called on |comm|, by some rank.
 * NEXAR_EPROTO
 *     A rank sent what no nexar sends; or something has written over the memory that the ranks of a
 *     host share for collectives: the other ranks may have completed the call. */

#ifdef __cplusplus
#define NEXAR_IN_PLACE (reinterpret_cast<const void *>(UINTPTR_MAX))
#else
#define NEXAR_IN_PLACE ((const void *)UINTPTR_MAX)
#endif

/* Returns when every rank has called. */
NEXAR_API nexar_err nexar_barrier(nexar_comm *comm);

/* |buf| of |root| to all. */
NEXAR_API nexar_err nexar_broadcast(nexar_comm *comm, void *buf, size_t count, nexar_dtype dtype,
                                    int root);

/* The reduction over all ranks, on |root|, or on all. */
NEXAR_API nexar_err nexar_reduce(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                                 nexar_dtype dtype, nexar_op op, int root);
NEXAR_API nexar_err nexar_allreduce(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                    size_t count, nexar_dtype dtype, nexar_op op);

/* The |count| elements of each rank, in the order of ranks, on all, or on |root|. */
NEXAR_API nexar_err nexar_allgather(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                    size_t count, nexar_dtype dtype);
NEXAR_API nexar_err nexar_gather(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                                 nexar_dtype dtype, int root);

/* Block i of |root|'s sendbuf to rank i; |count| is what each receives. */
NEXAR_API nexar_err nexar_scatter(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                  size_t count, nexar_dtype dtype, int root);

/* Block i of the reduction to rank i: |count| is what each rank receives, sendbuf
 * holds count * size. */
NEXAR_API nexar_err nexar_reduce_scatter(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                         size_t count, nexar_dtype dtype, nexar_op op);

/* Block i of sendbuf to rank i, block i of recvbuf from rank i, of |count| each. */
NEXAR_API nexar_err nexar_alltoall(nexar_comm *comm, const void *sendbuf, void *recvbuf,
                                   size_t count, nexar_dtype dtype);

/* Rank i gets the reduction of ranks 0..i; exscan: of 0..i-1, and rank 0 the op's
 * identity: SUM, BOR, BXOR 0, PROD 1, BAND all bits, MIN the largest value
 * (+infinity), MAX the smallest (-infinity).  Not with NEXAR_AVG. */
NEXAR_API nexar_err nexar_scan(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                               nexar_dtype dtype, nexar_op op);
NEXAR_API nexar_err nexar_exscan(nexar_comm *comm, const void *sendbuf, void *recvbuf, size_t count,
                                 nexar_dtype dtype, nexar_op op);

/* Blocks of different length: counts and displacements in elements, one per rank.
 * displs may be NULL: one block behind the other.  allgatherv and reduce_scatterv
 * want equal counts on all ranks; in the others what a rank sends must be what its
 * receiver expects, also of its own block (NEXAR_EINVAL).  gatherv and scatterv look at
 * counts on the root alone. */
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

/* Many tensors as one allreduce, in place: one set of messages for all of them,
 * whatever their number, with no staging copy by the caller; nor by nexar, unless they
 * are so short that copying them costs less (docs/performance.md). */
typedef struct nexar_tensor {
    void *ptr;
    size_t count;
} nexar_tensor;
NEXAR_API nexar_err nexar_allreduce_bucketed(nexar_comm *comm, const nexar_tensor *tensors,
                                             size_t n, nexar_dtype dtype, nexar_op op);

/* Allreduce as reduce-scatter, then allgather, in place, any count: between the
 * phases rank r owns the reduced elements [offset, offset + n) that nexar_shard
 * gives, and |on_shard| (may be NULL) is called there with them in place, so that a
 * sharded optimizer can update its part before it is gathered.  It is called once,
 * on the calling thread, or on a thread of nexar's for the form with a request; it
 * must not wait for other operations of this world.  It is called for an empty shard
 * too.  An error that it returns ends the call with it on every rank: none ends well
 * before all have returned. */
typedef nexar_err (*nexar_shard_fn)(void *shard, size_t offset, size_t count, void *arg);
NEXAR_API nexar_err nexar_allreduce_rs_ag(nexar_comm *comm, void *buf, size_t count,
                                          nexar_dtype dtype, nexar_op op, nexar_shard_fn on_shard,
                                          void *arg);
/* Elements that rank |rank| owns of |count|; 0 of them for a rank that is not. */
NEXAR_API void nexar_shard(const nexar_comm *comm, size_t count, int rank, size_t *offset,
                           size_t *n);

/*
 * An allreduce in place that sends less than the tensor, and keeps what it did not send
 * for the next call (error feedback): with x = buf + residual on each rank, |buf| becomes
 * the sum or average of what the ranks send of their x, the same bits on all, and
 * |residual| what is still to be sent, so that over many calls nothing is lost.
 * docs/compression.md has the formulas.
 */
typedef enum nexar_compression {
    NEXAR_COMPRESS_NONE,    /* x as it is */
    NEXAR_COMPRESS_TOPK,    /* the elements of the largest magnitude, with their indexes */
    NEXAR_COMPRESS_RANDOMK, /* random elements, the same ones on all ranks; not rescaled */
    NEXAR_COMPRESS_F16,     /* all elements as f16 */
    NEXAR_COMPRESS_BF16,    /* all elements as bf16 */
    NEXAR_COMPRESS_INT8     /* all elements as i8, with an f32 scale for every 256 */
} nexar_compression;
/*
 * |dtype| is f32, f64, f16 or bf16, |op| NEXAR_SUM or NEXAR_AVG.  TOPK and RANDOMK send
 * ceil(ratio * count) elements, at least one, 0 < ratio <= 1, and the result is 0 where
 * none was sent; the other methods do not look at |ratio|.
 *
 * |residual| has |count| elements of |dtype|, apart from |buf|, zero before the first call
 * and kept by the caller between calls.  NULL: what is not sent is lost.
 *
 * NaN and infinity reach all ranks when they are sent (as NaN with INT8), and nothing of
 * them stays in the residual.  A finite number that a code cannot hold is sent as the
 * largest that it can, and the rest later; without a residual it becomes infinity.
 *
 * After an error |buf| and |residual| are as they were, but for NONE without a residual,
 * where |buf| is undefined as after any collective.  An error may be met by some ranks
 * after others are done.  NEXAR_EINVAL, found before anything is sent, names what is
 * accepted; the other errors are those of a collective.
 */
NEXAR_API nexar_err nexar_allreduce_compressed(nexar_comm *comm, void *buf, size_t count,
                                               nexar_dtype dtype, nexar_op op,
                                               nexar_compression how, double ratio, void *residual);

/* The same with a request, which nexar_wait and its kin complete; the buffers are
 * nexar's until then (counts, displacements and the array of tensors are read
 * before the call returns).  A collective cannot be cancelled: NEXAR_ENOTSUP. */
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

#define NEXAR_NO_COLOR (-1) /* split: this rank joins no group, *out is NULL */

/*
 * Collective: those who give the same |color| (>= 0) become a communicator of their
 * own, in the order of |key|, then of their rank.  dup makes one of the same ranks.
 * Messages and collectives of different communicators never meet.  Errors as of a
 * collective; NEXAR_ENOTSUP: the ranks have made so many that no id is left (67 million for
 * each of the first 16 ranks, a million up to 1024, 32 000 beyond).
 */
NEXAR_API nexar_err nexar_comm_split(nexar_comm *comm, int color, int key, nexar_comm **out);
NEXAR_API nexar_err nexar_comm_dup(nexar_comm *comm, nexar_comm **out);

/* Collective: the ranks of |comm| that share this host, in their order, become a communicator.
 * Errors as of nexar_comm_split(). */
NEXAR_API nexar_err nexar_comm_split_host(nexar_comm *comm, nexar_comm **host);

/*
 * Where |rank| of |comm| runs.  A host is a machine and network namespace with one "host_id",
 * whatever "transports" says: its ranks can share memory.  Hosts are numbered 0, 1, ... in the
 * order of their lowest ranks, the ranks of a host 0, 1, ... in their order.  Local: no messages.
 *
 * NEXAR_EINVAL
 *     NULL; |rank| is not in |comm|.
 * NEXAR_EREVOKED
 *     |comm| was rebuilt for a request ("retry=on") that the caller has not waited for yet.
 */
typedef struct nexar_host {
    int host, hosts;            /* number of the host; how many hosts the communicator has */
    int local_rank, local_size; /* position among the ranks of that host; how many there are */
    int leader;                 /* lowest rank of |comm| on that host */
    char name[64];              /* host name as its rank reported it; "" if the rank has left */
} nexar_host;
NEXAR_API nexar_err nexar_comm_host(nexar_comm *comm, int rank, nexar_host *where);

/* A name for errors, reports and metrics, of at most 63 bytes; |name| is copied.  At first it says
 * how the communicator was made: "world", "world.split.1".  Local to this rank; kept when |comm| is
 * updated or rebuilt.  NEXAR_EINVAL: NULL, or longer. */
NEXAR_API nexar_err nexar_comm_set_name(nexar_comm *comm, const char *name);
/* Valid until |comm| is renamed or freed; "" for NULL. */
NEXAR_API const char *nexar_comm_name(const nexar_comm *comm);

/* Gives |comm| back, in any order, by each rank for itself; what is still on its way
 * ends first.  Sends to this rank, receives from it of what it has not sent, and collectives that
 * others begin on it after its last end with NEXAR_EREVOKED over there; the sentence names this
 * rank.  (With "recovery=automatic"
 * they wait: when |comm| is rebuilt, this rank has left it.)  NULL and the world are left
 * alone: the world is finalized. */
NEXAR_API void nexar_comm_free(nexar_comm *comm);
/* ---- device memory ----------------------------------------------------------
 * An adapter lets nexar move memory that the CPU cannot address. */

/*
 * The functions of an adapter.  to_host, to_device and synchronize are required; the
 * rest may be NULL, and nexar then does without.
 *
 *  - They are called from threads of nexar and from those of the application that are in a
 *    call of nexar, by several at once, never from inside a signal handler, and make no call
 *    to nexar.
 *  - |stream| is what nexar_comm_set_stream was given, NULL otherwise.  Work on one
 *    stream is done in the order of the calls; it may be done after the call has
 *    returned, at the latest when synchronize of that stream returns.  Host memory is
 *    held until then.
 *  - Sizes are never 0.  Device pointers are those of the application, or lie
 *    inside its buffers; host memory is pinned only where it came from alloc_host.
 *  - They return NEXAR_OK; anything else ends the operation with NEXAR_EDEVICE and a
 *    sentence with the name of the adapter, the function and what it returned.  From
 *    reduce NEXAR_ENOTSUP says that nothing was done: nexar reduces by itself then.
 */
typedef struct nexar_device {
    const char *name;      /* for errors */
    bool host_addressable; /* device pointers are host pointers: nexar uses them so */
    nexar_err (*to_host)(void *ctx, void *host, const void *dev, size_t bytes, void *stream);
    nexar_err (*to_device)(void *ctx, void *dev, const void *host, size_t bytes, void *stream);
    nexar_err (*synchronize)(void *ctx, void *stream);
    /* dev[i] = op(dev[i], host[i]), with the bits that nexar_op promises; never
     * NEXAR_AVG, which is a sum until its end. */
    nexar_err (*reduce)(void *ctx, void *dev, const void *host, size_t count, nexar_dtype dtype,
                        nexar_op op, void *stream);
    /* The regions one after the other in |host|, and back; |regions| is borrowed. */
    nexar_err (*gather)(void *ctx, void *host, const nexar_iov *regions, size_t n, void *stream);
    nexar_err (*scatter)(void *ctx, const nexar_iov *regions, size_t n, const void *host,
                         void *stream);
    void *(*alloc_host)(void *ctx, size_t bytes); /* pinned staging memory; NULL: none
                                                     left, and nexar does without */
    void (*free_host)(void *ctx, void *host);     /* used only together with alloc_host */
    void *ctx;
} nexar_device;

/* Host memory as a device: copies are memcpy, streams mean nothing. */
NEXAR_API const nexar_device *nexar_cpu_device(void);

/*
 * From now on every buffer of |comm|, also of the vector forms and the regions of
 * sendv, recvv and buckets, is memory of |device|; NULL: host memory again.  Data and
 * replies of remote calls are host memory always.  The
 * other ranks need not have one.  The table is copied; its ctx is used until
 * |comm| is freed or gets another device, and the operations that began before have
 * ended.  Communicators made from |comm| begin with its device and its stream.
 *
 * NEXAR_EINVAL (a required function is missing), NEXAR_ENOMEM
 */
NEXAR_API nexar_err nexar_comm_set_device(nexar_comm *comm, const nexar_device *device);

/*
 * |stream| goes to every function of the device, for operations that begin from now
 * on.  What the application has put on it before an operation is done before the
 * operation reads; when an operation has ended, all that it wrote is there, for any
 * stream.  NEXAR_EINVAL: |comm| is NULL or has no device.
 */
NEXAR_API nexar_err nexar_comm_set_stream(nexar_comm *comm, void *stream);

/* ---- remote procedure calls ---------------------------------------------------
 * A rank registers functions by number; any rank of the communicator calls them, the
 * rank itself too.  Calls are answered in any order, as many at once as there are.
 *
 * Threads.  Handlers run on threads of the runtime: at most "rpc_threads" of them at
 * once.  Calls that a handler makes have a level of their own, with as many threads
 * again, and so on, 64 levels deep: so handlers may call and wait, also round rings of
 * ranks, and there is always a thread for what they wait for.  Threads are started when
 * they are needed, and are never more than 64 x "rpc_threads".  (A thread that a
 * handler starts by itself counts as one from outside.)  Handlers that wait for each
 * other in other ways need "rpc_threads" to be as many as they are.
 *
 * Memory.  Of each level a rank holds at most 2 x "rpc_threads" calls.  What cannot be
 * taken waits as a message: a part of "unexpected" here, the rest where it was called.
 * However many calls are made, none is lost, and messages, collectives and replies do
 * not wait for them.
 *
 * Time.  A call that has no reply after "rpc_timeout" (0: none) ends with
 * NEXAR_ETIMEDOUT; its handler runs on, and what it replies is dropped.
 */

/* A call as its handler sees it; valid until the handler returns. */
typedef struct nexar_rpc nexar_rpc;

/*
 * A handler: |bytes| bytes of |data|, which is the runtime's and is freed when it
 * returns (never NULL, aligned as by malloc), and the |arg| of its registration.  It
 * runs beside other handlers and itself.  If it returns an error the caller gets
 * NEXAR_EREMOTE, with the error and this thread's nexar_last_error() in the sentence;
 * unless it has replied: then the error is only logged.  If it returns NEXAR_OK and has
 * not replied, the reply is empty.  It must not finalize the world.
 */
typedef nexar_err (*nexar_rpc_fn)(nexar_rpc *call, const void *data, size_t bytes, void *arg);

/* The caller's rank in the communicator of the registration; -1 for NULL. */
NEXAR_API int nexar_rpc_caller(const nexar_rpc *call);

/*
 * Sends the reply, at once; returns when |data| may be reused, which says nothing of
 * whether it was received.
 *
 * NEXAR_EINVAL
 *     The handler has replied already; NULL for more than 0 bytes.
 * NEXAR_EPEER, NEXAR_ECONNECT, NEXAR_EPROTO
 *     The caller has failed or left.
 */
NEXAR_API nexar_err nexar_rpc_reply(nexar_rpc *call, const void *data, size_t bytes);

/*
 * Makes |fn| with |arg| serve calls of |fn_id| on |comm| at this rank, in place of what
 * did before; NULL: nobody does.  Registrations are each rank's own: a call that comes
 * before the first ends with NEXAR_ENOHANDLER, so ranks register before they tell others
 * (by a barrier, say).  When it returns, no call of the function before runs any more
 * and its |arg| may be freed; but inside a handler it does not wait for that.
 *
 * NEXAR_EINVAL, NEXAR_ENOMEM
 */
NEXAR_API nexar_err nexar_rpc_register(nexar_comm *comm, uint16_t fn_id, nexar_rpc_fn fn,
                                       void *arg);

/*
 * Calls |fn_id| at |rank| with |bytes| bytes of |data| and waits for the reply.
 * |*reply| is malloc'd for the caller, who frees it; it is not NULL, even if
 * |*reply_bytes| is 0.  NULL for |reply|: what it says is dropped; |reply_bytes| may be
 * NULL too, then.
 *
 * NEXAR_EINVAL
 *     A rank that is not in |comm|, NULL for memory of more than 0 bytes; calls nested
 *     more than 64 deep.
 * NEXAR_ENOHANDLER
 *     |rank| has no such function.
 * NEXAR_EREMOTE
 *     The handler returned an error, which the sentence has.
 * NEXAR_ETIMEDOUT
 *     "rpc_timeout" has passed.  (A little later if much of |data| is on its way just
 *     then: it is borrowed until the call returns.)
 * NEXAR_EPEER, NEXAR_ECONNECT, NEXAR_EPROTO
 *     |rank| has failed or is leaving, cannot be reached, or sent what no nexar sends.
 * NEXAR_ENOMEM
 *     Out of memory, here or there.
 * NEXAR_ESYS
 *     |rank| could not start a thread for it, and has none that is free.
 */
NEXAR_API nexar_err nexar_rpc_call(nexar_comm *comm, int rank, uint16_t fn_id, const void *data,
                                   size_t bytes, void **reply, size_t *reply_bytes);

/* nexar_rpc_call with a time-out of its own, |timeout_ns| instead of "rpc_timeout"; 0: none. */
NEXAR_API nexar_err nexar_rpc_call_for(nexar_comm *comm, int rank, uint16_t fn_id, const void *data,
                                       size_t bytes, uint64_t timeout_ns, void **reply,
                                       size_t *reply_bytes);

/* The same without waiting: |data| is nexar's until the request has been waited for or
 * tested true, and |*reply| and |*reply_bytes| are set then.  nexar_cancel() ends it
 * with NEXAR_ECANCELED; the handler may run nevertheless. */
NEXAR_API nexar_err nexar_rpc_icall(nexar_comm *comm, int rank, uint16_t fn_id, const void *data,
                                    size_t bytes, void **reply, size_t *reply_bytes,
                                    nexar_request **req);

/* ---- failures ------------------------------------------------------------------
 * A rank has failed when its process has ended without nexar_finalize(), when its host
 * says that nothing listens at its address, or when it does not answer for
 * "heartbeat_timeout"; one that is busy in a computation answers.  All ranks of the world
 * are told, and for good: one that was only stopped finds itself held for dead when it
 * goes on, and all its calls end with an error that says so.
 *
 * Everything that needs a rank that has failed ends with NEXAR_EPEER, at once and on all
 * ranks: messages and remote calls to and from it, and every collective on a
 * communicator that it is in, also those begun later.  A receive from NEXAR_ANY_SOURCE
 * goes on while another rank of the communicator is alive.  Other messages go on.
 *
 * To go on together the ranks that are left call nexar_comm_revoke(), so that nobody
 * keeps waiting for somebody who has given up, and nexar_comm_shrink(); or they have it done,
 * by the setting "recovery" (below). */

/*
 * The ranks of |comm| that are known to have failed, ascending.  |*n| is the room in
 * |ranks| and becomes their number, also where that is more; NULL with room for 0.  Those
 * that have finalized are not among them.  Other ranks may know more, or less.
 *
 * A call that ends with NEXAR_EPEER because a rank has failed returns after that rank is known
 * here, to all threads.  (A rank that "recovery=automatic" has dropped is not in the rebuilt
 * |comm| any more: nexar_last_change().)
 *
 * NEXAR_EINVAL
 */
NEXAR_API nexar_err nexar_comm_failed(nexar_comm *comm, int ranks[], size_t *n);

/* Told of each |rank| of |comm| that has failed, with a sentence, on a thread of the
 * runtime; it may make any call but nexar_finalize() and free no communicator. */
typedef void (*nexar_failure_fn)(nexar_comm *comm, int rank, const char *why, void *arg);

/*
 * Makes |fn| with |arg| be called once for each rank of |comm| that has failed or will,
 * in place of what was before; NULL: nothing is.
 *
 * NEXAR_EINVAL, NEXAR_ENOMEM
 */
NEXAR_API nexar_err nexar_on_failure(nexar_comm *comm, nexar_failure_fn fn, void *arg);

/*
 * Ends every pending and later message, collective and remote call on |comm| with
 * NEXAR_EREVOKED, on all of its living ranks; one rank calls it, or several.  What was being
 * delivered may end as if nothing had been; handlers that run, run on, and their replies are
 * dropped.  nexar_comm_failed(), nexar_comm_agree(), nexar_comm_shrink() and
 * nexar_comm_free() can still be used.
 *
 * NEXAR_EINVAL, NEXAR_ENOMEM
 */
NEXAR_API nexar_err nexar_comm_revoke(nexar_comm *comm);

/*
 * All living ranks of |comm| call: |*flags| becomes the bitwise and of theirs, the same on
 * each, whoever fails meanwhile.  One that fails counts or does not, for all the same.  It has
 * no time-out: one that lives and does not call is waited for.
 *
 * NEXAR_EINVAL
 *     NULL; another thread is in this call or in nexar_comm_shrink() on |comm|.
 * NEXAR_EPEER
 *     The others hold this rank for dead; or, with "quorum=majority", no more than half of
 *     the ranks (half with rank 0) are alive.
 * NEXAR_ENOMEM
 */
NEXAR_API nexar_err nexar_comm_agree(nexar_comm *comm, uint64_t *flags);

/*
 * All living ranks of |comm| call: they agree on who has failed or left, whoever fails
 * meanwhile, and |*out| is a communicator of the others, in their order.  Messages of
 * |comm| never reach it.  |comm| is not freed.  A rank that fails just then may still be in
 * |*out|: a call on it says so, and it is shrunk in turn.  Errors as nexar_comm_agree(); of
 * the world NEXAR_EPEER, on all, if fewer are left than the highest "min_world" of any; and
 * NEXAR_ENOTSUP as of nexar_comm_split().  A rank that has no memory for what was agreed on is
 * out of the world, as its sentence says, and the others find it gone.
 */
NEXAR_API nexar_err nexar_comm_shrink(nexar_comm *comm, nexar_comm **out);

/* How a communicator has changed, as one of its ranks sees it; |new_rank| is -1 for one that
 * has left.  To nexar_comm_update() a rank that finalized without nexar_comm_leave() has
 * failed. */
typedef struct nexar_change {
    int old_rank, old_size;
    int new_rank, new_size;
    int joined, left, failed; /* how many */
} nexar_change;

/*
 * At a step boundary, by every rank: lets those who wait at the seed join, those who asked
 * to leave go, and the failed be dropped.  All get the same, whoever fails meanwhile.  If
 * anything has changed |*world| becomes the new communicator: those who stay in their
 * order, then those who joined; its device, stream, nexar_on_failure() and handlers of
 * remote calls are those of the old one, which is freed; what is pending on it ends with
 * NEXAR_EREVOKED, and no other thread may be in a call on it.  Other communicators stay.
 * |change|, which may be NULL, says what has changed.
 *
 * Without a change it costs one small collective.  A rank that joins returns from
 * nexar_init() inside this call of the others.  A rank that asked to leave gets |*world|
 * NULL: it has left, as nexar_finalize() does it.
 *
 * When a collective has ended with NEXAR_EPEER or NEXAR_EREVOKED, call it: that makes the
 * world whole again.  A rank for which nothing had changed, while others were hit by a
 * failure, is told so by its next collective.
 *
 * NEXAR_EINVAL
 *     NULL; not the world's own communicator.
 * NEXAR_EPEER
 *     The others hold this rank for dead; no quorum (nexar_comm_agree()); fewer than
 *     "min_world" would be left.  |*world| is as it was; in the last case it may be called
 *     again, when more wait to join.  With "recovery=automatic" also: a rank has failed, and
 *     |*world| was rebuilt, as by any collective; call it again.  ("retry=on" does that.)
 * NEXAR_EMISMATCH
 *     Ranks have made different calls.
 * NEXAR_ETIMEDOUT
 *     "collective_timeout", which is off by default, has passed before all ranks had called
 *     it.  Without it, and in any case once a rank has failed or the world is revoked, a rank
 *     that lives and does not call is waited for, however long.
 * NEXAR_ENOMEM
 *     This rank is out of the world: the others find that it has failed.
 *     nexar_finalize() is left.
 */
NEXAR_API nexar_err nexar_comm_update(nexar_comm **world, nexar_change *change);

/* This rank leaves at the next nexar_comm_update().  NEXAR_EINVAL */
NEXAR_API nexar_err nexar_comm_leave(nexar_comm *world);

/*
 * The setting "recovery" says what follows by itself when a rank has failed.
 *
 *   manual     nothing: errors are all there is (the default).
 *   abort      the process ends with code 76 and a sentence on stderr, in the middle of
 *              whatever it does, as soon as it knows that a rank of the world has failed.
 *              Nothing is flushed.  (A rank that has finalized has not failed.)
 *   automatic  a collective that ends with NEXAR_EPEER, blocking or with a request, makes
 *              its communicator whole again: when it returns, or when its request is waited
 *              for or tested true, |comm| is a communicator of those who are left, in their
 *              order.  nexar_rank() and nexar_size() change there and nowhere else.
 *
 * With automatic the ranks agree on who is left as soon as one knows of a failure, whatever
 * their applications do meanwhile: no rank waits for a call of another.  Until a rank has
 * been told, by the error of a collective, its |comm| is the old one, and messages and remote
 * calls on it end with NEXAR_EREVOKED: also those that were pending when the failure became
 * known.  All collectives that were pending then, or are begun before, end with NEXAR_EPEER;
 * the next one runs among those who are left.  If a rank was in none, its next one is the one
 * that ends so.  Since a collective may have ended well on some ranks and not on others, a
 * program agrees after the error on where to go on (by an allreduce with NEXAR_MIN, say);
 * with "retry=on" it need not.
 *
 * What |comm| has, its device, its stream, its nexar_on_failure() function and its remote
 * functions, it keeps.  (A remote call may come to a rank that does not know yet, and end with
 * NEXAR_ENOHANDLER: not after a collective.)  Every communicator is rebuilt by itself, the
 * world and others alike; those that |comm| was made from, or that were made from it, are not
 * changed by it.
 *
 * If no agreement comes about ("quorum=majority", or the others hold this rank for dead), or
 * fewer than "min_world" ranks of the world are left (set the same on all), collectives on
 * |comm| end with NEXAR_EPEER, the sentence says why, and it stays as it is.  With too few all
 * may call nexar_comm_update(), which makes the world whole when enough wait to join.
 * nexar_comm_agree() and nexar_comm_shrink() are for manual: with automatic a rank whose
 * communicator was rebuilt does not meet one that is in such a call on the old one.
 *
 * With "retry=on" (and automatic) a collective ends when all ranks have its result, and one
 * that a failure ends is run again among those who are left, from the inputs as they were: it
 * returns NEXAR_OK, or its request completes so, on all ranks, with the contributions of the
 * same ranks on all, and nexar_last_change() has the change.
 *
 * Requests of collectives on one communicator are run one after the other, in the order of
 * their calls, by a thread of nexar's, whatever the application does meanwhile; a blocking
 * collective, nexar_comm_update(), _agree() and _shrink() come behind those that were called
 * before.  All ranks call them in the same order, as always.  nexar_comm_free() takes effect
 * when they have ended, nexar_finalize() waits for them, nexar_comm_revoke() ends them.
 *
 * A communicator may be rebuilt for a request at any time.  The application sees it when it
 * has waited for the request (or tested it true): then nexar_rank(), nexar_size() and
 * nexar_last_change() are as they were at the end of that request, whatever was begun later;
 * or when a blocking collective has returned.  Until then they are as they were, messages and
 * remote calls on |comm| end with NEXAR_EREVOKED, and collectives are called by the ranks that
 * the application knows.
 *
 * Ranks in its arguments are those of the communicator as it was when it was called, and so
 * is the layout of its buffers, counts and displacements: in gather(v), allgather(v) and
 * alltoall(v) the blocks of those who are left stand where they would have stood, and blocks
 * from a rank that failed are as they were before the call; what was for it, in scatter(v)
 * and alltoall(v), is dropped; in reduce_scatter(v) each rank gets the block that would have
 * been its own, reduced over those who are left.  A compressed allreduce begins again with
 * |buf| and |residual| as they were; both are so after an error, too, by whichever method.
 *
 * It costs a copy, in host memory, of inputs that are in place, of |buf| and |residual|, and
 * of what stood where blocks are received, and the time of about a barrier; collectives on one
 * communicator, of threads or with requests, take turns.
 *
 * What cannot be run again ends with NEXAR_EPEER, on all ranks, after |comm| was rebuilt:
 * those whose root has failed, and allreduce_rs_ag, whose function may have been called on
 * some rank.  (Requests that were not begun when |comm| was rebuilt are not run again but for
 * the first time: allreduce_rs_ag too.)  If a rank has no memory for a request, or its device
 * fails, before it is begun, that ends with NEXAR_ENOMEM or NEXAR_EDEVICE on all ranks.
 * Messages and remote calls are not repeated.
 */

/*
 * The last change that recovery made to |comm|, the world or another communicator, by
 * itself.  If it made none old and new are what |comm| is, and nobody has failed.  |left|
 * counts those who had given the communicator back.
 *
 * NEXAR_EINVAL
 */
NEXAR_API nexar_err nexar_last_change(nexar_comm *comm, nexar_change *change);

/* ---- the seed ----------------------------------------------------------------
 * What `nexar seed` runs, for programs that embed it: it admits those who hold
 * the token, signs their certificates, and hands out ranks.  No data passes
 * through it. */

typedef struct nexar_seed nexar_seed;

/*
 * Starts a seed for "world_size" ranks (which must be set), on "listen",
 * "port_range", "interfaces", "advertise", in a thread of its own.  The caller
 * gives it back with nexar_seed_stop(); members run on without it.
 *
 * NEXAR_EINVAL, NEXAR_ESYS (an address that is in use), NEXAR_ENOMEM
 */
NEXAR_API nexar_err nexar_seed_start(const nexar_config *cfg, nexar_seed **seed);

/* What others join with: addresses, token and pinned key, as one string for the
 * setting "join".  It is a secret.  NEXAR_ETRUNC: |size| is too small (1024 is
 * always enough). */
NEXAR_API nexar_err nexar_seed_join_string(const nexar_seed *seed, char *buf, size_t size);
NEXAR_API void nexar_seed_stop(nexar_seed *seed);

#ifdef __cplusplus
}
#endif
#endif /* NEXAR_H */
