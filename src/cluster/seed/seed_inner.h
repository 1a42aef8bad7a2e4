/*
 * seed_inner.h - the seed's state as its files see it: seed_state.c the events and
 * the clients, seed_admit.c who is let in, seed_form.c from the first member to the
 * formed world, seed_run.c the world that changes, seed_wait.c who waits for it.
 */
#ifndef NX_SEED_INNER_H
#define NX_SEED_INNER_H

#include "base/containers/list.h"
#include "base/log_limit.h"
#include "cluster/join/frame_pieces.h"
#include "cluster/join_queue.h"
#include "cluster/seed/roster.h"
#include "cluster/seed/seed_state.h"

typedef enum nx_seed_phase {
    NX_SEED_GATHERING,
    NX_SEED_OFFERED, /* complete; the view is on its way to all */
    NX_SEED_RUNNING,
    NX_SEED_OVER
} nx_seed_phase;

typedef enum nx_seed_role {
    NX_SEED_STRANGER, /* has not said hello: in |pending|, all others in |clients| */
    NX_SEED_FORMING,  /* has a place in the roster */
    NX_SEED_WAITER,   /* in |waiting| */
    NX_SEED_MEMBER,   /* in the view of a world that has formed */
    NX_SEED_OUTSIDER  /* in none: the world has gone on without it, or before we heard of it */
} nx_seed_role;

struct nx_seed_client {
    nx_list link;
    void *conn;
    char address[64];
    uint8_t exporter[32];
    uint64_t certified;
    uint64_t hello_by_ns;
    nx_seed_role role;
    uint64_t id;
    nx_member *place; /* FORMING: the roster's */
    uint32_t rank;    /* MEMBER: in the view */
    uint64_t epoch;   /* MEMBER, OUTSIDER: of the view that it has; 0: it must be told one */
    uint64_t offered; /* MEMBER: the epoch of the view that it is told; 0: none */
    size_t view_sent; /* bytes of it, or of the one that FORMING ones are offered */
    bool ready;       /* it has all of the view */
    bool silent;      /* it was to be, and the time has passed */
    bool broken;      /* a send failed: it goes at the end of the event */
};

/* A rank of the world that has formed. */
typedef struct nx_seed_seat {
    nx_seed_client *client; /* NULL: not here now */
    nx_farewell went;       /* then: how; but for NX_FAREWELL_UNKNOWN it has left for good */
} nx_seed_seat;

/* A view that a member tells us, piece by piece. */
typedef struct nx_seed_sync {
    nx_seed_client *from; /* NULL: nobody was asked */
    uint64_t said;        /* the epoch that it had said to have when it was asked */
    nx_frame_pieces pieces;
    uint64_t by_ns;
} nx_seed_sync;

/*
 * Invariants: |pending| is ordered by hello_by_ns; in every phase each place of the
 * roster, each of |waiting| and each seat has at most one client, the first two
 * exactly one; |view| is there while OFFERED and RUNNING, |seats| while RUNNING,
 * |encoded| while somebody is to be told the view.  |unready| counts the clients
 * that are in the view and not ready, |here| those that are in seats.
 */
struct nx_seed_state {
    nx_seed_rules rules;
    const nx_seed_ops *ops;
    void *ctx;
    nx_seed_phase phase;
    nx_member_table roster;
    nx_list pending, clients;
    size_t npending, nbroken;
    uint64_t last_member, member_limit, epoch;

    nx_view *view;
    nx_frame_pieces encoded; /* how much has gone is each client's |view_sent| */
    uint32_t unready;

    nx_seed_seat *seats;
    uint32_t here, left;
    bool starting; /* the view has changed, and START was not said */
    nx_seed_sync sync;
    uint64_t end_by_ns;   /* UINT64_MAX: somebody is here */
    uint64_t retry_by_ns; /* what lacked memory; UINT64_MAX: nothing */

    nx_join_queue waiting, news; /* |news|: those that members were not told of */
    uint64_t *gone;              /* since members were told last */
    uint32_t ngone;
    bool retell;         /* members are to be told all anew */
    uint64_t tell_by_ns; /* UINT64_MAX: nothing new */

    uint64_t formation_by_ns; /* UINT64_MAX: not running */
    uint64_t progress_by_ns;  /* UINT64_MAX: nothing new */
    uint64_t first_ns;        /* when the first member of a world that forms came */
    uint64_t stall_by_ns;     /* UINT64_MAX: nobody waits, or it is not to be told */

    nx_log_limit refusals;
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
/* Ends the connection of one that is in no place any more. */
void nx_seed_close(nx_seed_state *s, nx_seed_client *c);
/* What is known of |c|, who is no stranger; NULL for an outsider. */
const nx_member *nx_seed_record(const nx_seed_state *s, const nx_seed_client *c);
/* |c| goes: out of wherever it is.  The client itself is left to the caller. */
void nx_seed_gone(nx_seed_state *s, nx_seed_client *c, nx_seed_event_kind kind, bool ended,
                  const char *why, uint64_t now_ns);
/* What is on disk must be as it is now.  An error: it is not, as `save` says. */
NX_MUST_CHECK nexar_err nx_seed_save(nx_seed_state *s);

/* seed_admit.c: the first frame of |c|. */
void nx_seed_admit(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                   uint64_t now_ns);
nx_world_status nx_seed_status(const nx_seed_state *s);

/* seed_form.c */
/* |c| has got a place in the roster. */
void nx_seed_form_joined(nx_seed_state *s, nx_seed_client *c, uint64_t now_ns);
/* |c| has lost it: |why| in words. */
void nx_seed_form_gone(nx_seed_state *s, nx_seed_client *c, const char *why, uint64_t now_ns);
/* Those who wait take the places that are free. */
void nx_seed_form_fill(nx_seed_state *s, uint64_t now_ns);
void nx_seed_form_tick(nx_seed_state *s, uint64_t now_ns);
/* Makes |encoded|; whether there was memory. */
bool nx_seed_encode(nx_seed_state *s);
void nx_seed_send_piece(nx_seed_state *s, nx_seed_client *c);
void nx_seed_offer_withdraw(nx_seed_state *s);
/* All who were offered the view have it. */
void nx_seed_form_ready(nx_seed_state *s);
/* A frame of one that is no stranger. */
void nx_seed_member_frame(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                          uint64_t now_ns);

/* seed_run.c */
/* All who form the world hold the view. */
void nx_seed_run_begin(nx_seed_state *s);
/* |c| belongs to rank |rank|; it takes the place of another connection. */
void nx_seed_run_seat(nx_seed_state *s, nx_seed_client *c, uint32_t rank, uint64_t now_ns);
void nx_seed_run_gone(nx_seed_state *s, nx_seed_client *c, nx_farewell how, uint64_t now_ns);
/* Nothing is expected of |c| any more. */
void nx_seed_run_unask(nx_seed_state *s, nx_seed_client *c, uint64_t now_ns);
/* Whether anybody is here, or may come back. */
void nx_seed_run_check_end(nx_seed_state *s, uint64_t now_ns);
/* Everybody may have the view now. */
void nx_seed_run_start(nx_seed_state *s);
/* |c|, who was not here then, hears of the last START. */
void nx_seed_run_tell_started(nx_seed_state *s, nx_seed_client *c);
void nx_seed_run_advance(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns);
void nx_seed_run_view(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns);
void nx_seed_run_urge(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns);
void nx_seed_run_missed(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns);
/* Asks a member who knows of a later view, if there is one. */
void nx_seed_run_catch_up(nx_seed_state *s, uint64_t now_ns);
uint64_t nx_seed_run_due(const nx_seed_state *s);
void nx_seed_run_tick(nx_seed_state *s, uint64_t now_ns);
void nx_seed_run_fini(nx_seed_state *s);

/* seed_wait.c */
NX_MUST_CHECK nexar_err nx_seed_wait_add(nx_seed_state *s, const nx_member *m, uint64_t now_ns);
void nx_seed_wait_remove(nx_seed_state *s, uint64_t id, uint64_t now_ns);
/* All that members were told, for one that knows nothing. */
void nx_seed_wait_tell(nx_seed_state *s, nx_seed_client *c);
/* Says nothing new to |c|: if its process has ended, its host answers. */
void nx_seed_wait_poke(nx_seed_state *s, nx_seed_client *c);
/* The job has ended: they form the next world, or are told. */
void nx_seed_wait_end(nx_seed_state *s, uint64_t now_ns);
/* How things stand, to all who wait. */
void nx_seed_wait_status(nx_seed_state *s);
void nx_seed_wait_tick(nx_seed_state *s, uint64_t now_ns);
void nx_seed_wait_fini(nx_seed_state *s);

#endif /* NX_SEED_INNER_H */
