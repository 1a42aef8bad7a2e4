/*
 * accord_frames.c - frames of agreements: to the machines that they are for, which may still be to
 * be made, or be gone.
 */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "core/accord/accord_inner.h"
#include "core/accord/rescue.h"
#include "core/failure/failure.h"
#include "core/recover/retry.h"
#include "msg/control.h"

/* Frames for communicators that are still to be made: ranks are ahead of each other by one call
 * or two.  So many are kept, and this many more for each slot; of those that are older than any
 * communicator takes to be made, others may take the place. */
enum { STRAYS_MIN = 1024, STRAYS_OF_SLOT = 64 };
#define STALE_NS UINT64_C(600000000000)

typedef struct stray {
    nx_list link;
    uint64_t id;
    uint64_t came_ns;
    uint32_t peer;
    size_t len;
    uint8_t data[];
} stray;

static nx_accord *find_accord(const nx_world *world, uint64_t id)
{
    for (const nx_list *at = world->accords.next; at != &world->accords; at = at->next) {
        nx_accord *a = nx_list_entry(at, nx_accord, link);

        if (a->id == id) {
            return a;
        }
    }
    return NULL;
}

static nexar_comm *find_comm(const nx_world *world, uint64_t id)
{
    for (const nx_list *at = world->comms.next; at != &world->comms; at = at->next) {
        nexar_comm *comm = nx_list_entry(at, nexar_comm, link);

        if (comm->id == id) {
            return comm;
        }
    }
    return ((world->comm != NULL) && (world->comm->id == id)) ? world->comm : NULL;
}

/* A frame for communicator |id|, which was closed here.  What nobody waits for is dropped.  An UP
 * for a recovery that was never begun here, and whose machines are no more (NX_RESCUE_ORPHANS), is
 * waited for, and nobody here can answer it: NEXAR_ENOMEM. */
static nexar_err refuse_late(const nx_world *world, uint64_t id, uint32_t peer, bool up)
{
    if (!up || world->closing ||
        nx_rescue_done(world, id)) { /* one that leaves is not waited for */
        return NEXAR_OK;
    }
    if ((id & NX_RESCUE_ID) != 0) {
        return nx_fail(NEXAR_ENOMEM,
                       "rank %" PRIu32 " rebuilds a communicator of which nothing is kept here",
                       peer);
    }
    nx_log(NX_LOG_WARN, "rank %" PRIu32 " calls for an agreement on a communicator that was freed",
           peer);
    return NEXAR_OK;
}

/* Whether there is room for one more, after the oldest has made it, if it is stale. */
static bool make_room(nx_world *world, uint64_t now_ns)
{
    stray *oldest;

    if (world->nstrays < STRAYS_MIN + (size_t)STRAYS_OF_SLOT * world->slots) {
        return true;
    }
    oldest = nx_list_entry(world->strays.next, stray, link);
    if (now_ns - oldest->came_ns < STALE_NS) {
        return false;
    }
    nx_list_remove(&oldest->link);
    nx_free(oldest);
    world->nstrays--;
    return true;
}

/* Keeps a frame for a communicator that is not here, or answers that it is gone. */
static nexar_err keep(nx_world *world, uint64_t id, uint32_t peer, const void *data, size_t len)
{
    const bool agree = (*(const uint8_t *)data == NX_CONTROL_AGREE);
    uint8_t reply[NX_AGREE_STRAY_MAX];
    size_t nreply = 0;
    stray *s;

    if (agree && !nx_agree_stray(data, len, reply, &nreply)) {
        if (nreply > 0) {
            (void)!nx_msg_send_control(world->msg, peer, reply, nreply);
        }
        return NEXAR_OK;
    }
    if (nx_hub_buried(world->hub, (uint32_t)id)) {
        return refuse_late(world, id, peer, agree && nx_agree_msg_is_up(data, len));
    }
    s = make_room(world, nx_loop_now(world->loop)) ? nx_zalloc(sizeof(*s) + len) : NULL;
    if (s == NULL) {
        return nx_fail_nomem("a frame for a communicator that is not there yet");
    }
    s->id = id;
    s->came_ns = nx_loop_now(world->loop);
    s->peer = peer;
    s->len = len;
    memcpy(s->data, data, len);
    nx_list_push_back(&world->strays, &s->link);
    world->nstrays++;
    return NEXAR_OK;
}

/* A frame CONFIRM. */
static nexar_err confirm_frame(nx_world *world, uint32_t peer, const void *data, size_t len)
{
    nexar_comm *comm;
    uint64_t id;
    nexar_err err = nx_confirm_frame_comm(data, len, &id);
    int rank;

    if (err != NEXAR_OK) {
        return err;
    }
    comm = find_comm(world, id);
    if (comm == NULL) {
        return keep(world, id, peer, data, len);
    }
    rank = nx_comm_find_peer(comm, peer);
    if ((rank < 0) || !comm->recovery.retries) {
        return nx_fail(NEXAR_EPROTO, "rank %" PRIu32 " confirms what is not confirmed here", peer);
    }
    return nx_retry_frame(comm, (uint32_t)rank, data, len);
}

nexar_err nx_accord_frame(nx_world *world, uint32_t peer, const void *data, size_t len)
{
    const bool agree = (*(const uint8_t *)data == NX_CONTROL_AGREE);
    nexar_comm *comm;
    nx_accord *a;
    uint64_t id;
    uint32_t rank;
    nexar_err err;

    if (*(const uint8_t *)data == NX_CONTROL_CONFIRM) {
        return confirm_frame(world, peer, data, len);
    }
    err = agree ? nx_agree_msg_comm(data, len, &id) : nx_flood_frame_group(data, len, &id);
    if (err != NEXAR_OK) {
        return err;
    }
    a = find_accord(world, id);
    if (a == NULL) {
        comm = find_comm(world, id);
        if (comm == NULL) {
            return keep(world, id, peer, data, len);
        }
        a = nx_accord_get(comm);
        if (a == NULL) {
            return NEXAR_ENOMEM;
        }
    }
    rank = nx_accord_rank_in(a, peer);
    if (rank == a->size) {
        return nx_fail(NEXAR_EPROTO, "rank %" PRIu32 " is not in the communicator of its frame",
                       peer);
    }
    return agree ? nx_agree_frame(a->agree, rank, data, len)
                 : nx_flood_frame(a->flood, rank, data, len);
}

void nx_accord_opened(nexar_comm *comm)
{
    nx_world *world = comm->world;

    nx_list_for_each (at, &world->strays) {
        stray *s = nx_list_entry(at, stray, link);

        if ((s->id == comm->id) ||
            ((comm->rescue != NULL) && (s->id == (comm->id | NX_RESCUE_ID)))) {
            nx_list_remove(&s->link);
            world->nstrays--;
            const nexar_err err = nx_accord_frame(world, s->peer, s->data, s->len);

            if (err != NEXAR_OK) {
                nx_log(NX_LOG_WARN, "peer %" PRIu32 " sent what was not taken: %s", s->peer,
                       nexar_last_error());
            }
            if (err == NEXAR_ENOMEM) {
                nx_failure_starve(world);
            }
            nx_free(s);
        }
    }
}

void nx_accord_drop_strays(nx_world *world)
{
    nx_list *at;

    while ((at = nx_list_pop(&world->strays)) != NULL) {
        nx_free(nx_list_entry(at, stray, link));
    }
    world->nstrays = 0;
}
