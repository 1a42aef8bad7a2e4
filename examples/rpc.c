/*
 * rpc.c - a counter and a table at one rank, used by all ranks.
 *
 *     nexar run -n 4 ./rpc
 *
 * Every rank registers its functions, rank 0 the counter. The ranks draw numbers from it, each
 * number once. Then each rank asks its neighbour to reverse texts, by concurrent non-blocking
 * calls. Last, a handler makes calls itself: a call passes around the ring of all ranks and
 * returns the sum of their numbers.
 */
#include <nexar.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAW = 1, REVERSE, SUM, TAG_READY = 1, TAG_DONE, DRAWS = 5 };

typedef struct counter {
    pthread_mutex_t lock; /* handlers run concurrently */
    uint64_t next;
} counter;

/* ---- handlers ------------------------------------------------------------------------ */

static nexar_err draw(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    counter *c = arg;
    uint64_t number;

    (void)data;
    (void)bytes;
    (void)pthread_mutex_lock(&c->lock);
    number = c->next++;
    (void)pthread_mutex_unlock(&c->lock);
    return nexar_rpc_reply(call, &number, sizeof(number));
}

static nexar_err reverse(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    const char *text = data;
    char *back = malloc(bytes + 1);
    nexar_err err;

    (void)arg;
    if (back == NULL) {
        return NEXAR_ENOMEM;
    }
    for (size_t i = 0; i < bytes; i++) {
        back[i] = text[bytes - 1 - i];
    }
    err = nexar_rpc_reply(call, back, bytes);
    free(back);
    return err;
}

/* Calls a function that returns a number. */
static nexar_err ask(nexar_comm *world, int rank, uint16_t fn, const void *data, size_t bytes,
                     uint64_t *number)
{
    void *reply = NULL;
    size_t got = 0;
    nexar_err err = nexar_rpc_call(world, rank, fn, data, bytes, &reply, &got);

    if (err == NEXAR_OK) {
        if (got == sizeof(*number)) {
            memcpy(number, reply, sizeof(*number));
        }
        free(reply);
    }
    return err;
}

/* Adds this rank and calls the next rank for the rest; |data| has the number of remaining ranks. */
static nexar_err sum(nexar_rpc *call, const void *data, size_t bytes, void *arg)
{
    nexar_comm *world = (nexar_comm *)arg;
    uint64_t rest = 0;
    uint32_t more;
    nexar_err err = NEXAR_OK;

    if (bytes != sizeof(more)) {
        return NEXAR_EINVAL;
    }
    memcpy(&more, data, sizeof(more));
    if (more-- > 1) {
        err = ask(world, (nexar_rank(world) + 1) % nexar_size(world), SUM, &more, sizeof(more),
                  &rest);
    }
    rest += (uint64_t)nexar_rank(world);
    return (err == NEXAR_OK) ? nexar_rpc_reply(call, &rest, sizeof(rest)) : err;
}

/* ---- calls ---------------------------------------------------------------------------- */

/* Each rank reports to rank 0, which answers when all have: no rank continues before that. */
static nexar_err meet(nexar_comm *world, uint64_t tag)
{
    nexar_err err = NEXAR_OK;

    for (int rank = 1; (rank < nexar_size(world)) && (err == NEXAR_OK); rank++) {
        if (nexar_rank(world) == 0) {
            err = nexar_recv(world, NULL, 0, rank, tag, NULL);
        }
    }
    if ((nexar_rank(world) != 0) && (err == NEXAR_OK)) {
        err = nexar_send(world, NULL, 0, 0, tag);
        return (err == NEXAR_OK) ? nexar_recv(world, NULL, 0, 0, tag, NULL) : err;
    }
    for (int rank = 1; (rank < nexar_size(world)) && (err == NEXAR_OK); rank++) {
        err = nexar_send(world, NULL, 0, rank, tag);
    }
    return err;
}

/* Draws some numbers, which differ from the numbers of all other ranks. */
static nexar_err draw_some(nexar_comm *world, int *rising)
{
    uint64_t number = 0, before = 0;
    nexar_err err = NEXAR_OK;

    *rising = 1;
    for (int i = 0; (i < DRAWS) && (err == NEXAR_OK); i++) {
        err = ask(world, 0, DRAW, NULL, 0, &number);
        *rising = *rising && (number > before);
        before = number;
    }
    return err;
}

/* Sends all texts at once; the replies arrive in any order. */
static nexar_err reverse_some(nexar_comm *world, int *right)
{
    static const char *const texts[] = {"stressed", "live", "drawer", ""};
    static const char *const backs[] = {"desserts", "evil", "reward", ""};
    enum { N = sizeof(texts) / sizeof(texts[0]) };
    const int next = (nexar_rank(world) + 1) % nexar_size(world);
    nexar_request *reqs[N] = {NULL};
    void *replies[N] = {NULL};
    size_t bytes[N] = {0};
    nexar_err err = NEXAR_OK, waited;

    for (int i = 0; (i < N) && (err == NEXAR_OK); i++) {
        err = nexar_rpc_icall(world, next, REVERSE, texts[i], strlen(texts[i]), &replies[i],
                              &bytes[i], &reqs[i]);
    }
    waited = nexar_wait_all(N, reqs);
    *right = 0;
    for (int i = 0; i < N; i++) {
        *right += (replies[i] != NULL) && (bytes[i] == strlen(backs[i])) &&
                  (memcmp(replies[i], backs[i], bytes[i]) == 0);
        free(replies[i]);
    }
    return (err == NEXAR_OK) ? waited : err;
}

static nexar_err run(nexar_comm *world, counter *c)
{
    const uint32_t size = (uint32_t)nexar_size(world);
    uint64_t total = 0;
    int rising = 0, right = 0;
    nexar_err err = (nexar_rank(world) == 0) ? nexar_rpc_register(world, DRAW, draw, c) : NEXAR_OK;

    if (err == NEXAR_OK) {
        err = nexar_rpc_register(world, REVERSE, reverse, NULL);
    }
    if (err == NEXAR_OK) {
        err = nexar_rpc_register(world, SUM, sum, world);
    }
    if (err == NEXAR_OK) {
        err = meet(world, TAG_READY); /* all ranks have registered */
    }
    if (err == NEXAR_OK) {
        err = draw_some(world, &rising);
    }
    if (err == NEXAR_OK) {
        err = reverse_some(world, &right);
    }
    if (err == NEXAR_OK) {
        err = ask(world, nexar_rank(world), SUM, &size, sizeof(size), &total);
    }
    if (err == NEXAR_OK) {
        err = meet(world, TAG_DONE); /* no rank makes further calls */
    }
    if (err == NEXAR_OK) {
        (void)printf("rank %d: drew %d numbers, %s; %d texts reversed; the sum of all ranks is "
                     "%llu\n",
                     nexar_rank(world), DRAWS, rising ? "each larger than the one before" : "mixed",
                     right, (unsigned long long)total);
        if (nexar_rank(world) == 0) {
            (void)printf("rank 0: %llu numbers were drawn\n", (unsigned long long)(c->next - 1));
        }
    }
    return err;
}

int main(void)
{
    counter c = {PTHREAD_MUTEX_INITIALIZER, 1};
    nexar_comm *world;

    if ((nexar_init(NULL, &world) != NEXAR_OK) || (run(world, &c) != NEXAR_OK) ||
        (nexar_finalize(world) != NEXAR_OK)) {
        (void)fprintf(stderr, "rpc: %s\n", nexar_last_error());
        return 1;
    }
    return 0;
}
