/* endpoint.c - the socket that peers dial, the eventfd that wakes, and all links. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/sys.h"
#include "shm_inner.h"

enum { ACCEPTS = 16 }; /* in one iteration */
static const uint64_t AGAIN_NS = UINT64_C(100000000);

/* ---- pending work -------------------------------------------------------------------- */

void nx_shm_trouble(nx_shm_link *link)
{
    if (!nx_list_linked(&link->troubled)) {
        nx_list_push_back(&link->shm->troubled, &link->troubled);
        nx_loop_defer(link->shm->config.loop, &link->shm->task);
    }
}

void nx_shm_dirty(nx_shm_link *link)
{
    if (!nx_list_linked(&link->dirty)) {
        nx_list_push_back(&link->shm->dirty, &link->dirty);
        nx_loop_defer(link->shm->config.loop, &link->shm->task);
    }
}

void nx_shm_clean(nx_shm_link *link)
{
    nx_shm *shm = link->shm;

    nx_list_remove(&link->dirty);
    if (nx_list_empty(&shm->dirty) && nx_list_empty(&shm->troubled) && (shm->drained == NULL)) {
        nx_loop_undefer(&shm->task);
    }
}

void nx_shm_wake(nx_shm_link *link)
{
    _Atomic uint32_t *asleep = &nx_shm_way_out(link)->asleep;

    if ((atomic_load(asleep) != 0) && (atomic_exchange(asleep, 0) != 0)) {
        nx_sys_event_set(link->bell);
    }
}

/* ---- the task ------------------------------------------------------------------------ */

void nx_shm_publish(nx_shm_link *link)
{
    bool any = false;

    for (int i = 0; i < NX_SHM_RINGS; i++) {
        any = nx_ring_publish(&link->out[i]) || any;
    }
    if (any) {
        nx_shm_wake(link);
    }
}

static void check_drained(nx_shm *shm)
{
    if (shm->drained == NULL) {
        return;
    }
    nx_list_for_each (at, &shm->links) {
        if (nx_list_entry(at, nx_shm_link, links)->closed) {
            return;
        }
    }
    nx_event_set(shm->config.loop, shm->drained);
    shm->drained = NULL;
}

/* Delivers what is due to owners, then publishes the records that they and others have written. */
static void run(nx_task *task)
{
    nx_shm *shm = nx_list_entry(task, nx_shm, task);
    nx_list batch, *at;

    nx_list_init(&batch);
    while ((at = nx_list_pop(&shm->troubled)) != NULL) {
        nx_list_push_back(&batch, at);
    }
    while ((at = nx_list_pop(&batch)) != NULL) {
        nx_shm_link_see_to(nx_list_entry(at, nx_shm_link, troubled));
    }
    while ((at = nx_list_pop(&shm->dirty)) != NULL) {
        nx_shm_link *link = nx_list_entry(at, nx_shm_link, dirty);

        if (link->state == NX_SHM_UP) {
            nx_shm_publish(link);
        }
    }
    check_drained(shm);
}

/* ---- the eventfd --------------------------------------------------------------------- */

static bool poll_links(nx_shm *shm, bool sleep)
{
    bool found = false;

    nx_list_for_each (at, &shm->links) {
        nx_shm_link *link = nx_list_entry(at, nx_shm_link, links);

        if ((link->state != NX_SHM_UP) || !nx_shm_waiting(link, sleep)) {
            continue;
        }
        found = true;
        if (sleep) {
            break;
        }
        nx_shm_poll(link);
    }
    return found;
}

static bool on_bell_spin(nx_fd *fd)
{
    return poll_links(nx_list_entry(fd, nx_shm, bell), false);
}

/* The driver may be asleep while this thread kicks. Then the count stays set, otherwise the driver
 * might find nothing and sleep on, with all flags cleared by the writers. */
static void on_bell_ready(nx_fd *fd, uint32_t events)
{
    nx_shm *shm = nx_list_entry(fd, nx_shm, bell);

    (void)events;
    if (!shm->asleep) {
        (void)nx_sys_event_clear(fd->fd);
    }
    (void)poll_links(shm, false);
}

static bool on_bell_idle(nx_fd *fd, bool sleep)
{
    nx_shm *shm = nx_list_entry(fd, nx_shm, bell);

    shm->asleep = sleep;
    nx_list_for_each (at, &shm->links) {
        nx_shm_link *link = nx_list_entry(at, nx_shm_link, links);

        if (link->state == NX_SHM_UP) {
            _Atomic uint32_t *asleep = &nx_shm_way_in(link)->asleep;

            if (atomic_load(asleep) != (uint32_t)sleep) {
                atomic_store(asleep, (uint32_t)sleep);
            }
        }
    }
    return sleep && poll_links(shm, true);
}

/* ---- callers ------------------------------------------------------------------------------ */

/* No descriptor is left for the next caller: the caller should see this immediately and use another
 * transport instead of waiting. */
static bool turn_away(nx_shm *shm)
{
    int got;

    if (shm->spare < 0) {
        return false;
    }
    (void)nx_sys_close(shm->spare);
    got = nx_sys_accept(shm->listener.fd);
    if (got >= 0) {
        (void)nx_sys_close(got);
    }
    shm->spare = nx_sys_dup(shm->listener.fd);
    return got >= 0;
}

static void on_listener_ready(nx_fd *fd, uint32_t events)
{
    nx_shm *shm = nx_list_entry(fd, nx_shm, listener);
    nx_loop *loop = shm->config.loop;

    (void)events;
    for (int i = 0; i < ACCEPTS; i++) {
        int got = nx_sys_accept(fd->fd);

        if (got >= 0) {
            nx_shm_guest_add(shm, got);
            continue;
        }
        if (errno != EAGAIN) { /* usually EMFILE or ENFILE */
            (void)nx_fail_sys("accept4", "", errno);
            nx_log_limited(&shm->refusals, nx_loop_now(loop), NX_LOG_INFO,
                           "shm: no caller is let in for now: %s", nexar_last_error());
            if (turn_away(shm)) {
                continue;
            }
            if (nx_loop_timer_set(loop, &shm->again, nx_loop_now(loop) + AGAIN_NS) == NEXAR_OK) {
                nx_loop_fd_remove(loop, fd);
            }
        }
        return;
    }
}

static void on_again(nx_timer *timer, uint64_t now_ns)
{
    nx_shm *shm = nx_list_entry(timer, nx_shm, again);
    nx_loop *loop = shm->config.loop;

    if ((nx_loop_fd_add(loop, &shm->listener, EPOLLIN) != NEXAR_OK) &&
        (nx_loop_timer_set(loop, timer, now_ns + AGAIN_NS) != NEXAR_OK)) {
        nx_log(NX_LOG_WARN, "shm: no memory to listen: callers will use another transport");
    }
}

/* ---- life ---------------------------------------------------------------------------- */

static nexar_err listen_at(nx_shm *shm)
{
    struct sockaddr_storage address;
    socklen_t len = nx_shm_address(shm->offer.name, &address);
    int got;

    shm->listener.fd = nx_sys_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0);
    if ((shm->listener.fd < 0) ||
        (bind(shm->listener.fd, (const struct sockaddr *)&address, len) != 0) ||
        (listen(shm->listener.fd, SOMAXCONN) != 0)) {
        return nx_fail_sys("socket", "a local one", errno);
    }
    /* No connection exists yet. If a sandbox denied the call later, peers would wait in vain. */
    got = nx_sys_accept(shm->listener.fd);
    if (got >= 0) {
        (void)nx_sys_close(got);
    } else if (errno != EAGAIN) {
        return nx_fail_sys("accept4", "a local socket", errno);
    }
    shm->spare = nx_sys_dup(shm->listener.fd);
    shm->bell.fd = nx_sys_eventfd(0);
    return nx_fail_sys("eventfd", "", (shm->bell.fd < 0) ? errno : 0);
}

nexar_err nx_shm_open(nx_shm **out, const nx_shm_config *config)
{
    nx_shm *shm = nx_zalloc(sizeof(*shm));
    nexar_err err;

    if (shm == NULL) {
        return nx_fail_nomem("the shm transport");
    }
    shm->config = *config;
    shm->listener = (nx_fd){.fd = -1, .on_ready = on_listener_ready};
    shm->bell = (nx_fd){
        .fd = -1, .on_ready = on_bell_ready, .on_spin = on_bell_spin, .on_idle = on_bell_idle};
    shm->again.on_expire = on_again;
    shm->spare = -1;
    nx_list_init(&shm->links);
    nx_list_init(&shm->guests);
    nx_list_init(&shm->troubled);
    nx_list_init(&shm->dirty);
    nx_task_init(&shm->task, run);
    nx_random_fill(config->random, &shm->offer, sizeof(shm->offer));
    nx_random_fill(config->random, &shm->token, sizeof(shm->token));
    shm->frame = nx_grow(NULL, NX_FRAME_MAX, 1);
    err = (shm->frame == NULL) ? nx_fail_nomem("the shm transport") : listen_at(shm);
    if (err == NEXAR_OK) {
        err = nx_loop_fd_add(config->loop, &shm->bell, EPOLLIN);
    }
    if (err != NEXAR_OK) {
        nx_shm_close(shm);
        return err;
    }
    *out = shm;
    return NEXAR_OK;
}

const nx_shm_offer *nx_shm_offer_of(const nx_shm *shm)
{
    return &shm->offer;
}

nexar_err nx_shm_start(nx_shm *shm, uint64_t member)
{
    shm->member = member;
    return nx_loop_fd_add(shm->config.loop, &shm->listener, EPOLLIN);
}

void nx_shm_drain(nx_shm *shm, nx_event *done)
{
    shm->drained = done;
    if (done != NULL) {
        nx_loop_defer(shm->config.loop, &shm->task);
    }
}

void nx_shm_close(nx_shm *shm)
{
    nx_loop *loop = shm->config.loop;

    while (!nx_list_empty(&shm->links)) {
        nx_shm_link *link = nx_list_entry(shm->links.next, nx_shm_link, links);

        nx_shm_link_give_up(link, NEXAR_ECANCELED);
        link->closed = true;
        link->draining = false;
        nx_shm_link_see_to(link);
    }
    while (!nx_list_empty(&shm->guests)) {
        nx_shm_guest_free(nx_list_entry(shm->guests.next, nx_shm_guest, link));
    }
    nx_log_limit_end(&shm->refusals, NX_LOG_WARN);
    nx_loop_timer_cancel(loop, &shm->again);
    nx_loop_undefer(&shm->task);
    nx_loop_fd_remove(loop, &shm->listener);
    nx_loop_fd_remove(loop, &shm->bell);
    nx_shm_close_fds((const int[]){shm->listener.fd, shm->bell.fd, shm->spare}, 3);
    nx_map_fini(&shm->by_member);
    nx_free(shm->frame);
    nx_free(shm->bounce);
    explicit_bzero(shm, sizeof(*shm));
    nx_free(shm);
}
