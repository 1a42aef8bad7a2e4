/*
 * seed_admit.c - admission.
 *
 * The order of checks matters: version, then proof; only frames of a holder of the token are
 * decoded any further. A returning member shows its certificate instead of the token, which
 * requires that member's key: so the token does not allow anyone to impersonate a member.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster/seed/seed_inner.h"

enum { MEMBERS_AHEAD = 256 };

static bool check_protocol(nx_seed_state *s, nx_seed_client *c, uint16_t protocol, uint64_t now_ns)
{
    char text[96];

    if (protocol == NX_JOIN_PROTOCOL) {
        return true;
    }
    (void)snprintf(text, sizeof(text), "it speaks protocol %u; this seed, nexar %s, speaks %d",
                   (unsigned)protocol, nexar_version(), (int)NX_JOIN_PROTOCOL);
    nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, text, now_ns);
    return false;
}

/* Decodes the head of a HELLO and checks version and proof; on failure |c| was rejected. */
static bool check_head(nx_seed_state *s, nx_seed_client *c, nx_reader *r, nx_hello_head *head,
                       uint64_t now_ns)
{
    uint8_t proof[NX_JOIN_PROOF_SIZE];

    if (nx_hello_head_decode(r, head) != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "its first frame is no hello", now_ns);
        return false;
    }
    if (!check_protocol(s, c, head->protocol, now_ns)) {
        return false;
    }
    if (nx_join_proof(&s->rules.token, c->exporter, head->csr, head->csr_len, proof) != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_SEED, "the seed could not check the token", now_ns);
        return false;
    }
    if (!nx_join_proof_equal(proof, head->proof)) {
        nx_seed_turn_away(s, c, NX_REFUSAL_TOKEN, "its token is not the one of this seed", now_ns);
        return false;
    }
    return true;
}

nx_world_status nx_seed_status(const nx_seed_state *s)
{
    const bool formed = (s->phase == NX_SEED_RUNNING);

    return (nx_world_status){.formed = formed,
                             .lasting = s->rules.lasting,
                             .world_size = formed ? s->view->size : s->roster.size};
}

/* Whether a joiner that requests |rank| may wait for the world to admit it. */
static bool may_wait(const nx_seed_state *s, uint32_t rank, nx_refusal *why,
                     char text[NX_REASON_MAX])
{
    if (rank == NX_RANK_ANY) {
        return true;
    }
    *why = NX_REFUSAL_SETTING;
    (void)snprintf(text, NX_REASON_MAX,
                   "rank %" PRIu32 " was asked for, but the world of %" PRIu32
                   " ranks has formed: who joins it later gets the next rank and cannot ask for "
                   "one",
                   rank, s->view->size);
    return false;
}

/* The role of a joiner that requests |rank|, if there is room. */
static nx_seed_role role_for(const nx_seed_state *s, uint32_t rank)
{
    const bool outside = s->rules.ranked && (rank == NX_RANK_ANY);

    return ((s->phase == NX_SEED_GATHERING) && !outside) ? NX_SEED_FORMING : NX_SEED_WAITER;
}

/* The rank to assign if it may be |hinted|: a launcher's number means nothing to a world that has
 * formed, or that another launcher has begun. */
static uint32_t rank_asked(const nx_seed_state *s, uint32_t rank, bool hinted)
{
    return (hinted && ((s->phase != NX_SEED_GATHERING) || s->rules.ranked)) ? NX_RANK_ANY : rank;
}

/* Whether there is room for the request of HELLO, in |*role|; otherwise |*why| and |text| are
 * set. */
static bool has_place(const nx_seed_state *s, const nx_hello *hello, nx_seed_role *role,
                      nx_refusal *why, char text[NX_REASON_MAX])
{
    const uint32_t size = s->roster.size;

    if (s->phase == NX_SEED_OVER) {
        *why = NX_REFUSAL_FORMED;
        (void)snprintf(text, NX_REASON_MAX, "the job has ended");
        return false;
    }
    *role = role_for(s, hello->self.rank);
    if (s->phase == NX_SEED_RUNNING) {
        /* A requested size means the initial size, which no longer matters. */
        return may_wait(s, hello->self.rank, why, text);
    }
    if ((*role == NX_SEED_WAITER) && (hello->self.rank == NX_RANK_ANY)) {
        return true; /* the world is about to form, or forms of other processes */
    }
    if ((hello->world_size != 0) && (hello->world_size != size)) {
        *why = NX_REFUSAL_SETTING;
        (void)snprintf(text, NX_REASON_MAX,
                       "it expects a world of %" PRIu32 " ranks; this one has %" PRIu32,
                       hello->world_size, size);
        return false;
    }
    if (nx_member_table_check(&s->roster, hello->self.rank, why) != NEXAR_OK) {
        (void)snprintf(text, NX_REASON_MAX, "%s", nexar_last_error());
        return false;
    }
    return (*role == NX_SEED_FORMING) || may_wait(s, hello->self.rank, why, text);
}

/* ---- roles --------------------------------------------------------------------------- */

/* |c| is authenticated: it is |m|, in the table or among the waiting joiners. NEXAR_ENOMEM. */
static nexar_err take_in(nx_seed_state *s, nx_seed_client *c, const nx_member *m, nx_seed_role role,
                         uint64_t now_ns)
{
    nexar_err err = NEXAR_OK;

    if (role == NX_SEED_FORMING) {
        err = nx_member_table_add(&s->roster, m, &c->place);
    } else if (role == NX_SEED_WAITER) {
        err = nx_seed_wait_add(s, m, now_ns);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    c->role = role;
    c->id = m->id;
    s->npending--;
    nx_list_remove(&c->link);
    nx_list_push_back(&s->clients, &c->link);
    return NEXAR_OK;
}

/* The next unused member number. The file on disk is ahead of the assigned numbers, so it need not
 * be written each time. */
static nexar_err next_member(nx_seed_state *s, uint64_t *out)
{
    const uint64_t next = s->last_member + 1, before = s->member_limit;
    nexar_err err = NEXAR_OK;

    if (s->rules.lasting && (next >= before)) {
        s->member_limit = next + MEMBERS_AHEAD;
        err = nx_seed_save(s);
    }
    if (err != NEXAR_OK) {
        s->member_limit = before; /* it is written with the next number */
        return err;
    }
    *out = next;
    return NEXAR_OK;
}

/* Issues the certificate and a place. */
static nexar_err make_member(nx_seed_state *s, nx_seed_client *c, const nx_hello_head *head,
                             nx_hello *hello, nx_seed_role role, uint64_t now_ns)
{
    nx_welcome welcome = {
        .job = s->rules.job, .standing = nx_seed_status(s), .authority = *s->rules.authority};
    uint8_t frame[2 * NX_CERT_MAX + 64];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    nx_der csr = {.len = head->csr_len};
    nexar_err err = next_member(s, &welcome.member);

    if (err != NEXAR_OK) {
        return err;
    }
    memcpy(csr.data, head->csr, head->csr_len);
    err = s->ops->sign(s->ctx, &csr, welcome.member, &welcome.cert);
    if (err != NEXAR_OK) {
        return err;
    }
    hello->self.id = welcome.member;
    err = take_in(s, c, &hello->self, role, now_ns);
    if (err != NEXAR_OK) {
        return err;
    }
    s->last_member = welcome.member;
    nx_welcome_encode(&w, &welcome);
    nx_seed_send(s, c, &w);
    return NEXAR_OK;
}

static void tell_waits(nx_seed_state *s, const nx_seed_client *c, const nx_member *m)
{
    char who[NX_MEMBER_TEXT], text[NX_MEMBER_TEXT + 128];

    (void)snprintf(text, sizeof(text), "%s at %s waits to join the world: %" PRIu32 " %s",
                   nx_member_text(m, who), c->address, s->waiting.n,
                   (s->waiting.n == 1) ? "does" : "do");
    nx_seed_notify(s, NX_SEED_WAITING, m, text);
}

static void admit_new(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns)
{
    nx_hello_head head;
    nx_hello hello;
    nx_seed_role role = NX_SEED_STRANGER;
    nx_refusal why = NX_REFUSAL_SEED;
    char text[NX_REASON_MAX];
    nexar_err err;

    if (!check_head(s, c, r, &head, now_ns)) {
        return;
    }
    if (nx_hello_decode(r, &hello) != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "its hello is malformed", now_ns);
        return;
    }
    hello.self.rank = rank_asked(s, hello.self.rank, hello.hinted);
    if (!has_place(s, &hello, &role, &why, text)) {
        nx_seed_turn_away(s, c, why, text, now_ns);
        return;
    }
    err = make_member(s, c, &head, &hello, role, now_ns);
    if (err != NEXAR_OK) {
        (void)snprintf(text, sizeof(text), "no certificate for it: %s", nexar_last_error());
        nx_seed_turn_away(s, c, (err == NEXAR_EPROTO) ? NX_REFUSAL_PROTOCOL : NX_REFUSAL_SEED, text,
                          now_ns);
    } else if (role == NX_SEED_FORMING) {
        nx_seed_form_joined(s, c, now_ns);
    } else {
        tell_waits(s, c, &hello.self);
    }
}

/* ---- returning members --------------------------------------------------------------- */

/* Another connection of the same member is obsolete. */
static void replace(nx_seed_state *s, const nx_seed_client *c, uint64_t now_ns)
{
    nx_list_for_each (at, &s->clients) {
        nx_seed_client *old = nx_list_entry(at, nx_seed_client, link);

        if ((old->id == c->certified) && (old->role != NX_SEED_MEMBER)) {
            nx_seed_gone(s, old, NX_SEED_LOST, false, "it has opened a new connection", now_ns);
            nx_seed_close(s, old);
            return;
        }
    }
}

/* The role of the sender of |f|, which has no seat; STRANGER: |text| says why it has none. */
static nx_seed_role role_back(const nx_seed_state *s, const nx_return *f, char text[NX_REASON_MAX])
{
    nx_refusal why;

    if (s->phase == NX_SEED_OVER) {
        (void)snprintf(text, NX_REASON_MAX, "the job has ended");
        return NX_SEED_STRANGER;
    }
    if (f->epoch != 0) {
        if ((s->phase == NX_SEED_RUNNING) && (f->epoch > s->view->epoch)) {
            return NX_SEED_OUTSIDER; /* a member in the known view may report a later one */
        }
        (void)snprintf(text, NX_REASON_MAX, "the world has continued without it");
        return NX_SEED_STRANGER;
    }
    if (role_for(s, f->self.rank) == NX_SEED_FORMING) {
        if (nx_member_table_check(&s->roster, f->self.rank, &why) == NEXAR_OK) {
            return NX_SEED_FORMING;
        }
        (void)snprintf(text, NX_REASON_MAX, "%s", nexar_last_error());
        return NX_SEED_STRANGER;
    }
    if (f->self.rank != NX_RANK_ANY) {
        (void)snprintf(text, NX_REASON_MAX, "the world has formed without it");
        return NX_SEED_STRANGER;
    }
    return NX_SEED_WAITER;
}

static void send_back(nx_seed_state *s, nx_seed_client *c)
{
    const nx_world_status standing = nx_seed_status(s);
    uint8_t frame[16];
    nx_writer w = nx_writer_make(frame, sizeof(frame));

    nx_back_encode(&w, &standing);
    nx_seed_send(s, c, &w);
}

static void tell_back(nx_seed_state *s, const nx_seed_client *c, const nx_member *m)
{
    char who[NX_MEMBER_TEXT], text[NX_MEMBER_TEXT + 96];

    (void)snprintf(text, sizeof(text), "%s at %s is back", nx_member_text(m, who), c->address);
    nx_seed_notify(s, NX_SEED_BACK, m, text);
}

/* The member has a rank in the known view. */
static void seat(nx_seed_state *s, nx_seed_client *c, const nx_return *f, const nx_member *m,
                 uint64_t now_ns)
{
    /* OUTSIDER until then: that needs no memory. */
    (void)!take_in(s, c, &f->self, NX_SEED_OUTSIDER, now_ns);
    c->epoch = f->epoch;
    send_back(s, c);
    nx_seed_run_seat(s, c, m->rank, now_ns);
    tell_back(s, c, m);
    if (f->epoch != 0) {
        nx_seed_wait_announce(s, c);
        nx_seed_run_send_started(s, c);
    }
    nx_seed_run_start(s);
    nx_seed_run_catch_up(s, now_ns);
}

static void admit_back(nx_seed_state *s, nx_seed_client *c, nx_reader *r, uint64_t now_ns)
{
    nx_return f = {0};
    const nx_member *m = NULL;
    char text[NX_REASON_MAX];
    nx_seed_role role;

    if (c->certified == 0) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "it returns without a certificate", now_ns);
        return;
    }
    if (nx_return_decode(r, &f) != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "its RETURN frame is malformed", now_ns);
        return;
    }
    if (!check_protocol(s, c, f.protocol, now_ns)) {
        return;
    }
    if (f.self.id != c->certified) {
        nx_seed_turn_away(s, c, NX_REFUSAL_TOKEN, "its certificate is of another member", now_ns);
        return;
    }
    replace(s, c, now_ns);
    f.self.rank = rank_asked(s, f.self.rank, f.hinted);
    m = (s->phase == NX_SEED_RUNNING) ? nx_view_member(s->view, f.self.id) : NULL;
    if (m != NULL) {
        seat(s, c, &f, m, now_ns);
        return;
    }
    role = role_back(s, &f, text);
    if (role == NX_SEED_STRANGER) {
        nx_seed_turn_away(s, c, NX_REFUSAL_FORMED, text, now_ns);
    } else if (take_in(s, c, &f.self, role, now_ns) != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_SEED, "no memory for it", now_ns);
    } else {
        c->epoch = f.epoch;
        send_back(s, c);
        tell_back(s, c, &f.self);
        if (role == NX_SEED_FORMING) {
            nx_seed_form_joined(s, c, now_ns);
        }
        nx_seed_run_catch_up(s, now_ns);
    }
}

void nx_seed_admit(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                   uint64_t now_ns)
{
    nx_reader r = nx_reader_make(data, len);
    const uint8_t type = (len > NX_HELLO_MAX) ? 0 : nx_read_u8(&r);

    if (type == NX_JOIN_HELLO) {
        admit_new(s, c, &r, now_ns);
    } else if (type == NX_JOIN_RETURN) {
        admit_back(s, c, &r, now_ns);
    } else {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "its first frame is no hello", now_ns);
    }
}
