/* sim_device.c - the simulated device: work waits on streams until synchronize. */
#include "sim_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/containers/list.h"
#include "reduce/reduce.h"
#include "sim_memory.h"

enum { POISON = 0xdb };

typedef enum work_kind { TO_HOST, TO_DEVICE, REDUCE } work_kind;

/* One copy or reduction on a stream. */
typedef struct work {
    nx_list link;
    work_kind kind;
    void *stream;
    char *real; /* behind the device address */
    char *host;
    size_t bytes;
    nexar_dtype dtype;
    nexar_op op;
    bool owned;   /* |host| is freed with it */
    pthread_t by; /* the thread that enqueued it */
} work;

struct nxt_sim_device {
    nexar_device table;
    nxt_sim_options options;
    nxt_sim_memory memory;
    pthread_mutex_t lock;
    nx_list works; /* of all streams, in order */
    nxt_sim_counts counts;
    int64_t fail_after;
    nexar_err fail_code;
    bool failed;
};

/* ---- calls -------------------------------------------------------------------- */

/* Begins a function of the adapter. Returns an injected error, or NEXAR_OK. */
static nexar_err enter(nxt_sim_device *d)
{
    nexar_err err = NEXAR_OK;

    (void)pthread_mutex_lock(&d->lock);
    d->counts.calls++;
    if (d->fail_after == 0) {
        err = d->fail_code;
        d->failed = true;
    }
    d->fail_after -= (d->fail_after >= 0);
    return err;
}

static nexar_err leave(nxt_sim_device *d, nexar_err err)
{
    (void)pthread_mutex_unlock(&d->lock);
    return err;
}

/* With the lock held. A pointer of the wrong kind is counted and rejected. */
static nexar_err push(nxt_sim_device *d, const work *what, const void *dev)
{
    work *w = malloc(sizeof(*w));
    char *real = nxt_sim_memory_real(&d->memory, dev, what->bytes);

    if ((w == NULL) || (real == NULL) || (what->bytes == 0) ||
        nxt_sim_memory_touches(&d->memory, what->host, what->bytes)) {
        d->counts.wrong++;
        free(w);
        return NEXAR_EINVAL;
    }
    *w = *what;
    w->real = real;
    w->by = pthread_self();
    if (w->kind == TO_HOST) {
        memset(w->host, POISON, w->bytes);
    }
    nx_list_push_back(&d->works, &w->link);
    return NEXAR_OK;
}

/* ---- the functions ------------------------------------------------------------- */

static nexar_err to_host(void *ctx, void *host, const void *dev, size_t bytes, void *stream)
{
    nxt_sim_device *d = ctx;
    const work w = {.kind = TO_HOST, .stream = stream, .host = host, .bytes = bytes};
    nexar_err err = enter(d);

    if (err == NEXAR_OK) {
        err = push(d, &w, dev);
    }
    return leave(d, err);
}

static nexar_err to_device(void *ctx, void *dev, const void *host, size_t bytes, void *stream)
{
    nxt_sim_device *d = ctx;
    const work w = {.kind = TO_DEVICE, .stream = stream, .host = (char *)host, .bytes = bytes};
    nexar_err err = enter(d);

    if (err == NEXAR_OK) {
        err = push(d, &w, dev);
    }
    return leave(d, err);
}

static nexar_err reduce(void *ctx, void *dev, const void *host, size_t count, nexar_dtype dtype,
                        nexar_op op, void *stream)
{
    nxt_sim_device *d = ctx;
    const work w = {.kind = REDUCE,
                    .stream = stream,
                    .host = (char *)host,
                    .bytes = count * nexar_dtype_size(dtype),
                    .dtype = dtype,
                    .op = op};
    nexar_err err = enter(d);

    if (op == NEXAR_AVG) {
        d->counts.wrong++;
        err = NEXAR_EINVAL;
    }
    if ((err == NEXAR_OK) && d->options.only_f32 && (dtype != NEXAR_F32)) {
        err = NEXAR_ENOTSUP;
    }
    if (err == NEXAR_OK) {
        err = push(d, &w, dev);
    }
    return leave(d, err);
}

/* Enqueues copies of the regions to or from |host|, one by one. */
// NOLINTNEXTLINE(readability-non-const-parameter): the work writes to it later
static nexar_err each(nxt_sim_device *d, work_kind kind, char *host, const nexar_iov *regions,
                      size_t n, void *stream)
{
    nexar_err err = enter(d);

    for (size_t i = 0; (err == NEXAR_OK) && (i < n); i++) {
        const work w = {.kind = kind, .stream = stream, .host = host, .bytes = regions[i].bytes};

        if (regions[i].bytes != 0) {
            err = push(d, &w, regions[i].ptr);
        }
        host += regions[i].bytes;
    }
    return leave(d, err);
}

static nexar_err gather(void *ctx, void *host, const nexar_iov *regions, size_t n, void *stream)
{
    return each(ctx, TO_HOST, host, regions, n, stream);
}

static nexar_err scatter(void *ctx, const nexar_iov *regions, size_t n, const void *host,
                         void *stream)
{
    return each(ctx, TO_DEVICE, (char *)host, regions, n, stream);
}

static void *alloc_host(void *ctx, size_t bytes)
{
    nxt_sim_device *d = ctx;
    void *host = (enter(d) == NEXAR_OK) ? malloc(bytes) : NULL;

    d->counts.host_allocs += (host != NULL);
    d->counts.host_refusals += (host == NULL);
    (void)leave(d, NEXAR_OK);
    return host;
}

static void free_host(void *ctx, void *host)
{
    nxt_sim_device *d = ctx;

    (void)pthread_mutex_lock(&d->lock);
    d->counts.host_frees++;
    (void)pthread_mutex_unlock(&d->lock);
    free(host);
}

/* ---- execution ------------------------------------------------------------------- */

/* Removes and returns the oldest work of |stream|; |mine|: of this thread. NULL: there is none. */
static work *next_of(nxt_sim_device *d, const void *stream, bool mine)
{
    nx_list_for_each (at, &d->works) {
        work *w = nx_list_entry(at, work, link);

        if ((w->stream == stream) && (!mine || (pthread_equal(w->by, pthread_self()) != 0))) {
            nx_list_remove(at);
            return w;
        }
    }
    return NULL;
}

static void take_time(const nxt_sim_device *d, size_t bytes)
{
    const uint64_t ns = d->options.ns_per_byte * bytes;
    const struct timespec span = {.tv_sec = (time_t)(ns / 1000000000),
                                  .tv_nsec = (long)(ns % 1000000000)};

    if (ns != 0) {
        (void)nanosleep(&span, NULL);
    }
}

static void count(nxt_sim_device *d, const work *w)
{
    d->counts.to_host += (w->kind == TO_HOST) ? w->bytes : 0;
    d->counts.to_device += (w->kind == TO_HOST) ? 0 : w->bytes;
    d->counts.longest = (w->bytes > d->counts.longest) ? w->bytes : d->counts.longest;
    d->counts.reduced += (w->kind == REDUCE) ? w->bytes / nexar_dtype_size(w->dtype) : 0;
}

/* |w| is in no list; clang's analyzer does not know what that means for a ring. */
static void drop(work *w)
{
#ifdef __clang_analyzer__
    (void)w;
#else
    if (w->owned) {
        free(w->host);
    }
    free(w);
#endif
}

static void run(nxt_sim_device *d, const work *w)
{
    if (w->kind == TO_HOST) {
        memcpy(w->host, w->real, w->bytes);
    } else if (w->kind == TO_DEVICE) {
        memcpy(w->real, w->host, w->bytes);
    } else {
        nx_reduce(w->real, w->real, w->host, w->bytes / nexar_dtype_size(w->dtype), w->dtype,
                  w->op);
    }
    take_time(d, w->bytes);
    count(d, w);
}

/* The lock is held throughout, so the device executes work sequentially. If two threads
 * synchronize a stream, neither returns before all work is done. */
static nexar_err synchronize(void *ctx, void *stream)
{
    nxt_sim_device *d = ctx;
    nexar_err err = enter(d);
    bool busy = false;
    work *w;

    while ((w = next_of(d, stream, err != NEXAR_OK)) != NULL) {
        busy = true;
        if (err == NEXAR_OK) {
            run(d, w);
        }
        drop(w);
    }
    d->counts.syncs += busy;
    return leave(d, err);
}

/* ---- for tests --------------------------------------------------------------------- */

nxt_sim_device *nxt_sim_device_create(const nxt_sim_options *options)
{
    nxt_sim_device *d = calloc(1, sizeof(*d));
    const unsigned has = options->optional;

    if ((d == NULL) || !nxt_sim_memory_init(&d->memory, options->bytes)) {
        free(d);
        return NULL;
    }
    d->options = *options;
    d->fail_after = -1;
    (void)pthread_mutex_init(&d->lock, NULL);
    nx_list_init(&d->works);
    d->table = (nexar_device){.name = "sim",
                              .to_host = to_host,
                              .to_device = to_device,
                              .synchronize = synchronize,
                              .reduce = (has & NXT_SIM_REDUCE) ? reduce : NULL,
                              .gather = (has & NXT_SIM_GATHER) ? gather : NULL,
                              .scatter = (has & NXT_SIM_SCATTER) ? scatter : NULL,
                              .alloc_host = (has & NXT_SIM_ALLOC) ? alloc_host : NULL,
                              .free_host = (has & NXT_SIM_FREE) ? free_host : NULL,
                              .ctx = d};
    return d;
}

void nxt_sim_device_destroy(nxt_sim_device *d)
{
    nx_list *at;

    while ((at = nx_list_pop(&d->works)) != NULL) {
        drop(nx_list_entry(at, work, link));
    }
    nxt_sim_memory_fini(&d->memory);
    (void)pthread_mutex_destroy(&d->lock);
    free(d);
}

const nexar_device *nxt_sim_device_table(const nxt_sim_device *d)
{
    return &d->table;
}

void *nxt_sim_device_alloc(nxt_sim_device *d, size_t bytes)
{
    void *dev;

    (void)pthread_mutex_lock(&d->lock);
    dev = nxt_sim_memory_alloc(&d->memory, bytes);
    (void)pthread_mutex_unlock(&d->lock);
    return dev;
}

void nxt_sim_device_reset(nxt_sim_device *d)
{
    (void)pthread_mutex_lock(&d->lock);
    nxt_sim_memory_reset(&d->memory);
    (void)pthread_mutex_unlock(&d->lock);
}

void nxt_sim_device_load(nxt_sim_device *d, void *dev, const void *host, size_t bytes)
{
    char *real = nxt_sim_memory_real(&d->memory, dev, bytes);

    if (real == NULL) {
        abort();
    }
    (void)pthread_mutex_lock(&d->lock);
    memcpy(real, host, bytes);
    (void)pthread_mutex_unlock(&d->lock);
}

void nxt_sim_device_store(nxt_sim_device *d, void *host, const void *dev, size_t bytes)
{
    const char *real = nxt_sim_memory_real(&d->memory, dev, bytes);

    if (real == NULL) {
        abort();
    }
    (void)pthread_mutex_lock(&d->lock);
    memcpy(host, real, bytes);
    (void)pthread_mutex_unlock(&d->lock);
}

void nxt_sim_device_enqueue(nxt_sim_device *d, void *stream, void *dev, const void *host,
                            size_t bytes)
{
    work w = {.kind = TO_DEVICE, .stream = stream, .bytes = bytes, .owned = true};

    w.host = malloc(bytes);
    if (w.host == NULL) {
        abort();
    }
    memcpy(w.host, host, bytes);
    (void)pthread_mutex_lock(&d->lock);
    if (push(d, &w, dev) != NEXAR_OK) {
        abort();
    }
    (void)pthread_mutex_unlock(&d->lock);
}

void nxt_sim_device_fail(nxt_sim_device *d, int64_t n, nexar_err code)
{
    (void)pthread_mutex_lock(&d->lock);
    d->fail_after = n;
    d->fail_code = code;
    d->failed = false;
    (void)pthread_mutex_unlock(&d->lock);
}

bool nxt_sim_device_failed(nxt_sim_device *d)
{
    bool failed;

    (void)pthread_mutex_lock(&d->lock);
    failed = d->failed;
    (void)pthread_mutex_unlock(&d->lock);
    return failed;
}

void nxt_sim_device_counts(nxt_sim_device *d, nxt_sim_counts *out)
{
    (void)pthread_mutex_lock(&d->lock);
    *out = d->counts;
    (void)pthread_mutex_unlock(&d->lock);
}
