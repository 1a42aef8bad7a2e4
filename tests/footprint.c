/*
 * footprint.c - memory of a rank beside its buffers, when it has done all there is to do.
 *
 *     nexar run -n 8 footprint [MOST]
 *
 * All collectives from 8 bytes to 16 MiB, with and without requests, and messages between
 * all pairs of ranks, of 8 bytes, 64 KiB and 4 MiB.  Prints what a rank has more than
 * before it joined: of all ranks the most, in KiB.  "rss" counts what ranks share on each
 * of them, "pss" by how many share it, "peak" is the highest rss there was.  Exits with 1
 * if the peak is above MOST KiB.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <nexar.h>

enum { BYTES = 16 << 20, MESSAGE = 4 << 20, TENSORS = 500, RANKS = 64 };

static uint8_t in[2 * BYTES], out[2 * BYTES];

static void must(nexar_err err)
{
    if (err != NEXAR_OK) {
        (void)fprintf(stderr, "footprint: %s\n", nexar_last_error());
        _exit(2);
    }
}

/* ---- measuring ---------------------------------------------------------------------------- */

typedef enum figure { RSS, PEAK, ANON, SHMEM, FILES, PSS, FIGURES } figure;
static const char *const names[FIGURES] = {"rss", "peak", "anonymous", "shared", "files", "pss"};

/* The figure in KiB behind |word| in |path|; 0: there is none. */
static int64_t look_up(const char *path, const char *word)
{
    char line[256];
    int64_t found = 0;
    FILE *f = fopen(path, "re");

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

static void measure(int64_t figures[FIGURES])
{
    static const char *const words[PSS] = {"VmRSS:", "VmHWM:", "RssAnon:", "RssShmem:", "RssFile:"};

    for (int i = 0; i < PSS; i++) {
        figures[i] = look_up("/proc/self/status", words[i]);
    }
    figures[PSS] = look_up("/proc/self/smaps_rollup", "Pss:");
}

/* The peak counts from now on. */
static void forget_peak(void)
{
    const int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);

    if (fd >= 0) {
        (void)!write(fd, "5", 1);
        (void)close(fd);
    }
}

/* ---- work ---------------------------------------------------------------------------------- */

static void collectives(nexar_comm *w, size_t bytes)
{
    const size_t count = bytes / sizeof(float), n = (size_t)nexar_size(w), each = count / n;
    nexar_request *req = NULL;

    must(nexar_barrier(w));
    must(nexar_allreduce(w, in, out, count, NEXAR_F32, NEXAR_SUM));
    must(nexar_reduce(w, in, out, count, NEXAR_F32, NEXAR_SUM, 0));
    must(nexar_broadcast(w, out, count, NEXAR_F32, (int)n - 1));
    must(nexar_allgather(w, in, out, each, NEXAR_F32));
    must(nexar_gather(w, in, out, each, NEXAR_F32, 0));
    must(nexar_scatter(w, in, out, each, NEXAR_F32, 0));
    must(nexar_reduce_scatter(w, in, out, each, NEXAR_F32, NEXAR_SUM));
    must(nexar_alltoall(w, in, out, each, NEXAR_F32));
    must(nexar_scan(w, in, out, count, NEXAR_F32, NEXAR_SUM));
    must(nexar_exscan(w, in, out, count, NEXAR_F32, NEXAR_SUM));
    must(nexar_iallreduce(w, in, out, count, NEXAR_F32, NEXAR_SUM, &req));
    must(nexar_wait(&req, NULL));
}

static void uneven(nexar_comm *w, size_t bytes)
{
    static nexar_tensor tensors[TENSORS];
    const size_t count = bytes / sizeof(float), n = (size_t)nexar_size(w);
    const size_t me = (size_t)nexar_rank(w), each = count / n;
    size_t counts[RANKS];

    for (size_t i = 0; i < n; i++) {
        counts[i] = each / 2 + ((i == 1) ? each / 3 : 0);
    }
    for (size_t i = 0; i < TENSORS; i++) {
        tensors[i] = (nexar_tensor){.ptr = out + i * (count / TENSORS) * sizeof(float),
                                    .count = count / TENSORS};
    }
    must(nexar_allreduce_bucketed(w, tensors, TENSORS, NEXAR_F32, NEXAR_SUM));
    must(nexar_allreduce_rs_ag(w, out, count, NEXAR_F32, NEXAR_SUM, NULL, NULL));
    must(nexar_allgatherv(w, in, counts[me], out, counts, NULL, NEXAR_F32));
    must(nexar_gatherv(w, in, counts[me], out, counts, NULL, NEXAR_F32, 0));
    must(nexar_scatterv(w, in, counts, NULL, out, counts[me], NEXAR_F32, 0));
    must(nexar_reduce_scatterv(w, in, out, counts, NEXAR_F32, NEXAR_SUM));
}

/* Each with each, in both directions. */
static void messages(nexar_comm *w, size_t bytes)
{
    const int n = nexar_size(w), me = nexar_rank(w);

    for (int i = 1; i < n; i++) {
        const int to = (me + i) % n, from = (me + n - i) % n;
        nexar_request *req = NULL;

        must(nexar_irecv(w, out, bytes, from, 7, &req));
        must(nexar_send(w, in, bytes, to, 7));
        must(nexar_wait(&req, NULL));
    }
}

int main(int argc, char **argv)
{
    static const size_t sizes[] = {8 * 8, 1024, 65536, 1 << 20, BYTES};
    const long most = (argc > 1) ? strtol(argv[1], NULL, 10) : 0;
    int64_t before[FIGURES], after[FIGURES], all[FIGURES];
    nexar_comm *w;
    int code = 0;

    memset(in, 0, sizeof(in));
    memset(out, 0, sizeof(out));
    forget_peak();
    measure(before);
    must(nexar_init(NULL, &w));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        collectives(w, sizes[i]);
        uneven(w, sizes[i]);
        messages(w, (sizes[i] < MESSAGE) ? sizes[i] : MESSAGE);
    }
    must(nexar_barrier(w));
    measure(after);
    for (int i = 0; i < FIGURES; i++) {
        after[i] -= before[(i == PEAK) ? RSS : i];
    }
    must(nexar_allreduce(w, after, all, FIGURES, NEXAR_I64, NEXAR_MAX));
    if (nexar_rank(w) == 0) {
        (void)printf("footprint: %d ranks, KiB beside the buffers:", nexar_size(w));
        for (int i = 0; i < FIGURES; i++) {
            (void)printf(" %s %lld", names[i], (long long)all[i]);
        }
        (void)printf("\n");
    }
    if ((most > 0) && (all[PEAK] > most)) {
        (void)fprintf(stderr, "footprint: the peak is %lld KiB, above %ld\n", (long long)all[PEAK],
                      most);
        code = 1;
    }
    must(nexar_finalize(w));
    return code;
}
