/*
 * pmi.c - PMI-1, the wire protocol of MPICH's process manager, on the descriptor PMI_FD.
 *
 * Lines "cmd=NAME key=value ...": the process asks, the launcher answers.  Hydra, `srun
 * --mpi=pmi2` and Flux implement it.  A process that sends init and exits without finalize is an
 * error to the launcher.  So the last close sends finalize, after which the descriptor is
 * unusable.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/sys.h"
#include "base/text/text.h"
#include "core/config/environment.h"
#include "core/launcher/channel.h"

enum { LINE_MAX_SIZE = 2048, NAME_MAX_SIZE = 257 };

static struct {
    unsigned users;
    bool closed; /* finalize was sent, or the connection has failed */
    int fd;
    uint32_t size;
    char space[NAME_MAX_SIZE]; /* the name of the key-value space */
} pmi;

/* ---- lines --------------------------------------------------------------------------- */

static nexar_err broken(nexar_err err)
{
    pmi.closed = true;
    return err;
}

static nexar_err await(short events, uint64_t deadline_ns)
{
    struct pollfd at = {.fd = pmi.fd, .events = events};
    const uint64_t now = nx_now(&nx_clock_system);
    const int n = nx_sys_poll(&at, 1, (deadline_ns <= now) ? 0 : deadline_ns - now);

    if (n > 0) {
        return NEXAR_OK;
    }
    return broken((n < 0) ? nx_fail_sys("poll", "PMI_FD", errno)
                          : nx_fail(NEXAR_ETIMEDOUT, "no answer to PMI on PMI_FD"));
}

static nexar_err say(const char *line, size_t len, uint64_t deadline_ns)
{
    size_t done = 0;

    while (done < len) {
        void *at = (void *)(uintptr_t)(line + done); // NOLINT(performance-no-int-to-ptr): only read
        struct iovec rest = {.iov_base = at, .iov_len = len - done};
        const struct msghdr msg = {.msg_iov = &rest, .msg_iovlen = 1};
        nexar_err err = await(POLLOUT, deadline_ns);
        ssize_t n;

        if (err != NEXAR_OK) {
            return err;
        }
        n = nx_sys_sendmsg(pmi.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
        if ((n < 0) && (errno != EAGAIN)) {
            return broken(nx_fail_sys("send", "PMI_FD", errno));
        }
        done += (n > 0) ? (size_t)n : 0;
    }
    return NEXAR_OK;
}

/* Reads byte by byte: bytes after the line may belong to another reader. */
static nexar_err hear(char line[LINE_MAX_SIZE], uint64_t deadline_ns)
{
    size_t len = 0;

    while (len + 1 < LINE_MAX_SIZE) {
        struct iovec next = {.iov_base = line + len, .iov_len = 1};
        struct msghdr msg = {.msg_iov = &next, .msg_iovlen = 1};
        nexar_err err = await(POLLIN, deadline_ns);
        ssize_t n;

        if (err != NEXAR_OK) {
            return err;
        }
        n = nx_sys_recvmsg(pmi.fd, &msg, MSG_DONTWAIT);
        if (n == 0) {
            return broken(nx_fail(NEXAR_EPROTO, "the launcher has closed PMI_FD"));
        }
        if ((n < 0) && (errno != EAGAIN)) {
            return broken(nx_fail_sys("recv", "PMI_FD", errno));
        }
        if ((n > 0) && (line[len++] == '\n')) {
            line[len - 1] = '\0';
            return NEXAR_OK;
        }
    }
    return broken(nx_fail(NEXAR_EPROTO, "PMI: a line of the launcher has no end"));
}

/* The value of |key| in |line|, up to the next space.  False: |line| has no |key|, or the value
 * does not fit. */
static bool value_of(const char *line, const char *key, char *value, size_t size)
{
    const size_t len = strlen(key);

    while (*line != '\0') {
        const size_t word = strcspn(line, " ");

        if ((word > len) && (line[len] == '=') && (strncmp(line, key, len) == 0)) {
            const size_t n = word - len - 1;

            if (n >= size) {
                return false;
            }
            memcpy(value, line + len + 1, n);
            value[n] = '\0';
            return true;
        }
        line += word;
        line += strspn(line, " ");
    }
    return false;
}

/* Sends |asked|, a line, and receives the answer |name| into |line|. */
static nexar_err ask(char line[LINE_MAX_SIZE], int asked, const char *name, uint64_t deadline_ns)
{
    char got[64] = "", rc[16] = "0";
    nexar_err err;

    if ((asked < 0) || (asked >= LINE_MAX_SIZE)) {
        return nx_fail(NEXAR_EINTERNAL, "PMI: a line is longer than %d bytes", LINE_MAX_SIZE - 1);
    }
    err = say(line, (size_t)asked, deadline_ns);
    if (err == NEXAR_OK) {
        err = hear(line, deadline_ns);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    if (!value_of(line, "cmd", got, sizeof(got)) || (strcmp(got, name) != 0)) {
        return broken(nx_fail(NEXAR_EPROTO,
                              "PMI: the launcher answers \"%.60s\" where \"%s\" is expected; does "
                              "another part of this process use PMI_FD?",
                              got, name));
    }
    if (value_of(line, "rc", rc, sizeof(rc)) && (strcmp(rc, "0") != 0)) {
        char why[128] = "no reason given";

        (void)value_of(line, "msg", why, sizeof(why));
        return nx_fail(NEXAR_EPROTO, "PMI: the launcher refuses: %s: rc=%s, %s", name, rc, why);
    }
    return NEXAR_OK;
}

/* ---- the channel --------------------------------------------------------------------- */

static nexar_err find_descriptor(void)
{
    const char *text = nx_environment("PMI_FD"), *ranks = nx_environment("PMI_SIZE");
    uint64_t fd = 0, size = 0;
    struct stat st;

    if (pmi.closed) {
        return nx_fail(NEXAR_ENOTSUP, NX_CHANNEL_CLOSED, "PMI");
    }
    /* MPI_Init uses the same descriptor, and neither side would understand the other's answers. */
    if (dlsym(RTLD_DEFAULT, "MPI_Initialized") != NULL) {
        return nx_fail(NEXAR_ENOTSUP,
                       "this program uses MPI, which owns PMI_FD: start a seed in one rank, and "
                       "broadcast its join string by MPI");
    }
    if ((ranks == NULL) || !nx_parse_uint(ranks, &size) || (size < 1) || (size > INT32_MAX)) {
        return nx_fail(NEXAR_ENOTSUP, "PMI_SIZE is missing or no number of processes");
    }
    if ((text == NULL) || !nx_parse_uint(text, &fd) || (fd > INT32_MAX) ||
        (fstat((int)fd, &st) != 0) || !S_ISSOCK(st.st_mode)) {
        return nx_fail(NEXAR_ENOTSUP, "PMI_FD is no socket of this process: only processes that "
                                      "the launcher starts itself have it");
    }
    pmi.fd = (int)fd;
    pmi.size = (uint32_t)size;
    /* Children of this process inherit the variable, and must not act as this process. */
    (void)fcntl(pmi.fd, F_SETFD, FD_CLOEXEC);
    return NEXAR_OK;
}

static nexar_err greet(uint64_t deadline_ns)
{
    char line[LINE_MAX_SIZE];
    nexar_err err =
        ask(line, snprintf(line, sizeof(line), "cmd=init pmi_version=1 pmi_subversion=1\n"),
            "response_to_init", deadline_ns);

    if (err == NEXAR_OK) {
        err = ask(line, snprintf(line, sizeof(line), "cmd=get_my_kvsname\n"), "my_kvsname",
                  deadline_ns);
    }
    if ((err == NEXAR_OK) && !value_of(line, "kvsname", pmi.space, sizeof(pmi.space))) {
        err = nx_fail(NEXAR_EPROTO, "PMI: the launcher names no key-value space");
    }
    return err;
}

static nexar_err pmi_open(uint64_t deadline_ns, uint32_t *size)
{
    nexar_err err = NEXAR_OK;

    if (pmi.users == 0) {
        err = find_descriptor();
        if (err == NEXAR_OK) {
            err = greet(deadline_ns);
        }
    }
    if (err == NEXAR_OK) {
        pmi.users++;
        *size = pmi.size;
    }
    return err;
}

static nexar_err pmi_put(const char *key, const char *value, uint64_t deadline_ns)
{
    char line[LINE_MAX_SIZE];
    nexar_err err = ask(
        line,
        snprintf(line, sizeof(line), "cmd=put kvsname=%s key=%s value=%s\n", pmi.space, key, value),
        "put_result", deadline_ns);

    explicit_bzero(line, sizeof(line));
    return err;
}

static nexar_err pmi_fence(uint64_t deadline_ns)
{
    char line[LINE_MAX_SIZE];

    return ask(line, snprintf(line, sizeof(line), "cmd=barrier_in\n"), "barrier_out", deadline_ns);
}

static nexar_err pmi_get(const char *key, char value[NX_CHANNEL_VALUE_MAX], uint64_t deadline_ns)
{
    char line[LINE_MAX_SIZE];
    nexar_err err =
        ask(line, snprintf(line, sizeof(line), "cmd=get kvsname=%s key=%s\n", pmi.space, key),
            "get_result", deadline_ns);

    if ((err == NEXAR_OK) && !value_of(line, "value", value, NX_CHANNEL_VALUE_MAX)) {
        err = nx_fail(NEXAR_EPROTO, "PMI: the launcher gives no value for %s", key);
    }
    explicit_bzero(line, sizeof(line));
    return err;
}

/* A launcher answers at once; this limit only matters for one that hangs. */
#define FINALIZE_NS UINT64_C(10000000000)

static void pmi_close(void)
{
    char line[LINE_MAX_SIZE];

    pmi.users--;
    /* After a protocol failure the descriptor stays open until the process exits: the launcher
     * kills the job when the descriptor closes, and the program has an error to print first. */
    if ((pmi.users != 0) || pmi.closed) {
        return;
    }
    (void)!ask(line, snprintf(line, sizeof(line), "cmd=finalize\n"), "finalize_ack",
               nx_now(&nx_clock_system) + FINALIZE_NS);
    pmi.closed = true;
    (void)nx_sys_close(pmi.fd);
}

const nx_channel nx_channel_pmi = {.name = "PMI",
                                   .open = pmi_open,
                                   .put = pmi_put,
                                   .fence = pmi_fence,
                                   .get = pmi_get,
                                   .close = pmi_close};
