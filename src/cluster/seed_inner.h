/*
 * seed_inner.h - the seed's state as its three files see it: seed_state.c the
 * events and the clients, seed_admit.c who is let in, seed_form.c from the first
 * member to the formed world.
 */
#ifndef NX_SEED_INNER_H
#define NX_SEED_INNER_H

#include "base/list.h"
#include "cluster/roster.h"
#include "cluster/seed_state.h"

typedef enum nx_seed_phase {
    NX_SEED_GATHERING,
    NX_SEED_OFFERED, /* complete; the view is on its way to all */
    NX_SEED_RUNNING,
    NX_SEED_OVER
} nx_seed_phase;

/* In |pending| while |member| is NULL, in |members| otherwise. */
struct nx_seed_client {
    nx_list link;
    void *conn;
    char address[64];
    uint8_t exporter[32];
    uint64_t hello_by_ns;
    nx_member *member; /* the roster's */
    size_t view_sent;  /* bytes of the view that is offered */
    bool have;         /* it has all of it */
    bool broken;       /* a send failed: it goes at the end of the event */
};

/*
 * Invariants: |pending| is ordered by hello_by_ns; |members| has a client for
 * every place of the roster; |view| and |encoded| are there while OFFERED, and
 * |have| clients hold them.
 */
struct nx_seed_state {
    nx_seed_rules rules;
    const nx_seed_ops *ops;
    void *ctx;
    nx_seed_phase phase;
    nx_roster roster;
    nx_list pending, members;
    size_t npending, nbroken;
    uint64_t last_member, epoch;

    nx_view *view;
    uint8_t *encoded;
    size_t encoded_len;
    uint32_t have;

    uint64_t formation_by_ns; /* UINT64_MAX: not running */
    uint64_t progress_by_ns;  /* UINT64_MAX: nothing new */

    uint64_t lines_until_ns; /* the second in which |lines| were written */
    unsigned lines, held_back;
};

/* A joiner's sentence and the end of its connection; |c| is gone afterwards. */
void nx_seed_turn_away(nx_seed_state *s, nx_seed_client *c, nx_refusal why, const char *text,
                       uint64_t now_ns);
/* An error of the client's connection is remembered: see |broken|. */
void nx_seed_send(nx_seed_state *s, nx_seed_client *c, const nx_writer *w);
/* |m| may be NULL. */
void nx_seed_notify(nx_seed_state *s, nx_seed_event_kind kind, const nx_member *m,
                    const char *text);
/* Takes |c| out of its list and frees it; the connection and the place are the
 * caller's matter. */
void nx_seed_forget(nx_seed_state *s, nx_seed_client *c);

/* seed_admit.c: the first frame of |c|. */
void nx_seed_admit(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                   uint64_t now_ns);

/* seed_form.c */
void nx_seed_member_joined(nx_seed_state *s, nx_seed_client *c, uint64_t now_ns);
void nx_seed_member_frame(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                          uint64_t now_ns);
/* |c| is a member no more: its place is freed; |kind| is LEFT or LOST.  The
 * client itself is left to the caller. */
void nx_seed_member_gone(nx_seed_state *s, nx_seed_client *c, nx_seed_event_kind kind,
                         const char *why, uint64_t now_ns);
void nx_seed_form_tick(nx_seed_state *s, uint64_t now_ns);
void nx_seed_offer_withdraw(nx_seed_state *s);

#endif /* NX_SEED_INNER_H */
