/* nowhere.h - a link to a peer that never answers: it holds everything that is sent. */
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
/* A function for nx_msg_config; |ctx| is the link, for any |peer|. */
nexar_err nxt_nowhere_connect(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                              nx_link **link);
/* Returns all held messages to their owners, with |err|. */
void nxt_nowhere_give_back(nxt_nowhere *w, nexar_err err);

#endif /* NXT_NOWHERE_H */
