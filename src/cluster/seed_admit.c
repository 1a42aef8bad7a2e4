/*
 * seed_admit.c - who is let in.
 *
 * The order of the questions is the point: version, then proof, and only what a
 * holder of the token has said is read any further.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cluster/seed_inner.h"

/* The head of a hello whose version and proof are right; otherwise |c| was
 * turned away. */
static bool check_head(nx_seed_state *s, nx_seed_client *c, nx_reader *r, nx_hello_head *head,
                       uint64_t now_ns)
{
    uint8_t proof[NX_JOIN_PROOF_SIZE];
    char text[96];

    if ((nx_reader_left(r) > NX_HELLO_MAX) || (nx_read_u8(r) != NX_JOIN_HELLO) ||
        (nx_hello_head_decode(r, head) != NEXAR_OK)) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "its first frame is no hello", now_ns);
        return false;
    }
    if (head->protocol != NX_JOIN_PROTOCOL) {
        (void)snprintf(text, sizeof(text), "it speaks protocol %u; this seed, nexar %s, speaks %d",
                       (unsigned)head->protocol, nexar_version(), (int)NX_JOIN_PROTOCOL);
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, text, now_ns);
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

/* Whether there is room for what the hello asks for; otherwise |*why| and |text|
 * say why not. */
static bool has_place(const nx_seed_state *s, const nx_hello *hello, nx_refusal *why,
                      char text[NX_REASON_MAX])
{
    const uint32_t size = s->roster.size;

    if ((hello->world_size != 0) && (hello->world_size != size)) {
        *why = NX_REFUSAL_SETTING;
        (void)snprintf(text, NX_REASON_MAX,
                       "it expects a world of %" PRIu32 " ranks; this one has %" PRIu32,
                       hello->world_size, size);
        return false;
    }
    if (s->phase == NX_SEED_RUNNING) {
        *why = NX_REFUSAL_FORMED;
        (void)snprintf(text, NX_REASON_MAX,
                       "the world of %" PRIu32 " ranks has formed; nobody can join it later", size);
        return false;
    }
    if (s->phase == NX_SEED_OVER) {
        *why = NX_REFUSAL_FORMED;
        (void)snprintf(text, NX_REASON_MAX, "the job has ended");
        return false;
    }
    if (nx_roster_check(&s->roster, hello->self.rank, why) != NEXAR_OK) {
        (void)snprintf(text, NX_REASON_MAX, "%s", nexar_last_error());
        return false;
    }
    return true;
}

/* The certificate and a place in the roster; sets |*why| and |text| on error. */
static nexar_err make_member(nx_seed_state *s, nx_seed_client *c, const nx_hello_head *head,
                             nx_hello *hello, nx_welcome *welcome)
{
    nx_der csr = {.len = head->csr_len};
    nx_member *member;
    nexar_err err;

    memcpy(csr.data, head->csr, head->csr_len);
    *welcome = (nx_welcome){.member = s->last_member + 1,
                            .job = s->rules.job,
                            .world_size = s->roster.size,
                            .authority = *s->rules.authority};
    err = s->ops->sign(s->ctx, &csr, welcome->member, &welcome->cert);
    if (err != NEXAR_OK) {
        return err;
    }
    hello->self.id = welcome->member;
    err = nx_roster_add(&s->roster, &hello->self, &member);
    if (err != NEXAR_OK) {
        return err;
    }
    s->last_member = welcome->member;
    s->npending--;
    c->member = member;
    nx_list_remove(&c->link);
    nx_list_push_back(&s->members, &c->link);
    return NEXAR_OK;
}

void nx_seed_admit(nx_seed_state *s, nx_seed_client *c, const void *data, size_t len,
                   uint64_t now_ns)
{
    nx_reader r = nx_reader_make(data, len);
    nx_hello_head head;
    nx_hello hello;
    nx_welcome welcome;
    nx_refusal why;
    uint8_t frame[2 * NX_CERT_MAX + 64];
    nx_writer w = nx_writer_make(frame, sizeof(frame));
    char text[NX_REASON_MAX];
    nexar_err err;

    if (!check_head(s, c, &r, &head, now_ns)) {
        return;
    }
    if (nx_hello_decode(&r, &hello) != NEXAR_OK) {
        nx_seed_turn_away(s, c, NX_REFUSAL_PROTOCOL, "its hello is malformed", now_ns);
        return;
    }
    if (!has_place(s, &hello, &why, text)) {
        nx_seed_turn_away(s, c, why, text, now_ns);
        return;
    }
    err = make_member(s, c, &head, &hello, &welcome);
    if (err != NEXAR_OK) {
        (void)snprintf(text, sizeof(text), "no certificate for it: %s", nexar_last_error());
        nx_seed_turn_away(s, c, (err == NEXAR_EPROTO) ? NX_REFUSAL_PROTOCOL : NX_REFUSAL_SEED, text,
                          now_ns);
        return;
    }
    nx_welcome_encode(&w, &welcome);
    nx_seed_send(s, c, &w);
    nx_seed_member_joined(s, c, now_ns);
}
