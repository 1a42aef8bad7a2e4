/*
 * binding.h - shared by the files of the extension `_nexar`.
 *
 * Every call that starts an operation makes an nxp_op: the request and everything that must live
 * as long as the request.  A blocking call has its nxp_op on the stack and waits in slices, so
 * that it handles signals.  An interrupted call moves its nxp_op to the heap, where the world
 * owns it.
 *
 * All functions need the GIL, unless they say otherwise.
 */
#ifndef NXP_BINDING_H
#define NXP_BINDING_H

#include "stable.h"

#include <stdbool.h>
#include <stdint.h>

#include <nexar.h>

#include "core/p2p/p2p_request.h"

enum { NXP_JOIN_STRING = 1024 }; /* sufficient for every join string */
#define NXP_SLICE_NS 40000000u   /* the slice of a wait: Ctrl-C ends a call within 100 ms */

/* ---- worlds ------------------------------------------------------------------- */

typedef struct nxp_op nxp_op;

/* A world; its communicators and operations each hold one reference. */
typedef struct nxp_world {
    nexar_comm *root; /* NULL: closed */
    unsigned refs;
    unsigned forks; /* nxp_forks when it was made */
    nxp_op *ops;    /* all operations that have not completed */
    unsigned started;
    uint64_t begun; /* operations, in all */
    unsigned jobs;  /* calls without a request that continue although their callers are gone */
} nxp_world;

extern unsigned nxp_forks; /* incremented in a forked child */

typedef struct nxp_comm {
    PyObject_HEAD nexar_comm *comm; /* NULL: closed */
    nxp_world *world;
} nxp_comm;

nxp_world *nxp_world_create(nexar_comm *root); /* NULL: MemoryError is set */
void nxp_world_release(nxp_world *world);
/* Ends every operation of |world|, which was finalized, with NEXAR_ECANCELED. */
void nxp_world_closed(nxp_world *world);

/* Completes every operation of |world| that has ended, and makes its callbacks. */
void nxp_world_poll(nxp_world *world);

/* False, with InvalidError set: closed, or in a forked child. */
bool nxp_comm_ready(const nxp_comm *self, const char *call);

/* A new Python object of the class registered as "Comm" for |comm|, which it takes over. */
PyObject *nxp_comm_wrap(nexar_comm *comm, nxp_world *world);

/* ---- messages ---------------------------------------------------------------------- */

typedef enum nxp_gives {
    NXP_NOTHING,
    NXP_OBJECT,
    NXP_STATUS,
    NXP_REPLY,
    NXP_MESSAGE,
    NXP_BYTES
} nxp_gives;

/* Parses the arguments of |call| and starts it: |*err|.  False: an exception is set. */
typedef bool (*nxp_set_up)(nxp_op *op, const char *call, PyObject *const *args, Py_ssize_t n,
                           PyObject *kwnames, nexar_err *err);
/* A call for a message: |end| is nxp_op_block or nxp_op_request. */
PyObject *nxp_message_call(PyObject *obj, const char *call, nxp_set_up set_up, nxp_gives gives,
                           PyObject *(*end)(nxp_op *, nexar_err), PyObject *const *args,
                           Py_ssize_t n, PyObject *kwnames);
/* An int argument that is a rank of |self|, or a larger range from |low| on. */
bool nxp_rank_arg(const nxp_comm *self, const char *call, const char *name, PyObject *obj, long low,
                  int *out);

/* ---- errors ---------------------------------------------------------------------- */

enum { NXP_SENTENCE = 1024 }; /* room for the text of nexar_last_error() */

/* Raise an exception; always return NULL.  |comm| may be NULL; PeerError takes its list from it. */
PyObject *nxp_raise(nexar_err err, const char *sentence, nexar_comm *comm);
PyObject *nxp_raise_last(nexar_err err, nexar_comm *comm); /* nexar_last_error() */
PyObject *nxp_invalid(const char *format, ...);            /* InvalidError */
PyObject *nxp_bad_type(const char *format, ...); /* InvalidError that is also a TypeError */

/* Objects of the Python layer that C calls: "Comm", "Request", "Status", "errors", ... */
PyObject *nxp_hook(const char *name); /* borrowed; NULL with an exception */
/* Two of these objects, which most calls use. */
extern PyObject *nxp_status_class, *nxp_request_class;

/* ---- arguments -------------------------------------------------------------------- */

enum { NXP_PARAMS = 6 };

/* Parses positional and keyword arguments into out[], by |names| (NULL at the end); entries of
 * missing arguments are unchanged.  The first |required| must be given.  False: TypeError is
 * set. */
bool nxp_parse(const char *call, const char *const names[], int required, PyObject *const *args,
               Py_ssize_t n, PyObject *kwnames, PyObject *out[]);
bool nxp_int(const char *call, const char *name, PyObject *obj, long low, long high, int *out);
/* A list of the items of |obj|; NULL: an exception that names the argument. */
PyObject *nxp_list(const char *call, const char *name, PyObject *obj, const char *accepted);
bool nxp_tag(const char *call, const char *name, PyObject *obj, uint64_t *out);
bool nxp_op_arg(const char *call, PyObject *obj, nexar_op *out);
/* Converts seconds to nanoseconds; None: UINT64_MAX. */
bool nxp_timeout(const char *call, PyObject *obj, uint64_t *out_ns);

/* ---- memory ------------------------------------------------------------------------- */

/* The memory of an argument. */
typedef struct nxp_memory {
    void *ptr;
    size_t bytes, items;
    nexar_dtype dtype;
    bool is_bool; /* bytes that are 0 or 1 */
    Py_buffer view;
    bool has_view;
    PyObject *keep; /* the object that holds the memory if there is no view */
} nxp_memory;

enum { NXP_READ, NXP_WRITE, NXP_ANY_ORDER /* also if contiguous in Fortran order */ };

/* False: an exception that names |call| and |name| is set. */
bool nxp_memory_get(nxp_memory *m, const char *call, const char *name, PyObject *obj, int access);
void nxp_memory_release(nxp_memory *m);
/* (pointer, bytes, itemsize, code, readonly, is_bool) of an object with __dlpack__ and its capsule.
 */
PyObject *nxp_dlpack_view(PyObject *module, PyObject *capsule);

/* Allocates memory: a View of |bytes| bytes at |*at|; NULL: MemoryError is set. */
PyObject *nxp_memory_new(size_t bytes, void **at);
/* The memory of a View; also without the GIL. */
void *nxp_block_take(size_t bytes, void *unused);
void nxp_block_give(void *at);
/* A View of |at|, memory of nxp_block_take(), whose ownership it takes. */
PyObject *nxp_memory_wrap(void *at, size_t bytes);
PyObject *nxp_view(PyObject *module, PyObject *args);
/* readable(address, bytes) -> whether this process can read that memory. */
PyObject *nxp_readable(PyObject *module, PyObject *args);

/* ---- operations ----------------------------------------------------------------------- */

struct nxp_op {
    nxp_op *next, **link; /* in world->ops */
    nxp_world *world;
    nexar_request *req;
    const char *blocking; /* the name of a blocking call; NULL: a call with a request */
    PyObject *comm;       /* strong: a communicator is not freed under its operations */
    nxp_gives gives;
    PyObject *result; /* for NXP_OBJECT */
    PyObject *notify; /* called once, on completion */
    PyObject *keep;
    nxp_memory mem[2];
    void *blocks; /* arrays that are freed with the operation */
    nexar_status status;
    void *reply;
    size_t reply_bytes;
    nexar_message *message; /* for NXP_MESSAGE */
    nx_p2p_room room;       /* for NXP_BYTES */
    nexar_err err;
    char *sentence; /* the message of err */
    bool done, waiting, cancelable, receives, claimed, left;
};

void nxp_op_init(nxp_op *op, nxp_comm *comm, nxp_gives gives);
void nxp_op_fini(nxp_op *op);
nxp_op *nxp_op_create(nxp_comm *comm, nxp_gives gives); /* NULL: MemoryError is set */

/* |err| is the result of the i-call.  Waits and returns the result; |op| is the caller's memory,
 * its contents are released. */
PyObject *nxp_op_block(nxp_op *op, nexar_err err);
/* The same for an operation of nxp_op_create(). */
PyObject *nxp_op_block_heap(nxp_op *op, nexar_err err, uint64_t timeout_ns);
/* A Request, which takes the contents of |op|. */
PyObject *nxp_op_request(nxp_op *op, nexar_err err);
PyObject *nxp_op_request_heap(nxp_op *op, nexar_err err);

/* Parts of the above that requests and worlds use. */
void nxp_op_enlist(nxp_op *op); /* in world->ops, until it has completed */
void nxp_op_completed(nxp_op *op, nexar_err err, const char *sentence);
void nxp_op_free(nxp_op *op);
/* Polls once whether |op| has completed. */
void nxp_op_look(nxp_op *op);
/* Waits until |op| has completed or |timeout_ns| has passed.  False: an exception is set. */
bool nxp_op_await(nxp_op *op, uint64_t timeout_ns);
/* The result of |op|, which has completed, or its exception.  May be called again. */
PyObject *nxp_op_outcome(nxp_op *op);
/* |op| could not be started: raises |err| and releases the contents of |op|. */
PyObject *nxp_op_failed(nxp_op *op, nexar_err err);
/* No Request refers to |op|, which is on the heap. */
void nxp_op_abandon(nxp_op *op);

typedef struct nxp_request {
    PyObject_HEAD nxp_op *op;
} nxp_request;

/* False, with InvalidError set: the operation belongs to a parent process, or another thread waits
 * for it. */
bool nxp_request_check(const nxp_request *self, const char *call);

/* A message that a matched probe has taken: the object takes ownership of |msg|. */
PyObject *nxp_message_wrap(nxp_comm *comm, nexar_message *msg, const nexar_status *status);
/* Drops a message that was never received. */
void nxp_message_drop(nexar_message *msg);

PyObject *nxp_wait_any(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *kwnames);

/* ---- calls without a request -------------------------------------------------------------- */

/* Runs job->run on a thread of its own, while this one waits and handles signals. */
typedef struct nxp_job {
    nexar_err (*run)(struct nxp_job *job); /* without the GIL */
    void (*drop)(struct nxp_job *job);     /* without the GIL: the caller was interrupted */
    nxp_world *world;                      /* NULL: none yet, or it is being closed */
    nexar_comm *comm;
    nexar_comm *out;
    nexar_config *cfg;
    nexar_change change;
    uint64_t flags, timeout_ns;
    int color, key, rank, fn_id;
    nexar_state *tensors; /* of PyMem, as are the ranks */
    nexar_sync_report report;
    int *ranks;
    size_t nranks;
    uint64_t tag;
    const void *data;
    size_t bytes;
    void *reply;
    size_t reply_bytes;
    PyObject *keep; /* released when the job has ended */
    /* the job's own */
    struct nxp_job *next;
    int state;
    nexar_err err;
    char *sentence;
} nxp_job;

/* Ends the jobs that interrupted callers have left on |world|, so that it can be finalized: revokes
 * the communicators of their collectives.  False: a job still runs. */
bool nxp_world_settle(nxp_world *world);
bool nxp_jobs_settle(nxp_world *world);

/* NULL: MemoryError is set. */
nxp_job *nxp_job_create(nexar_err (*run)(nxp_job *job), nexar_comm *comm);
/* False: interrupted, with an exception set; |job| is freed.  True: job->err and its message are
 * set. */
bool nxp_job_run(nxp_job *job);
void nxp_job_free(nxp_job *job);
/* The exception of job->err; always NULL, frees the job. */
PyObject *nxp_job_raise(nxp_job *job, nexar_comm *comm);

/* ---- callbacks ------------------------------------------------------------------------------- */

/* Takes the GIL in a thread of the runtime; false: the interpreter is finalizing. */
bool nxp_enter_python(PyGILState_STATE *state);
void nxp_leave_python(PyGILState_STATE state);
/* From now on no callback enters Python. */
PyObject *nxp_stop_callbacks(PyObject *module, PyObject *unused);
/* Converts the pending exception to an error message of nexar, and clears it. */
nexar_err nxp_callback_failed(const char *what);

/* ---- types ---------------------------------------------------------------------------------- */

typedef PyObject *(*nxp_fast)(PyObject *self, PyObject *const *args, Py_ssize_t n,
                              PyObject *kwnames);
#define NXP_FAST(NAME, FUNCTION)                                                           \
    {                                                                                      \
        NAME, (PyCFunction)(void (*)(void))(FUNCTION), METH_FASTCALL | METH_KEYWORDS, NULL \
    }

extern PyType_Spec nxp_comm_spec, nxp_request_spec, nxp_seed_spec, nxp_message_spec, nxp_view_spec;
extern PyTypeObject *nxp_request_type; /* the base class, for checks */
extern PyTypeObject *nxp_comm_type, *nxp_message_type, *nxp_view_type;

/* kernels.c */
PyObject *nxp_op_of(PyObject *module, PyObject *args);
PyObject *nxp_reduce_local(PyObject *module, PyObject *args);
/* process.c */
PyObject *nxp_op_create_native(PyObject *module, PyObject *args);
/* errors.c; module.c */
PyObject *nxp_register(PyObject *module, PyObject *dict);
/* The tables of methods, which nxp_comm_methods() of comm.c joins into one type. */
void nxp_comm_methods(void);
extern PyMethodDef nxp_p2p_methods[], nxp_object_methods[], nxp_coll_methods[], nxp_life_methods[],
    nxp_rpc_methods[], nxp_process_methods[], nxp_group_methods[], nxp_change_methods[],
    nxp_state_methods[];
/* change.c */
PyObject *nxp_change_of(const nexar_change *c);
/* life.c */
/* A config of |settings|, a dict of str to str; NULL: an exception is set. */
nexar_config *nxp_config_of(PyObject *settings);
/* Runs |job|, which may create a communicator. */
PyObject *nxp_make_comm(nxp_comm *self, nxp_job *job);
PyObject *nxp_init(PyObject *module, PyObject *settings);
PyObject *nxp_setting(PyObject *module, PyObject *unused);
PyObject *nxp_durations(PyObject *module, PyObject *unused);

#endif
