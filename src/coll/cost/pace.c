/* pace.c - the time of rounds, trees and streams of messages. */
#include "coll/cost/pace.h"

enum { LEVELS = 32 }; /* of a tree of uint32_t places */

static double max2(double a, double b)
{
    return (a > b) ? a : b;
}

static double min2(double a, double b)
{
    return (a < b) ? a : b;
}

static double bytes_of(const nx_net *net, uint64_t len)
{
    return (double)len * (double)net->elem_size;
}

static double wire(const nx_net *net, bool local, uint64_t len)
{
    return bytes_of(net, len) / (local ? net->local_bandwidth : net->bandwidth);
}

static double cpu(const nx_net *net, bool local)
{
    return local ? net->local_cpu : net->message_cpu;
}

static double latency(const nx_net *net, bool local)
{
    return local ? net->local_latency : net->latency;
}

double nx_net_reduce(const nx_net *net, uint64_t len)
{
    return bytes_of(net, len) / net->reduce_bandwidth;
}

double nx_net_message(const nx_net *net, bool local, uint64_t len)
{
    return 2 * cpu(net, local) + latency(net, local) + wire(net, local, len);
}

/* ---- rounds -------------------------------------------------------------------------- */

/* |alone|: the round for a rank that has the wire to itself. */
static void add_round(nx_path *p, double alone, uint32_t out, uint64_t len)
{
    const double all = out * wire(p->net, false, len);

    p->time += max2(alone, all);
    p->turns = max2(p->turns, (out == 0) ? 0 : min2(alone, all) - wire(p->net, false, len));
}

void nx_path_add(nx_path *p, nx_load load, uint64_t len, uint64_t work)
{
    const double local = load.local ? nx_net_message(p->net, true, len) : 0;
    const double remote = (load.out > 0) ? nx_net_message(p->net, false, len) : 0;

    add_round(p, max2(local, remote) + nx_net_reduce(p->net, work), load.out, len);
}

void nx_path_shift(nx_path *p, uint32_t distance, uint64_t len, uint64_t work)
{
    const nx_load load = nx_load_shift(p->net, distance);

    if ((load.out == 0) || !load.local) {
        nx_path_add(p, load, len, work);
        return;
    }
    const double local = nx_net_message(p->net, true, len);
    const double remote =
        nx_net_message(p->net, false, len) + (load.out - 1) * wire(p->net, false, len);

    add_round(p, local + nx_net_reduce(p->net, work), 0, len);
    p->way += (distance < p->net->ranks - distance) ? distance : p->net->ranks - distance;
    p->border = max2(p->border, remote - local);
}

void nx_path_alternative(nx_path *p, uint64_t len, uint64_t work)
{
    const bool local = p->net->hosts == 1;

    p->time += max2(wire(p->net, local, len), cpu(p->net, local)) + nx_net_reduce(p->net, work);
}

double nx_path_time(const nx_path *p)
{
    const uint64_t per_host = nx_net_per_host(p->net);
    const uint64_t borders = (p->way + per_host - 1) / per_host;

    return p->time + p->turns + (double)borders * p->border;
}

/* ---- trees --------------------------------------------------------------------------- */

typedef struct levels {
    const nx_tree *tree;
    nx_load loads[LEVELS];   /* of the messages 2^level places further */
    double full[LEVELS + 1]; /* time of a subtree of 2^level places */
} levels;

static uint64_t message_len(const nx_tree *t, uint64_t places)
{
    return t->by_place ? places * t->len : t->len;
}

static double alone(const levels *v, uint32_t level, uint64_t len)
{
    return nx_net_message(v->tree->net, v->loads[level].out == 0, len);
}

/* The time that one message takes at a rank that handles several. */
static double busy(const levels *v, uint32_t level, uint64_t len)
{
    const bool local = v->loads[level].out == 0;
    const double work = v->tree->reduce ? nx_net_reduce(v->tree->net, len) : 0;

    return max2(wire(v->tree->net, local, len), cpu(v->tree->net, local) + work);
}

static double down(const levels *v, uint64_t places)
{
    double begin = 0, end = 0;
    uint32_t level = 0;

    while ((UINT64_C(1) << level) < places) {
        level++;
    }
    while (level-- > 0) {
        const uint64_t far = UINT64_C(1) << level;
        const bool whole = places - far >= far;
        const uint64_t len = message_len(v->tree, whole ? far : places - far);

        end = max2(end,
                   begin + alone(v, level, len) + (whole ? v->full[level] : down(v, places - far)));
        begin += busy(v, level, len);
    }
    return end;
}

static double up(const levels *v, uint64_t places)
{
    double now = 0;

    for (uint32_t level = 0; (UINT64_C(1) << level) < places; level++) {
        const uint64_t far = UINT64_C(1) << level;
        const bool whole = places - far >= far;
        const uint64_t len = message_len(v->tree, whole ? far : places - far);
        const double work = v->tree->reduce ? nx_net_reduce(v->tree->net, len) : 0;
        const double child = whole ? v->full[level] : up(v, places - far);

        now = max2(now + busy(v, level, len), child + alone(v, level, len) + work);
    }
    return now;
}

static double tree_time(const nx_tree *tree, double (*time)(const levels *v, uint64_t places))
{
    levels v = {.tree = tree};

    for (uint32_t i = 0; (UINT64_C(1) << i) < tree->places; i++) {
        v.loads[i] = nx_load_tree(tree->net, tree->root, UINT32_C(1) << i);
        v.full[i] = time(&v, UINT64_C(1) << i);
    }
    return time(&v, tree->places);
}

double nx_tree_down(const nx_tree *tree)
{
    return tree_time(tree, down);
}

double nx_tree_up(const nx_tree *tree)
{
    return tree_time(tree, up);
}

/* ---- streams ------------------------------------------------------------------------- */

/* How long a rank is busy with one segment that it receives and forwards: the slowest of wire, port
 * and CPU sets the pace. */
static double pace(const nx_net *net, nx_cost_stream s, bool between, bool inside)
{
    const uint64_t len = s.len / s.segments;
    const double work = s.work * nx_net_reduce(net, len);
    double time = 0;

    if (inside) {
        time = max2(wire(net, true, len), 2 * net->local_cpu + work);
    }
    if (between) {
        /* At a border one side of the rank is the network, or both are. */
        time = max2(time, wire(net, false, len));
        time = max2(time, net->message_cpu + cpu(net, inside) + work);
    }
    if (s.window > 0) {
        /* One round trip carries as many segments as the window holds. */
        const double trip = nx_net_message(net, !between, len) + latency(net, !between) + work;

        time = max2(time, trip / (double)s.window);
    }
    return time;
}

double nx_net_chain(const nx_net *net, nx_cost_stream s, uint32_t hops, uint32_t borders)
{
    const double work = s.work * nx_net_reduce(net, s.each);

    if (hops == 0) {
        return 0;
    }
    return borders * (nx_net_message(net, false, s.each) + work) +
           (hops - borders) * (nx_net_message(net, true, s.each) + work) +
           (double)(s.segments - 1) * pace(net, s, borders > 0, borders < hops);
}

double nx_net_ring(const nx_net *net, nx_cost_stream s, uint32_t rounds)
{
    const bool between = net->hosts > 1, inside = net->hosts < net->ranks;
    const double step = (double)s.segments * pace(net, s, between, inside);
    nx_cost_stream free = s;

    if (rounds == 0) {
        return 0;
    }
    /* The longest of two times: one segment's path around the ring, or the slowest rank, which
     * handles all segments in each round. */
    free.window = 0;
    return max2(nx_net_chain(net, free, rounds, nx_net_most_borders(net, rounds)),
                (rounds - 1) * step + nx_net_chain(net, free, 1, between ? 1 : 0));
}

/* ---- stars --------------------------------------------------------------------------- */

double nx_net_star(const nx_net *net, uint64_t len)
{
    const uint32_t per_host = nx_net_per_host(net);
    const double inside = per_host - 1, between = net->ranks - per_host;
    const bool local = between == 0;
    const double wires = max2(between * wire(net, false, len), inside * wire(net, true, len));
    const double cpus = inside * net->local_cpu + between * net->message_cpu;

    if (net->ranks == 1) {
        return 0;
    }
    /* The bottleneck takes its whole time, the other resource that of one message. */
    return max2(cpus + wire(net, local, len), wires + cpu(net, local)) + latency(net, local) +
           cpu(net, local);
}

double nx_net_all(const nx_net *net, uint64_t len, uint32_t window)
{
    const uint32_t per_host = nx_net_per_host(net);
    const double inside = per_host - 1, between = net->ranks - per_host;
    const bool local = between == 0;
    const double wires =
        max2(between * per_host * wire(net, false, len), inside * wire(net, true, len));
    const double own = nx_net_reduce(net, len); /* copied first */
    const double sends = inside * net->local_cpu + between * net->message_cpu;
    const double last = nx_net_message(net, local, len);
    const double turns = (inside + between) / window;
    /* With more than two ranks each has a round in which it meets itself. */
    double time = own + wires + last - ((net->ranks == 2) ? wire(net, local, len) : 0);

    if (net->ranks == 1) {
        return own;
    }
    /* Messages arrive while the first ones are still being sent. */
    time = max2(time, own + 2 * sends);
    time = max2(time, own + sends + last - cpu(net, local));
    return max2(time, turns * (last + latency(net, local)));
}
