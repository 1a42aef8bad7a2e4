/* recover.c - a communicator becomes that of those who are left. */
#include "core/recover/recover.h"

#include <stdio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cancellation.h"
#include "base/log.h"
#include "base/sentence.h"
#include "core/accord/accord.h"
#include "core/accord/rescue.h"
#include "core/coll/direct.h"
#include "core/failure/failure.h"
#include "core/recover/roster.h"
#include "core/report/pending.h"

/* So long others have to hear who has failed first before they lose this rank too. */
#define ABORT_NS UINT64_C(10000000)

/* In the flags of a rescue: the rank was in the agreement of an update; it has not given up
 * an operation, for want of time, for its device or for want of memory.  The others are of
 * errors (confirm.h), none of which has these bits. */
#define FLAG_UPDATING    UINT64_C(1)
#define FLAG_IN_TIME     (UINT64_C(1) << 31)
#define FLAG_DEVICE_WELL (UINT64_C(1) << 30)
#define FLAG_HAS_MEMORY  (UINT64_C(1) << 29)
#define FLAGS_OWN        (FLAG_UPDATING | FLAG_IN_TIME | FLAG_DEVICE_WELL | FLAG_HAS_MEMORY)

/* A thread that waits until a communicator can be rebuilt. */
typedef struct mender {
    nx_list link; /* in comm->recovery.waiting */
    nx_event event;
} mender;

static int policy(const nx_world *world)
{
    return (int)nx_config_choice(world->config, NX_SET_RECOVERY);
}

/* Whether the application can be told. */
static bool is_ready(const nexar_comm *comm)
{
    const nx_recovery *r = &comm->recovery;

    return (r->state == NX_LOST) || ((r->state == NX_MENDED) && (r->inside == 0));
}

void nx_recover_wake(nexar_comm *comm)
{
    nx_recovery *r = &comm->recovery;
    nx_list *at;

    nx_list_for_each (w, &r->waiting) {
        nx_event_set(comm->world->loop, &nx_list_entry(w, mender, link)->event);
    }
    while (is_ready(comm) && ((at = nx_list_pop(&r->due)) != NULL)) {
        nx_request_done(nx_list_entry(at, nexar_request, due));
    }
}

/* ---- beginning ------------------------------------------------------------------------------ */

nexar_err nx_recover_open(nexar_comm *comm)
{
    nexar_err err = NEXAR_OK;

    if (policy(comm->world) != NX_RECOVERY_AUTOMATIC) {
        return NEXAR_OK;
    }
    comm->recovery.retries = (nx_config_choice(comm->world->config, NX_SET_RETRY) == NX_RETRY_ON);
    nx_confirm_init(&comm->recovery.confirm, comm->id, comm->size, comm->rank);
    if (comm->recovery.retries) {
        err = nx_roster_create(comm, &comm->recovery.now);
    }
    return ((err != NEXAR_OK) || (comm->size == 1)) ? err : nx_rescue_open(comm);
}

void nx_recover_want(nexar_comm *comm)
{
    if ((comm->rescue != NULL) && (comm->recovery.state == NX_WHOLE)) {
        comm->recovery.wanted = true;
        nx_failure_stir(comm->world);
    }
}

/* The flag that says that no operation was given up with |err|. */
static uint64_t flag_against(nexar_err err)
{
    switch ((int)err) {
    case NEXAR_OK:
        return 0;
    case NEXAR_ETIMEDOUT:
        return FLAG_IN_TIME;
    case NEXAR_ENOMEM:
        return FLAG_HAS_MEMORY;
    default:
        return FLAG_DEVICE_WELL;
    }
}

/* What this rank brings: that of its confirmations, and what is said here. */
static void take_input(nx_recovery *r, nx_rescue_input *input)
{
    nx_confirm_freeze(&r->confirm, &input->flags, &input->highest);
    input->flags |= FLAGS_OWN;
    if (!r->updating) {
        input->flags &= ~FLAG_UPDATING;
    }
    input->flags &= ~flag_against(r->gives_up);
}

void nx_recover_begin(nexar_comm *comm, const char *why)
{
    nx_recovery *r = &comm->recovery;
    nx_rescue_input input;

    r->wanted = false;
    if ((comm->rescue == NULL) || (r->state != NX_WHOLE)) {
        return;
    }
    r->state = NX_MENDING;
    if (comm->group.broken != NEXAR_EREVOKED) {
        nx_group_break(&comm->group, NEXAR_EPEER, why);
    }
    nx_comm_end_messages(comm);
    take_input(r, &input);
    nx_rescue_begin(comm, &input, why);
    nx_recover_wake(comm);
}

void nx_recover_on_failure(nexar_comm *comm)
{
    nx_recover_begin(comm, comm->group.broken_why);
}

/* Begins what is wanted of |comm|. */
static void begin_wanted(nexar_comm *comm)
{
    const bool broken = (comm->group.broken != NEXAR_OK);

    if (comm->recovery.wanted) {
        nx_recover_begin(comm, broken ? comm->group.broken_why : "a rank has failed or left");
    }
}

void nx_recover_settle(nx_world *world)
{
    if (world->comm != NULL) {
        begin_wanted(world->comm);
    }
    nx_list_for_each (at, &world->comms) {
        begin_wanted(nx_list_entry(at, nexar_comm, link));
    }
}

/* ---- the outcome ----------------------------------------------------------------------------- */

static void lose(nexar_comm *comm, const char *why)
{
    comm->recovery.state = NX_LOST;
    (void)nx_sentence(comm->recovery.why, sizeof(comm->recovery.why), "%s", why);
    nx_log(NX_LOG_WARN, "a communicator is not rebuilt: %s", why);
}

/* Makes what |comm| is to become, if it is not there.  NEXAR_ENOMEM. */
static nexar_err make_next(nexar_comm *comm)
{
    const nx_outcome *out;
    const char *why;
    nexar_comm *next;
    nexar_err err;

    if (comm->recovery.next != NULL) {
        return NEXAR_OK;
    }
    (void)nx_rescue_outcome(comm, &out, &why);
    err = nx_comm_make_rest(comm, &out->failed, out->id, &next);
    if (err == NEXAR_OK) {
        comm->recovery.next = next;
        nx_rpc_rename(comm->world->rpc, comm->id, next->id);
    }
    return err;
}

/* How many ranks it must have at least. */
static uint32_t fewest(const nexar_comm *comm)
{
    const uint64_t least = nx_config_number(comm->world->config, NX_SET_MIN_WORLD);

    return (nx_recover_is_world(comm) && (least > 0)) ? (uint32_t)least : 1;
}

/* |comm| is to be rebuilt: not all who are left were in the agreement of an update, and
 * nobody goes by that. */
static bool voids_update(const nexar_comm *comm)
{
    const nx_outcome *out;
    const char *why;

    return (comm->recovery.state == NX_MENDED) &&
           (nx_rescue_outcome(comm, &out, &why) == NEXAR_OK) && ((out->flags & FLAG_UPDATING) == 0);
}

void nx_recover_decided(nexar_comm *comm)
{
    nx_recovery *r = &comm->recovery;
    const nx_outcome *out;
    const char *why;
    const nexar_err err = nx_rescue_outcome(comm, &out, &why);
    char few[NX_LOST_WHY];

    if (err != NEXAR_OK) {
        lose(comm, why);
    } else if (comm->size - out->failed.count < fewest(comm)) {
        (void)snprintf(few, sizeof(few), "%u ranks are left; min_world is %u",
                       comm->size - out->failed.count, fewest(comm));
        lose(comm, few);
    } else if (out->id == 0) {
        lose(comm, "its ranks have no ids for communicators left");
    } else {
        r->state = NX_MENDED;
        if (make_next(comm) != NEXAR_OK) {
            nx_log(NX_LOG_WARN, "a communicator is rebuilt later: %s", nexar_last_error());
        } else if (r->freed) {
            nx_recover_freed(comm); /* it was in use still when the agreement began */
        }
    }
    if (voids_update(comm)) {
        nx_accord_abandon(comm);
    }
    nx_recover_wake(comm);
}

/* ---- becoming another ---------------------------------------------------------------------- */

static nexar_change change_of(const nexar_comm *old, const nexar_comm *next)
{
    const nx_outcome *out;
    const char *why;

    (void)nx_rescue_outcome(old, &out, &why);
    return (nexar_change){.old_rank = (int)old->rank,
                          .old_size = (int)old->size,
                          .new_rank = (int)next->rank,
                          .new_size = (int)next->size,
                          .left = (int)out->left,
                          .failed = (int)(out->failed.count - out->left)};
}

/* Takes over what the machines of |next| have come to. */
static void take_recovery(nexar_comm *comm, nexar_comm *next)
{
    nx_recovery *r = &comm->recovery;

    r->state = next->recovery.state;
    r->wanted = next->recovery.wanted;
    r->updating = false;
    r->gives_up = NEXAR_OK;
    r->next = next->recovery.next;
    r->confirm = next->recovery.confirm;
    (void)nx_sentence(r->why, sizeof(r->why), "%s", next->recovery.why);
    r->epoch++;
    if (r->retries) {
        nx_roster_replace(comm, next->recovery.now);
        next->recovery.now = NULL;
    } else {
        comm->known_rank = comm->rank;
        comm->known_size = comm->size;
    }
}

/* |comm|, which is ready, becomes its |next|.  NEXAR_ENOMEM: it is as it was. */
nexar_err nx_recover_become(nexar_comm *comm)
{
    nexar_comm *next;
    nexar_err err = make_next(comm);

    if (err != NEXAR_OK) {
        return err;
    }
    next = comm->recovery.next;
    if (comm->called.words != NULL) {
        err = nx_rankset_init(&next->called, next->size);
        if (err != NEXAR_OK) {
            return err;
        }
        nx_failure_keep_called(comm, next);
    }
    comm->recovery.last = change_of(comm, next);
    nx_accord_closed(comm);
    nx_rescue_close(comm);
    nx_comm_direct_fini(comm);
    nx_group_close(&comm->group);
    nx_hosts_destroy(comm->hosts);
    nx_free(comm->peers);
    nx_rankset_fini(&comm->called);

    comm->id = next->id;
    comm->rank = next->rank;
    comm->size = next->size;
    comm->peers = next->peers;
    comm->hosts = next->hosts;
    comm->called = next->called;
    comm->revoked = next->revoked;
    comm->alone = next->alone;
    comm->board_off = false;
    comm->board_due = 0;
    nx_group_move(&comm->group, &next->group);
    nx_accord_move(comm, next);
    nx_rescue_move(comm, next);
    take_recovery(comm, next);
    next->peers = NULL;
    next->hosts = NULL;
    next->called = (nx_rankset){0};
    next->group.hub = NULL; /* it has nothing left to close */
    nx_comm_release(next);
    nx_log(NX_LOG_INFO, "a communicator of %d ranks is rebuilt with %d, as rank %d",
           comm->recovery.last.old_size, comm->recovery.last.new_size,
           comm->recovery.last.new_rank);
    nx_failure_call(comm);
    return NEXAR_OK;
}

void nx_recover_freed(nexar_comm *comm)
{
    nx_recovery *r = &comm->recovery;
    nexar_comm *next = r->next;

    r->freed = true;
    if (next != NULL) {
        r->next = NULL;
        nx_rpc_forget(comm->world->rpc, next->id);
        nx_recover_freed(next);
        nx_comm_release(next);
    }
}

bool nx_recover_is_world(const nexar_comm *comm)
{
    const nexar_comm *at = comm->world->comm;

    while ((at != NULL) && (at != comm)) {
        at = at->recovery.next;
    }
    return at != NULL;
}

uint32_t nx_recover_last_id(const nexar_comm *comm)
{
    while (comm->recovery.next != NULL) {
        comm = comm->recovery.next;
    }
    return comm->id;
}

/* ---- for collectives ----------------------------------------------------------------------- */

void nx_recover_enter(nexar_comm *comm)
{
    comm->recovery.inside++;
}

void nx_recover_leave(nexar_comm *comm)
{
    comm->recovery.inside--;
    nx_recover_wake(comm);
}

bool nx_recover_wait_change(nexar_comm *comm, uint64_t deadline_ns)
{
    nx_world *world = comm->world;
    mender m = {.event = {0}};
    bool changed;

    nx_list_push_back(&comm->recovery.waiting, &m.link);
    nx_oplog_enter(&world->log);
    changed = nx_loop_wait(world->loop, &m.event, deadline_ns);
    nx_oplog_leave(&world->log);
    nx_list_remove(&m.link);
    return changed;
}

/* Waits until |comm|, of |epoch|, is ready or was rebuilt by another thread; false: it was not
 * before |deadline_ns|. */
static bool wait_ready_until(nexar_comm *comm, unsigned epoch, uint64_t deadline_ns)
{
    while ((comm->recovery.epoch == epoch) && !is_ready(comm)) {
        if (nx_loop_now(comm->world->loop) >= deadline_ns) {
            return false;
        }
        (void)nx_recover_wait_change(comm, deadline_ns);
    }
    return true;
}

static void wait_ready(nexar_comm *comm, unsigned epoch)
{
    (void)wait_ready_until(comm, epoch, UINT64_MAX);
}

nexar_err nx_recover_after(nexar_comm *comm, unsigned epoch, nexar_err err)
{
    char sentence[NX_ERROR_ROOM];

    if ((err != NEXAR_EPEER) || (comm->rescue == NULL) || (comm->recovery.epoch != epoch)) {
        return err;
    }
    (void)nx_sentence(sentence, sizeof(sentence), "%s", nexar_last_error());
    nx_recover_begin(comm, sentence);
    wait_ready(comm, epoch);
    if (comm->recovery.epoch == epoch) {
        if (comm->recovery.state == NX_LOST) {
            return nx_fail(NEXAR_EPEER, "%s; it is not rebuilt: %s", sentence, comm->recovery.why);
        }
        err = nx_recover_become(comm);
    }
    return (err == NEXAR_ENOMEM) ? err : nx_fail(NEXAR_EPEER, "%s", sentence);
}

void nx_recover_request_done(nexar_request *req, nexar_err err)
{
    nexar_comm *comm = req->comm;

    if ((err == NEXAR_EPEER) && (comm->rescue != NULL) && (comm->recovery.epoch == req->epoch)) {
        nx_recover_want(comm);
        req->mends = true;
        if (!is_ready(comm)) {
            nx_list_push_back(&comm->recovery.due, &req->due);
            return;
        }
    }
    nx_request_done(req);
}

bool nx_recover_await(const nexar_request *req, uint64_t deadline_ns)
{
    return !req->mends || wait_ready_until(req->comm, req->epoch, deadline_ns);
}

void nx_recover_claim(nexar_request *req)
{
    nexar_comm *comm = req->comm;

    (void)nx_recover_await(req, UINT64_MAX);
    if (req->mends && (comm->recovery.epoch == req->epoch) && (comm->recovery.state == NX_MENDED) &&
        !comm->recovery.freed && (nx_recover_become(comm) != NEXAR_OK)) {
        nx_log(NX_LOG_WARN, "a communicator is rebuilt later: %s", nexar_last_error());
    }
}

/* ---- for update.h ------------------------------------------------------------------------ */

bool nx_recover_may_update(const nexar_comm *comm)
{
    const nx_mend state = comm->recovery.state;

    return (state == NX_WHOLE) || (state == NX_LOST);
}

bool nx_recover_is_lost(const nexar_comm *comm)
{
    return comm->recovery.state == NX_LOST;
}

void nx_recover_updating(nexar_comm *comm, bool is)
{
    comm->recovery.updating = is;
}

bool nx_recover_update_counts(nexar_comm *comm, bool failed)
{
    if (failed) {
        nx_recover_begin(comm, "a rank has failed, as was agreed in an update");
    }
    while (failed && (comm->recovery.state == NX_MENDING)) {
        (void)nx_recover_wait_change(comm, UINT64_MAX);
    }
    return !voids_update(comm);
}

nexar_err nx_recover_rebuild(nexar_comm *comm, const char *name)
{
    char sentence[NX_ERROR_ROOM];
    nexar_err err;

    (void)nx_sentence(sentence, sizeof(sentence), "%s", comm->group.broken_why);
    wait_ready(comm, comm->recovery.epoch);
    if (comm->recovery.state == NX_LOST) {
        return nx_fail(NEXAR_EPEER, "%s: %s; it is not rebuilt: %s", name, sentence,
                       comm->recovery.why);
    }
    err = nx_recover_become(comm);
    if (err != NEXAR_OK) {
        return err;
    }
    if (comm->recovery.retries) {
        nx_roster_show(comm, comm->recovery.now);
    }
    return nx_fail(NEXAR_EPEER, "%s: %s", name, sentence);
}

/* ---- for retry.h ------------------------------------------------------------------------ */

void nx_recover_queue(nexar_comm *comm, nx_place *turn)
{
    nx_recovery *r = &comm->recovery;

    if (r->busy) { /* whoever gives it hands it to the first */
        nx_list_push_back(&r->turns, &turn->link);
    } else {
        r->busy = true;
        turn->event.set = true;
    }
}

void nx_recover_take_turn(nexar_comm *comm, nx_place *turn)
{
    if (!turn->event.set) {
        nx_oplog_enter(&comm->world->log);
        (void)nx_loop_wait(comm->world->loop, &turn->event, UINT64_MAX);
        nx_oplog_leave(&comm->world->log);
    }
    nx_recover_enter(comm);
}

void nx_recover_give_turn(nexar_comm *comm)
{
    nx_recovery *r = &comm->recovery;
    nx_list *first = nx_list_pop(&r->turns);

    nx_recover_leave(comm);
    r->busy = (first != NULL);
    if (first != NULL) {
        nx_event_set(comm->world->loop, &nx_list_entry(first, nx_place, link)->event);
    }
}

void nx_recover_drain(nexar_comm *comm)
{
    nx_place turn = {0};

    if (comm->recovery.queued > 0) {
        nx_recover_queue(comm, &turn);
        nx_recover_take_turn(comm, &turn);
        nx_recover_give_turn(comm);
    }
}

nexar_err nx_recover_wait_mended(nexar_comm *comm)
{
    const nx_recovery *r = &comm->recovery;

    while ((r->state == NX_MENDING) || ((r->state == NX_MENDED) && (r->inside > 1))) {
        (void)nx_recover_wait_change(comm, UINT64_MAX);
    }
    if (r->state == NX_LOST) {
        return nx_fail(NEXAR_EPEER, "%s; it is not rebuilt: %s", comm->group.broken_why, r->why);
    }
    return NEXAR_OK;
}

void nx_recover_verdict(const nexar_comm *comm, uint64_t *keep, uint32_t *errs)
{
    const nx_outcome *out;
    const char *why;

    (void)nx_rescue_outcome(comm, &out, &why);
    nx_confirm_decide(out->flags | FLAGS_OWN, out->highest, keep, errs);
}

void nx_recover_give_up(nexar_comm *comm, nexar_err err, const char *why)
{
    comm->recovery.gives_up = err;
    nx_recover_begin(comm, why);
}

nexar_err nx_recover_given_up(const nexar_comm *comm)
{
    static const nexar_err errs[] = {NEXAR_EDEVICE, NEXAR_ENOMEM, NEXAR_ETIMEDOUT};
    const nx_outcome *out;
    const char *why;

    (void)nx_rescue_outcome(comm, &out, &why);
    for (size_t i = 0; i < sizeof(errs) / sizeof(errs[0]); i++) {
        if ((out->flags & flag_against(errs[i])) == 0) {
            return errs[i];
        }
    }
    return NEXAR_OK;
}

const nx_rankset *nx_recover_failed(const nexar_comm *comm)
{
    const nx_outcome *out;
    const char *why;

    (void)nx_rescue_outcome(comm, &out, &why);
    return &out->failed;
}

/* ---- the end of the process
 * ---------------------------------------------------------------------- */

static void on_abort(nx_timer *timer, uint64_t now_ns)
{
    (void)timer;
    (void)now_ns;
    _exit(NX_ABORT_CODE);
}

void nx_recover_abort(nx_world *world, const char *sentence)
{
    char what[NX_WHAT_TEXT] = "no call";
    nx_pending p;
    bool timed;

    if ((policy(world) != NX_RECOVERY_ABORT) || world->closing || world->aborting) {
        return;
    }
    world->aborting = true;
    world->abort.on_expire = on_abort;
    timed = nx_loop_timer_set(world->loop, &world->abort,
                              nx_loop_refresh(world->loop) + ABORT_NS) == NEXAR_OK;
    if (nx_pending_oldest(world, 0, &p)) {
        (void)nx_what_text(&p.what, what);
    }
    /* As a line of the log, which waits for no reader: the process must end. */
    nx_log_always("rank %u ends with code %d, since %s; it was in %s (recovery=abort)",
                  nx_world_rank(world, world->self), NX_ABORT_CODE, sentence, what);
    if (!timed) {
        _exit(NX_ABORT_CODE);
    }
}

/* ---- public
 * -------------------------------------------------------------------------------------- */

/* What |comm|, as the application knows it, is; and how it has become that. */
static nexar_change last_change(const nexar_comm *comm)
{
    const nx_recovery *r = &comm->recovery;
    const int rank = (int)comm->known_rank, size = (int)comm->known_size;

    if (((r->shown == NULL) ? r->epoch : r->shown->epoch) == 0) {
        return (nexar_change){
            .old_rank = rank, .old_size = size, .new_rank = rank, .new_size = size};
    }
    return (r->shown == NULL) ? r->last : r->shown->last;
}

nexar_err nexar_last_change(nexar_comm *comm, nexar_change *change)
{
    NX_NOT_CANCELLED;
    if ((comm == NULL) || (change == NULL)) {
        return nx_fail(NEXAR_EINVAL, "last_change: %s is NULL", (comm == NULL) ? "comm" : "change");
    }
    nx_loop_lock(comm->world->loop);
    *change = last_change(comm);
    nx_loop_unlock(comm->world->loop);
    return NEXAR_OK;
}
