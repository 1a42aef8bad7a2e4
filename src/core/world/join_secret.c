/* join_secret.c - nexar_join_string, and the join string that it returns. */
#include "core/world/join_secret.h"

#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/os/cancellation.h"
#include "cluster/join/join_string.h"
#include "core/comm/comm.h"
#include "fork_guard.h"

/* The granularity of what a core dump omits: the page size of any machine. */
enum { PAGES = 1 << 16 };

struct nx_join_secret {
    char text[NX_JOIN_STRING_MAX];
};
_Static_assert(sizeof(nx_join_secret) <= PAGES, "it has pages of its own");

nx_join_secret *nx_join_secret_keep(const char *text)
{
    nx_join_secret *s = (strlen(text) < sizeof(s->text)) ? nx_alloc_aligned(PAGES, PAGES) : NULL;

    if (s != NULL) {
        (void)madvise(s, PAGES, MADV_DONTDUMP);
        memcpy(s->text, text, strlen(text) + 1);
    }
    return s;
}

void nx_join_secret_forget(nx_join_secret *s)
{
    if (s != NULL) {
        explicit_bzero(s->text, sizeof(s->text));
        (void)madvise(s, PAGES, MADV_DODUMP);
        nx_free(s);
    }
}

nexar_err nexar_join_string(const nexar_comm *comm, char *buf, size_t size)
{
    NX_NOT_CANCELLED;
    const nx_join_secret *secret;
    nexar_err err;

    if ((comm == NULL) || (buf == NULL)) {
        return nx_fail(NEXAR_EINVAL, "join_string: %s is NULL", (comm == NULL) ? "comm" : "buf");
    }
    err = nx_fork_guard_check("join_string", comm->world);
    if (err != NEXAR_OK) {
        return err;
    }
    secret = comm->world->join_secret; /* constant in a world */
    if ((secret == NULL) && (comm->world->join != NULL)) {
        return nx_fail(NEXAR_ENOMEM, "join_string: there was no memory to keep the join string");
    }
    if (secret == NULL) {
        return nx_fail(NEXAR_ENOTSUP, "join_string: this process is a world of its own, which no "
                                      "other can join; start a seed, and name it by join");
    }
    if (strlen(secret->text) >= size) {
        return nx_fail(NEXAR_ETRUNC, "join_string: %zu bytes; %zu are needed", size,
                       strlen(secret->text) + 1);
    }
    memcpy(buf, secret->text, strlen(secret->text) + 1);
    return NEXAR_OK;
}
