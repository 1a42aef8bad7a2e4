/* formation.c - the seed's view of the processes of a job. */
#include "formation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/os/sys.h"

nexar_err nx_formation_init(nx_formation *f, uint32_t n)
{
    *f = (nx_formation){.n = n, .notes = {-1, -1}, .news = -1};
    (void)pthread_mutex_init(&f->lock, NULL);
    f->seats = nx_calloc(n, sizeof(*f->seats));
    if (f->seats == NULL) {
        nx_formation_fini(f);
        return nx_fail_nomem("the ranks");
    }
    f->news = nx_sys_eventfd(0);
    if ((f->news < 0) || (nx_sys_pipe(f->notes, O_NONBLOCK) != 0)) {
        const int code = errno;

        nx_formation_fini(f);
        return nx_fail_sys("eventfd or pipe2", "", code);
    }
    return NEXAR_OK;
}

static void close_fd(int *fd)
{
    if (*fd >= 0) {
        (void)nx_sys_close(*fd);
        *fd = -1;
    }
}

void nx_formation_fini(nx_formation *f)
{
    close_fd(&f->notes[0]);
    close_fd(&f->notes[1]);
    close_fd(&f->news);
    nx_free(f->seats);
    f->seats = NULL;
    (void)pthread_mutex_destroy(&f->lock);
}

/* The seat of |m|: found by its number, since ranks change with the world. A new member is found
 * by the rank that it has requested. NULL: |m| was not started here. */
static nx_formation_seat *seat_of(nx_formation *f, const nx_member *m, bool joins)
{
    if (joins && (m->rank < f->n)) {
        return &f->seats[m->rank];
    }
    for (uint32_t i = 0; i < f->n; i++) {
        if (f->seats[i].member == m->id) {
            return &f->seats[i];
        }
    }
    return NULL;
}

static void set_presence(nx_formation *f, const nx_member *m, nx_presence presence, bool joins)
{
    nx_formation_seat *seat;

    (void)pthread_mutex_lock(&f->lock);
    seat = seat_of(f, m, joins);
    if (seat != NULL) {
        *seat = (nx_formation_seat){.member = m->id, .presence = presence};
    }
    (void)pthread_mutex_unlock(&f->lock);
    nx_sys_event_set(f->news);
}

/* Once connected, rank 0 reports the same itself. */
static bool is_said_by_rank_0(nx_formation *f)
{
    return nx_formation_presence(f, 0) == NX_PRESENCE_JOINED;
}

static void print(const nx_formation *f, const char *text)
{
    char line[NX_LOG_ROOM];
    const int len = snprintf(line, sizeof(line), "%.*s\n", NX_LOG_ROOM - 2, text);

    (void)nx_sys_write(f->notes[1], line, (size_t)len);
}

void nx_formation_on_event(void *ctx, const nx_seed_event *event)
{
    nx_formation *f = ctx;
    bool is_said = false;

    switch (event->kind) {
    case NX_SEED_JOINED:
        set_presence(f, event->member, NX_PRESENCE_JOINED, true);
        break;
    case NX_SEED_BACK:
        set_presence(f, event->member, NX_PRESENCE_JOINED, false);
        break;
    case NX_SEED_LEFT:
        set_presence(f, event->member, NX_PRESENCE_FINALIZED, false);
        break;
    case NX_SEED_LOST:
        set_presence(f, event->member, NX_PRESENCE_LOST, false);
        break;
    case NX_SEED_STALLED:
        is_said = !is_said_by_rank_0(f);
        break;
    case NX_SEED_REFUSED:
    case NX_SEED_TIMEOUT:
        is_said = true;
        break;
    case NX_SEED_FORMED:
    case NX_SEED_WAITING:
    case NX_SEED_CHANGED:
    case NX_SEED_ENDED:
        break;
    }
    if (is_said) {
        print(f, event->text);
    }
}

nx_presence nx_formation_presence(nx_formation *f, uint32_t rank)
{
    nx_presence presence;

    (void)pthread_mutex_lock(&f->lock);
    presence = (rank < f->n) ? f->seats[rank].presence : NX_PRESENCE_NONE;
    (void)pthread_mutex_unlock(&f->lock);
    return presence;
}
