/* pair.c - the dialler's side of pairing, and the last step of both sides. */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/sys.h"
#include "shm_inner.h"

enum { TRIES = 3 };

void nx_shm_pair_fail(nx_shm_link *link, const char *format, ...)
{
    va_list args;

    if (link->failed || (link->state == NX_SHM_DOWN)) {
        return;
    }
    link->failed = true;
    va_start(args, format);
    (void)vsnprintf(link->why, sizeof(link->why), format, args);
    va_end(args);
    nx_loop_fd_remove(link->shm->config.loop, &link->socket);
    nx_shm_trouble(link);
}

void nx_shm_pair_abandon(nx_shm_link *link)
{
    nx_list *at;

    while ((at = nx_list_pop(&link->parked)) != NULL) {
        nx_shm_guest_free(nx_list_entry(at, nx_shm_guest, link));
    }
    if (link->state == NX_SHM_UP) {
        return;
    }
    nx_loop_fd_remove(link->shm->config.loop, &link->socket);
    nx_shm_close_fds((const int[]){link->socket.fd, link->segment_fd}, 2);
    link->socket.fd = link->segment_fd = -1;
    if (link->segment != NULL) {
        nx_segment_unmap(link->segment);
        link->segment = NULL;
    }
}

/* ---- the conversation ---------------------------------------------------------------- */

/* The acceptor has proved its identity: the dialler sends it the segment. */
static nexar_err answer(nx_shm_link *link, const nx_shm_word *challenge)
{
    nx_shm *shm = link->shm;
    const nx_shm_claim claim = {.dialler = &shm->offer,
                                .acceptor = &link->offer,
                                .from = shm->member,
                                .to = link->member,
                                .dialler_nonce = link->nonce,
                                .acceptor_nonce = challenge->nonce};
    nx_shm_word w = {
        .type = NX_SHM_PROOF, .at = (uint64_t)(uintptr_t)&shm->token, .token = shm->token};
    uint8_t mac[NX_SHM_MAC];
    nexar_err err = nx_shm_prove(&claim, NX_SHM_CHALLENGE, mac);

    err = (err == NEXAR_OK) ? nx_shm_prove(&claim, NX_SHM_PROOF, w.mac) : err;
    if (err != NEXAR_OK) {
        return err;
    }
    if (link->challenged || !nx_shm_mac_equal(mac, challenge->mac)) {
        return nx_fail(NEXAR_EAUTH, "it could not prove to be member %" PRIu64, link->member);
    }
    err = nx_segment_create(&link->segment, &link->segment_fd);
    if (err != NEXAR_OK) {
        return err;
    }
    link->challenged = true;
    return nx_shm_send(link->socket.fd, &w, (const int[]){link->segment_fd, shm->bell.fd}, 2);
}

static const char *refusal(nx_shm_refusal why)
{
    switch (why) {
    case NX_SHM_STRANGER:
        return "it does not know us";
    case NX_SHM_TAKEN:
        return "it has another link to us";
    case NX_SHM_TROUBLE:
        return "it is out of memory or descriptors";
    case NX_SHM_CROSSING:
        break;
    }
    return "it dials us";
}

/* A handshake packet has arrived, with |fd|, which is -1 or now owned here. */
static void on_word(nx_shm_link *link, const nx_shm_word *w, int fd)
{
    if (w->type == NX_SHM_CHALLENGE) {
        nx_shm_close_fds(&fd, 1);
        if (answer(link, w) != NEXAR_OK) {
            link->hung_up = true; /* maybe */
            nx_shm_pair_fail(link, "%s", nexar_last_error());
        }
    } else if ((w->type == NX_SHM_WELCOME) && link->challenged && (fd >= 0) && nx_shm_is_bell(fd)) {
        int own = link->socket.fd;

        nx_loop_fd_remove(link->shm->config.loop, &link->socket);
        link->side = 0;
        nx_shm_pair_done(link, w, own, link->pid, fd);
    } else if ((w->type == NX_SHM_REFUSED) && (w->why == NX_SHM_CROSSING) &&
               (link->shm->member > link->member)) {
        nx_shm_close_fds(&fd, 1);
        link->state = NX_SHM_WAITING;
    } else {
        nx_shm_close_fds(&fd, 1);
        nx_shm_pair_fail(link, "%s",
                         (w->type == NX_SHM_REFUSED)   ? refusal(w->why)
                         : (w->type == NX_SHM_WELCOME) ? "no descriptor is left for its bell"
                                                       : "it said what it should not");
    }
}

static void on_pairing_ready(nx_fd *fd, uint32_t events)
{
    nx_shm_link *link = nx_list_entry(fd, nx_shm_link, socket);
    int fds[NX_SHM_FDS], got;
    nx_shm_word w;

    (void)events;
    if (link->challenged) {
        /* The segment was sent; its descriptor makes room for the eventfd that arrives now. */
        nx_shm_close_fds(&link->segment_fd, 1);
        link->segment_fd = -1;
    }
    got = nx_shm_receive(fd->fd, &w, fds, 1);
    if (got < 0) {
        link->hung_up = true;
        nx_shm_pair_fail(link, "%s", nexar_last_error());
    } else if (got > 0) {
        on_word(link, &w, fds[0]);
    }
}

static nexar_err start(nx_shm_link *link)
{
    nx_shm *shm = link->shm;
    nx_shm_word w = {.type = NX_SHM_HELLO, .from = shm->member, .to = link->member};
    struct sockaddr_storage address;
    socklen_t len;
    nexar_err err;

    if (!shm->config.find(shm->config.ctx, link->member, &link->offer)) {
        return nx_fail(NEXAR_ECONNECT, "it offers none");
    }
    link->socket.fd = nx_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    if (link->socket.fd < 0) {
        return nx_fail_sys("socket", "", errno);
    }
    len = nx_shm_address(link->offer.name, &address);
    if (nx_sys_connect(link->socket.fd, &address, len) != 0) {
        link->nobody = (errno == ECONNREFUSED);
        return nx_fail_sys("connect", "", errno);
    }
    err = nx_shm_peer(link->socket.fd, &link->pid);
    if (err != NEXAR_OK) {
        return err;
    }
    nx_random_fill(shm->config.random, link->nonce, sizeof(link->nonce));
    memcpy(w.nonce, link->nonce, sizeof(w.nonce));
    err = nx_shm_send(link->socket.fd, &w, NULL, 0);
    if (err != NEXAR_OK) {
        link->hung_up = true;
        return err;
    }
    link->socket.on_ready = on_pairing_ready;
    return nx_loop_fd_add(shm->config.loop, &link->socket, EPOLLIN);
}

void nx_shm_pair_start(nx_shm_link *link)
{
    if (start(link) != NEXAR_OK) {
        nx_shm_pair_fail(link, "%s", nexar_last_error());
    }
}

bool nx_shm_pair_again(nx_shm_link *link)
{
    if (!link->hung_up || (link->tries == TRIES)) {
        return false;
    }
    link->tries++;
    link->hung_up = link->challenged = false;
    nx_shm_pair_abandon(link);
    link->state = NX_SHM_PAIRING;
    nx_shm_pair_start(link);
    return true;
}

/* ---- done ---------------------------------------------------------------------------- */

/* Only descriptors are passed; anything else ends the link. */
static void on_socket_ready(nx_fd *fd, uint32_t events)
{
    nx_shm_link *link = nx_list_entry(fd, nx_shm_link, socket);
    const nx_shm_config *config = &link->shm->config;
    int fds[NX_SHM_FDS];
    nx_shm_word w;
    int got = nx_shm_receive(fd->fd, &w, fds, 1);

    (void)events;
    if ((got > 0) && (w.type == NX_SHM_PASS) && (fds[0] >= 0) && (config->on_pass != NULL)) {
        config->on_pass(config->ctx, link->member, w.name, fds[0]);
    } else if ((got > 0) && (w.type == NX_SHM_PASS) && (fds[0] < 0)) {
        nx_log(NX_LOG_INFO, "shm: no descriptor is left for what member %" PRIu64 " passes",
               link->member);
    } else if (got > 0) {
        nx_shm_close_fds(fds, NX_SHM_FDS);
        nx_shm_hangup(link, "it said what it should not");
    } else if (got < 0) {
        nx_shm_hangup(link, "the process of the peer has ended");
    }
}

nexar_err nx_shm_pass(nx_link *base, uint64_t name, int fd)
{
    nx_shm_link *link = nx_shm_from_base(base);
    const nx_shm_word w = {.type = NX_SHM_PASS, .name = name};

    if (link->state != NX_SHM_UP) {
        return nx_fail(NEXAR_ESYS, "the link is not up");
    }
    return nx_shm_send(link->socket.fd, &w, &fd, 1);
}

nx_pidfd *nx_shm_process(nx_link *base)
{
    const nx_shm_link *link = nx_shm_from_base(base);

    return (link->state == NX_SHM_UP) ? link->peer : NULL;
}

static void on_process_ready(nx_fd *fd, uint32_t events)
{
    (void)events;
    nx_shm_hangup(nx_list_entry(fd, nx_shm_link, process), "the process of the peer has ended");
}

/* A forked child may hold the peer's socket open: the pidfd still reports the peer's exit. */
static void watch_process(nx_shm_link *link)
{
    link->process.fd = (link->peer == NULL) ? -1 : nx_pidfd_fd(link->peer);
    link->process.on_ready = on_process_ready;
    if ((link->process.fd >= 0) &&
        (nx_loop_fd_add(link->shm->config.loop, &link->process, EPOLLIN) != NEXAR_OK)) {
        link->process.fd = -1; /* the socket alone must report the exit */
    }
}

/* Sorts queued parts again: it is now known whether the peer can read memory. */
static void sort_parts(nx_shm_link *link)
{
    nx_list before, *at;

    nx_list_init(&before);
    while ((at = nx_list_pop(&link->small)) != NULL) {
        nx_list_push_back(&before, at);
    }
    while ((at = nx_list_pop(&before)) != NULL) {
        nx_shm_part_queue(link, nx_list_entry(at, nx_tx, link));
    }
}

void nx_shm_pair_done(nx_shm_link *link, const nx_shm_word *w, int fd, pid_t pid, int bell)
{
    bool reads;

    link->state = NX_SHM_UP;
    link->bell = bell;
    link->pid = pid;
    link->peer = nx_pidfd_open(pid);
    link->socket.fd = fd;
    link->socket.on_ready = on_socket_ready;
    nx_shm_close_fds(&link->segment_fd, 1);
    link->segment_fd = -1;
    nx_shm_pair_abandon(link); /* parked guests */
    nx_segment_out(link->segment, link->side, link->out);
    nx_segment_in(link->segment, 1 - link->side, link->in);
    reads = nx_shm_reads_probe(link, w->at, w->token);
    atomic_store(&nx_shm_way_in(link)->reads, reads ? NX_READS_YES : NX_READS_NO);
    if (link->shm->asleep) {
        atomic_store(&nx_shm_way_in(link)->asleep, 1);
    }
    nx_log(NX_LOG_DEBUG, "shm: a link to member %" PRIu64 " (pid %ld): %s", link->member,
           (long)link->pid, reads ? "its memory can be read" : "everything is copied twice");
    if (nx_loop_fd_add(link->shm->config.loop, &link->socket, EPOLLIN) != NEXAR_OK) {
        nx_shm_link_down(link, NEXAR_ENOMEM, "its socket cannot be watched");
        return;
    }
    watch_process(link);
    sort_parts(link);
    nx_shm_pump(link);
    nx_shm_trouble(link);
}
