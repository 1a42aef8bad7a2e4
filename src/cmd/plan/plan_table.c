/* plan_table.c - the human-readable output of `nexar plan`. */
#include <string.h>

#include "plan.h"

void nx_plan_print_head(const nx_plan *plan)
{
    const nx_net *net = &plan->net;
    char a[NX_FIGURE_ROOM], b[NX_FIGURE_ROOM];

    (void)printf("%u %s on %u %s, %s elements", (unsigned)net->ranks,
                 (net->ranks == 1) ? "rank" : "ranks", (unsigned)net->hosts,
                 (net->hosts == 1) ? "host" : "hosts", nexar_dtype_name(plan->dtype));
    if (plan->root != 0) {
        (void)printf(", root %u", (unsigned)plan->root);
    }
    (void)printf(", segments of %s\n", nx_figure_bytes(plan->segment_bytes, a));
    (void)printf("network      latency %s, %s per host and direction\n",
                 nx_figure_time(net->latency, a), nx_figure_rate(net->bandwidth, b));
    (void)printf("inside host  latency %s, %s per rank and direction\n",
                 nx_figure_time(net->local_latency, a), nx_figure_rate(net->local_bandwidth, b));
    (void)printf("CPU          %s per message and end", nx_figure_time(net->message_cpu, a));
    (void)printf(" (%s inside a host), reduces and copies %s\n", nx_figure_time(net->local_cpu, a),
                 nx_figure_rate(net->reduce_bandwidth, b));
}

/* "*+", "* ", " +" or "  ". */
static const char *marks(const nx_plan_point *p, size_t row)
{
    static const char *const texts[2][2] = {{"  ", " +"}, {"* ", "*+"}};

    return texts[row == p->selected][row == p->fastest];
}

static void print_title(const nx_plan *plan, const nx_plan_point *p)
{
    char text[NX_FIGURE_ROOM];

    (void)printf("\n%s", nx_coll_name(p->kind));
    if (p->kind == NX_BARRIER) {
        (void)printf("\n");
        return;
    }
    (void)printf(", %s: %zu elements", nx_figure_bytes(p->bytes, text), p->coll.count);
    if (nx_coll_in_blocks(p->kind)) {
        (void)printf(" per block, %u blocks", (unsigned)plan->net.ranks);
    }
    (void)printf("\n");
}

void nx_plan_print_point(const nx_plan *plan, const nx_plan_point *p)
{
    print_title(plan, p);
    (void)printf("   %-18s %9s %10s %11s %9s  %s\n", "algorithm", "rounds", "messages", "sent",
                 "time", "by");
    for (size_t i = 0; i < p->n; i++) {
        const nx_cost *cost = &p->rows[i].cost;
        char sent[NX_FIGURE_ROOM], time[NX_FIGURE_ROOM];

        (void)printf(
            "%s %-18s %9llu %10llu %11s %9s  %s\n", marks(p, i), p->rows[i].algorithm->name,
            (unsigned long long)cost->is.rounds, (unsigned long long)cost->is.messages,
            nx_figure_bytes(cost->is.sent * plan->net.elem_size, sent),
            nx_figure_time(cost->is.time_s, time), cost->simulated ? "simulated" : "closed form");
    }
}

static int column_width(const nx_plan_point *p, size_t row)
{
    const int len = (int)strlen(p->rows[row].algorithm->name);

    return (len < 10) ? 10 : len;
}

void nx_plan_print_sweep(const nx_plan_sweep *sweep)
{
    const nx_plan_point *first = &sweep->points[0];

    (void)printf("\n%s\n%10s", nx_coll_name(sweep->kind), "bytes");
    for (size_t i = 0; i < first->n; i++) {
        (void)printf("  %*s  ", column_width(first, i), first->rows[i].algorithm->name);
    }
    (void)printf("  selected\n");
    for (size_t k = 0; k < sweep->n; k++) {
        const nx_plan_point *p = &sweep->points[k];
        char text[NX_FIGURE_ROOM];

        (void)printf("%10s", nx_figure_bytes(p->bytes, text));
        for (size_t i = 0; i < p->n; i++) {
            (void)printf("  %*s%c%c", column_width(p, i),
                         nx_figure_time(p->rows[i].cost.is.time_s, text),
                         p->rows[i].cost.simulated ? ' ' : '~', (i == p->fastest) ? '+' : ' ');
        }
        (void)printf("  %s\n", p->rows[p->selected].algorithm->name);
    }
}

void nx_plan_print_legend(bool sweep)
{
    if (sweep) {
        (void)printf("\n+ predicted fastest   ~ by closed form; the others are simulated\n");
        return;
    }
    (void)printf("\n* selected   + predicted fastest   "
                 "rounds, messages, sent: of the rank that has most\n");
}
