/* net.c - ranks on hosts, and the load of a round. */
#include "coll/cost/net.h"

#include "base/alloc.h"

uint32_t nx_net_host(const nx_net *net, uint32_t rank)
{
    const uint32_t base = net->ranks / net->hosts, extra = net->ranks % net->hosts;
    const uint32_t large = extra * (base + 1); /* ranks on hosts with one more */

    return (rank < large) ? rank / (base + 1) : extra + (rank - large) / base;
}

nexar_err nx_net_hosts(const nx_net *net, nx_hosts **out)
{
    uint32_t *labels;
    nexar_err err;

    *out = NULL;
    if (net->hosts == net->ranks) {
        return NEXAR_OK;
    }
    labels = nx_calloc(net->ranks, sizeof(*labels));
    if (labels == NULL) {
        return nx_fail_nomem("the hosts of the cost model");
    }
    for (uint32_t r = 0; r < net->ranks; r++) {
        labels[r] = nx_net_host(net, r);
    }
    err = nx_hosts_create(out, labels, net->ranks);
    nx_free(labels);
    return err;
}

uint32_t nx_net_per_host(const nx_net *net)
{
    return net->ranks / net->hosts + (net->ranks % net->hosts != 0);
}

uint32_t nx_net_borders(const nx_net *net, uint32_t first, uint32_t hops)
{
    const uint32_t last = first + hops; /* may wrap around the end */

    if (net->hosts == 1) {
        return 0;
    }
    return nx_net_host(net, last % net->ranks) + net->hosts * (last / net->ranks) -
           nx_net_host(net, first);
}

uint32_t nx_net_most_borders(const nx_net *net, uint32_t hops)
{
    /* From the last rank of a host with few ranks. */
    return nx_net_borders(net, net->ranks - 1, hops);
}

static uint32_t min2(uint32_t a, uint32_t b)
{
    return (a < b) ? a : b;
}

nx_load nx_load_shift(const nx_net *net, uint32_t distance)
{
    const uint32_t per_host = nx_net_per_host(net);
    const uint32_t near = min2(distance, net->ranks - distance);

    if (net->hosts == 1) {
        return (nx_load){.local = true};
    }
    return (nx_load){.out = min2(near, per_host), .local = near < per_host};
}

/* Iterates over the ranks in order and counts the data that leaves each host. */
typedef struct walk {
    const nx_net *net;
    nx_load load;
    uint32_t host, out; /* the current host, and the data that has left it so far */
} walk;

static void walk_on(walk *w, uint32_t from, uint32_t to)
{
    const uint32_t host = nx_net_host(w->net, from);

    if (host != w->host) {
        w->host = host;
        w->out = 0;
    }
    if (nx_net_host(w->net, to) == host) {
        w->load.local = true;
        return;
    }
    w->out++;
    w->load.out = (w->out > w->load.out) ? w->out : w->load.out;
}

nx_load nx_load_exchange(const nx_net *net, nx_fold fold, uint32_t first, uint32_t mask)
{
    walk w = {.net = net};

    for (uint32_t p = 0; p < fold.even; p++) {
        walk_on(&w, (nx_fold_rank(fold, p) + first) % net->ranks,
                (nx_fold_rank(fold, p ^ mask) + first) % net->ranks);
    }
    return w.load;
}

nx_load nx_load_guests(const nx_net *net, nx_fold fold, uint32_t first)
{
    walk w = {.net = net};

    for (uint32_t p = 0; p < fold.rest; p++) {
        walk_on(&w, (2 * p + first) % net->ranks, (2 * p + 1 + first) % net->ranks);
    }
    return w.load;
}

nx_load nx_load_tree(const nx_net *net, uint32_t root, uint32_t far)
{
    walk w = {.net = net};

    for (uint64_t p = 0; p + far < net->ranks; p += 2 * (uint64_t)far) {
        walk_on(&w, (uint32_t)((p + root) % net->ranks), (uint32_t)((p + far + root) % net->ranks));
    }
    return w.load;
}
