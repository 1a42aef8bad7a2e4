/*
 * seed_inner.h - the seed's state, shared by seed_state.c (events and clients), seed_admit.c
 * (admission), seed_form.c (from the first member to the formed world), seed_run.c (the changing
 * world) and seed_wait.c (the waiting joiners).
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
    NX_SEED_OFFERED, /* complete; the view is being sent to all */
    NX_SEED_RUNNING,
    NX_SEED_OVER
} nx_seed_phase;

typedef enum nx_seed_role {
    NX_SEED_STRANGER, /* no HELLO yet: in |pending|, all others are in |clients| */
    NX_SEED_FORMING,  /* has a place in the table */
    NX_SEED_WAITER,   /* in |waiting| */
    NX_SEED_MEMBER,   /* in the view of a world that has formed */
    NX_SEED_OUTSIDER  /* in none: the world continued without it, or the seed does not know it
                         yet */
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
    uint64_t epoch;   /* MEMBER, OUTSIDER: epoch of its view; 0: it must be sent one */
    uint64_t offered; /* MEMBER: epoch of the view being sent to it; 0: none */
    size_t view_sent; /* bytes sent of it, or of the view offered to FORMING ones */
    bool ready;       /* it holds the whole view */
    bool silent;      /* it was to be, and the time has passed */
    bool broken;      /* a send failed: it is removed at the end of the event */
};

/* A rank of the world that has formed. */
typedef struct nx_seed_seat {
    nx_seed_client *client; /* NULL: not connected now */
    nx_farewell went;       /* if so: how it left; permanent unless NX_FAREWELL_UNKNOWN */
} nx_seed_seat;

/* A view being received from a member, piece by piece. */
typedef struct nx_seed_sync {
    nx_seed_client *from; /* NULL: no member was asked */
    uint64_t said;        /* the epoch that it had reported when it was asked */
    nx_frame_pieces pieces;
    uint64_t by_ns;
} nx_seed_sync;

/*
 * Invariants: |pending| is ordered by hello_by_ns; in every phase each place of the table, each of
 * |waiting| and each seat has at most one client, the first two exactly one; |view| exists while
 * OFFERED and RUNNING, |seats| while RUNNING, |encoded| while it is being sent to some client.
 * |unready| counts the clients that are in the view and not ready, |here| those in seats.
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
    nx_frame_pieces encoded; /* each client's |view_sent| counts what was sent */
    uint32_t unready;

    nx_seed_seat *seats;
    uint32_t here, left;
    bool starting; /* the view has changed, and START was not sent */
    nx_seed_sync sync;
    uint64_t end_by_ns;   /* UINT64_MAX: a member is connected */
    uint64_t retry_by_ns; /* retry of what lacked memory; UINT64_MAX: none */

    nx_join_queue waiting, news; /* |news|: joiners that members were not notified of */
    uint64_t *gone;              /* since the last notification of members */
    uint32_t ngone;
    bool retell;         /* members must be sent the whole list again */
    uint64_t tell_by_ns; /* UINT64_MAX: no change */

    uint64_t formation_by_ns; /* UINT64_MAX: not running */
    uint64_t progress_by_ns;  /* UINT64_MAX: no change */
    uint64_t first_ns;        /* arrival of the first member of a forming world */
    uint64_t stall_by_ns;     /* each client's |view_sent| counts what was sent */

    nx_log_limit refusals;
};

/* Rejects a joiner with a message and closes its connection; |c| is freed. */
void nx_seed_turn_away(nx_seed_state *s, nx_seed_client *c, nx_refusal why, const char *text,
                       uint64_t now_ns);
/* Sends a frame; records an error of the connection: see |broken|. */
void nx_seed_send(nx_seed_state *s, nx_seed_client *c, const nx_writer *w);
/* |m| may be NULL. */
void nx_seed_notify(nx_seed_state *s, nx_seed_event_kind kind, const nx_member *m,
                    const char *text);
/* Removes |c| from its list and frees it; the caller handles connection and place. */
void nx_seed_forget(nx_seed_state *s, nx_seed_client *c);
/* Closes the connection of a client that has no place any more. */
void nx_seed_close(nx_seed_state *s, nx_seed_client *c);
/* The member record of |c|, which has sent HELLO; NULL for an outsider. */
const nx_member *nx_seed_record(const nx_seed_state *s, const nx_seed_client *c);
/* |c| leaves every structure that it is in. The caller frees it. */
void nx_seed_gone(nx_seed_state *s, nx_seed_client *c, nx_seed_event_kind kind, bool ended,
                  const char *why, uint64_t now_ns);
/* Makes the state on disk current.  An error: it is not, as `save` returned. */
NX_MUST_CHECK nexar_err nx_seed_save(nx_seed_state *s);

/* seed_admit.c: the first frame of |c|. */
void nx_seed_admit(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                   uint64_t now_ns);
nx_world_status nx_seed_status(const nx_seed_state *s);

/* seed_form.c */
/* |c| has received a place in the table. */
void nx_seed_form_joined(nx_seed_state *s, nx_seed_client *c, uint64_t now_ns);
/* |c| has lost it because of |why|. */
void nx_seed_form_gone(nx_seed_state *s, nx_seed_client *c, const char *why, uint64_t now_ns);
/* Waiting joiners take free places. */
void nx_seed_form_fill(nx_seed_state *s, uint64_t now_ns);
void nx_seed_form_tick(nx_seed_state *s, uint64_t now_ns);
/* Makes |encoded|; false: out of memory. */
bool nx_seed_encode(nx_seed_state *s);
void nx_seed_send_piece(nx_seed_state *s, nx_seed_client *c);
void nx_seed_offer_withdraw(nx_seed_state *s);
/* All clients that were offered the view hold it. */
void nx_seed_form_ready(nx_seed_state *s);
/* A frame of one that is no stranger. */
void nx_seed_member_frame(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                          uint64_t now_ns);

/* seed_run.c */
/* All members of the forming world hold the view. */
void nx_seed_run_begin(nx_seed_state *s);
/* |c| belongs to |rank|; replaces another connection of it. */
void nx_seed_run_seat(nx_seed_state *s, nx_seed_client *c, uint32_t rank, uint64_t now_ns);
void nx_seed_run_gone(nx_seed_state *s, nx_seed_client *c, nx_farewell how, uint64_t now_ns);
/* Nothing is expected of |c| any more. */
void nx_seed_run_unask(nx_seed_state *s, nx_seed_client *c, uint64_t now_ns);
/* Checks whether any member is connected, or may come back. */
void nx_seed_run_check_end(nx_seed_state *s, uint64_t now_ns);
/* All members may have the view now. */
void nx_seed_run_start(nx_seed_state *s);
/* Sends |c|, which was not connected then, the last START. */
void nx_seed_run_send_started(nx_seed_state *s, nx_seed_client *c);
void nx_seed_run_advance(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns);
void nx_seed_run_view(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns);
void nx_seed_run_urge(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns);
void nx_seed_run_missed(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns);
/* Asks a member that knows a later view, if there is one. */
void nx_seed_run_catch_up(nx_seed_state *s, uint64_t now_ns);
uint64_t nx_seed_run_due(const nx_seed_state *s);
void nx_seed_run_tick(nx_seed_state *s, uint64_t now_ns);
void nx_seed_run_fini(nx_seed_state *s);

/* seed_wait.c */
NX_MUST_CHECK nexar_err nx_seed_wait_add(nx_seed_state *s, const nx_member *m, uint64_t now_ns);
void nx_seed_wait_remove(nx_seed_state *s, uint64_t id, uint64_t now_ns);
/* Sends |c| all waiting joiners. */
void nx_seed_wait_announce(nx_seed_state *s, nx_seed_client *c);
/* Sends |c| an empty update: if its process has exited, its host answers. */
void nx_seed_wait_poke(nx_seed_state *s, nx_seed_client *c);
/* The job has ended: waiting joiners form the next world, or are notified. */
void nx_seed_wait_end(nx_seed_state *s, uint64_t now_ns);
/* Sends the status to all waiting joiners. */
void nx_seed_wait_status(nx_seed_state *s);
void nx_seed_wait_tick(nx_seed_state *s, uint64_t now_ns);
void nx_seed_wait_fini(nx_seed_state *s);

#endif /* NX_SEED_INNER_H */
