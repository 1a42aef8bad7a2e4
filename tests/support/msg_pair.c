/* msg_pair.c - two message engines and the link between them. */
#include "msg_pair.h"

#include "unit.h"

static nexar_err no_connect(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                            nx_link **link)
{
    (void)ctx;
    (void)peer;
    (void)up;
    (void)up_ctx;
    (void)link;
    return NEXAR_ECONNECT; /* the link exists from the start */
}

void nxt_msg_pair(nx_sim_net *net, const nx_sim_path *path, const nx_msg_config *config,
                  nx_msg *msgs[2], nx_link *links[2])
{
    nx_msg_config c = *config;
    nx_sim_end ends[2];

    c.peers = 2;
    c.connect = no_connect;
    for (uint32_t i = 0; i < 2; i++) {
        c.self = i;
        c.on_peer_down = (i == 0) ? config->on_peer_down : NULL;
        assert_int_equal(nx_msg_create(&msgs[i], &c), NEXAR_OK);
        ends[i] = (nx_sim_end){nx_msg_up(msgs[i]), nx_msg_up_ctx(msgs[i], 1 - i)};
    }
    assert_int_equal(nx_sim_pair(net, path, ends, links), NEXAR_OK);
    for (uint32_t i = 0; i < 2; i++) {
        nx_msg_attach(msgs[i], 1 - i, links[i]);
    }
}
