/*
 * pmix.c - PMIx, through libpmix.so.2, which is loaded on demand.
 *
 * The few types are those of the PMIx standard, whose binary interface is the same in versions 3
 * to 5; nexar is built without its headers.  PMIx_Init counts its callers, so a program may use
 * MPI over the same library.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "core/launcher/channel.h"

/* ---- the standard's types ------------------------------------------------------------ */

enum {
    PMIX_SUCCESS = 0,
    PMIX_OPERATION_SUCCEEDED = -157, /* done at once; the callback is not called */
    PMIX_MAX_NSLEN = 255,
    PMIX_MAX_KEYLEN = 511,
};
enum { PMIX_BOOL = 1, PMIX_STRING = 3, PMIX_UINT32 = 14 }; /* pmix_data_type_t */
enum { PMIX_GLOBAL = 3 };                                  /* pmix_scope_t */
#define PMIX_RANK_WILDCARD (UINT32_MAX - 1)

typedef struct pmix_proc {
    char nspace[PMIX_MAX_NSLEN + 1];
    uint32_t rank;
} pmix_proc;

typedef struct pmix_value {
    uint16_t type;
    union {
        bool flag;
        char *string;
        uint32_t uint32;
        struct {
            char *name, *value;
            char separator;
        } widest; /* pmix_envar_t: no member is larger */
    } data;
} pmix_value;

typedef struct pmix_info {
    char key[PMIX_MAX_KEYLEN + 1];
    uint32_t flags;
    pmix_value value;
} pmix_info;

typedef void pmix_done(int status, void *ctx);

/* ---- the library --------------------------------------------------------------------- */

static struct {
    void *library;
    int (*init)(pmix_proc *self, pmix_info info[], size_t ninfo);
    int (*finalize)(const pmix_info info[], size_t ninfo);
    int (*put)(uint8_t scope, const char key[], pmix_value *value);
    int (*commit)(void);
    int (*fence)(const pmix_proc procs[], size_t nprocs, const pmix_info info[], size_t ninfo,
                 pmix_done *done, void *ctx);
    int (*get)(const pmix_proc *proc, const char key[], const pmix_info info[], size_t ninfo,
               pmix_value **value);
    const char *(*error_text)(int status);
    int (*initialized)(void);
    void (*value_free)(pmix_value *value, size_t n); /* from version 5 on; may be NULL */
    pmix_proc self;
    bool used;
} pmix;

static nexar_err load(void)
{
    static const struct {
        const char *name;
        void *to;
    } functions[] = {
        {"PMIx_Init", &pmix.init},
        {"PMIx_Finalize", &pmix.finalize},
        {"PMIx_Put", &pmix.put},
        {"PMIx_Commit", &pmix.commit},
        {"PMIx_Fence_nb", &pmix.fence},
        {"PMIx_Get", &pmix.get},
        {"PMIx_Error_string", &pmix.error_text},
        {"PMIx_Initialized", &pmix.initialized},
    };
    void *found;

    if (pmix.library != NULL) {
        return NEXAR_OK;
    }
    /* Never unloaded: the library has threads.  Global: its own plugins look up its symbols. */
    void *library = dlopen("libpmix.so.2", RTLD_NOW | RTLD_GLOBAL | RTLD_NODELETE);
    if (library == NULL) {
        return nx_fail(NEXAR_ENOTSUP, "cannot load the library of PMIx (Debian: libpmix2): %s",
                       dlerror()); // NOLINT(concurrency-mt-unsafe)
    }
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
        found = dlsym(library, functions[i].name);
        if (found == NULL) {
            return nx_fail(NEXAR_ENOTSUP, "libpmix.so.2 has no function %s", functions[i].name);
        }
        memcpy(functions[i].to, &found, sizeof(found)); /* ISO C forbids the cast */
    }
    found = dlsym(library, "PMIx_Value_free");
    memcpy(&pmix.value_free, &found, sizeof(found));
    pmix.library = library;
    return NEXAR_OK;
}

static nexar_err check(int status, const char *call)
{
    return (status == PMIX_SUCCESS)
               ? NEXAR_OK
               : nx_fail(NEXAR_EPROTO, "%s: %s (%d)", call, pmix.error_text(status), status);
}

/* Before version 5 no function frees it; each start leaks about 50 bytes. */
static void give_back(pmix_value *value)
{
    if (pmix.value_free != NULL) {
        pmix.value_free(value, 1);
    }
}

/* ---- the channel --------------------------------------------------------------------- */

static nexar_err job_size(uint32_t *size)
{
    pmix_proc job = pmix.self;
    pmix_value *value = NULL;
    nexar_err err;

    job.rank = PMIX_RANK_WILDCARD;
    err = check(pmix.get(&job, "pmix.job.size", NULL, 0, &value), "PMIx_Get of the job's size");
    if (err != NEXAR_OK) {
        return err;
    }
    if ((value->type == PMIX_UINT32) && (value->data.uint32 > 0)) {
        *size = value->data.uint32;
    } else {
        err = nx_fail(NEXAR_EPROTO, "PMIx: the job's size has the type %u", (unsigned)value->type);
    }
    give_back(value);
    return err;
}

static nexar_err pmix_open(uint64_t deadline_ns, uint32_t *size)
{
    nexar_err err = load();

    (void)deadline_ns; /* the library applies its own time-out */
    /* After the last PMIx_Finalize of a process, its server does not answer another PMIx_Init. */
    if ((err == NEXAR_OK) && pmix.used && (pmix.initialized() == 0)) {
        return nx_fail(NEXAR_ENOTSUP, NX_CHANNEL_CLOSED, "PMIx");
    }
    pmix.used = true;
    if (err == NEXAR_OK) {
        err = check(pmix.init(&pmix.self, NULL, 0), "PMIx_Init");
    }
    if (err != NEXAR_OK) {
        return err;
    }
    err = job_size(size);
    if (err != NEXAR_OK) {
        (void)pmix.finalize(NULL, 0);
    }
    return err;
}

static nexar_err pmix_put(const char *key, const char *value, uint64_t deadline_ns)
{
    pmix_value v = {.type = PMIX_STRING};
    nexar_err err;

    (void)deadline_ns;
    v.data.string = nx_strdup(value); /* read only, but not const */
    if (v.data.string == NULL) {
        return nx_fail_nomem("a value for PMIx");
    }
    err = check(pmix.put(PMIX_GLOBAL, key, &v), "PMIx_Put");
    explicit_bzero(v.data.string, strlen(value));
    nx_free(v.data.string);
    return (err == NEXAR_OK) ? check(pmix.commit(), "PMIx_Commit") : err;
}

/* After a time-out the waiting thread may release it first: the last of the two frees it. */
typedef struct fence {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
    int status;
    atomic_int users;
} fence;

static void fence_release(fence *f)
{
    if (atomic_fetch_sub(&f->users, 1) == 1) {
        (void)pthread_cond_destroy(&f->changed);
        (void)pthread_mutex_destroy(&f->lock);
        nx_free(f);
    }
}

static void on_fence(int status, void *ctx)
{
    fence *f = ctx;

    (void)pthread_mutex_lock(&f->lock);
    f->done = true;
    f->status = status;
    (void)pthread_cond_signal(&f->changed);
    (void)pthread_mutex_unlock(&f->lock);
    fence_release(f);
}

static fence *fence_create(void)
{
    fence *f = nx_zalloc(sizeof(*f));
    pthread_condattr_t attributes;

    if (f == NULL) {
        return NULL;
    }
    atomic_init(&f->users, 2);
    (void)pthread_condattr_init(&attributes);
    (void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_cond_init(&f->changed, &attributes);
    (void)pthread_condattr_destroy(&attributes);
    return f;
}

static nexar_err fence_wait(fence *f, uint64_t deadline_ns)
{
    const struct timespec until = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                                   .tv_nsec = (long)(deadline_ns % 1000000000)};
    bool done;
    int status;

    (void)pthread_mutex_lock(&f->lock);
    while (!f->done && (pthread_cond_timedwait(&f->changed, &f->lock, &until) != ETIMEDOUT)) {
    }
    done = f->done;
    status = f->status;
    (void)pthread_mutex_unlock(&f->lock);
    return done ? check(status, "PMIx_Fence") : nx_fail(NEXAR_ETIMEDOUT, "PMIx_Fence");
}

static nexar_err pmix_fence(uint64_t deadline_ns)
{
    pmix_info collect = {.key = "pmix.collect", .value = {.type = PMIX_BOOL, .data.flag = true}};
    fence *f = fence_create();
    nexar_err err;
    int status;

    if (f == NULL) {
        return nx_fail_nomem("a fence of PMIx");
    }
    status = pmix.fence(NULL, 0, &collect, 1, on_fence, f);
    if (status == PMIX_SUCCESS) {
        err = fence_wait(f, deadline_ns);
    } else {
        fence_release(f);
        err = (status == PMIX_OPERATION_SUCCEEDED) ? NEXAR_OK : check(status, "PMIx_Fence");
    }
    fence_release(f);
    return err;
}

static nexar_err pmix_get(const char *key, char value[NX_CHANNEL_VALUE_MAX], uint64_t deadline_ns)
{
    pmix_proc from = pmix.self;
    pmix_value *got = NULL;
    nexar_err err;

    (void)deadline_ns; /* available locally after the fence */
    from.rank = 0;
    err = check(pmix.get(&from, key, NULL, 0, &got), "PMIx_Get");
    if (err != NEXAR_OK) {
        return err;
    }
    if ((got->type == PMIX_STRING) && (got->data.string != NULL) &&
        (strlen(got->data.string) < NX_CHANNEL_VALUE_MAX)) {
        memcpy(value, got->data.string, strlen(got->data.string) + 1);
        explicit_bzero(got->data.string, strlen(got->data.string));
    } else {
        err = nx_fail(NEXAR_EPROTO, "PMIx: the value of %s is no text, or too long", key);
    }
    give_back(got);
    return err;
}

static void pmix_close(void)
{
    (void)pmix.finalize(NULL, 0);
}

const nx_channel nx_channel_pmix = {.name = "PMIx",
                                    .open = pmix_open,
                                    .put = pmix_put,
                                    .fence = pmix_fence,
                                    .get = pmix_get,
                                    .close = pmix_close};
