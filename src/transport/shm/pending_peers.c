/*
 * pending_peers.c - callers that have not proved their identity.
 *
 * Such a caller can do no more than hold a socket for a while. This rank dials the peer, and has
 * the lower number: the peer waits for that call, and this socket notifies it if the call will not
 * come.
 */
#include <inttypes.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/sys.h"
#include "shm_inner.h"

enum { GUESTS_MAX = 1024 }; /* above it the oldest guest is dropped */
static const uint64_t PATIENCE_NS = UINT64_C(10000000000);

void nx_shm_guest_free(nx_shm_guest *g)
{
    nx_loop *loop = g->shm->config.loop;

    nx_loop_fd_remove(loop, &g->socket);
    nx_loop_timer_cancel(loop, &g->timer);
    nx_shm_close_fds(&g->socket.fd, 1);
    nx_list_remove(&g->link);
    g->shm->nguests--;
    explicit_bzero(g, sizeof(*g));
    nx_free(g);
}

static void refuse(nx_shm_guest *g, nx_shm_refusal why)
{
    const nx_shm_word w = {.type = NX_SHM_REFUSED, .why = why};

    if (nx_shm_send(g->socket.fd, &w, NULL, 0) != NEXAR_OK) {
        nx_log(NX_LOG_DEBUG, "shm: a caller left before it was refused");
    }
    nx_shm_guest_free(g);
}

static nexar_err prove(const nx_shm_guest *g, nx_shm_type of, uint8_t mac[NX_SHM_MAC])
{
    const nx_shm_claim claim = {.dialler = &g->offer,
                                .acceptor = &g->shm->offer,
                                .from = g->from,
                                .to = g->shm->member,
                                .dialler_nonce = g->theirs,
                                .acceptor_nonce = g->ours};

    return nx_shm_prove(&claim, of, mac);
}

static void on_hello(nx_shm_guest *g, const nx_shm_word *hello)
{
    nx_shm *shm = g->shm;
    nx_shm_word w = {.type = NX_SHM_CHALLENGE};

    if ((hello->from == 0) || (hello->from == shm->member) || (hello->to != shm->member)) {
        refuse(g, NX_SHM_STRANGER);
        return;
    }
    if (!shm->config.find(shm->config.ctx, hello->from, &g->offer)) {
        refuse(g, NX_SHM_TAKEN);
        return;
    }
    g->from = hello->from;
    memcpy(g->theirs, hello->nonce, sizeof(g->theirs));
    nx_random_fill(shm->config.random, g->ours, sizeof(g->ours));
    memcpy(w.nonce, g->ours, sizeof(w.nonce));
    if ((prove(g, NX_SHM_CHALLENGE, w.mac) != NEXAR_OK) ||
        (nx_shm_send(g->socket.fd, &w, NULL, 0) != NEXAR_OK)) {
        nx_shm_guest_free(g);
    }
}

/* ---- after the proof ----------------------------------------------------------------- */

/* Neither side is committed before WELCOME has been sent; from then on this side is. */
static void park(nx_shm_guest *g, nx_shm_link *link)
{
    const nx_shm_word w = {.type = NX_SHM_REFUSED, .why = NX_SHM_CROSSING};

    if (nx_shm_send(g->socket.fd, &w, NULL, 0) != NEXAR_OK) {
        nx_shm_guest_free(g);
        return;
    }
    nx_loop_timer_cancel(g->shm->config.loop, &g->timer);
    nx_list_remove(&g->link);
    nx_list_push_back(&link->parked, &g->link);
}

/* |link|, which is new or was dialling, takes the guest's socket and |segment|. */
static void let_in(nx_shm_guest *g, nx_shm_link *link, const nx_shm_word *proof,
                   nx_segment *segment, int bell)
{
    int fd = g->socket.fd;

    nx_loop_fd_remove(g->shm->config.loop, &g->socket);
    nx_shm_pair_abandon(link);
    link->failed = false; /* this side's own attempt may have failed: that no longer matters */
    link->offer = g->offer;
    link->segment = segment;
    link->side = 1;
    nx_shm_pair_done(link, proof, fd, g->pid, bell);
    g->socket.fd = -1;
    nx_shm_guest_free(g);
}

/* the owner wants no link */
static void welcome(nx_shm_guest *g, nx_shm_link *link, const nx_shm_word *proof, const int *fds)
{
    nx_shm *shm = g->shm;
    const nx_shm_word w = {
        .type = NX_SHM_WELCOME, .at = (uint64_t)(uintptr_t)&shm->token, .token = shm->token};
    nx_segment *segment = NULL;
    bool fresh = (link == NULL);

    if (!nx_shm_is_bell(fds[1]) || (nx_segment_map(fds[0], &segment) != NEXAR_OK)) {
        nx_shm_close_fds(fds, NX_SHM_FDS);
        refuse(g, NX_SHM_TROUBLE);
        return;
    }
    nx_shm_close_fds(fds, 1); /* the mapping stays */
    if (fresh && (nx_shm_link_create(shm, g->from, &link) != NEXAR_OK)) {
        nx_segment_unmap(segment);
        nx_shm_close_fds(&fds[1], 1);
        refuse(g, NX_SHM_TROUBLE);
        return;
    }
    if (nx_shm_send(g->socket.fd, &w, &shm->bell.fd, 1) != NEXAR_OK) {
        nx_segment_unmap(segment);
        nx_shm_close_fds(&fds[1], 1);
        if (fresh) {
            nx_shm_link_free(link);
        }
        nx_shm_guest_free(g);
        return;
    }
    let_in(g, link, proof, segment, fds[1]);
    if (fresh) {
        shm->config.on_accept(shm->config.ctx, &link->base, link->member);
        if (!link->closed && (link->base.up == NULL)) {
            nx_link_close(&link->base,
                          false); /* the caller sees this, and uses another transport */
        }
    }
}

static void on_proof(nx_shm_guest *g, const nx_shm_word *proof, const int *fds)
{
    nx_shm *shm = g->shm;
    nx_shm_link *link = nx_map_get(&shm->by_member, g->from);
    uint8_t mac[NX_SHM_MAC];
    nx_shm_offer offer;

    if ((prove(g, NX_SHM_PROOF, mac) != NEXAR_OK) || !nx_shm_mac_equal(mac, proof->mac)) {
        nx_shm_close_fds(fds, NX_SHM_FDS);
        nx_log_limited(&shm->refusals, nx_loop_now(shm->config.loop), NX_LOG_WARN,
                       "shm: refused pid %ld, which could not prove to be member %" PRIu64,
                       (long)g->pid, g->from);
        refuse(g, NX_SHM_STRANGER);
        return;
    }
    if ((link != NULL) && nx_shm_pairing(&link->base) && (shm->member < g->from)) {
        nx_shm_close_fds(fds, NX_SHM_FDS);
        park(g, link);
    } else if (((link != NULL) && !nx_shm_pairing(&link->base)) ||
               !shm->config.find(shm->config.ctx, g->from, &offer)) {
        nx_shm_close_fds(fds, NX_SHM_FDS);
        refuse(g, NX_SHM_TAKEN);
    } else {
        welcome(g, link, proof, fds);
    }
}

/* ---- new callers --------------------------------------------------------------------- */

static void on_ready(nx_fd *fd, uint32_t events)
{
    nx_shm_guest *g = nx_list_entry(fd, nx_shm_guest, socket);
    int fds[NX_SHM_FDS], got;
    nx_shm_word w;

    (void)events;
    got = nx_shm_receive(fd->fd, &w, fds, (g->from == 0) ? 0 : NX_SHM_FDS);
    if (got == 0) {
        return;
    }
    if ((got > 0) && (w.type == NX_SHM_HELLO) && (g->from == 0)) {
        on_hello(g, &w);
    } else if ((got > 0) && (w.type == NX_SHM_PROOF) && (g->from != 0) && (fds[1] >= 0)) {
        on_proof(g, &w, fds);
    } else {
        nx_shm_close_fds(fds, (got > 0) ? NX_SHM_FDS : 0);
        nx_shm_guest_free(g);
    }
}

static void on_late(nx_timer *timer, uint64_t now_ns)
{
    (void)now_ns;
    nx_shm_guest_free(nx_list_entry(timer, nx_shm_guest, timer));
}

void nx_shm_guest_add(nx_shm *shm, int fd)
{
    nx_loop *loop = shm->config.loop;
    nx_shm_guest *g;
    pid_t pid;

    if (nx_shm_peer(fd, &pid) != NEXAR_OK) {
        nx_log_limited(&shm->refusals, nx_loop_now(loop), NX_LOG_WARN, "shm: refused a caller: %s",
                       nexar_last_error());
        (void)nx_sys_close(fd);
        return;
    }
    if ((shm->nguests >= GUESTS_MAX) && !nx_list_empty(&shm->guests)) {
        nx_shm_guest_free(nx_list_entry(shm->guests.next, nx_shm_guest, link));
    }
    g = nx_zalloc(sizeof(*g));
    if (g == NULL) {
        (void)nx_sys_close(fd); /* the caller sees this, and uses another transport */
        return;
    }
    g->shm = shm;
    g->pid = pid;
    g->socket = (nx_fd){.fd = fd, .on_ready = on_ready};
    g->timer.on_expire = on_late;
    nx_list_push_back(&shm->guests, &g->link);
    shm->nguests++;
    if ((nx_loop_fd_add(loop, &g->socket, EPOLLIN) != NEXAR_OK) ||
        (nx_loop_timer_set(loop, &g->timer, nx_loop_now(loop) + PATIENCE_NS) != NEXAR_OK)) {
        nx_shm_guest_free(g);
    }
}
