/*
 * channel.h - the key-value space of a launcher: how the processes of a job exchange a join string
 * before they have a world.
 *
 * A process has one identity in a channel, so its state is per process.  One thread at a time;
 * every process of the job makes the same calls, in the same order.  The functions block; a
 * deadline is a time of nx_clock_system.
 */
#ifndef NX_CHANNEL_H
#define NX_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { NX_CHANNEL_VALUE_MAX = 1024 }; /* bytes of a value, its 0 included: the least of all PMIs */

/* Launchers accept one initialisation and one finalization per process. */
#define NX_CHANNEL_CLOSED \
    "the first world of this process has ended, and %s serves no second one after it"

typedef struct nx_channel {
    const char *name; /* "PMIx" */
    /*
     * Connects to the launcher, and gets the number of processes of the job.  Calls nest: each
     * success is undone by one close().
     *
     * NEXAR_ENOTSUP
     *     There is no such channel: the library is missing, or another part of the process
     *     owns it, or it was closed.
     * NEXAR_EPROTO, NEXAR_ESYS, NEXAR_ETIMEDOUT
     *     The launcher answers an error, or a malformed answer, or not at all.
     */
    nexar_err (*open)(uint64_t deadline_ns, uint32_t *size);
    /* Publishes |value| under |key|: visible to others after the next fence.  Values contain no
     * spaces. NEXAR_EPROTO, NEXAR_ESYS, NEXAR_ETIMEDOUT */
    nexar_err (*put)(const char *key, const char *value, uint64_t deadline_ns);
    /* Waits until all processes of the job have called it.
     * NEXAR_EPROTO, NEXAR_ESYS, NEXAR_ETIMEDOUT, NEXAR_ENOMEM */
    nexar_err (*fence)(uint64_t deadline_ns);
    /* The value that rank 0 published under |key| before the last fence.
     * NEXAR_EPROTO, NEXAR_ESYS, NEXAR_ETIMEDOUT */
    nexar_err (*get)(const char *key, char value[NX_CHANNEL_VALUE_MAX], uint64_t deadline_ns);
    /* The last close() tells the launcher that this process ends successfully. */
    void (*close)(void);
} nx_channel;

extern const nx_channel nx_channel_pmi;  /* the wire protocol PMI-1 on PMI_FD */
extern const nx_channel nx_channel_pmix; /* libpmix.so.2, loaded when it is opened */

#endif /* NX_CHANNEL_H */
