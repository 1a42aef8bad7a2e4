/* host_world.c - shared by the tests of host collectives. */
#include "host_world.h"

#include <stdlib.h>

#include "coll/host/host_coll.h"
#include "core/comm/comm.h"
#include "local_world.h"
#include "unit.h"

uint64_t nxt_host_count(const nexar_comm *comm)
{
    return ((comm == NULL) || (comm->inc->group.direct == NULL))
               ? 0
               : nx_host_coll_count(comm->inc->group.direct);
}

void nxt_host_warm_up(nexar_comm *w)
{
    int32_t here = 0, all = 0;

    for (int i = 0; (all == 0) && (i < 100000); i++) {
        NXT_OK(w, nexar_barrier(w));
        here = (nxt_host_count(w) != 0);
        NXT_OK(w, nexar_allreduce(w, &here, &all, 1, NEXAR_I32, NEXAR_MIN));
    }
    NXT_IS(w, all == 1);
}

void nxt_host_with_setting(int n, const char *name, const char *value,
                           void (*fn)(nexar_comm *w, void *arg))
{
    nexar_config *cfg;

    assert_int_equal(nexar_config_create(&cfg), NEXAR_OK);
    assert_int_equal(nexar_config_set(cfg, name, value), NEXAR_OK);
    nxt_local_world(n, cfg, fn, NULL);
    nexar_config_free(cfg);
}

void *nxt_host_take(nexar_comm *w, bool shared, size_t bytes)
{
    void *at = NULL;

    if (shared) {
        NXT_OK(w, nexar_alloc(w, bytes, &at));
    } else {
        at = malloc(bytes);
    }
    NXT_IS(w, at != NULL);
    return at;
}

void nxt_host_give_back(nexar_comm *w, bool shared, void *at)
{
    if (shared) {
        nexar_free(w, at);
    } else {
        free(at);
    }
}
