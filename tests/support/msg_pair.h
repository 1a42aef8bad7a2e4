/* msg_pair.h - two message engines, and a link of the simulated transport between them. */
#ifndef NXT_MSG_PAIR_H
#define NXT_MSG_PAIR_H

#include "msg/msg.h"
#include "transport/sim/sim.h"

/* Creates the two engines |msgs| from |config| and links them over |path|. Only the first is
 * notified of the end of its peer. */
void nxt_msg_pair(nx_sim_net *net, const nx_sim_path *path, const nx_msg_config *config,
                  nx_msg *msgs[2], nx_link *links[2]);

#endif /* NXT_MSG_PAIR_H */
