/* short_test.c - short messages that are received in place: in order, once, also while other
 * threads of the rank receive. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <nexar.h>

#include "local_world.h"
#include "rand.h"
#include "unit.h"

/* ---- one after another, by all methods ----------------------------------------------- */

enum { ROUNDS = 400, BURST = 12, ROOM = 2048, TAGS = 3 };

typedef struct word {
    uint64_t tag, count; /* its number within the tag */
} word;

/* Both sides know a burst: the tags and lengths of its messages. */
typedef struct plan {
    int n;
    uint64_t tags[BURST];
    size_t bytes[BURST];
} plan;

static void make_plan(nxt_rand *rand, plan *p)
{
    p->n = 1 + (int)nxt_below(rand, BURST);
    for (int i = 0; i < p->n; i++) {
        p->tags[i] = nxt_below(rand, TAGS);
        p->bytes[i] =
            sizeof(word) + (size_t)nxt_below(rand, (nxt_below(rand, 8) == 0) ? ROOM - 16 : 40);
    }
}

static void send_burst(nexar_comm *w, const plan *p, uint64_t count[TAGS])
{
    unsigned char buf[ROOM];

    for (int i = 0; i < p->n; i++) {
        word head = {.tag = p->tags[i], .count = count[p->tags[i]]++};

        memset(buf, (int)(head.count & 0xff), p->bytes[i]);
        memcpy(buf, &head, sizeof(head));
        NXT_OK(w, nexar_send(w, buf, p->bytes[i], 1, p->tags[i]));
    }
}

static void check(nexar_comm *w, const unsigned char *buf, const nexar_status *status,
                  uint64_t count[TAGS])
{
    word head;

    memcpy(&head, buf, sizeof(head));
    NXT_IS(w, (status->source == 0) && (status->tag < TAGS) && (status->tag == head.tag));
    NXT_IS(w, head.count == count[head.tag]);
    for (size_t i = sizeof(head); i < status->bytes; i++) {
        NXT_IS(w, buf[i] == (head.count & 0xff));
    }
    count[head.tag]++;
}

/* Tag |tag| is received, by one of several calls; earlier posted receives match first. */
static void receive_one(nexar_comm *w, nxt_rand *rand, uint64_t tag, uint64_t count[TAGS])
{
    unsigned char buf[ROOM], more[ROOM];
    nexar_status status = {0};
    nexar_request *req = NULL;

    switch (nxt_below(rand, 6)) {
    case 0:
        NXT_OK(w, nexar_probe(w, 0, tag, &status));
        NXT_OK(w, nexar_recv(w, buf, status.bytes, 0, tag, &status));
        break;
    case 1:
        NXT_OK(w, nexar_irecv(w, buf, sizeof(buf), 0, tag, &req));
        NXT_OK(w, nexar_wait(&req, &status));
        break;
    case 2: { /* a buffer that is too small gives an error, and no message is lost */
        bool found = false;

        while (!found) {
            NXT_OK(w, nexar_iprobe(w, 0, tag, &found, &status));
        }
        NXT_SAYS(w, nexar_recv(w, more, 8, 0, tag, NULL), NEXAR_ETRUNC, "room");
        count[tag]++;
        return;
    }
    default:
        NXT_OK(w,
               nexar_recv(w, buf, sizeof(buf), (nxt_below(rand, 8) == 0) ? -1 : 0, tag, &status));
    }
    check(w, buf, &status, count);
}

static void receive_burst(nexar_comm *w, nxt_rand *rand, const plan *p, uint64_t count[TAGS])
{
    unsigned char buf[ROOM];
    nexar_status status = {0};
    nexar_request *req = NULL;
    int left[TAGS] = {0};
    uint64_t first = TAGS;

    for (int i = 0; i < p->n; i++) {
        left[p->tags[i]]++;
    }
    if (nxt_below(rand, 3) == 0) { /* one waits already: it gets the first of its tag */
        first = p->tags[nxt_below(rand, (uint64_t)p->n)];
        NXT_OK(w, nexar_irecv(w, buf, sizeof(buf), 0, first, &req));
        left[first]--;
        for (int i = 0; i < left[first]; i++) {
            unsigned char next[ROOM];
            word head;

            NXT_OK(w, nexar_recv(w, next, sizeof(next), 0, first, &status));
            memcpy(&head, next, sizeof(head));
            NXT_IS(w, head.count == count[first] + 1 + (uint64_t)i);
        }
        NXT_OK(w, nexar_wait(&req, &status));
        check(w, buf, &status, count);
        count[first] += (uint64_t)left[first];
        left[first] = 0;
    }
    for (uint64_t tag = 0; tag < TAGS; tag++) { /* in another order than they were sent */
        while (left[tag]-- > 0) {
            receive_one(w, rand, tag, count);
        }
    }
}

static void mixed(nexar_comm *w, void *arg)
{
    uint64_t count[TAGS] = {0}, seed = *(const uint64_t *)arg;
    nxt_rand plans = {.state = seed}, own = {.state = seed + 100};

    for (int round = 0; round < ROUNDS; round++) {
        plan p;

        make_plan(&plans, &p);
        if (nexar_rank(w) == 0) {
            send_burst(w, &p, count);
            NXT_OK(w, nexar_recv(w, NULL, 0, 1, TAGS, NULL));
        } else if (nexar_rank(w) == 1) {
            receive_burst(w, &own, &p, count);
            NXT_OK(w, nexar_send(w, NULL, 0, 0, TAGS));
        }
    }
    NXT_OK(w, nexar_barrier(w));
}

static void test_messages_come_in_order_whatever_call_takes_them(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        nxt_local_world(2 + (int)(seed % 2), NULL, mixed, &seed);
    }
}

/* ---- two threads of a rank ----------------------------------------------------------- */

enum { TURNS = 3000 };

typedef struct side {
    nexar_comm *w;
    uint64_t tag;
} side;

static void *ping_pong(void *arg)
{
    const side *s = arg;
    const int me = nexar_rank(s->w), other = 1 - me;

    for (uint64_t i = 0; i < TURNS; i++) {
        uint64_t got = 0, mine = (s->tag << 32) + i;
        nexar_status status = {0};

        if (me == 0) {
            NXT_OK(s->w, nexar_send(s->w, &mine, sizeof(mine), other, s->tag));
        }
        NXT_OK(s->w, nexar_recv(s->w, &got, sizeof(got), other, s->tag, &status));
        NXT_IS(s->w, (got == mine) && (status.bytes == sizeof(got)) && (status.tag == s->tag));
        if (me == 1) {
            NXT_OK(s->w, nexar_send(s->w, &mine, sizeof(mine), other, s->tag));
        }
    }
    return NULL;
}

static void both(nexar_comm *w, void *arg)
{
    side sides[2] = {{w, 1}, {w, 2}};
    pthread_t second;

    (void)arg;
    NXT_IS(w, pthread_create(&second, NULL, ping_pong, &sides[1]) == 0);
    (void)ping_pong(&sides[0]);
    NXT_IS(w, pthread_join(second, NULL) == 0);
    NXT_OK(w, nexar_barrier(w));
}

static void test_two_threads_get_each_its_own(void **state)
{
    (void)state;
    nxt_local_world(2, NULL, both, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages_come_in_order_whatever_call_takes_them),
        cmocka_unit_test(test_two_threads_get_each_its_own),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
