/* coll.c - names and kinds of collectives. */
#include "coll/coll.h"

#include <string.h>

static const struct {
    const char *name;
    bool reduces, rooted, in_blocks;
} kinds[NX_COLL_KINDS] = {
    [NX_BARRIER] = {"barrier", false, false, false},
    [NX_BROADCAST] = {"broadcast", false, true, false},
    [NX_REDUCE] = {"reduce", true, true, false},
    [NX_ALLREDUCE] = {"allreduce", true, false, false},
    [NX_ALLGATHER] = {"allgather", false, false, true},
    [NX_GATHER] = {"gather", false, true, true},
    [NX_SCATTER] = {"scatter", false, true, true},
    [NX_REDUCE_SCATTER] = {"reduce_scatter", true, false, true},
    [NX_ALLTOALL] = {"alltoall", false, false, true},
    [NX_SCAN] = {"scan", true, false, false},
    [NX_EXSCAN] = {"exscan", true, false, false},
    [NX_ALLGATHERV] = {"allgatherv", false, false, true},
    [NX_GATHERV] = {"gatherv", false, true, true},
    [NX_SCATTERV] = {"scatterv", false, true, true},
    [NX_REDUCE_SCATTERV] = {"reduce_scatterv", true, false, true},
    [NX_ALLTOALLV] = {"alltoallv", false, false, true},
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

bool nx_coll_in_blocks(nx_coll_kind kind)
{
    return kinds[kind].in_blocks;
}

nx_split nx_coll_blocks(const nx_coll *c)
{
    return (c->kind >= NX_ALLGATHERV) ? c->parts : nx_split_each(c->count, c->size);
}
