/* procs.c - forks ranks and waits for their ends. */
#include "procs.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "local_world.h"
#include "unit.h"

uint64_t nxt_now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void nxt_die(_Atomic uint64_t *died_ns)
{
    atomic_store(died_ns, nxt_now_ns());
    (void)raise(SIGKILL);
}

void *nxt_die_soon(void *died_ns)
{
    const struct timespec span = {.tv_nsec = (long)(10000000 + nxt_now_ns() % 13000000)};

    (void)nanosleep(&span, NULL); /* at an arbitrary point of the work */
    nxt_die(died_ns);
    return NULL;
}

void nxt_nap(void)
{
    const struct timespec t = {.tv_nsec = 1000000};

    (void)nanosleep(&t, NULL);
}

void nxt_note_latest(_Atomic uint64_t *at)
{
    uint64_t old = atomic_load(at);
    const uint64_t now = nxt_now_ns();

    while ((old < now) && !atomic_compare_exchange_weak(at, &old, now)) {
    }
}

void *nxt_share(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(at != MAP_FAILED);
    return at;
}

void nxt_unshare(void *at, size_t bytes)
{
    (void)munmap(at, bytes);
}

void nxt_await(_Atomic int *count, int n)
{
    const uint64_t end = nxt_now_ns() + UINT64_C(60000000000);

    while (atomic_load(count) < n) {
        assert_true(nxt_now_ns() < end);
        nxt_nap();
    }
}

static void start_seed(nxt_procs *p)
{
    nexar_config *cfg = NULL;
    char join[1024] = "", size[16];

    (void)snprintf(size, sizeof(size), "%d", p->n);
    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "world_size", size), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, "listen", "127.0.0.1"), NEXAR_OK);
    assert_int_equal(nexar_seed_start(cfg, &p->seed), NEXAR_OK);
    assert_int_equal(nexar_seed_join_string(p->seed, join, sizeof(join)), NEXAR_OK);
    for (int rank = 0; rank < p->n; rank++) {
        assert_int_equal(write(p->pipes[rank][1], join, strlen(join)), strlen(join));
    }
    nexar_config_free(cfg);
}

void nxt_procs_start(nxt_procs *p, int n, void (*body)(int rank, int join_fd, void *arg), void *arg)
{
    *p = (nxt_procs){.n = n};
    assert_true(n <= NXT_PROCS);
    (void)fflush(NULL); /* so that buffered output is printed only once */
    for (int rank = 0; rank < n; rank++) {
        assert_int_equal(pipe(p->pipes[rank]), 0);
        p->pids[rank] = fork();
        assert_true(p->pids[rank] >= 0);
        if (p->pids[rank] == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failing test leaves no child behind */
            body(rank, p->pipes[rank][0], arg);
            (void)fflush(NULL);
            _exit(0);
        }
    }
    start_seed(p);
}

nexar_comm *nxt_procs_join(int rank, int join_fd, const char *const settings[])
{
    char join[1024] = "", number[16];
    nexar_config *cfg = NULL;
    nexar_comm *w = NULL;

    NXT_IS(NULL, read(join_fd, join, sizeof(join) - 1) > 0);
    NXT_OK(NULL, nexar_config_create(&cfg));
    NXT_OK(NULL, nexar_config_set(cfg, "join", join));
    (void)snprintf(number, sizeof(number), "%d", rank);
    NXT_OK(NULL, nexar_config_set(cfg, "rank", number));
    for (size_t i = 0; (settings != NULL) && (settings[i] != NULL); i += 2) {
        NXT_OK(NULL, nexar_config_set(cfg, settings[i], settings[i + 1]));
    }
    NXT_OK(NULL, nexar_init(cfg, &w));
    nexar_config_free(cfg);
    return w;
}

/* Stops |ranks| and waits until all have stopped. */
static void halt(const nxt_procs *p, unsigned ranks)
{
    for (int rank = 0; rank < p->n; rank++) {
        if ((ranks >> rank) & 1) {
            siginfo_t info;

            assert_int_equal(kill(p->pids[rank], SIGSTOP), 0);
            assert_int_equal(waitid(P_PID, (id_t)p->pids[rank], &info, WSTOPPED), 0);
        }
    }
}

void nxt_procs_signal(const nxt_procs *p, unsigned ranks, int sig)
{
    if ((sig == SIGKILL) && ((ranks & (ranks - 1)) != 0)) {
        halt(p, ranks);
    }
    for (int rank = 0; rank < p->n; rank++) {
        if ((ranks >> rank) & 1) {
            assert_int_equal(kill(p->pids[rank], sig), 0);
        }
    }
}

void nxt_procs_wait(nxt_procs *p, unsigned killed, int code)
{
    for (int rank = 0; rank < p->n; rank++) {
        int status = 0;

        assert_int_equal(waitpid(p->pids[rank], &status, 0), p->pids[rank]);
        if ((killed >> rank) & 1) {
            assert_true(WIFSIGNALED(status) && (WTERMSIG(status) == SIGKILL));
        } else {
            assert_true(WIFEXITED(status));
            assert_int_equal(WEXITSTATUS(status), code);
        }
        (void)close(p->pipes[rank][0]);
        (void)close(p->pipes[rank][1]);
    }
    nexar_seed_stop(p->seed);
}

pid_t nxt_fork_until(_Atomic int *go)
{
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int sig = SIGILL; sig <= SIGSEGV; sig++) { /* a crashing process must end */
            (void)signal(sig, SIG_DFL);
        }
        while (atomic_load(go) == 0) {
            nxt_nap();
        }
    }
    return pid;
}
