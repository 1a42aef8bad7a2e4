/* coll.c - names and kinds of collectives. */
#include "coll/coll.h"

#include <string.h>

static const struct {
    const char *name;
    bool reduces, rooted, in_blocks, private;
} kinds[NX_COLL_KINDS] = {
    [NX_BARRIER] = {"barrier", false, false, false, false},
    [NX_BROADCAST] = {"broadcast", false, true, false, false},
    [NX_REDUCE] = {"reduce", true, true, false, false},
    [NX_ALLREDUCE] = {"allreduce", true, false, false, false},
    [NX_ALLGATHER] = {"allgather", false, false, true, false},
    [NX_GATHER] = {"gather", false, true, true, false},
    [NX_SCATTER] = {"scatter", false, true, true, false},
    [NX_REDUCE_SCATTER] = {"reduce_scatter", true, false, true, false},
    [NX_ALLTOALL] = {"alltoall", false, false, true, false},
    [NX_SCAN] = {"scan", true, false, false, false},
    [NX_EXSCAN] = {"exscan", true, false, false, false},
    [NX_ALLGATHERV] = {"allgatherv", false, false, true, false},
    [NX_GATHERV] = {"gatherv", false, true, true, true},
    [NX_SCATTERV] = {"scatterv", false, true, true, true},
    [NX_REDUCE_SCATTERV] = {"reduce_scatterv", true, false, true, false},
    [NX_ALLTOALLV] = {"alltoallv", false, false, true, true},
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

bool nx_coll_private(nx_coll_kind kind)
{
    return kinds[kind].private;
}

nx_split nx_coll_blocks(const nx_coll *c)
{
    return (c->kind >= NX_ALLGATHERV) ? c->parts : nx_split_each(c->count, c->size);
}
