/* coll.c - names and kinds of collectives. */
#include "coll/coll.h"

#include <string.h>

static const struct {
    const char *name;
    bool reduces, rooted;
} kinds[NX_COLL_KINDS] = {
    [NX_BARRIER] = {"barrier", false, false},
    [NX_BROADCAST] = {"broadcast", false, true},
    [NX_REDUCE] = {"reduce", true, true},
    [NX_ALLREDUCE] = {"allreduce", true, false},
    [NX_ALLGATHER] = {"allgather", false, false},
    [NX_GATHER] = {"gather", false, true},
    [NX_SCATTER] = {"scatter", false, true},
    [NX_REDUCE_SCATTER] = {"reduce_scatter", true, false},
    [NX_ALLTOALL] = {"alltoall", false, false},
    [NX_SCAN] = {"scan", true, false},
    [NX_EXSCAN] = {"exscan", true, false},
    [NX_ALLGATHERV] = {"allgatherv", false, false},
    [NX_GATHERV] = {"gatherv", false, true},
    [NX_SCATTERV] = {"scatterv", false, true},
    [NX_REDUCE_SCATTERV] = {"reduce_scatterv", true, false},
    [NX_ALLTOALLV] = {"alltoallv", false, false},
};

const char *nx_coll_name(nx_coll_kind kind)
{
    return kinds[kind].name;
}

nx_coll_kind nx_coll_find(const char *name)
{
    int kind = 0;

    while ((kind < NX_COLL_KINDS) && (strcmp(kinds[kind].name, name) != 0)) {
        kind++;
    }
    return (nx_coll_kind)kind;
}

bool nx_coll_reduces(nx_coll_kind kind)
{
    return kinds[kind].reduces;
}

bool nx_coll_rooted(nx_coll_kind kind)
{
    return kinds[kind].rooted;
}

nx_split nx_coll_blocks(const nx_coll *c)
{
    return (c->kind >= NX_ALLGATHERV) ? c->parts : nx_split_each(c->count, c->size);
}
