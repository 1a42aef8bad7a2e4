/*
 * unexpected.c - a flood that nobody has asked for, between two processes.
 *
 *     nexar run -n 2 unexpected MESSAGES RECEIVER SENDER
 *
 * Rank 0 sends so many messages of 1 MiB, each with a tag of its own, before rank 1 asks for
 * the first one; rank 1 receives them in reverse, EACH at a time, and looks at every byte.
 * Allreduces run on the same link, while the flood piles up and while it is received.  RECEIVER
 * and SENDER are KiB: what the peak of a rank's memory may be above what it had before it
 * joined; 0: whatever it takes.  Prints one line, and exits with 0 if all was right.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <nexar.h>

enum { BYTES = 1 << 20, WORDS = BYTES / 8, EACH = 10, COUNT = 1 << 14 };

static nexar_comm *world;
static uint64_t messages;
static uint64_t *data;           /* message i is the WORDS from data[i]: no two have a word alike */
static uint64_t in[EACH][WORDS]; /* by rank 1 */
static uint64_t addend[COUNT], sum[COUNT];

static void must(nexar_err err, const char *what)
{
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "unexpected: %s: %s\n", what, nexar_last_error());
        _exit(2);
    }
}

static void expect(bool right, const char *what, uint64_t which)
{
    if (!right) {
        (void)fprintf(stderr, "unexpected: %s %" PRIu64 "\n", what, which);
        _exit(1);
    }
}

/* ---- memory ------------------------------------------------------------------------- */

/* The figure in KiB behind |word|. */
static int64_t look_up(const char *word)
{
    char line[256];
    int64_t found = 0;
    FILE *f = fopen("/proc/self/status", "re");

    while ((f != NULL) && (fgets(line, sizeof(line), f) != NULL)) {
        if (strncmp(line, word, strlen(word)) == 0) {
            found = strtoll(line + strlen(word), NULL, 10);
        }
    }
    if (f != NULL) {
        (void)fclose(f);
    }
    return found;
}

/* The peak counts from now on: all that the flood needs of ours is there. */
static int64_t begin_to_measure(void)
{
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, "5", 1);
        (void)close(fd);
    }
    return look_up("VmRSS:");
}

static void make_data(void)
{
    data = malloc((messages + WORDS) * sizeof(*data));
    expect(data != NULL, "no memory for messages:", messages);
    for (uint64_t i = 0; i < messages + WORDS; i++) {
        data[i] = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    }
    memset(in, 1, sizeof(in));
    memset(sum, 1, sizeof(sum));
}

/* ---- the flood ---------------------------------------------------------------------- */

static nexar_request *begin_sum(uint64_t number)
{
    nexar_request *req = NULL;

    for (uint64_t i = 0; i < COUNT; i++) {
        addend[i] = number + i * (uint64_t)(nexar_rank(world) + 1);
    }
    must(nexar_iallreduce(world, addend, sum, COUNT, NEXAR_U64, NEXAR_SUM, &req), "iallreduce");
    return req;
}

static void end_sum(nexar_request *req, uint64_t number)
{
    must(nexar_wait(&req, NULL), "allreduce");
    for (uint64_t i = 0; i < COUNT; i++) {
        expect(sum[i] == 2 * number + 3 * i, "a wrong sum, of allreduce", number);
    }
}

static void send_flood(void)
{
    nexar_request **reqs = calloc(messages, sizeof(nexar_request *));
    nexar_request *reduction = NULL;

    expect(reqs != NULL, "no memory for requests:", messages);
    for (uint64_t i = 0; i < messages; i++) {
        if (i % EACH == 0) {
            reduction = begin_sum(i);
        }
        must(nexar_isend(world, data + i, BYTES, 1, i, &reqs[i]), "isend");
        if (i % EACH == EACH - 1) {
            end_sum(reduction, i + 1 - EACH);
        }
    }
    for (uint64_t i = 0; i < messages; i++) {
        bool done = true;

        must(nexar_test(&reqs[i], &done, NULL), "test");
        expect(!done, "nobody has asked, and yet it is done: message", i);
    }
    must(nexar_send(world, &messages, sizeof(messages), 1, messages), "send");
    for (uint64_t i = 0; i < messages; i += EACH) {
        end_sum(begin_sum(i), i);
    }
    must(nexar_wait_all(messages, reqs), "a send");
    free(reqs);
}

/* The EACH messages before |end|, the last one first. */
static void receive_some(uint64_t end)
{
    nexar_request *reqs[EACH];

    for (uint64_t i = 0; i < EACH; i++) {
        memset(in[i], 0, BYTES);
        must(nexar_irecv(world, in[i], BYTES, 0, end - 1 - i, &reqs[i]), "irecv");
    }
    for (uint64_t i = 0; i < EACH; i++) {
        nexar_status status = {0};

        must(nexar_wait(&reqs[i], &status), "recv");
        expect((status.tag == end - 1 - i) && (status.bytes == BYTES), "not as sent: message",
               end - 1 - i);
        expect(memcmp(in[i], data + (end - 1 - i), BYTES) == 0, "other bytes in message",
               end - 1 - i);
    }
}

static void receive_flood(void)
{
    uint64_t said = 0;
    bool found = true;

    for (uint64_t i = 0; i < messages; i += EACH) {
        end_sum(begin_sum(i), i);
    }
    must(nexar_recv(world, &said, sizeof(said), 0, messages, NULL), "recv"); /* all are sent */
    must(nexar_probe(world, 0, messages - 1, NULL), "probe");
    for (uint64_t i = 0; i < messages; i += EACH) {
        nexar_request *reduction = begin_sum(i);

        receive_some(messages - i);
        end_sum(reduction, i);
    }
    must(nexar_iprobe(world, NEXAR_ANY_SOURCE, NEXAR_ANY_TAG, &found, NULL), "iprobe");
    expect(!found, "there is one more than were sent:", messages);
}

/* ---- the figures -------------------------------------------------------------------- */

static double now_s(void)
{
    struct timespec ts;

    (void)clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void run(int64_t before, const int64_t most[2])
{
    const int me = nexar_rank(world);
    const double since = now_s();
    int64_t more[2] = {0, 0};

    if (me == 0) {
        send_flood();
    } else {
        receive_flood();
    }
    more[me] = look_up("VmHWM:") - before;
    must(nexar_allreduce(world, NEXAR_IN_PLACE, more, 2, NEXAR_I64, NEXAR_SUM), "allreduce");
    if (me == 1) {
        (void)printf("unexpected: %" PRIu64 " messages in %.1f s; KiB more at most: receiver "
                     "%" PRId64 ", sender %" PRId64 "\n",
                     messages, now_s() - since, more[1], more[0]);
    }
    expect((most[me] == 0) || (more[me] <= most[me]),
           "KiB more than before it joined:", (uint64_t)more[me]);
}

int main(int argc, char **argv)
{
    int64_t before, most[2];

    if (argc != 4) {
        (void)fprintf(stderr, "usage: unexpected MESSAGES RECEIVER SENDER\n");
        return 2;
    }
    messages = strtoull(argv[1], NULL, 10) / EACH * EACH;
    most[1] = strtoll(argv[2], NULL, 10);
    most[0] = strtoll(argv[3], NULL, 10);
    make_data();
    before = begin_to_measure();
    must(nexar_init(NULL, &world), "init");
    expect(nexar_size(world) == 2, "2 ranks are needed, there are", (uint64_t)nexar_size(world));
    run(before, most);
    must(nexar_finalize(world), "finalize");
    free(data);
    return 0;
}
