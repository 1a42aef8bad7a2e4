/*
 * process_exit_test.c - processes of one host that exit, without shared memory between them: all
 * others know at once, nothing that was sent is lost, and no leaving rank is declared failed.
 */
#include "core/failure/process_exit.h"

#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <nexar.h>

#include "base/alloc.h"
#include "core/comm/comm.h"
#include "local_world.h"
#include "oom.h"
#include "procs.h"
#include "transport/quic/endpoint.h"
#include "unit.h"

enum { RANKS = 4, CROWD = 8, ROUNDS = 6, MESSAGES = 5, BYTES = 1000, SMALL = 16, TAG = 5 };
static const double GENEROUS_S = 30; /* a loaded machine is slow at everything */
/* Far beyond the deadline: detection by silence would be too late. */
static const char *const settings[] = {
    "transports", "quic", "heartbeat_timeout", "300s", "collective_timeout", "0", NULL};

/* Shared memory of the processes, besides nexar. */
typedef struct board {
    _Atomic int ready, done, go;
    _Atomic int told; /* calls of on_failure */
    _Atomic bool over;
    _Atomic uint64_t at, known;
} board;

static board *shared;

static void nap_ms(long ms)
{
    const struct timespec nap = {.tv_nsec = ms * 1000000};

    (void)nanosleep(&nap, NULL);
}

/* Does nothing until it is killed, or the test ends. */
static _Noreturn void idle(void)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (;;) {
        (void)pause();
    }
}

static void count_call(nexar_comm *comm, int rank, const char *why, void *arg)
{
    (void)comm;
    (void)rank;
    (void)why;
    (void)arg;
    atomic_fetch_add(&shared->told, 1);
}

/* ---- killed ----------------------------------------------------------------------------- */

/* A child holds all descriptors of this process.  So nothing is refused when this process is dead:
 * no other process of the host, nor the network, can tell. */
static void leave_a_holder(void)
{
    const uint64_t end = nxt_now_ns() + UINT64_C(120000000000); /* also if the test fails */

    if (fork() == 0) {
        while (!atomic_load(&shared->over) && (nxt_now_ns() < end)) {
            nap_ms(1);
        }
        _exit(0);
    }
}

static void be_killed_or_know(int rank, int join_fd, void *arg)
{
    nexar_comm *w = nxt_procs_join(rank, join_fd, settings);
    nexar_err err;

    (void)arg;
    NXT_OK(w, nxt_sum_all(w, SMALL));
    if (rank == 2) {
        leave_a_holder();
    }
    atomic_fetch_add(&shared->ready, 1);
    while ((err = nxt_sum_all(w, SMALL)) == NEXAR_OK) {
    }
    NXT_IS(w, err == NEXAR_EPEER);
    NXT_IS(w, strstr(nexar_last_error(), "rank 2") != NULL);
    NXT_IS(w, strstr(nexar_last_error(), " UTC") != NULL);
    nxt_note_latest(&shared->known);
    atomic_fetch_add(&shared->done, 1);
    nxt_await(&shared->done, RANKS - 1); /* or others might detect leaving ranks instead */
    NXT_OK(w, nexar_finalize(w));
}

static void test_an_exit_that_no_network_reports_is_known_to_all(void **state)
{
    nxt_procs procs;
    double known;

    (void)state;
    shared = nxt_share(sizeof(*shared));
    nxt_procs_start(&procs, RANKS, be_killed_or_know, NULL);
    nxt_await(&shared->ready, RANKS);
    atomic_store(&shared->at, nxt_now_ns());
    nxt_procs_signal(&procs, 1U << 2, SIGKILL);
    nxt_await(&shared->done, RANKS - 1);
    atomic_store(&shared->over, true);
    nxt_procs_wait(&procs, 1U << 2, 0);
    known = (double)(shared->known - shared->at) / 1e9;
    printf("known to all after %.1f ms\n", known * 1e3);
    assert_true(known < GENEROUS_S);
    nxt_unshare(shared, sizeof(*shared));
}

/* ---- data sent before the exit ------------------------------------------------------------ */

/* Waits until everything sent to rank 0 was passed to the kernel: a send is done before that. */
static void await_written(nexar_comm *w)
{
    const uint64_t end = nxt_now_ns() + UINT64_C(60000000000);
    nx_world *world = w->world;
    bool more = true;

    while (more) {
        const nx_quic_link *link;

        NXT_IS(w, nxt_now_ns() < end);
        nx_loop_lock(world->loop);
        nx_loop_kick(world->loop);
        link = nx_list_entry(nx_msg_link(world->msg, 0), nx_quic_link, base);
        more = nx_conn_has_data(link->used->conn);
        nx_loop_unlock(world->loop);
    }
}

/* Rank 1 sends, and exits without a goodbye, while rank 0 is stopped.  When rank 0 resumes, it
 * finds the exit and the data together. */
static void speak_and_exit(int rank, int join_fd, void *arg)
{
    nexar_comm *w = nxt_procs_join(rank, join_fd, settings);
    char bytes[BYTES];

    (void)arg;
    NXT_OK(w, nexar_barrier(w));
    NXT_OK(w, nexar_barrier(w)); /* no acknowledgement is needed: all may be sent at once */
    atomic_fetch_add(&shared->ready, 1);
    nxt_await(&shared->go, 1);
    if (rank == 1) {
        for (int i = 0; i < MESSAGES; i++) {
            memset(bytes, 'a' + i, sizeof(bytes));
            NXT_OK(w, nexar_send(w, bytes, sizeof(bytes), 0, TAG));
        }
        await_written(w);
        _exit(0);
    }
    for (int i = 0; i < MESSAGES; i++) {
        NXT_OK(w, nexar_recv(w, bytes, sizeof(bytes), 1, TAG, NULL));
        NXT_IS(w, (bytes[0] == 'a' + i) && (bytes[BYTES - 1] == 'a' + i));
    }
    NXT_IS(w, nexar_recv(w, bytes, sizeof(bytes), 1, TAG, NULL) == NEXAR_EPEER);
    NXT_IS(w, strstr(nexar_last_error(), "rank 1") != NULL);
    NXT_OK(w, nexar_finalize(w));
}

static void test_what_was_sent_before_the_end_is_received(void **state)
{
    siginfo_t info;

    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        nxt_procs procs;

        shared = nxt_share(sizeof(*shared));
        nxt_procs_start(&procs, 2, speak_and_exit, NULL);
        nxt_await(&shared->ready, 2);
        assert_int_equal(kill(procs.pids[0], SIGSTOP), 0);
        assert_int_equal(waitid(P_PID, (id_t)procs.pids[0], &info, WSTOPPED), 0);
        atomic_store(&shared->go, 1);
        assert_int_equal(waitid(P_PID, (id_t)procs.pids[1], &info, WEXITED | WNOWAIT), 0);
        assert_int_equal(kill(procs.pids[0], SIGCONT), 0);
        nxt_procs_wait(&procs, 0, 0);
        nxt_unshare(shared, sizeof(*shared));
    }
}

/* ---- leaving ------------------------------------------------------------------------------- */

/* All but rank 0 send it their last message, leave and exit at once; rank 0 receives slowly. */
static void leave_at_once(int rank, int join_fd, void *arg)
{
    nexar_comm *w = nxt_procs_join(rank, join_fd, settings);
    char bytes[BYTES];
    size_t n = 0;

    (void)arg;
    NXT_OK(w, nexar_on_failure(w, count_call, NULL));
    NXT_OK(w, nexar_barrier(w));
    if (rank != 0) {
        memset(bytes, 'a' + rank, sizeof(bytes));
        NXT_OK(w, nexar_send(w, bytes, sizeof(bytes), 0, TAG));
        NXT_OK(w, nexar_finalize(w));
        _exit(0);
    }
    for (int from = 1; from < CROWD; from++) {
        nap_ms(10); /* slow */
        NXT_OK(w, nexar_recv(w, bytes, sizeof(bytes), from, TAG, NULL));
        NXT_IS(w, bytes[BYTES - 1] == 'a' + from);
    }
    nxt_await(&shared->go, 1); /* the others have ended */
    nap_ms(50);
    NXT_OK(w, nexar_comm_failed(w, NULL, &n));
    NXT_IS(w, n == 0);
    NXT_OK(w, nexar_finalize(w));
}

static void test_ranks_that_leave_and_exit_at_once_have_not_failed(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        nxt_procs procs;

        shared = nxt_share(sizeof(*shared));
        nxt_procs_start(&procs, CROWD, leave_at_once, NULL);
        for (int rank = 1; rank < CROWD; rank++) {
            siginfo_t info;

            assert_int_equal(waitid(P_PID, (id_t)procs.pids[rank], &info, WEXITED | WNOWAIT), 0);
        }
        atomic_store(&shared->go, 1);
        nxt_procs_wait(&procs, 0, 0);
        assert_int_equal(atomic_load(&shared->told), 0);
        nxt_unshare(shared, sizeof(*shared));
    }
}

/* ---- another namespace ------------------------------------------------------------------ */

/* Waits for |pid|, and exits with its status. */
static _Noreturn void end_with(pid_t pid)
{
    int status = 0;

    (void)waitpid(pid, &status, 0);
    _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 99);
}

/* Continues as process |number| of a namespace of its own; false: not possible. */
static bool go_apart(pid_t number)
{
    char text[16];
    FILE *last;
    pid_t inner;
    bool set;

    if (unshare(CLONE_NEWPID | CLONE_NEWNS) != 0) {
        return false;
    }
    inner = fork(); /* the first process of the namespace, which ends with it */
    if (inner != 0) {
        end_with(inner);
    }
    if ((mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0) ||
        (mount("proc", "/proc", "proc", 0, NULL) != 0)) {
        return false;
    }
    last = fopen("/proc/sys/kernel/ns_last_pid", "we");
    (void)snprintf(text, sizeof(text), "%ld", (long)number - 1);
    set = (last != NULL) && (fputs(text, last) >= 0);
    set = (last != NULL) && (fclose(last) == 0) && set;
    inner = fork();
    if (inner != 0) {
        end_with(inner);
    }
    return set && (getpid() == number);
}

/* Rank 1 has a pid that another process has in the namespace of the other ranks: that process
 * exits. */
static void live_apart(int rank, int join_fd, void *arg)
{
    const bool apart = (rank != 1) || go_apart(*(const pid_t *)arg);
    nexar_comm *w = nxt_procs_join(rank, join_fd, settings);
    size_t n = 0;

    NXT_OK(w, nexar_on_failure(w, count_call, NULL));
    NXT_OK(w, nxt_sum_all(w, SMALL));
    atomic_fetch_add(&shared->told, apart ? 0 : 100);
    atomic_fetch_add(&shared->ready, 1);
    nxt_await(&shared->go, 1);
    for (int i = 0; i < 10; i++) {
        NXT_OK(w, nxt_sum_all(w, SMALL));
        nap_ms(5);
    }
    NXT_OK(w, nexar_comm_failed(w, NULL, &n));
    NXT_IS(w, n == 0);
    NXT_OK(w, nexar_finalize(w));
}

static void test_the_exit_of_an_equal_pid_in_another_namespace_is_no_failure(void **state)
{
    nxt_procs procs;
    pid_t namesake;
    int told;

    (void)state;
    shared = nxt_share(sizeof(*shared));
    namesake = fork();
    assert_true(namesake >= 0);
    if (namesake == 0) {
        idle();
    }
    nxt_procs_start(&procs, 3, live_apart, &namesake);
    nxt_await(&shared->ready, 3);
    assert_int_equal(kill(namesake, SIGKILL), 0);
    assert_int_equal(waitpid(namesake, NULL, 0), namesake);
    atomic_store(&shared->go, 1);
    nxt_procs_wait(&procs, 0, 0);
    told = atomic_load(&shared->told);
    nxt_unshare(shared, sizeof(*shared));
    if (told == 100) {
        skip(); /* such a namespace cannot be created here */
    }
    assert_int_equal(told, 0);
}

/* ---- the module itself -------------------------------------------------------------------- */

enum { MOST = NX_PROCESS_EXIT_MOST + 8, SELF = MOST / 2 };

/* A minimal world, whose ranks are idle processes. */
typedef struct stage {
    nx_world world;
    nx_view *view;
    pid_t pids[MOST];
} stage;

static nexar_err connect_nobody(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                                nx_link **link)
{
    (void)ctx;
    (void)peer;
    (void)up;
    (void)up_ctx;
    (void)link;
    return nx_fail(NEXAR_ECONNECT, "nobody");
}

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;

    assert_non_null(dir);
    // NOLINTNEXTLINE(concurrency-mt-unsafe): a folder of our own
    while (readdir(dir) != NULL) {
        n++;
    }
    (void)closedir(dir);
    return n;
}

static void start_ranks(stage *s)
{
    for (uint32_t i = 0; i < MOST; i++) {
        nx_member *m = &s->view->members[i];
        int pipes[2];

        *m = (nx_member){.id = i + 1, .rank = i, .slot = i};
        assert_int_equal(pipe(pipes), 0);
        s->pids[i] = (i == SELF) ? getpid() : fork();
        if (s->pids[i] == 0) {
            nx_process self;

            nx_process_self(&self);
            (void)!write(pipes[1], &self, sizeof(self));
            idle();
        }
        if (i == SELF) {
            nx_process_self(&m->process);
        } else {
            assert_int_equal(read(pipes[0], &m->process, sizeof(m->process)), sizeof(m->process));
        }
        (void)close(pipes[0]);
        (void)close(pipes[1]);
    }
}

static void stage_open(stage *s)
{
    nx_msg_config mc = {.peers = MOST, .self = SELF, .connect = connect_nobody};

    *s = (stage){.view = nx_view_create(MOST)};
    assert_non_null(s->view);
    s->view->slots = MOST;
    start_ranks(s);
    assert_int_equal(nx_loop_create(&s->world.loop, &nx_clock_system), NEXAR_OK);
    nx_loop_lock(s->world.loop);
    mc.loop = s->world.loop;
    assert_int_equal(nx_msg_create(&s->world.msg, &mc), NEXAR_OK);
    s->world.view = s->view;
    s->world.self = SELF;
    s->world.slots = MOST;
}

static void end_rank(stage *s, uint32_t i)
{
    if ((i != SELF) && (s->pids[i] != 0)) {
        assert_int_equal(kill(s->pids[i], SIGKILL), 0);
        assert_int_equal(waitpid(s->pids[i], NULL, 0), s->pids[i]);
        s->pids[i] = 0;
    }
}

static void stage_close(stage *s)
{
    for (uint32_t i = 0; i < MOST; i++) {
        end_rank(s, i);
    }
    nx_process_exit_stop(&s->world);
    nx_msg_destroy(s->world.msg);
    nx_loop_unlock(s->world.loop);
    nx_loop_destroy(s->world.loop);
    nx_view_destroy(s->view);
}

/* Runs the loop until |n| are watched. */
static void await_watched(stage *s, uint32_t n)
{
    const uint64_t end = nx_loop_refresh(s->world.loop) + UINT64_C(60000000000);

    while (nx_process_exit_watched(&s->world) != n) {
        nx_event never = {0};
        const uint64_t now = nx_loop_refresh(s->world.loop);

        assert_true(now < end);
        (void)nx_loop_wait(s->world.loop, &never, now + 1000000);
    }
}

/* Checked by the kernel: a watcher that watches no process is no reason to skip. */
static bool kernel_has_descriptors(void)
{
    nx_process self;
    int fd;

    nx_process_self(&self);
    fd = (int)syscall(SYS_pidfd_open, getpid(), 0);
    if (fd >= 0) {
        (void)close(fd);
    }
    return (fd >= 0) && (self.space != 0);
}

static void test_the_next_ones_are_watched_and_no_more(void **state)
{
    stage s;
    int files;

    (void)state;
    if (!kernel_has_descriptors()) {
        skip();
    }
    stage_open(&s);
    files = open_files();
    for (uint32_t i = 0; i < MOST; i++) {
        nx_process_exit_watch(&s.world, &s.view->members[i]);
        nx_process_exit_watch(&s.world, &s.view->members[i]); /* twice counts once */
    }
    assert_int_equal(nx_process_exit_watched(&s.world), NX_PROCESS_EXIT_MOST);
    assert_int_equal(open_files(), files + NX_PROCESS_EXIT_MOST + 1);
    end_rank(&s, SELF - 1); /* the last one of the circle */
    end_rank(&s, SELF + 1);
    await_watched(&s, NX_PROCESS_EXIT_MOST - 1);
    end_rank(&s, (SELF + NX_PROCESS_EXIT_MOST) % MOST);
    await_watched(&s, NX_PROCESS_EXIT_MOST - 2);
    end_rank(&s, (SELF + NX_PROCESS_EXIT_MOST + 1) % MOST); /* one too far */
    end_rank(&s, SELF + 2);
    await_watched(&s, NX_PROCESS_EXIT_MOST - 3);
    nx_process_exit_forget(&s.world, SELF + 3);
    nx_process_exit_forget(&s.world, SELF + 3);
    nx_process_exit_forget(&s.world, SELF);
    assert_int_equal(nx_process_exit_watched(&s.world), NX_PROCESS_EXIT_MOST - 4);
    nx_process_exit_stop(&s.world);
    nx_process_exit_stop(&s.world);
    assert_int_equal(nx_process_exit_watched(&s.world), 0);
    assert_int_equal(open_files(), files);
    stage_close(&s);
}

static void test_ranks_of_other_hosts_and_of_this_process_are_not_watched(void **state)
{
    stage s;

    (void)state;
    stage_open(&s);
    s.view->members[0].boot_id[3] = 1;
    nx_process_exit_watch(&s.world, &s.view->members[0]);
    s.view->members[1].process = s.view->members[SELF].process; /* a thread of this process */
    nx_process_exit_watch(&s.world, &s.view->members[1]);
    end_rank(&s, 2);
    nx_process_exit_watch(&s.world, &s.view->members[2]);
    assert_int_equal(nx_process_exit_watched(&s.world), 0);
    stage_close(&s);
}

/* A process that forks has children with its descriptors: these do not keep it from forgetting. */
static void test_a_child_that_holds_descriptors_does_no_harm(void **state)
{
    stage s;
    pid_t child;

    (void)state;
    if (!kernel_has_descriptors()) {
        skip();
    }
    stage_open(&s);
    nx_process_exit_watch(&s.world, &s.view->members[0]);
    nx_process_exit_watch(&s.world, &s.view->members[1]);
    assert_int_equal(nx_process_exit_watched(&s.world), 2);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        idle();
    }
    nx_process_exit_forget(&s.world, 0);
    end_rank(&s, 0);
    end_rank(&s, 1);
    await_watched(&s, 0);
    for (int i = 0; i < 3; i++) {
        nx_event never = {0};
        const uint64_t now = nx_loop_refresh(s.world.loop);

        (void)nx_loop_wait(s.world.loop, &never, now + 5000000);
        /* It sleeps: not everything is ready all the time. */
        assert_true(nx_loop_refresh(s.world.loop) - now >= 5000000);
    }
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    stage_close(&s);
}

static void test_without_memory_nobody_is_watched_and_nothing_is_lost(void **state)
{
    stage s;

    (void)state;
    stage_open(&s);
    NXT_FOR_EACH_OOM (n) {
        nx_process_exit_watch(&s.world, &s.view->members[0]);
        assert_true(!nx_alloc_failed() || (nx_process_exit_watched(&s.world) == 0));
        nx_process_exit_stop(&s.world);
    }
    nx_alloc_fail_after(-1);
    stage_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_next_ones_are_watched_and_no_more),
        cmocka_unit_test(test_ranks_of_other_hosts_and_of_this_process_are_not_watched),
        cmocka_unit_test(test_a_child_that_holds_descriptors_does_no_harm),
        cmocka_unit_test(test_without_memory_nobody_is_watched_and_nothing_is_lost),
        cmocka_unit_test(test_an_exit_that_no_network_reports_is_known_to_all),
        cmocka_unit_test(test_what_was_sent_before_the_end_is_received),
        cmocka_unit_test(test_ranks_that_leave_and_exit_at_once_have_not_failed),
        cmocka_unit_test(test_the_exit_of_an_equal_pid_in_another_namespace_is_no_failure),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
