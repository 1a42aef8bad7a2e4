/* unix_socket.c - packets and descriptors over the socket of a pair. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "shm_inner.h"

#include "base/os/sys.h"

socklen_t nx_shm_address(const uint8_t name[NX_SHM_NAME_SIZE], struct sockaddr_storage *out)
{
    struct sockaddr_un *un = (struct sockaddr_un *)(void *)out;
    char text[sizeof("nexar-") + (size_t)2 * NX_SHM_NAME_SIZE];
    size_t len = sizeof("nexar-") - 1;

    memcpy(text, "nexar-", len);
    for (int i = 0; i < NX_SHM_NAME_SIZE; i++) {
        len += (size_t)snprintf(text + len, sizeof(text) - len, "%02x", name[i]);
    }
    memset(out, 0, sizeof(*out));
    un->sun_family = AF_UNIX;
    memcpy(un->sun_path + 1, text, len); /* behind a 0: abstract */
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

nexar_err nx_shm_peer(int fd, pid_t *pid)
{
    struct ucred cred;
    socklen_t len = sizeof(cred);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) != 0) {
        return nx_fail_sys("getsockopt", "SO_PEERCRED", errno);
    }
    if (cred.uid != geteuid()) {
        return nx_fail(NEXAR_EAUTH, "it belongs to user %u, and we to %u", (unsigned)cred.uid,
                       (unsigned)geteuid());
    }
    *pid = cred.pid;
    return NEXAR_OK;
}

nexar_err nx_shm_send(int fd, const nx_shm_word *w, const int *fds, size_t n)
{
    uint8_t data[NX_SHM_WORD_MAX];
    struct iovec iov = {.iov_base = data, .iov_len = nx_shm_word_encode(w, data)};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(NX_SHM_FDS * sizeof(int))] = {0};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t sent;

    if (n > 0) {
        struct cmsghdr *c = (struct cmsghdr *)(void *)control;

        msg.msg_control = control;
        msg.msg_controllen = CMSG_SPACE(n * sizeof(int));
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(n * sizeof(int));
        memcpy(CMSG_DATA(c), fds, n * sizeof(int));
    }
    sent = nx_sys_sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    return nx_fail_sys("sendmsg", "", (sent < 0) ? errno : 0);
}

void nx_shm_close_fds(const int *fds, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (fds[i] >= 0) {
            (void)nx_sys_close(fds[i]);
        }
    }
}

/* Descriptor |i| of |c|, above 2; -1: no number is left. */
static int take_fd(struct cmsghdr *c, size_t i)
{
    int fd;

    memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
    return nx_sys_lift(fd);
}

/* Takes up to |most| descriptors; closes any excess. False: a descriptor was lost. */
static bool take_fds(struct msghdr *msg, int fds[NX_SHM_FDS], size_t most)
{
    bool good = ((msg->msg_flags & MSG_CTRUNC) == 0);
    size_t n = 0;

    for (struct cmsghdr *c = CMSG_FIRSTHDR(msg); c != NULL; c = CMSG_NXTHDR(msg, c)) {
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

        if ((c->cmsg_level != SOL_SOCKET) || (c->cmsg_type != SCM_RIGHTS)) {
            continue;
        }
        for (size_t i = 0; i < count; i++) {
            int fd = take_fd(c, i);

            if ((fd >= 0) && (n < most)) {
                fds[n++] = fd;
            } else {
                good = false;
                nx_shm_close_fds(&fd, 1);
            }
        }
    }
    return good;
}

static void forget_fds(int fds[NX_SHM_FDS])
{
    nx_shm_close_fds(fds, NX_SHM_FDS);
    for (int i = 0; i < NX_SHM_FDS; i++) {
        fds[i] = -1;
    }
}

int nx_shm_receive(int fd, nx_shm_word *w, int fds[NX_SHM_FDS], size_t most)
{
    uint8_t data[NX_SHM_WORD_MAX + 1];
    struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(NX_SHM_FDS * sizeof(int))];
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t got;
    bool whole;

    if (most > 0) { /* otherwise the kernel drops passed descriptors */
        msg.msg_control = control;
        msg.msg_controllen = sizeof(control);
    }
    for (int i = 0; i < NX_SHM_FDS; i++) {
        fds[i] = -1;
    }
    got = nx_sys_recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if ((got < 0) && (errno == EAGAIN)) {
        return 0;
    }
    if ((got < 0) && (errno == ECONNRESET)) {
        /* The peer has closed the socket with unread packets of this side. The peer's own packets
         * may still be there. */
        got = nx_sys_recvmsg(fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    }
    if (got <= 0) {
        (void)nx_fail(NEXAR_EPEER, "it has hung up");
        return -1;
    }
    whole = take_fds(&msg, fds, most);
    if (!whole) {
        forget_fds(fds);
        (void)nx_fail(NEXAR_EPROTO, "it passed what is not taken");
    }
    if ((!whole && (most == 0)) || (nx_shm_word_decode(data, (size_t)got, w) != NEXAR_OK)) {
        forget_fds(fds);
        return -1;
    }
    return 1;
}

bool nx_shm_is_bell(int fd)
{
    char path[64], target[64];
    int flags = fcntl(fd, F_GETFL);
    ssize_t len;

    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    len = readlink(path, target, sizeof(target) - 1);
    if (len > 0) {
        target[len] = '\0';
    }
    /* Without /proc, a non-blocking descriptor suffices as evidence. */
    return (flags >= 0) && ((flags & O_NONBLOCK) != 0) &&
           ((len <= 0) || (strstr(target, "[eventfd]") != NULL));
}
