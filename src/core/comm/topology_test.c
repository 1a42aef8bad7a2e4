/* topology_test.c - ranks that share a host; names of communicators. */
#include <nexar.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "local_world.h"
#include "unit.h"

enum { RANKS = 4 };

/* Ranks of one process are on one host, whatever transport they use. */
static void one_host(nexar_comm *w, void *arg)
{
    nexar_host where;
    char name[64] = "";
    nexar_comm *host = NULL;

    (void)arg;
    (void)gethostname(name, sizeof(name) - 1);
    for (int rank = 0; rank < nexar_size(w); rank++) {
        NXT_OK(w, nexar_comm_host(w, rank, &where));
        NXT_IS(w, (where.host == 0) && (where.hosts == 1) && (where.leader == 0));
        NXT_IS(w, (where.local_rank == rank) && (where.local_size == nexar_size(w)));
        NXT_IS(w, strcmp(where.name, name) == 0);
    }
    NXT_OK(w, nexar_comm_split_host(w, &host));
    NXT_IS(w, (nexar_rank(host) == nexar_rank(w)) && (nexar_size(host) == nexar_size(w)));
    NXT_OK(w, nexar_barrier(host));
    nexar_comm_free(host);
}

static void test_ranks_of_one_process_share_a_host(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, one_host, NULL);
    nxt_local_world(1, NULL, one_host, NULL);
}

/* A communicator of the ranks 3, 1: numbers are those of the communicator. */
static void sub(nexar_comm *w, void *arg)
{
    const int color = nexar_rank(w) % 2;
    nexar_comm *part = NULL;
    nexar_host where;

    (void)arg;
    NXT_OK(w, nexar_comm_split(w, color, -nexar_rank(w), &part));
    NXT_OK(w, nexar_comm_host(part, 1, &where));
    NXT_IS(w, (where.local_rank == 1) && (where.local_size == 2) && (where.leader == 0));
    NXT_SAYS(w, nexar_comm_host(part, 2, &where), NEXAR_EINVAL, "no rank 2; ranks are 0 to 1");
    nexar_comm_free(part);
}

static void test_ranks_are_those_of_the_communicator(void **state)
{
    (void)state;
    nxt_local_world(RANKS, NULL, sub, NULL);
}

static void mismatch(nexar_comm *w, void *arg)
{
    nexar_comm *part = NULL;

    (void)arg;
    NXT_SAYS(w, (nexar_rank(w) == 0) ? nexar_comm_split_host(w, &part) : nexar_comm_dup(w, &part),
             NEXAR_EMISMATCH, "comm_split_host");
}

static void test_another_call_elsewhere_is_a_mismatch(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, mismatch, NULL);
}

/* Names say how a communicator was made, and appear in errors. */
static void names(nexar_comm *w, void *arg)
{
    nexar_comm *half = NULL, *dup = NULL, *host = NULL;
    char longest[64], buf[4];

    (void)arg;
    memset(longest, 'n', sizeof(longest));
    NXT_OK(w, nexar_comm_split(w, 0, 0, &half));
    NXT_OK(w, nexar_comm_dup(half, &dup));
    NXT_OK(w, nexar_comm_split_host(w, &host));
    NXT_IS(w, strcmp(nexar_comm_name(w), "world") == 0);
    NXT_IS(w, strcmp(nexar_comm_name(half), "world.split.1") == 0);
    NXT_IS(w, strcmp(nexar_comm_name(dup), "world.split.1.dup.1") == 0);
    NXT_IS(w, strcmp(nexar_comm_name(host), "world.host.2") == 0);
    NXT_IS(w, strcmp(nexar_comm_name(NULL), "") == 0);
    NXT_OK(w, nexar_comm_set_name(dup, "gradients"));
    if (nexar_rank(w) == 0) {
        NXT_OK(w, nexar_send(dup, "12345", 5, 1, 1));
    } else {
        NXT_SAYS(w, nexar_recv(dup, buf, 4, 0, 1, NULL), NEXAR_ETRUNC, "tag 1 on gradients: ");
    }
    NXT_SAYS(w, nexar_comm_set_name(dup, NULL), NEXAR_EINVAL, "name is NULL");
    longest[63] = '\0';
    NXT_OK(w, nexar_comm_set_name(dup, longest));
    NXT_IS(w, strcmp(nexar_comm_name(dup), longest) == 0);
    NXT_SAYS(w,
             nexar_comm_set_name(dup, "0123456789012345678901234567890123456789012345678901234567"
                                      "890123"),
             NEXAR_EINVAL, "64 bytes; at most 63");
    nexar_comm_free(dup);
    nexar_comm_free(half);
    nexar_comm_free(host);
}

static void test_communicators_have_names(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, names, NULL);
}

static void misuse(nexar_comm *w, void *arg)
{
    nexar_comm *part = NULL;
    nexar_host where = {.host = 7};

    (void)arg;
    NXT_SAYS(w, nexar_comm_host(NULL, 0, &where), NEXAR_EINVAL, "comm is NULL");
    NXT_SAYS(w, nexar_comm_host(w, 0, NULL), NEXAR_EINVAL, "where is NULL");
    NXT_SAYS(w, nexar_comm_host(w, -1, &where), NEXAR_EINVAL, "no rank -1");
    NXT_SAYS(w, nexar_comm_split_host(NULL, &part), NEXAR_EINVAL, "comm is NULL");
    NXT_SAYS(w, nexar_comm_split_host(w, NULL), NEXAR_EINVAL, "the output is NULL");
    NXT_IS(w, where.host == 7);
}

static void test_misuse_is_refused_in_words(void **state)
{
    (void)state;
    nxt_local_world(1, NULL, misuse, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_of_one_process_share_a_host),
        cmocka_unit_test(test_ranks_are_those_of_the_communicator),
        cmocka_unit_test(test_another_call_elsewhere_is_a_mismatch),
        cmocka_unit_test(test_communicators_have_names),
        cmocka_unit_test(test_misuse_is_refused_in_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
