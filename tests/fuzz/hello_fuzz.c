/*
 * hello_fuzz.c - frames of an unauthenticated client, and of a holder of the token, to a seed.
 *
 * The first byte has flags.  Lowest bit: proof and version are corrected, so that later fields are
 * reached, also after a change of the version.  Next bit: the world has one rank, so that it forms.
 * Third bit: the connection has the certificate of member 1, and the seed was restarted.  Frames
 * follow, each after a length of two bytes.  The seed must not crash, and must admit only clients
 * with a valid proof or certificate.
 */
#include <string.h>

#include "cluster/join/frames.h"
#include "cluster/seed/seed_state.h"
#include "fuzz.h"

enum { PROOF_AT = 3, PROOF_END = PROOF_AT + NX_JOIN_PROOF_SIZE };

typedef struct stage {
    unsigned welcomed, closed, saved;
} stage;

static nexar_err on_send(void *ctx, void *conn, const void *frame, size_t len)
{
    stage *s = ctx;

    (void)conn;
    nxt_must((len > 0) && (len <= NX_FRAME_MAX));
    s->welcomed +=
        (*(const uint8_t *)frame == NX_JOIN_WELCOME) || (*(const uint8_t *)frame == NX_JOIN_BACK);
    return NEXAR_OK;
}

static void on_close(void *ctx, void *conn)
{
    (void)conn;
    ((stage *)ctx)->closed++;
}

static nexar_err on_sign(void *ctx, const nx_der *csr, uint64_t member, nx_der *cert)
{
    (void)ctx;
    (void)member;
    *cert = *csr;
    return NEXAR_OK;
}

static void on_notify(void *ctx, const nx_seed_event *event)
{
    (void)ctx;
    nxt_must(event->joined <= event->world);
    nxt_must(strlen(event->text) > 0);
}

static nexar_err on_save(void *ctx)
{
    ((stage *)ctx)->saved++;
    return NEXAR_OK;
}

static const nx_seed_ops ops = {
    .send = on_send, .close = on_close, .sign = on_sign, .notify = on_notify, .save = on_save};

/* Writes this version into a hello or a return. */
static void make_ours(uint8_t *frame, size_t len)
{
    if ((len >= PROOF_AT) && ((frame[0] == NX_JOIN_HELLO) || (frame[0] == NX_JOIN_RETURN))) {
        frame[1] = NX_JOIN_PROTOCOL >> 8;
        frame[2] = NX_JOIN_PROTOCOL & 0xff;
    }
}

/* Writes the valid proof for the rest of a hello. */
static void make_good(uint8_t *frame, size_t len, const nx_token *token, const uint8_t *exporter)
{
    nx_reader r = nx_reader_make(frame, len);
    size_t csr_len;
    const uint8_t *csr;

    if (nx_read_bytes(&r, PROOF_END) == NULL) {
        return;
    }
    csr = nx_read_blob(&r, NX_CERT_MAX, &csr_len);
    if (csr != NULL) {
        nxt_must(nx_join_proof(token, exporter, csr, csr_len, frame + PROOF_AT) == NEXAR_OK);
    }
}

/* The world of member 1, in epoch 3, left by an earlier seed. */
static void restore(nx_seed_state *seed)
{
    nx_view *view = nx_view_create(1);
    nx_seed_memory memory = {.member_limit = 9, .epoch = 3, .view = view};

    nxt_must(view != NULL);
    view->epoch = 3;
    view->slots = 1;
    view->members[0].id = 1;
    nxt_must(nx_seed_state_restore(seed, &memory, 1) == NEXAR_OK);
    nx_view_destroy(view);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const nx_der authority = {.len = 1};
    nx_reader r = nx_reader_make(data, size);
    const uint8_t kind = nx_read_u8(&r);
    const bool holds_token = (kind & 1) != 0, certified = (kind & 4) != 0;
    const nx_seed_rules rules = {.world_size = ((kind & 2) != 0) ? 1 : 2,
                                 .lasting = true,
                                 .token = {{7}},
                                 .authority = &authority};
    nx_seed_state *seed;
    nx_seed_client *client;
    stage s = {0};
    const nx_seed_caller caller = {
        .conn = &s, .address = "x", .exporter = {9}, .certified = certified ? 1 : 0};

    nxt_must(nx_seed_state_create(&seed, &rules, &ops, &s) == NEXAR_OK);
    if (certified) {
        restore(seed);
    }
    nxt_must(nx_seed_state_connected(seed, &caller, 1, &client) == NEXAR_OK);
    while ((s.closed == 0) && (nx_reader_left(&r) > 0)) {
        static uint8_t frame[NX_FRAME_MAX];
        const size_t want = nx_read_u16(&r), left = nx_reader_left(&r);
        const size_t len = (want < left) ? want : left;

        if (len > 0) {
            memcpy(frame, nx_read_bytes(&r, len), len);
        }
        if (holds_token || certified) {
            make_ours(frame, len);
        }
        if (holds_token && (len > 0) && (frame[0] == NX_JOIN_HELLO)) {
            make_good(frame, len, &rules.token, caller.exporter);
        }
        nx_seed_state_frame(seed, client, frame, len, 2);
        nx_seed_state_tick(seed, 3);
    }
    nxt_must(holds_token || certified || (s.welcomed == 0));
    nx_seed_state_tick(seed, NX_SEED_HELLO_TIMEOUT_NS + 2);
    nx_seed_state_tick(seed, 2 * NX_SEED_RETURN_NS);
    nx_seed_state_destroy(seed);
    return 0;
}
