/* fork_guard_test.c - a forked child cannot use its parent's world, nor disturb it. */
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local_world.h"
#include "unit.h"

enum { TAG = 1, FN = 1, REFUSALS = 30 };

static int refused(nexar_err err)
{
    return (err == NEXAR_EINVAL) && (strstr(nexar_last_error(), "was forked") != NULL);
}

/* In the child: counts the rejected calls of all kinds; all must be rejected at once. */
static int count_refusals(nexar_comm *w, nexar_comm *c, nexar_request *req)
{
    nexar_comm *made = NULL, *world = w;
    nexar_request *other = NULL;
    const nexar_iov region = {.ptr = &made, .bytes = 1};
    float word = 0, residual = 0;
    uint64_t flags = 0;
    size_t n = 0;
    bool yes;
    int fd;
    void *ptr;

    nexar_comm_free(c);
    return refused(nexar_send(w, &word, 4, 0, TAG)) +
           refused(nexar_recv(w, &word, 4, 0, TAG, NULL)) +
           refused(nexar_isend(w, &word, 4, 0, TAG, &other)) +
           refused(nexar_irecv(w, &word, 4, 0, TAG, &other)) +
           refused(nexar_sendv(w, &region, 1, 0, TAG)) +
           refused(nexar_recvv(w, &region, 1, 0, TAG, NULL)) +
           refused(nexar_probe(w, 0, TAG, NULL)) + refused(nexar_iprobe(w, 0, TAG, &yes, NULL)) +
           refused(nexar_wait(&req, NULL)) + refused(nexar_test(&req, &yes, NULL)) +
           refused(nexar_wait_all(1, &req)) + refused(nexar_wait_any(1, &req, &n, NULL)) +
           refused(nexar_cancel(req)) + refused(nexar_event_fd(w, &fd)) +
           refused(nexar_barrier(c)) +
           refused(nexar_allreduce(w, NEXAR_IN_PLACE, &word, 1, NEXAR_F32, NEXAR_SUM)) +
           refused(nexar_ibarrier(w, &other)) +
           refused(nexar_allreduce_compressed(w, &word, 1, NEXAR_F32, NEXAR_SUM, NEXAR_COMPRESS_F16,
                                              1, &residual)) +
           refused(nexar_comm_dup(w, &made)) + refused(nexar_comm_split(w, 0, 0, &made)) +
           refused(nexar_comm_revoke(w)) + refused(nexar_comm_agree(w, &flags)) +
           refused(nexar_comm_shrink(w, &made)) + refused(nexar_comm_update(&world, NULL)) +
           refused(nexar_comm_leave(w)) + refused(nexar_alloc(w, 1, &ptr)) +
           refused(nexar_rpc_register(w, FN, NULL, NULL)) +
           refused(nexar_rpc_call(w, 0, FN, NULL, 0, NULL, NULL)) +
           refused(nexar_comm_set_device(w, NULL)) + refused(nexar_finalize(w));
}

static void fork_in_a_world(nexar_comm *w, void *arg)
{
    nexar_comm *c = NULL, *own = NULL;
    nexar_request *req = NULL;
    int word = 0, status = 0;
    pid_t child;

    (void)arg;
    NXT_OK(w, nexar_comm_dup(w, &c));
    NXT_OK(w, nexar_irecv(w, &word, sizeof(word), NEXAR_ANY_SOURCE, TAG, &req));
    NXT_OK(w, nexar_barrier(w));
    child = fork();
    if (child == 0) {
        _exit(count_refusals(w, c, req));
    }
    NXT_IS(w, waitpid(child, &status, 0) == child);
    NXT_IS(w, WIFEXITED(status) && (WEXITSTATUS(status) == REFUSALS));
    /* The ranks are unaffected. */
    NXT_OK(w, nexar_barrier(c));
    NXT_OK(w, nexar_send(w, &status, sizeof(status), 1 - nexar_rank(w), TAG));
    NXT_OK(w, nexar_wait(&req, NULL));
    NXT_OK(w, nxt_sum_all(c, 1000));
    NXT_OK(w, nexar_init(NULL, &own)); /* a world of the process itself, of one */
    NXT_OK(own, nexar_finalize(own));
}

static void test_a_child_by_fork_has_no_world(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, fork_in_a_world, NULL);
}

/* The child may create a world of its own. */
static void test_a_child_by_fork_can_make_a_world(void **state)
{
    nexar_comm *w = NULL, *own = NULL;
    int status = 0;
    pid_t child;

    (void)state;
    assert_int_equal(nexar_init(NULL, &w), NEXAR_OK);
    child = fork();
    if (child == 0) {
        _exit((nexar_init(NULL, &own) == NEXAR_OK) && (nexar_barrier(own) == NEXAR_OK) &&
                      (nexar_finalize(own) == NEXAR_OK)
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(nexar_barrier(w), NEXAR_OK);
    assert_int_equal(nexar_finalize(w), NEXAR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_child_by_fork_has_no_world),
        cmocka_unit_test(test_a_child_by_fork_can_make_a_world),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
