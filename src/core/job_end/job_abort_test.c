/*
 * job_abort_test.c - one rank ends the job: every process exits with its code, whatever it does,
 * and no rank is detected by its silence.
 */
#include "core/job_end/job_abort.h"

#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/alloc.h"
#include "core/job_end/job_abort_frame.h"
#include "core/job_end/on_error.h"
#include "procs.h"
#include "unit.h"

enum { RANKS = 4, CODE = 7, FN = 3, TAG = 5, ALLOCATIONS = 6 };

/* Beyond every deadline: detection by silence would be too late. */
static const char *const settings[] = {"heartbeat_timeout", "300s", NULL};
static const char *const strict[] = {"heartbeat_timeout", "300s", "on_error", "abort", NULL};

/* Shared memory of the processes, besides nexar. */
typedef struct board {
    _Atomic int ready;
} board;

static board *shared;

/* The state of a rank when all are ready; rank 0 ends the job in most cases. */
typedef void (*life_fn)(nexar_comm *w, int rank);
typedef struct job {
    life_fn life;
    const char *const *settings;
} job;

static void live(int rank, int join_fd, void *arg)
{
    const job *j = arg;
    nexar_comm *w = nxt_procs_join(rank, join_fd, j->settings);

    if (nexar_barrier(w) != NEXAR_OK) {
        _exit(99);
    }
    atomic_fetch_add(&shared->ready, 1);
    nxt_await(&shared->ready, RANKS);
    j->life(w, rank);
    _exit(98); /* the job continues */
}

/* Every process exits with |code|. */
static void must_end(life_fn life, const char *const use[], int code)
{
    job j = {.life = life, .settings = use};
    nxt_procs procs = {0};

    shared = nxt_share(sizeof(*shared));
    nxt_procs_start(&procs, RANKS, live, &j);
    nxt_procs_wait(&procs, 0, code);
    nxt_unshare(shared, sizeof(*shared));
}

static void idle(void)
{
    for (;;) {
        nxt_nap();
    }
}

/* An application that exits with a code of its own after every error. */
static void barriers(nexar_comm *w)
{
    while (nexar_barrier(w) == NEXAR_OK) {
    }
    _exit(97);
}

/* ---- the state of ranks when the job ends -------------------------------------------- */

static void in_different_calls(nexar_comm *w, int rank)
{
    int word = 0;

    if (rank == 0) {
        nexar_abort(w, CODE, "as the test wants");
    } else if (rank == 1) {
        barriers(w);
    } else if (rank == 2) {
        (void)nexar_recv(w, &word, sizeof(word), 1, TAG, NULL);
        _exit(97);
    }
    idle();
}

static void test_all_ranks_end_wherever_they_are(void **state)
{
    (void)state;
    must_end(in_different_calls, settings, CODE);
}

static void beside_a_stopped_one(nexar_comm *w, int rank)
{
    static const uint64_t until_stopped_ns = 200000000;

    if (rank == 1) {
        (void)raise(SIGSTOP);
    } else if (rank == 0) {
        const uint64_t begin = nxt_now_ns();

        while (nxt_now_ns() - begin < until_stopped_ns) { /* earlier is fine, and another test */
            nxt_nap();
        }
        nexar_abort(w, CODE, NULL);
    }
    idle();
}

static void test_a_stopped_rank_delays_no_other_and_exits_too(void **state)
{
    (void)state;
    must_end(beside_a_stopped_one, settings, CODE);
}

/* Ranks 1 and 2 wait in nexar_finalize() for a message that is never received. */
static void beside_ranks_that_finalize(nexar_comm *w, int rank)
{
    static char bulk[1 << 22];
    nexar_request *req = NULL;

    if (rank == 0) {
        nxt_await(&shared->ready, RANKS + 2);
        nexar_abort(w, CODE, NULL);
    } else if (rank != 3) {
        (void)nexar_isend(w, bulk, sizeof(bulk), 3, TAG, &req);
        atomic_fetch_add(&shared->ready, 1);
        (void)nexar_finalize(w);
        _exit(97);
    }
    idle();
}

static void test_ranks_that_finalize_end(void **state)
{
    (void)state;
    must_end(beside_ranks_that_finalize, settings, CODE);
}

/* ---- the calling rank ---------------------------------------------------------------- */

static nexar_err end_it(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    (void)call;
    (void)data;
    (void)bytes;
    nexar_abort(arg, CODE, "from a handler");
}

static void by_a_remote_call(nexar_comm *w, int rank)
{
    if ((rank == 1) && (nexar_rpc_register(w, FN, end_it, w) != NEXAR_OK)) {
        _exit(96);
    }
    if (nexar_barrier(w) != NEXAR_OK) {
        _exit(97);
    }
    if (rank == 0) {
        (void)nexar_rpc_call(w, 1, FN, NULL, 0, NULL, NULL);
        _exit(97);
    }
    idle();
}

static void test_a_handler_of_remote_calls_ends_the_job(void **state)
{
    (void)state;
    must_end(by_a_remote_call, settings, CODE);
}

static void end_on_failure(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)rank;
    (void)arg;
    nexar_abort(comm, CODE, why);
}

/* Rank 1 exits without a message, with the same code. */
static void by_on_failure(nexar_comm *w, int rank)
{
    if (nexar_on_failure(w, end_on_failure, NULL) != NEXAR_OK) {
        _exit(96);
    }
    if (nexar_barrier(w) != NEXAR_OK) {
        _exit(97);
    }
    if (rank == 1) {
        _exit(CODE);
    }
    idle();
}

static void test_on_failure_ends_the_job(void **state)
{
    (void)state;
    must_end(by_on_failure, settings, CODE);
}

static nexar_err end_on_shard(void *shard, size_t offset, size_t count, void *arg)
{
    (void)shard;
    (void)offset;
    (void)count;
    nexar_abort(arg, CODE, "from on_shard");
}

static void by_on_shard(nexar_comm *w, int rank)
{
    static float v[4096];

    (void)nexar_allreduce_rs_ag(w, v, 4096, NEXAR_F32, NEXAR_SUM, (rank == 0) ? end_on_shard : NULL,
                                w);
    _exit(97);
}

static void test_on_shard_ends_the_job(void **state)
{
    (void)state;
    must_end(by_on_shard, settings, CODE);
}

static void by_all_at_once(nexar_comm *w, int rank)
{
    (void)rank;
    nexar_abort(w, CODE, "all at once");
}

static void test_several_ranks_end_the_job_at_once(void **state)
{
    (void)state;
    must_end(by_all_at_once, settings, CODE);
}

static void with_a_code_of_its_own(nexar_comm *w, int rank)
{
    if (rank == 2) {
        nexar_abort(w, 1000, "a code that no process can have");
    }
    barriers(w);
}

static void test_a_code_out_of_range_is_1(void **state)
{
    (void)state;
    must_end(with_a_code_of_its_own, settings, 1);
}

/* ---- on_error=abort ------------------------------------------------------------------ */

static void with_bad_input(nexar_comm *w, int rank)
{
    if (rank == 0) {
        (void)nexar_send(w, NULL, 8, 1, TAG);
        _exit(97);
    }
    barriers(w);
}

static void test_bad_input_ends_the_job(void **state)
{
    (void)state;
    must_end(with_bad_input, strict, NX_ON_ERROR_CODE);
}

static void without_a_communicator(nexar_comm *w, int rank)
{
    if (rank == 0) {
        (void)nexar_barrier(NULL);
        _exit(97);
    }
    barriers(w);
}

static void test_a_call_without_a_communicator_ends_the_job(void **state)
{
    (void)state;
    must_end(without_a_communicator, strict, NX_ON_ERROR_CODE);
}

static void revoked(nexar_comm *w, int rank)
{
    if ((rank == 0) && (nexar_comm_revoke(w) != NEXAR_OK)) {
        _exit(97);
    }
    barriers(w);
}

static void test_a_revoked_communicator_ends_the_job(void **state)
{
    (void)state;
    must_end(revoked, strict, NX_ON_ERROR_CODE);
}

/* Errors that concern only the operation, or a peer, are returned. */
static void small_errors(nexar_comm *w, int rank)
{
    nexar_comm *sub = NULL;
    int word = 0;

    if (nexar_comm_split(w, (rank == 0) ? 0 : NEXAR_NO_COLOR, 0, &sub) != NEXAR_OK) {
        _exit(95);
    }
    if (rank == 0) {
        if ((nexar_send(sub, "12345678", 8, 0, TAG) != NEXAR_OK) ||
            (nexar_recv(sub, &word, 1, 0, TAG, NULL) != NEXAR_ETRUNC) ||
            (nexar_rpc_call(w, 0, FN, NULL, 0, NULL, NULL) != NEXAR_ENOHANDLER)) {
            _exit(94);
        }
    }
    (void)nexar_barrier(w);
    (void)nexar_finalize(w);
    _exit(0);
}

static void test_errors_of_an_operation_are_returned(void **state)
{
    (void)state;
    must_end(small_errors, strict, 0);
}

/* ---- no memory ----------------------------------------------------------------------- */

static long refusal; /* this allocation of rank 0 fails while it notifies the others */

static void without_memory(nexar_comm *w, int rank)
{
    if (rank == 0) {
        nx_alloc_fail_after(refusal);
        nexar_abort(w, CODE, NULL);
    }
    barriers(w);
}

static void test_a_failed_allocation_leaks_no_reference(void **state)
{
    (void)state;
    for (refusal = 0; refusal < ALLOCATIONS; refusal++) {
        must_end(without_memory, settings, CODE);
    }
}

/* ---- the frame ----------------------------------------------------------------------- */

static void test_the_frame_is_read_as_it_was_written(void **state)
{
    const nx_job_abort a = {.code = 125, .slot = 70000, .why = "out of ideas"};
    uint8_t bytes[NX_JOB_ABORT_FRAME_MAX];
    nx_writer w = nx_writer_make(bytes, sizeof(bytes));
    nx_job_abort b = {0};

    (void)state;
    nx_job_abort_encode(&w, &a);
    assert_false(w.failed);
    for (size_t len = 0; len <= w.len; len++) {
        nx_reader r = nx_reader_make(bytes, len);

        assert_int_equal(nx_job_abort_decode(&r, &b), (len == w.len) ? NEXAR_OK : NEXAR_EPROTO);
    }
    assert_int_equal(b.code, a.code);
    assert_int_equal(b.slot, a.slot);
    assert_string_equal(b.why, a.why);
    bytes[1] = 0; /* a job cannot end successfully by it */
    assert_int_equal(nx_job_abort_decode(&(nx_reader){.at = bytes, .end = bytes + w.len}, &b),
                     NEXAR_EPROTO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_ranks_end_wherever_they_are),
        cmocka_unit_test(test_a_stopped_rank_delays_no_other_and_exits_too),
        cmocka_unit_test(test_ranks_that_finalize_end),
        cmocka_unit_test(test_a_handler_of_remote_calls_ends_the_job),
        cmocka_unit_test(test_on_failure_ends_the_job),
        cmocka_unit_test(test_on_shard_ends_the_job),
        cmocka_unit_test(test_several_ranks_end_the_job_at_once),
        cmocka_unit_test(test_a_code_out_of_range_is_1),
        cmocka_unit_test(test_bad_input_ends_the_job),
        cmocka_unit_test(test_a_call_without_a_communicator_ends_the_job),
        cmocka_unit_test(test_a_revoked_communicator_ends_the_job),
        cmocka_unit_test(test_errors_of_an_operation_are_returned),
        cmocka_unit_test(test_a_failed_allocation_leaks_no_reference),
        cmocka_unit_test(test_the_frame_is_read_as_it_was_written),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
