/* msg_pair.h - two engines of messages, and a link of the simulated transport between them. */
#ifndef NXT_MSG_PAIR_H
#define NXT_MSG_PAIR_H

#include "msg/msg.h"
#include "transport/sim/sim.h"

/* Makes |msgs| as |config| says, but that there are two of them and that only the first is told
 * of the other's end, and links them over |path|. */
void nxt_msg_pair(nx_sim_net *net, const nx_sim_path *path, const nx_msg_config *config,
                  nx_msg *msgs[2], nx_link *links[2]);

#endif /* NXT_MSG_PAIR_H */
