/* link.c - a link of the shm transport: operations, its end, moving to another transport. */
#include <assert.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/os/sys.h"
#include "shm_inner.h"

enum { TELLS = 256 }; /* on_sent in one iteration */

/* Time limit for queued data when a link is closed with drain. */
static const uint64_t DRAIN_NS = UINT64_C(10000000000);

/* ---- parts --------------------------------------------------------------------------- */

void nx_shm_part_end(nx_shm_link *link, nx_tx *tx, nexar_err err)
{
    tx->owner = link;
    tx->stream = (uint64_t)(unsigned)err;
    nx_list_push_back(&link->ended, &tx->link);
    nx_shm_trouble(link);
}

static void end_list(nx_shm_link *link, nx_list *list, nexar_err err)
{
    for (nx_list *at = nx_list_pop(list); at != NULL; at = nx_list_pop(list)) {
        nx_shm_part_end(link, nx_list_entry(at, nx_tx, link), err);
    }
}

static void drop_frames(nx_shm_link *link)
{
    for (int lane = 0; lane < NX_LANES; lane++) {
        nx_list *at;

        while ((at = nx_list_pop(&link->frames[lane])) != NULL) {
            nx_free(nx_list_entry(at, nx_shm_frame, link));
        }
    }
}

void nx_shm_link_give_up(nx_shm_link *link, nexar_err err)
{
    if (link->segment != NULL) {
        /* Before the parts return to their owners: reads by the peer from now on do not count. */
        if (atomic_load(&nx_shm_way_out(link)->closed) != NX_SHM_DISMISSED) {
            atomic_store(&nx_shm_way_out(link)->closed, NX_SHM_GIVEN_UP);
        }
    }
    drop_frames(link);
    end_list(link, &link->big, err);
    end_list(link, &link->small, err);
    for (int i = 0; i < NX_SHM_OFFERS; i++) {
        if (link->lent[i].tx != NULL) {
            nx_shm_part_end(link, link->lent[i].tx, err);
            link->lent[i].tx = NULL;
        }
    }
    link->nlent = 0;
    link->cancels = 0;
}

/* ---- ending -------------------------------------------------------------------------- */

static void close_fd(nx_shm *shm, nx_fd *fd)
{
    nx_loop_fd_remove(shm->config.loop, fd);
    if (fd->fd >= 0) {
        (void)nx_sys_close(fd->fd);
        fd->fd = -1;
    }
}

/* The peer notices immediately. */
static void hang_up(nx_shm_link *link)
{
    close_fd(link->shm, &link->socket);
    nx_loop_fd_remove(link->shm->config.loop, &link->process);
    link->process.fd = -1;
    nx_pidfd_unref(link->peer);
    link->peer = NULL;
}

void nx_shm_link_down(nx_shm_link *link, nexar_err err, const char *format, ...)
{
    va_list args;

    if (link->state == NX_SHM_DOWN) {
        return;
    }
    link->state = NX_SHM_DOWN;
    link->err = err;
    va_start(args, format);
    (void)vsnprintf(link->why, sizeof(link->why), format, args);
    va_end(args);
    nx_shm_link_give_up(link, err);
    hang_up(link);
    nx_shm_trouble(link);
}

static void forget(nx_shm_link *link)
{
    if (nx_map_get(&link->shm->by_member, link->member) == link) {
        (void)nx_map_take(&link->shm->by_member, link->member);
    }
}

void nx_shm_link_free(nx_shm_link *link)
{
    nx_shm_pair_abandon(link);
    if (link->segment != NULL) {
        if (link->draining && (link->state == NX_SHM_UP)) {
            atomic_store(&nx_shm_way_out(link)->closed, NX_SHM_LEFT);
        }
        for (int i = 0; i < NX_SHM_RINGS; i++) {
            (void)nx_ring_publish(&link->out[i]); /* a drained link: the peer reads it */
        }
        nx_segment_unmap(link->segment);
    }
    hang_up(link);
    if (link->bell >= 0) {
        (void)nx_sys_close(link->bell);
    }
    drop_frames(link);
    forget(link);
    nx_list_remove(&link->links);
    nx_list_remove(&link->dirty);
    nx_list_remove(&link->troubled);
    nx_loop_timer_cancel(link->shm->config.loop, &link->timer);
    for (int lane = 0; lane < NX_LANES; lane++) {
        nx_free(link->pieces[lane].data);
    }
    explicit_bzero(&link->offer, sizeof(link->offer));
    nx_free(link);
}

/* ---- moving -------------------------------------------------------------------------- */

static nexar_err move_frames(nx_shm_link *link, nx_link *to, nx_lane lane)
{
    nx_list_for_each (at, &link->frames[lane]) {
        nx_shm_frame *f = nx_list_entry(at, nx_shm_frame, link);
        const nx_bytes bytes = {.ptr = f->data, .len = f->len};
        nexar_err err = nx_link_send_frame(to, lane, &bytes, 1);

        if (err != NEXAR_OK) {
            return err;
        }
    }
    return NEXAR_OK;
}

static nexar_err move_queues(nx_shm_link *link, nx_link *to)
{
    nexar_err err = move_frames(link, to, NX_LANE_CONTROL);

    err = (err == NEXAR_OK) ? move_frames(link, to, NX_LANE_MESSAGE) : err;
    while ((err == NEXAR_OK) && !nx_list_empty(&link->small)) {
        nx_tx *tx = nx_list_entry(link->small.next, nx_tx, link);

        nx_list_remove(&tx->link);
        err = nx_link_send_part(to, tx);
        if (err != NEXAR_OK) {
            nx_list_push_front(&link->small, &tx->link);
        }
    }
    return err;
}

nexar_err nx_shm_move(nx_link *base, nx_link *to)
{
    nx_shm_link *link = nx_shm_from_base(base);
    nexar_err err = move_queues(link, to);

    assert(nx_shm_pairing(base));
    if (err != NEXAR_OK) {
        nx_shm_link_down(link, err, "what was queued could not be sent otherwise: %s",
                         nexar_strerror(err));
        return err;
    }
    drop_frames(link);
    nx_shm_pair_abandon(link);
    forget(link);
    if (link->closed) {
        nx_link_close(to, true);
    } else {
        link->base.up->on_moved(link->base.up_ctx, &link->base, to);
    }
    link->closed = true;
    link->draining = false;
    nx_shm_trouble(link);
    return NEXAR_OK;
}

/* Pairing has failed, and no alternative is left: checks whether the peer has exited. */
static void give_up(nx_shm_link *link)
{
    char why[sizeof(link->why)];

    if (nx_shm_pair_again(link)) {
        return;
    }
    memcpy(why, link->why, sizeof(why));
    if (link->nobody) {
        link->base.ended = NX_END_GONE;
        nx_shm_link_down(link, NEXAR_EPEER, "nothing listens at its socket any more");
    } else {
        nx_shm_link_down(link, NEXAR_ECONNECT, "%s", why);
    }
}

/* Pairing has failed. */
static void fall_back(nx_shm_link *link)
{
    const nx_shm_config *config = &link->shm->config;
    const nx_link_up *up = link->base.up;
    nx_link *to = NULL;
    nexar_err err;

    link->failed = false;
    if ((config->fallback == NULL) || (!link->closed && (up->on_moved == NULL))) {
        give_up(link);
        return;
    }
    forget(link); /* from now on another transport has the member: see find */
    err = config->fallback(config->ctx, link->member, link->why, up, link->base.up_ctx, &to);
    if (err != NEXAR_OK) {
        nx_shm_link_down(link, err, "%s", nexar_last_error());
    } else if (nx_shm_move(&link->base, to) != NEXAR_OK) {
        nx_link_close(to, false);
    }
}

/* ---- upcalls ------------------------------------------------------------------------- */

void nx_shm_notify_up(nx_shm_link *link)
{
    if (!link->told_up && nx_shm_listens(link)) {
        link->told_up = true;
        link->base.up->on_up(link->base.up_ctx, &link->base);
    }
}

/* At most |most| of them: an owner that sends again in each callback must not starve other
 * links. */
static void tell_ended(nx_shm_link *link, int most)
{
    nx_list *at;

    while ((most-- > 0) && ((at = nx_list_pop(&link->ended)) != NULL)) {
        nx_tx *tx = nx_list_entry(at, nx_tx, link);

        tx->owner = NULL;
        link->base.up->on_sent(link->base.up_ctx, &link->base, tx, (nexar_err)tx->stream);
    }
}

void nx_shm_link_see_to(nx_shm_link *link)
{
    nx_shm_notify_up(link);
    tell_ended(link, TELLS);
    if (link->failed && (link->state != NX_SHM_DOWN) && (!link->closed || link->draining)) {
        fall_back(link);
    }
    if (!nx_list_empty(&link->ended)) {
        nx_shm_trouble(link);
    } else if (link->closed) {
        if (!link->draining || (link->state == NX_SHM_DOWN) ||
            ((link->state == NX_SHM_UP) && nx_shm_all_sent(link))) {
            nx_shm_link_free(link);
        }
    } else if ((link->state == NX_SHM_DOWN) && !link->told_down) {
        link->told_down = true;
        link->base.up->on_down(link->base.up_ctx, &link->base, link->err, link->why);
    }
}

/* ---- operations ---------------------------------------------------------------------- */

static nexar_err check_open(const nx_shm_link *link)
{
    assert(!link->closed);
    return (link->state == NX_SHM_DOWN) ? nx_fail(link->err, "%s", link->why) : NEXAR_OK;
}

static nexar_err keep_frame(nx_shm_link *link, nx_lane lane, const nx_bytes *bytes, size_t n,
                            size_t len)
{
    nx_shm_frame *f = nx_grow(NULL, sizeof(*f) + len, 1);

    if (f == NULL) {
        return nx_fail_nomem("a frame");
    }
    f->len = 0;
    f->sent = 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i].len > 0) {
            memcpy(f->data + f->len, bytes[i].ptr, bytes[i].len);
            f->len += bytes[i].len;
        }
    }
    nx_list_push_back(&link->frames[lane], &f->link);
    return NEXAR_OK;
}

static nexar_err send_frame(nx_link *base, nx_lane lane, const nx_bytes *bytes, size_t n)
{
    nx_shm_link *link = nx_shm_from_base(base);
    uint32_t room = (lane == NX_LANE_CONTROL) ? NX_SHM_CONTROL_ROOM : NX_SHM_MESSAGE_ROOM;
    nexar_err err = check_open(link);
    size_t len = 0, sent = 0;

    if (err != NEXAR_OK) {
        return err;
    }
    for (size_t i = 0; i < n; i++) {
        len += bytes[i].len;
    }
    if (len > NX_FRAME_MAX) {
        return nx_fail(NEXAR_EINVAL, "a frame of %zu bytes, more than %d", len, NX_FRAME_MAX);
    }
    /* The whole frame or nothing: a sequence of records might stop in the middle. */
    if ((link->state == NX_SHM_UP) && nx_list_empty(&link->frames[lane]) &&
        (len <= nx_ring_most(room)) && nx_shm_put_frame(link, lane, bytes, n, &sent)) {
        return NEXAR_OK;
    }
    err = keep_frame(link, lane, bytes, n, len);
    if (err == NEXAR_OK) {
        nx_shm_pump(link);
    }
    return err;
}

static void push(nx_link *base)
{
    nx_shm_link *link = nx_shm_from_base(base);

    if ((link->state == NX_SHM_UP) && nx_list_linked(&link->dirty)) {
        nx_shm_publish(link);
        nx_shm_clean(link);
    }
}

static nexar_err send_part(nx_link *base, nx_tx *tx)
{
    nx_shm_link *link = nx_shm_from_base(base);
    nexar_err err = check_open(link);
    uint64_t len = 0;

    if (err != NEXAR_OK) {
        return err;
    }
    for (size_t i = 0; i < tx->nbytes; i++) {
        len += tx->bytes[i].len;
    }
    if (len != tx->len) {
        return nx_fail(NEXAR_EINVAL, "a part of %" PRIu64 " bytes whose stretches have %" PRIu64,
                       tx->len, len);
    }
    tx->stream = tx->queued = tx->acked = 0;
    nx_shm_part_queue(link, tx);
    nx_shm_pump(link);
    return NEXAR_OK;
}

static void cancel_part(nx_link *base, nx_tx *tx)
{
    nx_shm_link *link = nx_shm_from_base(base);

    if (tx->owner == NULL) {
        nx_list_remove(&tx->link);
        nx_shm_part_end(link, tx, NEXAR_ECANCELED);
    } else if (tx->owner != link) { /* otherwise the part is done, and on_sent will report it */
        nx_shm_recall(link, tx->owner);
    }
}

static void on_drain_late(nx_timer *timer, uint64_t now_ns)
{
    nx_shm_link *link = nx_list_entry(timer, nx_shm_link, timer);

    (void)now_ns;
    nx_shm_link_down(link, NEXAR_ETIMEDOUT, "what was queued was not taken in time");
}

static void close_link(nx_link *base, bool drain)
{
    nx_shm_link *link = nx_shm_from_base(base);
    nx_loop *loop = link->shm->config.loop;

    assert(!link->closed);
    link->closed = true;
    link->draining =
        drain && (link->state != NX_SHM_DOWN) &&
        (nx_loop_timer_set(loop, &link->timer, nx_loop_now(loop) + DRAIN_NS) == NEXAR_OK);
    if (!link->draining) {
        nx_shm_link_give_up(link, NEXAR_ECANCELED);
        forget(link);
    }
    nx_shm_trouble(link);
}

/* In a field of its own: the rings may be full, and only a live reader empties them. */
static void dismiss(nx_link *base, const void *frame, size_t len)
{
    nx_shm_link *link = nx_shm_from_base(base);

    if ((link->state == NX_SHM_UP) && (len <= NX_LAST_MAX)) {
        nx_segment_way *way = nx_shm_way_out(link);

        memcpy(way->last, frame, len);
        way->last_len = (uint32_t)len;
        atomic_store(&way->closed, NX_SHM_DISMISSED);
    }
    close_link(base, false);
}

static void info(const nx_link *base, nx_link_info *out)
{
    const nx_shm_link *link = (const nx_shm_link *)(const void *)base;

    *out = (nx_link_info){.state = (link->state == NX_SHM_UP)     ? "up"
                                   : (link->state == NX_SHM_DOWN) ? "down"
                                                                  : "dialling",
                          .bytes_sent = link->bytes_sent,
                          .bytes_received = link->bytes_received};
    (void)snprintf(out->local, sizeof(out->local), "pid %ld", (long)getpid());
    (void)snprintf(out->remote, sizeof(out->remote), "pid %ld", (long)link->pid);
}

const nx_link_ops nx_shm_ops = {
    .name = "shm",
    .send_frame = send_frame,
    .send_part = send_part,
    .cancel_part = cancel_part,
    .close = close_link,
    .info = info,
    .dismiss = dismiss,
    .push = push,
    .peek_frame = nx_shm_peek_frame,
    .drop_frame = nx_shm_drop_frame,
};

bool nx_shm_is(const nx_link *link)
{
    return link->ops == &nx_shm_ops;
}

bool nx_shm_pairing(const nx_link *link)
{
    nx_shm_state state = ((const nx_shm_link *)(const void *)link)->state;

    return nx_shm_is(link) && ((state == NX_SHM_PAIRING) || (state == NX_SHM_WAITING));
}

/* ---- making -------------------------------------------------------------------------- */

nexar_err nx_shm_link_create(nx_shm *shm, uint64_t member, nx_shm_link **out)
{
    nx_shm_link *link = nx_zalloc(sizeof(*link));

    if (link == NULL) {
        return nx_fail_nomem("a link");
    }
    if (nx_map_put(&shm->by_member, member, link) != NEXAR_OK) {
        nx_free(link);
        return nx_fail_nomem("a link");
    }
    link->base.ops = &nx_shm_ops;
    link->shm = shm;
    link->member = member;
    link->socket.fd = link->process.fd = link->bell = link->segment_fd = -1;
    link->timer.on_expire = on_drain_late;
    for (int i = 0; i < NX_SHM_LENGTHS; i++) {
        nx_adaptive_init(&link->ways[i], NX_BY_RING);
    }
    nx_list_init(&link->parked);
    nx_list_init(&link->dirty);
    nx_list_init(&link->troubled);
    nx_list_init(&link->big);
    nx_list_init(&link->small);
    nx_list_init(&link->ended);
    for (int lane = 0; lane < NX_LANES; lane++) {
        nx_list_init(&link->frames[lane]);
    }
    nx_list_push_back(&shm->links, &link->links);
    *out = link;
    return NEXAR_OK;
}

nexar_err nx_shm_dial(nx_shm *shm, uint64_t member, const nx_link_up *up, void *up_ctx,
                      nx_link **out)
{
    nx_shm_link *link = NULL;
    nexar_err err;

    assert(shm->member != 0);
    if (nx_map_get(&shm->by_member, member) != NULL) {
        return nx_fail(NEXAR_EINVAL, "there is a link to member %" PRIu64 " already", member);
    }
    err = nx_shm_link_create(shm, member, &link);
    if ((err != NEXAR_OK) || (link == NULL)) {
        return err;
    }
    link->base.up = up;
    link->base.up_ctx = up_ctx;
    nx_shm_pair_start(link);
    *out = &link->base;
    return NEXAR_OK;
}
