/* create_events.c - frames and events of creations. */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/text/sentence.h"
#include "core/agreement/agreement.h"
#include "core/comm/comm.h"
#include "core/create/create_inner.h"
#include "core/failure/failure.h"
#include "msg/control.h"

_Static_assert((int)NX_CREATION_PEER >= (int)NX_PEER_TEXT, "a name of a rank has room");

/* ---- callbacks of the machine ----------------------------------------------------------- */

static void send_frame(void *ctx, uint32_t to, bool vouch, const void *frame, size_t len)
{
    nx_world *world = ctx;

    if (vouch && (world->failure != NULL)) {
        nx_failure_vouch(world, to, frame, len);
    } else {
        /* An unreachable peer has failed or left; its link reports that. */
        (void)!nx_msg_send_control(world->msg, to, frame, len);
    }
}

static void changed(void *ctx, nx_creation *c)
{
    nx_world *world = ctx;

    nx_event_set(world->loop, &nx_list_entry(c, nx_create_call, creation)->event);
}

static const char *name(void *ctx, uint32_t slot, char *buf)
{
    return nx_world_peer_text(ctx, slot, buf);
}

/* ---- communicators that not all members have -------------------------------------------- */

static nx_incarnation *find_created(const nx_world *world, const nx_creation_key *key)
{
    nx_list_for_each (at, &world->incarnations) {
        nx_incarnation *inc = nx_list_entry(at, nx_incarnation, link);

        if ((inc->created.print == key->print) && (inc->created.tag == key->tag) &&
            (inc->created.parent == key->parent)) {
            return inc;
        }
    }
    return NULL;
}

/* |from| lacks the communicator of |key|, whose leader is gone.  |from| takes part in the
 * agreements there. */
static void lacks(void *ctx, uint32_t from, const nx_creation_key *key)
{
    nx_world *world = ctx;
    const nx_incarnation *inc = find_created(world, key);
    nx_creation_frame f = {.form = NX_CREATION_HAVE, .key = *key};
    uint8_t *buf;
    size_t len;

    if (inc == NULL) {
        return;
    }
    buf = nx_zalloc(NX_FRAME_MAX / 2);
    f.id = inc->id;
    f.n = inc->size;
    f.slots = inc->peers;
    len = (buf == NULL) ? 0 : nx_creation_encode(&f, buf, NX_FRAME_MAX / 2);
    if (len > 0) {
        (void)!nx_msg_send_control(world->msg, from, buf, len);
    } else {
        nx_log(NX_LOG_WARN, "slot %" PRIu32 " is not notified of a communicator that it lacks",
               from);
    }
    nx_free(buf);
}

/* Makes the communicator |f->id|, revokes it and releases it. */
static nexar_err make_and_drop(nx_world *world, const nx_creation_frame *f)
{
    nx_members who = {.id = f->id, .size = f->n, .peers = nx_calloc(f->n, sizeof(*who.peers))};
    nexar_comm *comm = NULL;
    nexar_err err;

    if (who.peers == NULL) {
        return nx_fail_nomem("a communicator");
    }
    nx_creation_members(f, who.peers);
    while ((who.rank < who.size) && (who.peers[who.rank] != world->self)) {
        who.rank++;
    }
    if (who.rank == who.size) {
        nx_free(who.peers);
        return nx_fail(NEXAR_EPROTO, "a communicator that this rank is not in");
    }
    err = nx_comm_create(world->comm, "create", &who, &comm);
    if (err == NEXAR_OK) {
        err = nx_agreement_revoke(comm->inc);
        nx_comm_give_back(comm);
    }
    return err;
}

static void have(void *ctx, const nx_creation_frame *f)
{
    nx_world *world = ctx;
    nexar_err err;

    if ((f->id == 0) || (nx_incarnation_find(world, f->id) != NULL) || world->closing ||
        (world->comm == NULL) || nx_early_is_closed(world->early, f->id)) {
        return;
    }
    err = make_and_drop(world, f);
    if (err == NEXAR_ENOMEM) { /* other ranks wait for this rank there */
        nx_failure_end_receives(world);
    } else if (err != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "a communicator that others have is not dropped here: %s",
               nexar_last_error());
    }
}

static const nx_creation_ops ops = {
    .send = send_frame, .changed = changed, .lacks = lacks, .have = have, .name = name};

/* ---- events ----------------------------------------------------------------------------- */

nexar_err nx_create_open(nx_world *world)
{
    return nx_creations_create(&world->creations, world->self, world->early, &ops, world);
}

void nx_create_stop(nx_world *world)
{
    nx_creations_destroy(world->creations);
    world->creations = NULL;
}

bool nx_create_on_control(nx_world *world, uint32_t peer, const void *data, size_t len)
{
    nexar_err err;

    if (*(const uint8_t *)data != NX_CONTROL_CREATE) {
        return false;
    }
    if (world->creations == NULL) {
        return true;
    }
    err = nx_creations_frame(world->creations, peer, data, len, nx_loop_now(world->loop));
    if (err != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "peer %" PRIu32 " sent what was not taken: %s", peer,
               nexar_last_error());
    }
    if ((err == NEXAR_ENOMEM) && (world->failure != NULL)) {
        nx_failure_end_receives(world);
    }
    return true;
}

void nx_create_gone(nx_world *world, uint32_t slot, const char *why)
{
    if (world->creations != NULL) {
        nx_creations_gone(world->creations, slot, why);
    }
}

void nx_create_revoked(nx_incarnation *inc, const char *why)
{
    if (inc->world->creations != NULL) {
        nx_creations_revoked(inc->world->creations, inc->id, why);
    }
}
