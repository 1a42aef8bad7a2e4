/* nowhere.h - a link to a peer that never answers: what is sent over it is held. */
#ifndef NXT_NOWHERE_H
#define NXT_NOWHERE_H

#include "fuzz.h"
#include "transport/transport.h"

enum { NXT_NOWHERE_HELD = 64 };

typedef struct nxt_nowhere {
    nx_link link; /* first */
    bool closed;
    nx_tx *held[NXT_NOWHERE_HELD];
    size_t nheld;
} nxt_nowhere;

void nxt_nowhere_init(nxt_nowhere *w);
/* As nx_msg_config has it; |ctx| is the link, whoever |peer| is. */
nexar_err nxt_nowhere_connect(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                              nx_link **link);
/* All that is held goes back to its owner, with |err|. */
void nxt_nowhere_give_back(nxt_nowhere *w, nexar_err err);

#endif /* NXT_NOWHERE_H */
