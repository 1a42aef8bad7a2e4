/* aftermath.c - the end of all that needs the dead. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "core/accord.h"
#include "core/comm.h"
#include "core/failure_inner.h"
#include "core/recover.h"
#include "core/roster.h"

/* A call of the application's function. */
typedef struct call {
    nx_job job;
    nx_list link;
    nexar_comm *comm; /* held */
    nexar_failure_fn fn;
    void *arg;
    int rank;
    char why[NX_FAILURE_WHY + NX_PEER_TEXT];
} call;

/* ---- the application's functions --------------------------------------------------------- */

static void call_work(nx_job *job)
{
    const call *c = nx_list_entry(job, call, job);

    c->fn(c->comm, c->rank, c->why, c->arg);
}

static void call_free(call *c)
{
    nx_list_remove(&c->link);
    nx_free(c);
}

static void call_done(nx_job *job)
{
    call *c = nx_list_entry(job, call, job);
    nexar_comm *comm = c->comm;

    call_free(c);
    nx_world_end(comm->world, NEXAR_OK);
    nx_comm_release(comm);
}

static void call_one(nexar_comm *comm, uint32_t rank)
{
    nx_failure *f = comm->world->failure;
    call *c = nx_zalloc(sizeof(*c));
    char text[NX_PEER_TEXT];

    if (c == NULL) {
        nx_log(NX_LOG_WARN, "no memory to tell the application that a rank has failed");
        return;
    }
    c->job = (nx_job){.work = call_work, .done = call_done};
    c->comm = comm;
    c->fn = comm->on_failure;
    c->arg = comm->on_failure_arg;
    c->rank = (int)nx_roster_rank(comm, nx_comm_peer(comm, rank));
    (void)snprintf(c->why, sizeof(c->why), "%s: %s",
                   nx_world_peer_text(comm->world, nx_comm_peer(comm, rank), text),
                   nx_failure_why(comm->world, nx_comm_peer(comm, rank)));
    nx_list_push_back(&f->calls, &c->link);
    nx_comm_hold(comm);
    nx_world_begin(comm->world); /* finalize waits: whoever asked to be told is told */
    if (nx_world_work(comm->world, &c->job) != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "the application is not told that a rank has failed: %s",
               nexar_last_error());
        call_done(&c->job);
    }
}

void nx_failure_call(nexar_comm *comm)
{
    const nx_failure *f = comm->world->failure;

    for (uint32_t rank = 0; (comm->on_failure != NULL) && (rank < comm->size); rank++) {
        if (nx_rankset_has(&f->dead, nx_comm_peer(comm, rank)) && !comm->world->closing &&
            nx_rankset_add(&comm->called, rank)) {
            call_one(comm, rank);
        }
    }
}

void nx_failure_keep_called(const nexar_comm *from, nexar_comm *to)
{
    for (uint32_t rank = 0; rank < to->size; rank++) {
        const int was = nx_comm_find_peer(from, nx_comm_peer(to, rank));

        if ((was >= 0) && nx_rankset_has(&from->called, (uint32_t)was)) {
            (void)nx_rankset_add(&to->called, rank);
        }
    }
}

/* ---- what follows ------------------------------------------------------------------------- */

/* Receives from anybody end where nobody else of |comm| is left. */
static void check_alone(nexar_comm *comm)
{
    const nx_failure *f = comm->world->failure;
    bool alone = (comm->size > 1);

    for (uint32_t rank = 0; alone && !f->expelled && (rank < comm->size); rank++) {
        const uint32_t peer = nx_comm_peer(comm, rank);

        alone = (rank == comm->rank) || nx_rankset_has(&f->dead, peer) ||
                nx_rankset_has(&f->left, peer);
    }
    if (alone) {
        comm->alone = true;
        nx_comm_fail_any(comm);
    }
}

/* Calls |each| for all communicators that |rank| is in. */
static void with_comms(nx_world *world, uint32_t rank, void (*each)(nexar_comm *comm))
{
    if ((world->comm != NULL) && (nx_comm_find_peer(world->comm, rank) >= 0)) {
        each(world->comm);
    }
    nx_list_for_each (at, &world->comms) {
        nexar_comm *comm = nx_list_entry(at, nexar_comm, link);

        if (nx_comm_find_peer(comm, rank) >= 0) {
            each(comm);
        }
    }
}

static void sentence_of(const nx_world *world, uint32_t rank, char *buf, size_t size)
{
    char text[NX_PEER_TEXT];

    (void)snprintf(buf, size, "%s has failed: %s", nx_world_peer_text(world, rank, text),
                   nx_failure_why(world, rank));
}

/* This rank is out: nothing that needs others can go on. */
static void expel(nx_failure *f, const char *why)
{
    nx_world *world = f->world;

    f->expelled = true;
    nx_log(NX_LOG_WARN, "%s", why);
    nx_loop_timer_cancel(world->loop, &f->timer);
    for (uint32_t peer = 0; peer < world->slots; peer++) {
        nx_msg_fail_peer(world->msg, peer, NEXAR_EPEER, why);
    }
    nx_hub_on_death(world->hub, world->self, NEXAR_EPEER, why);
    nx_accord_failed(world, world->self);
    with_comms(world, world->self, check_alone);
    nx_recover_abort(world, why);
}

void nx_aftermath_bury(nx_failure *f, uint32_t rank)
{
    nx_world *world = f->world;
    char sentence[NX_FAILURE_WHY + NX_PEER_TEXT + 32];
    const char *why = nx_failure_why(world, rank);

    (void)nx_rankset_add(&f->dead, rank);
    if (rank == world->self) {
        (void)snprintf(sentence, sizeof(sentence), "the other ranks hold this one for dead: %s",
                       why);
        expel(f, sentence);
        return;
    }
    sentence_of(world, rank, sentence, sizeof(sentence));
    nx_log(NX_LOG_INFO, "%s", sentence);
    nx_recover_abort(world, sentence);
    nx_gate_drop(&f->gate, rank);
    /* If it lives, and reads again, it learns what it is held for. */
    nx_health_tell(f->health, rank, why, nx_loop_now(world->loop));
    (void)nx_health_told(f->health, rank, nx_loop_now(world->loop));
    nx_flood_failed(f->flood, rank);
    if (nx_flood_start(f->flood, nx_flood_key(NX_FLOOD_DEAD, rank), why, strlen(why)) != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "others are not told that rank %" PRIu32 " has failed: %s", rank,
               nexar_last_error());
    }
    nx_accord_failed(world, rank);
    nx_msg_fail_peer(world->msg, rank, NEXAR_EPEER, why);
    nx_hub_on_death(world->hub, rank, NEXAR_EPEER, sentence);
    with_comms(world, rank, check_alone);
    with_comms(world, rank, nx_recover_on_failure);
    with_comms(world, rank, nx_failure_call);
}

void nx_failure_quit(nx_world *world, const char *why)
{
    nx_failure *f = world->failure;

    if (!f->expelled && !f->quiet) {
        (void)nx_rankset_add(&f->dead, world->self);
        expel(f, why);
    }
}

void nx_failure_opened(nexar_comm *comm)
{
    nx_world *world = comm->world;
    const nx_failure *f = world->failure;
    char sentence[NX_FAILURE_WHY + NX_PEER_TEXT + 32];

    for (uint32_t rank = 0; rank < comm->size; rank++) {
        const uint32_t peer = nx_comm_peer(comm, rank);

        if (nx_rankset_has(&f->dead, peer)) {
            sentence_of(world, peer, sentence, sizeof(sentence));
            nx_group_break(&comm->group, NEXAR_EPEER, sentence);
            nx_recover_want(comm);
        }
    }
    check_alone(comm);
    nx_accord_opened(comm);
}

void nx_aftermath_left(nx_failure *f, uint32_t rank)
{
    nx_accord_left(f->world);
    with_comms(f->world, rank, check_alone);
    with_comms(f->world, rank, nx_recover_wake); /* who waits for its word looks again */
}

void nx_aftermath_stop(nx_failure *f)
{
    while (!nx_list_empty(&f->calls)) {
        call_free(nx_list_entry(f->calls.next, call, link));
    }
}
