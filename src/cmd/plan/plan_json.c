/* plan_json.c - the machine-readable output of `nexar plan`: seconds, bytes, and bytes per
 * second. */
#include "plan.h"

static const char *by(bool simulated)
{
    return simulated ? "simulated" : "closed form";
}

static void print_net(const nx_plan *plan)
{
    const nx_net *net = &plan->net;

    (void)printf("{\n  \"ranks\": %u, \"hosts\": %u, \"dtype\": \"%s\", \"root\": %u, "
                 "\"segment\": %llu,\n",
                 (unsigned)net->ranks, (unsigned)net->hosts, nexar_dtype_name(plan->dtype),
                 (unsigned)plan->root, (unsigned long long)plan->segment_bytes);
    (void)printf("  \"network\": {\"latency\": %.9g, \"bandwidth\": %.12g, "
                 "\"local_latency\": %.9g, \"local_bandwidth\": %.12g,\n"
                 "    \"cpu\": %.9g, \"local_cpu\": %.9g, \"reduce\": %.12g},\n",
                 net->latency, net->bandwidth, net->local_latency, net->local_bandwidth,
                 net->message_cpu, net->local_cpu, net->reduce_bandwidth);
}

static void print_point(const nx_plan *plan, const nx_plan_point *p, bool last)
{
    (void)printf("    {\"collective\": \"%s\", \"bytes\": %llu, \"count\": %zu, "
                 "\"selected\": \"%s\", \"fastest\": \"%s\", \"algorithms\": [\n",
                 nx_coll_name(p->kind), (unsigned long long)p->bytes, p->coll.count,
                 p->rows[p->selected].algorithm->name, p->rows[p->fastest].algorithm->name);
    for (size_t i = 0; i < p->n; i++) {
        const nx_cost *cost = &p->rows[i].cost;
        const unsigned long long sent = cost->is.sent * plan->net.elem_size;

        (void)printf("      {\"name\": \"%s\", \"rounds\": %llu, \"messages\": %llu, "
                     "\"sent\": %llu, \"time\": %.9g, \"by\": \"%s\"}%s\n",
                     p->rows[i].algorithm->name, (unsigned long long)cost->is.rounds,
                     (unsigned long long)cost->is.messages, sent, cost->is.time_s,
                     by(cost->simulated), (i + 1 < p->n) ? "," : "");
    }
    (void)printf("    ]}%s\n", last ? "" : ",");
}

void nx_plan_print_json(const nx_plan *plan, const nx_plan_point *points,
                        const nx_plan_sweep *sweeps, size_t n)
{
    print_net(plan);
    (void)printf("  \"plans\": [\n");
    for (size_t i = 0; i < n; i++) {
        if (points != NULL) {
            print_point(plan, &points[i], i + 1 == n);
            continue;
        }
        for (size_t k = 0; k < sweeps[i].n; k++) {
            print_point(plan, &sweeps[i].points[k], (i + 1 == n) && (k + 1 == sweeps[i].n));
        }
    }
    (void)printf("  ]\n}\n");
}
