/*
 * mpi_bench.c - the measurements of `nexar bench` for an MPI: the same operations, sizes and
 * method. For make bench-peers.
 *
 *     mpirun -np 2 mpi_bench SECONDS SIZE[,SIZE]... OPERATION...
 *
 * The time of an operation is the time of its slowest rank. A barrier, which is not measured,
 * precedes each iteration. The median of all iterations counts. Rank 0 prints lines of operation,
 * size, iterations, microseconds.
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] = "usage: mpirun -np N mpi_bench SECONDS SIZE[,SIZE]... OPERATION...";

enum { WARM_UP = 3, PROBES = 2, LEAST = 7, MOST = 100000, WINDOW = 64, SIZES = 32 };
enum { TAG_PING = 1, TAG_PONG, TAG_STREAM, TAG_DONE };

typedef struct bench {
    int rank, ranks;
    double seconds; /* for each row */
    char *a, *b;
    size_t size; /* of this row, bytes */
} bench;

/* Elements of a block, for operations with one block per rank. */
static int block(const bench *b)
{
    const size_t each = b->size / sizeof(float) / (size_t)b->ranks;

    return (each == 0) ? 1 : (int)each;
}

static int whole(const bench *b)
{
    return (int)(b->size / sizeof(float));
}

static void do_allreduce(const bench *b)
{
    MPI_Allreduce(MPI_IN_PLACE, b->a, whole(b), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void do_broadcast(const bench *b)
{
    MPI_Bcast(b->a, whole(b), MPI_FLOAT, 0, MPI_COMM_WORLD);
}

static void do_allgather(const bench *b)
{
    MPI_Allgather(b->a, block(b), MPI_FLOAT, b->b, block(b), MPI_FLOAT, MPI_COMM_WORLD);
}

static void do_reduce_scatter(const bench *b)
{
    MPI_Reduce_scatter_block(b->a, b->b, block(b), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void do_alltoall(const bench *b)
{
    MPI_Alltoall(b->a, block(b), MPI_FLOAT, b->b, block(b), MPI_FLOAT, MPI_COMM_WORLD);
}

static void do_scan(const bench *b)
{
    MPI_Scan(b->a, b->b, whole(b), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void do_barrier(const bench *b)
{
    (void)b;
    MPI_Barrier(MPI_COMM_WORLD);
}

static void do_p2p(const bench *b)
{
    const int n = (int)b->size;

    if (b->rank == 0) {
        MPI_Send(b->a, n, MPI_BYTE, 1, TAG_PING, MPI_COMM_WORLD);
        MPI_Recv(b->b, n, MPI_BYTE, 1, TAG_PONG, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(b->b, n, MPI_BYTE, 0, TAG_PING, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(b->a, n, MPI_BYTE, 0, TAG_PONG, MPI_COMM_WORLD);
    }
}

static int window(size_t size)
{
    return (size >= (16U << 20)) ? 4 : (size >= (1U << 20)) ? 16 : WINDOW;
}

static void do_stream(const bench *b)
{
    const int n = (int)b->size, w = window(b->size);
    MPI_Request reqs[WINDOW];
    char word = 0;

    for (int i = 0; i < w; i++) {
        if (b->rank == 0) {
            MPI_Isend(b->a, n, MPI_BYTE, 1, TAG_STREAM, MPI_COMM_WORLD, &reqs[i]);
        } else {
            MPI_Irecv(b->b, n, MPI_BYTE, 0, TAG_STREAM, MPI_COMM_WORLD, &reqs[i]);
        }
    }
    MPI_Waitall(w, reqs, MPI_STATUSES_IGNORE);
    if (b->rank == 0) {
        MPI_Recv(&word, 1, MPI_BYTE, 1, TAG_DONE, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Send(&word, 1, MPI_BYTE, 0, TAG_DONE, MPI_COMM_WORLD);
    }
}

typedef struct operation {
    const char *name;
    void (*run)(const bench *b);
    int pair;
} operation;

static const operation operations[] = {
    {"allreduce", do_allreduce, 0}, {"broadcast", do_broadcast, 0},
    {"allgather", do_allgather, 0}, {"reduce_scatter", do_reduce_scatter, 0},
    {"alltoall", do_alltoall, 0},   {"scan", do_scan, 0},
    {"barrier", do_barrier, 0},     {"p2p", do_p2p, 1},
    {"p2p_stream", do_stream, 1},
};

enum { OPERATIONS = sizeof(operations) / sizeof(operations[0]) };

static double once(const bench *b, const operation *op)
{
    double start;

    if (!op->pair) {
        MPI_Barrier(MPI_COMM_WORLD);
    }
    start = MPI_Wtime();
    op->run(b);
    return MPI_Wtime() - start;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* The number of operations in one measured run. */
static double parts(const bench *b, const operation *op)
{
    if (op->run == do_p2p) {
        return 2;
    }
    return (op->run == do_stream) ? window(b->size) : 1;
}

/* The number of further iterations after |done|, which took |spent| seconds; as in nexar bench. */
static int choose(const bench *b, int done, double spent)
{
    int more = 0;

    if ((done < MOST) && ((done < LEAST) || (spent < b->seconds * 0.9))) {
        const double left = (b->seconds - spent) / (spent / done + 1e-9);
        const double fit = (done <= PROBES) ? left / 4 : left;

        more = (fit < LEAST) ? LEAST : (int)((fit < MOST) ? fit : MOST);
        more = (more < MOST - done) ? more : MOST - done;
    }
    MPI_Bcast(&more, 1, MPI_INT, 0, MPI_COMM_WORLD);
    return more;
}

static void measure(const bench *b, const operation *op)
{
    const int part = !op->pair || (b->rank < 2);
    double *times = calloc(MOST, sizeof(*times)), *all = calloc(MOST, sizeof(*all)), start;
    int n = 0;

    for (int i = 0; (i < WARM_UP) && part; i++) {
        (void)once(b, op);
    }
    start = MPI_Wtime();
    for (int more = PROBES; more > 0; more = choose(b, n, MPI_Wtime() - start)) {
        for (; more > 0; more--, n++) {
            const double t = part ? once(b, op) : 0;

            times[n] = (op->pair && (b->rank != 0)) ? 0 : t;
        }
    }
    MPI_Reduce(times, all, n, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (b->rank == 0) {
        qsort(all, (size_t)n, sizeof(*all), by_value);
        printf("%s %zu %d %.3f\n", op->name, (op->run == do_barrier) ? 0 : b->size, n,
               all[n / 2] / parts(b, op) * 1e6);
        fflush(stdout);
    }
    free(times);
    free(all);
}

static void measure_all(bench *b, const operation *op, const size_t *sizes, int n)
{
    for (int i = 0; i < n; i++) {
        b->size = sizes[i];
        measure(b, op);
        if (op->run == do_barrier) {
            return;
        }
    }
}

static int all_known(char **names)
{
    for (; *names != NULL; names++) {
        int k = 0;

        while ((k < OPERATIONS) && (strcmp(*names, operations[k].name) != 0)) {
            k++;
        }
        if (k == OPERATIONS) {
            return 0;
        }
    }
    return 1;
}

static int parse_sizes(char *text, size_t *sizes)
{
    int n = 0;

    for (char *word = strtok(text, ","); (word != NULL) && (n < SIZES); word = strtok(NULL, ",")) {
        sizes[n++] = strtoul(word, NULL, 10);
    }
    return n;
}

int main(int argc, char **argv)
{
    size_t sizes[SIZES], room;
    bench b = {0};
    int n;

    if ((argc > 1) && (strcmp(argv[1], "--help") == 0)) {
        puts(usage);
        return 0;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
    if (argc < 4) {
        fprintf(stderr, "%s\n", usage);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    b.seconds = strtod(argv[1], NULL);
    n = parse_sizes(argv[2], sizes);
    if (!(b.seconds > 0) || (n == 0) || !all_known(argv + 3)) {
        fprintf(stderr, "mpi_bench: no seconds, no sizes or an operation that is none\n%s\n",
                usage);
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    room = sizes[n - 1] + sizeof(float) * (size_t)b.ranks;
    b.a = malloc(room);
    b.b = malloc(room);
    if ((b.a == NULL) || (b.b == NULL)) {
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    memset(b.a, 0, room);
    memset(b.b, 0, room);
    for (int i = 3; i < argc; i++) {
        for (int k = 0; k < OPERATIONS; k++) {
            if (strcmp(argv[i], operations[k].name) == 0) {
                measure_all(&b, &operations[k], sizes, n);
            }
        }
    }
    free(b.a);
    free(b.b);
    MPI_Finalize();
    return 0;
}
