/*
 * agreement_failed_test.c - late frames for a communicator hold no memory and find nothing; and
 * shrinking, after which all ranks continue or none does.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <nexar.h>

#include "agreement_inner.h"
#include "base/alloc.h"
#include "core/comm/comm.h"
#include "core/recovery/recovery.h"
#include "local_world.h"
#include "msg/control.h"
#include "unit.h"

enum { RANKS = 3, ROUNDS = 40, TAG = 5, LAST = 6, SHORT = 8, LONG = 100000 };

/* Rank 1 has received everything that rank 0 has sent before. */
static void catch_up(nexar_comm *w)
{
    char byte = 'x';

    if (nexar_rank(w) == 0) {
        NXT_OK(w, nexar_send(w, &byte, 1, 1, LAST));
    } else if (nexar_rank(w) == 1) {
        NXT_OK(w, nexar_recv(w, &byte, 1, 0, LAST, NULL));
    }
}

static void find_nothing(nexar_comm *w, nexar_comm *c)
{
    nx_msg_stats s;
    bool found = true;

    NXT_OK(c, nexar_iprobe(c, NEXAR_ANY_SOURCE, NEXAR_ANY_TAG, &found, NULL));
    NXT_IS(c, !found);
    nx_loop_lock(w->world->loop);
    nx_msg_stats_get(w->world->msg, &s);
    nx_loop_unlock(w->world->loop);
    NXT_IS(w, (nexar_rank(w) != 1) || ((s.pool_used == 0) && (s.unexpected == 0)));
}

/* A rank that knows that the other has freed it is notified; the messages of a rank that does not
 * know are dropped on the peer. */
static void send_both(nexar_comm *c)
{
    static const char out[LONG];
    static const size_t lengths[] = {SHORT, LONG};

    for (int i = 0; i < 2; i++) {
        const nexar_err err = nexar_send(c, out, lengths[i], 1, TAG);

        NXT_IS(c, (err == NEXAR_OK) || (err == NEXAR_EREVOKED));
    }
}

/* Rank 1 has freed the communicator when rank 0 sends on it; |make| creates the next one. */
static void send_late(nexar_comm *w, nexar_err (*make)(nexar_comm *, nexar_comm **))
{
    nexar_comm *c = NULL, *next = NULL;

    NXT_OK(w, nexar_comm_dup(w, &c));
    for (int i = 0; i < ROUNDS; i++) {
        NXT_OK(w, make(c, &next));
        if (nexar_rank(w) == 1) {
            nexar_comm_free(c);
        }
        NXT_OK(w, nexar_barrier(w));
        if (nexar_rank(w) != 1) {
            if (nexar_rank(w) == 0) {
                send_both(c);
            }
            nexar_comm_free(c);
        }
        catch_up(w);
        find_nothing(w, next);
        c = next;
    }
    NXT_OK(w, nexar_barrier(c));
    nexar_comm_free(c);
}

static void freed(nexar_comm *w, void *arg)
{
    (void)arg;
    send_late(w, nexar_comm_dup);
}

static void shrunk(nexar_comm *w, void *arg)
{
    (void)arg;
    send_late(w, nexar_comm_shrink);
}

static void test_late_messages_on_a_communicator_that_was_freed_hold_nothing(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, freed, NULL);
}

static void test_late_messages_on_a_communicator_that_was_shrunk_hold_nothing(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, shrunk, NULL);
}

/* An early message is kept: rank 1 creates the communicator when the message has arrived. */
static void early(nexar_comm *w, void *arg)
{
    nexar_comm *c = NULL;
    char in[SHORT] = "", out[SHORT] = "early";

    (void)arg;
    for (int i = 0; i < ROUNDS; i++) {
        NXT_OK(w, nexar_comm_dup(w, &c));
        if (nexar_rank(w) == 0) {
            NXT_OK(w, nexar_send(c, out, SHORT, 1, TAG));
        } else if (nexar_rank(w) == 1) {
            NXT_OK(w, nexar_recv(c, in, SHORT, 0, TAG, NULL));
            NXT_IS(w, strcmp(in, out) == 0);
        }
        nexar_comm_free(c);
    }
}

static void test_early_messages_are_kept(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, early, NULL);
}

/* Before rank 1 creates the next communicator, it is notified that ... */
static void inject(nexar_comm *w, uint32_t id, bool revoked)
{
    nx_world *world = w->world;
    uint8_t frame[NX_RBCAST_FRAME_MAX];
    nx_writer writer = nx_writer_make(frame, sizeof(frame));
    size_t len;

    nx_loop_lock(world->loop);
    if (revoked) { /* ... rank 2 has revoked it */
        len = nx_rbcast_encode(id, nx_rbcast_key(NX_RBCAST_REVOKED, 2), NULL, 0, frame);
        NXT_OK(w, nx_agreement_frame(world, 2, frame, len));
    } else { /* ... rank 2 has freed it */
        nx_write_u8(&writer, NX_CONTROL_DETACHED);
        nx_write_u32(&writer, id);
        nx_write_u32(&writer, 1);
        nx_write_u8(&writer, NX_DEPARTURE_FREED);
        NXT_IS(w, nx_registry_on_control(world->hub, 2, frame, writer.len));
        nx_registry_on_finished(world->hub, 2, id, NX_DEPARTURE_FREED);
    }
    NXT_IS(w, nx_early_bytes(world->early, NX_EARLY_CONTROL) > 0);
    nx_loop_unlock(world->loop);
}

static uint32_t next_id(nexar_comm *w)
{
    uint32_t id = 0;

    if (nexar_rank(w) == 0) {
        nx_loop_lock(w->world->loop);
        id = nx_comm_id_make(w->world->self, w->world->ids + 1);
        nx_loop_unlock(w->world->loop);
    }
    NXT_OK(w, nexar_broadcast(w, &id, 1, NEXAR_U32, 0));
    return id;
}

static void forewarned(nexar_comm *w, void *arg)
{
    const bool revoked = *(const bool *)arg;
    const uint32_t id = next_id(w);
    nexar_comm *c = NULL;
    char in;

    if (nexar_rank(w) == 1) {
        inject(w, id, revoked);
    }
    NXT_OK(w, nexar_comm_dup(w, &c));
    NXT_IS(w, c->inc->id == id);
    if (nexar_rank(w) == 1) {
        NXT_IS(w, nexar_recv(c, &in, 1, 2, TAG, NULL) == NEXAR_EREVOKED);
        nx_loop_lock(w->world->loop);
        NXT_IS(w, (nx_early_bytes(w->world->early, NX_EARLY_CONTROL) == 0) &&
                      (nx_early_bytes(w->world->early, NX_EARLY_FINISHED) == 0));
        nx_loop_unlock(w->world->loop);
    }
    NXT_IS(w, nexar_barrier(c) == NEXAR_EREVOKED); /* rank 1 notifies the others */
    NXT_OK(w, nexar_barrier(w));
    nexar_comm_free(c);
}

static void test_what_came_before_a_communicator_is_heard_when_it_is_made(void **state)
{
    bool revoked[] = {false, true};

    (void)state;
    nxt_local_world(RANKS, NULL, forewarned, &revoked[0]);
    nxt_local_world(RANKS, NULL, forewarned, &revoked[1]);
}

/* ---- ids ---------------------------------------------------------------------------------- */

static void give_all_ids_out(nexar_comm *w)
{
    nx_loop_lock(w->world->loop);
    w->world->ids = nx_comm_id_last(w->world->self);
    nx_loop_unlock(w->world->loop);
}

static void no_ids(nexar_comm *w, void *arg)
{
    nexar_comm *c = NULL, *d = NULL;
    uint64_t flags = 3;

    (void)arg;
    if (nexar_rank(w) == 0) {
        give_all_ids_out(w);
    }
    NXT_OK(w, nexar_comm_dup(w, &c)); /* with that of another rank */
    NXT_OK(w, nexar_comm_shrink(w, &d));
    NXT_OK(w, nexar_barrier(c));
    NXT_OK(w, nexar_barrier(d));
    NXT_OK(w, nexar_barrier(w));
    give_all_ids_out(w);
    NXT_OK(w, nexar_barrier(w));
    NXT_SAYS(w, nexar_comm_dup(w, &c), NEXAR_ENOTSUP, "all ids");
    NXT_SAYS(w, nexar_comm_shrink(w, &d), NEXAR_ENOTSUP, "all ids");
    NXT_OK(w, nexar_comm_agree(w, &flags)); /* needs none */
    NXT_IS(w, flags == 3);
    NXT_OK(w, nexar_barrier(w));
    nexar_comm_free(c);
    nexar_comm_free(d);
}

static void test_ids_are_not_given_out_twice(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, no_ids, NULL);
}

/* ---- completed recoveries ----------------------------------------------------------------- */

static bool has_machines(nx_world *world, uint64_t id)
{
    bool found = false;

    nx_loop_lock(world->loop);
    nx_list_for_each (at, &world->accords) {
        found = found || (nx_list_entry(at, nx_agreement, link)->id == id);
    }
    nx_loop_unlock(world->loop);
    return found;
}

/* A rank's contribution to recovery |id|, in a ballot that was over before it arrived. */
static nexar_err hear_late(nx_world *world, uint64_t id)
{
    uint8_t frame[256];
    nx_writer writer = nx_writer_make(frame, sizeof(frame));
    nx_consensus_value value;
    nx_rankset nobody;
    nexar_err err;

    NXT_OK(NULL, nx_consensus_value_init(&value, RANKS, NX_AGREEMENT_ID_SIZE));
    NXT_OK(NULL, nx_rankset_init(&nobody, RANKS));
    nx_consensus_msg_encode(&writer, &(nx_consensus_msg){.comm = id,
                                                         .kind = NX_CONSENSUS_UP,
                                                         .dead = &nobody,
                                                         .left = &nobody,
                                                         .value = &value});
    nx_loop_lock(world->loop);
    err = nx_agreement_frame(world, (world->self + 1) % RANKS, writer.data, writer.len);
    nx_loop_unlock(world->loop);
    nx_consensus_value_fini(&value);
    nx_rankset_fini(&nobody);
    return err;
}

static void recover_and_free(nexar_comm *w, void *arg)
{
    nexar_comm *c = NULL;
    uint64_t id;

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &c));
    id = c->inc->id | NX_AUTO_SHRINK_ID;
    if (nexar_rank(w) == 0) {
        nx_loop_lock(w->world->loop);
        nx_recovery_begin(c->inc, "a test wants it");
        nx_loop_unlock(w->world->loop);
    }
    while (has_machines(w->world, id)) { /* until all ranks are done with it */
        (void)!nexar_barrier(c);
    }
    NXT_OK(w, nexar_barrier(w));
    NXT_OK(w, hear_late(w->world, id));
    NXT_OK(w, nexar_barrier(w));
    nexar_comm_free(c);
}

static void test_frames_of_a_completed_recovery_are_dropped(void **state)
{
    nexar_config *cfg = NULL;

    (void)state;
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "recovery", "automatic"), NEXAR_OK);
    nxt_local_world(RANKS, cfg, recover_and_free, NULL);
    nexar_config_free(cfg);
}

/* ---- shrinking without memory --------------------------------------------------------------- */

static long oom; /* this allocation of rank 0 fails */
static _Atomic bool refused;

/* Whether this rank is out of the world; otherwise |*c| is valid. */
static bool shrink_in_want(nexar_comm *w, nexar_comm **c)
{
    nexar_err err;

    if (nexar_rank(w) == 0) {
        nx_alloc_fail_after(oom);
    }
    err = nexar_comm_shrink(w, c);
    if (nexar_rank(w) == 0) {
        atomic_store(&refused, nx_alloc_failed());
        nx_alloc_fail_after(-1);
    }
    if ((err == NEXAR_ENOMEM) && (strstr(nexar_last_error(), "out of the world") == NULL)) {
        err = nexar_comm_shrink(w, c); /* it had not begun: the others wait for it */
    }
    NXT_IS(w, (err == NEXAR_OK) || ((nexar_rank(w) == 0) && (err == NEXAR_ENOMEM)));
    return err != NEXAR_OK;
}

static void in_want(nexar_comm *w, void *arg)
{
    nexar_comm *c = NULL;
    nexar_err err;

    (void)arg;
    NXT_OK(w, nexar_barrier(w));
    if (shrink_in_want(w, &c)) {
        NXT_IS(w, nexar_barrier(w) == NEXAR_EPEER);
        return;
    }
    err = nexar_barrier(c); /* rank 0 may have left it */
    NXT_IS(w, (err == NEXAR_OK) || (err == NEXAR_EPEER));
    nexar_comm_free(c);
}

static void test_a_rank_without_memory_in_a_shrink_leaves_the_world(void **state)
{
    long wish = 0;

    (void)state;
    do {
        oom = wish++;
        nxt_local_world(RANKS, NULL, in_want, NULL);
    } while (atomic_load(&refused));
    printf("%ld allocations could fail\n", wish - 1);
    assert_true(wish > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_late_messages_on_a_communicator_that_was_freed_hold_nothing),
        cmocka_unit_test(test_late_messages_on_a_communicator_that_was_shrunk_hold_nothing),
        cmocka_unit_test(test_early_messages_are_kept),
        cmocka_unit_test(test_what_came_before_a_communicator_is_heard_when_it_is_made),
        cmocka_unit_test(test_ids_are_not_given_out_twice),
        cmocka_unit_test(test_frames_of_a_completed_recovery_are_dropped),
        cmocka_unit_test(test_a_rank_without_memory_in_a_shrink_leaves_the_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
