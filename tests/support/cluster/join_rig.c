/* join_rig.c - a seed and its joiners without a network, in virtual time. */
#include "join_rig.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "cluster/addresses.h"
#include "unit.h"

static const nx_der authority = {.data = {0xca}, .len = 1};

static rig_item *push(nx_list *queue, const void *data, size_t len, bool end)
{
    rig_item *item = nx_zalloc(sizeof(*item) + len);

    /* An injected failure meant for the seed may hit this allocation instead; it occurs only
     * once. */
    item = (item == NULL) ? nx_zalloc(sizeof(*item) + len) : item;
    assert_non_null(item);
    item->end = end;
    item->len = len;
    if (len > 0) {
        memcpy(item->data, data, len);
    }
    nx_list_push_back(queue, &item->link);
    return item;
}

static void empty(nx_list *queue)
{
    nx_list *at;

    while ((at = nx_list_pop(queue)) != NULL) {
        nx_free(nx_list_entry(at, rig_item, link));
    }
}

/* ---- the seed's actions ----------------------------------------------------------- */

static nexar_err seed_send(void *ctx, void *conn, const void *frame, size_t len)
{
    const rig *r = ctx;
    rig_conn *c = conn;

    assert_true(len <= NX_FRAME_MAX);
    /* The token is never sent. */
    assert_null(memmem(frame, len, r->rules.token.bytes, sizeof(r->rules.token.bytes)));
    if (r->fail_sends) {
        return NEXAR_ENOMEM;
    }
    (void)push(&c->to_joiner, frame, len, false);
    return NEXAR_OK;
}

static void seed_close(void *ctx, void *conn)
{
    rig_conn *c = conn;

    (void)ctx;
    assert_non_null(c->client);
    c->client = NULL;
    empty(&c->to_seed);
    (void)push(&c->to_joiner, NULL, 0, true);
}

/* A distinguishable certificate: the request with the member number. */
static nexar_err seed_sign(void *ctx, const nx_der *csr, uint64_t member, nx_der *cert)
{
    const rig *r = ctx;

    if (r->refuse_csr) {
        return nx_fail(NEXAR_EPROTO, "the request is malformed");
    }
    memcpy(cert->data, csr->data, csr->len);
    memcpy(cert->data + csr->len, &member, sizeof(member));
    cert->len = csr->len + sizeof(member);
    return NEXAR_OK;
}

static void seed_notify(void *ctx, const nx_seed_event *event)
{
    rig *r = ctx;

    assert_true(event->joined <= event->world);
    assert_null(memmem(event->text, strlen(event->text), r->rules.token.bytes, 32));
    r->events[event->kind]++;
    (void)snprintf(r->last_text[event->kind], sizeof(r->last_text[0]), "%s", event->text);
}

static nexar_err seed_save(void *ctx)
{
    rig *r = ctx;
    nx_seed_memory now;
    nx_view *copy = NULL;

    if (r->fail_saves) {
        return nx_fail(NEXAR_ESYS, "the disk is full");
    }
    nx_seed_state_memory(r->seed, &now);
    if (now.view != NULL) {
        copy = nx_view_create(now.view->size);
        copy = (copy == NULL) ? nx_view_create(now.view->size) : copy;
        assert_non_null(copy);
        memcpy(copy, now.view, sizeof(*copy) + copy->size * sizeof(copy->members[0]));
    }
    nx_free((void *)(uintptr_t)r->saved.view);
    r->saved = now;
    r->saved.view = copy;
    r->saves++;
    return NEXAR_OK;
}

static const nx_seed_ops seed_ops = {.send = seed_send,
                                     .close = seed_close,
                                     .sign = seed_sign,
                                     .notify = seed_notify,
                                     .save = seed_save};

/* ---- a joiner's actions ------------------------------------------------------------- */

static rig_conn *new_conn(rig *r)
{
    rig_conn *c = nx_zalloc(sizeof(*c));

    assert_non_null(c);
    c->owner = r;
    nx_random_fill(&r->random.random, c->exporter, sizeof(c->exporter));
    nx_list_init(&c->to_seed);
    nx_list_init(&c->to_joiner);
    nx_list_push_back(&r->conns, &c->link);
    return c;
}

static void joiner_dial(void *ctx)
{
    rig_joiner *j = ctx;

    assert_null(j->conn);
    j->conn = new_conn(j->owner);
    j->conn->joiner = j;
}

static void joiner_send(void *ctx, const void *frame, size_t len)
{
    const rig_joiner *j = ctx;

    assert_null(memmem(frame, len, j->owner->rules.token.bytes, 32));
    assert_non_null(j->conn);
    if (j->conn->client != NULL) {
        (void)push(&j->conn->to_seed, frame, len, false);
    }
}

/* The checks of a real joiner: the number is certified by the right authority. */
static nexar_err joiner_adopt(void *ctx, const nx_welcome *welcome)
{
    rig_joiner *j = ctx;
    uint64_t named = 0;

    if (welcome->cert.len == 3 + sizeof(named)) {
        memcpy(&named, welcome->cert.data + 3, sizeof(named));
    }
    if ((named != welcome->member) || (welcome->authority.len != authority.len) ||
        (welcome->authority.data[0] != authority.data[0])) {
        return nx_fail(NEXAR_EAUTH, "it is for somebody else");
    }
    j->member = welcome->member;
    return NEXAR_OK;
}

static void joiner_farewell(void *ctx, uint64_t member, nx_farewell how)
{
    rig_joiner *j = ctx;

    j->missed = member;
    j->went = how;
}

static void joiner_report(void *ctx, const char *text)
{
    rig_joiner *j = ctx;

    j->reports++;
    (void)snprintf(j->last_report, sizeof(j->last_report), "%s", text);
}

static const nx_join_ops joiner_ops = {.report = joiner_report,
                                       .dial = joiner_dial,
                                       .send = joiner_send,
                                       .adopt = joiner_adopt,
                                       .farewell = joiner_farewell};

/* ---- the world -------------------------------------------------------------------- */

void rig_init(rig *r, uint32_t world, uint64_t timeout_ns, uint64_t seed)
{
    memset(r, 0, sizeof(*r));
    nx_random_seeded_init(&r->random, seed);
    nx_list_init(&r->conns);
    nx_list_init(&r->joiners);
    r->now = 1000;
    r->rules = (nx_seed_rules){.world_size = world,
                               .formation_timeout_ns = timeout_ns,
                               .authority = &authority,
                               .job = {{1, 2, 3}}};
    nx_random_fill(&r->random.random, &r->rules.token, sizeof(r->rules.token));
    r->seed_lives = true;
    rig_seed(r);
}

void rig_seed(rig *r)
{
    assert_int_equal(nx_seed_state_create(&r->seed, &r->rules, &seed_ops, r), NEXAR_OK);
}

static void free_conn(rig_conn *c)
{
    empty(&c->to_seed);
    empty(&c->to_joiner);
    nx_list_remove(&c->link);
    nx_free(c);
}

void rig_fini(rig *r)
{
    nx_list_for_each (at, &r->conns) {
        free_conn(nx_list_entry(at, rig_conn, link));
    }
    nx_list_for_each (at, &r->joiners) {
        rig_joiner *j = nx_list_entry(at, rig_joiner, link);

        nx_join_state_destroy(j->state);
        nx_list_remove(&j->link);
        nx_free(j);
    }
    nx_seed_state_destroy(r->seed);
    nx_free((void *)(uintptr_t)r->saved.view);
}

void rig_seed_dies(rig *r)
{
    nx_seed_state_destroy(r->seed);
    r->seed = NULL;
    r->seed_lives = false;
    nx_list_for_each (at, &r->conns) {
        rig_conn *c = nx_list_entry(at, rig_conn, link);

        c->client = NULL;
        empty(&c->to_seed);
        if (c->joiner == NULL) {
            free_conn(c);
        } else if (c->up) {
            c->told_up = true;
            push(&c->to_joiner, NULL, 0, true)->ended = true;
        }
    }
}

void rig_seed_again(rig *r)
{
    rig_seed(r);
    r->seed_lives = true;
    assert_int_equal(nx_seed_state_restore(r->seed, &r->saved, r->now), NEXAR_OK);
}

nx_join_rules rig_rules(const rig *r, uint32_t rank, uint64_t timeout_ns)
{
    nx_join_rules rules = {.token = r->rules.token,
                           .hello = {.software = "0.1.0"},
                           .csr = {.data = "csr", .len = 3},
                           .seed = "seed:1",
                           .timeout_ns = timeout_ns,
                           .random = &r->random.random};

    rules.hello.self.rank = rank;
    rules.hello.self.process.pid = 7;
    (void)snprintf(rules.hello.self.host, sizeof(rules.hello.self.host), "host");
    rules.hello.self.naddresses = 1;
    assert_int_equal(nx_address_parse("10.0.0.1:5", 0, &rules.hello.self.addresses[0]), NEXAR_OK);
    return rules;
}

rig_joiner *rig_join(rig *r, const nx_join_rules *rules)
{
    rig_joiner *j = nx_zalloc(sizeof(*j));

    assert_non_null(j);
    j->owner = r;
    nx_list_push_back(&r->joiners, &j->link);
    assert_int_equal(nx_join_state_create(&j->state, rules, &joiner_ops, j, r->now), NEXAR_OK);
    return j;
}

rig_joiner *rig_join_as(rig *r, uint32_t rank, uint64_t timeout_ns)
{
    const nx_join_rules rules = rig_rules(r, rank, timeout_ns);

    return rig_join(r, &rules);
}

void rig_assert_failed(const rig_joiner *j, nexar_err err, const char *words)
{
    const char *text;

    assert_int_equal(nx_join_state_phase(j->state), NX_JOIN_FAILED);
    assert_int_equal(nx_join_state_error(j->state, &text), err);
    if (strstr(text, words) == NULL) {
        fail_msg("\"%s\" lacks \"%s\"", text, words);
    }
}

/* Closes the joiner's end of its connection. */
static void hang_up(rig_joiner *j)
{
    rig_conn *c = j->conn;

    if (c == NULL) {
        return;
    }
    j->conn = NULL;
    c->joiner = NULL;
    if (!c->up || (c->client == NULL)) {
        free_conn(c);
    } else {
        empty(&c->to_joiner);
        push(&c->to_seed, NULL, 0, true)->ended = j->dead;
    }
}

void rig_kill(rig *r, rig_joiner *j)
{
    (void)r;
    j->dead = true;
    hang_up(j);
}

static void deliver_to_seed(rig *r, rig_conn *c)
{
    rig_item *item = nx_list_entry(nx_list_pop(&c->to_seed), rig_item, link);
    nx_seed_client *client = c->client;

    if (item->end) {
        c->client = NULL;
        nx_seed_state_closed(r->seed, client, item->ended, "connection lost", r->now);
        free_conn(c);
    } else {
        nx_seed_state_frame(r->seed, client, item->data, item->len, r->now);
    }
    nx_free(item);
}

void rig_cut(rig *r, rig_joiner *j, bool known)
{
    rig_conn *c = j->conn;
    bool more = known && (c != NULL) && c->up && (c->client != NULL);

    hang_up(j);
    while (more && (c->client != NULL) && !nx_list_empty(&c->to_seed)) {
        more = !nx_list_entry(c->to_seed.next, rig_item, link)->end;
        deliver_to_seed(r, c);
    }
    nx_join_state_closed(j->state, NEXAR_ECONNECT, false, "idle for 10 s", r->now);
}

static void bring_up(rig *r, rig_conn *c)
{
    nx_seed_caller caller = {.conn = c, .address = "10.9.8.7:6"};

    c->up = true;
    caller.certified = (c->joiner == NULL) ? c->certified : c->joiner->member;
    memcpy(caller.exporter, c->exporter, sizeof(caller.exporter));
    assert_int_equal(nx_seed_state_connected(r->seed, &caller, r->now, &c->client), NEXAR_OK);
}

rig_conn *rig_connect_as(rig *r, uint64_t member)
{
    rig_conn *c = new_conn(r);

    c->certified = member;
    bring_up(r, c);
    return c;
}

rig_conn *rig_connect(rig *r)
{
    return rig_connect_as(r, 0);
}

void rig_send(rig_conn *c, const void *data, size_t len)
{
    if (c->client != NULL) {
        (void)push(&c->to_seed, data, len, false);
    }
}

size_t rig_hello(const rig_conn *c, const nx_token *token, uint32_t rank, uint8_t *buf)
{
    const nx_join_rules rules = rig_rules(c->owner, rank, 0);
    uint8_t proof[32];
    const nx_hello_head head = {
        .protocol = NX_JOIN_PROTOCOL, .proof = proof, .csr = rules.csr.data, .csr_len = 3};
    nx_writer w = nx_writer_make(buf, NX_HELLO_MAX);

    assert_int_equal(nx_join_proof(token, c->exporter, rules.csr.data, 3, proof), NEXAR_OK);
    nx_hello_encode(&w, &head, &rules.hello);
    assert_false(w.failed);
    return w.len;
}

/* ---- delivery --------------------------------------------------------------------- */

static void settle(rig_joiner *j)
{
    const nx_join_phase phase = nx_join_state_phase(j->state);

    if ((phase == NX_JOIN_FAILED) || (phase == NX_JOIN_GONE) || nx_join_state_hung_up(j->state)) {
        hang_up(j);
    }
}

static void deliver_to_joiner(rig *r, rig_conn *c)
{
    rig_joiner *j = c->joiner;
    rig_item *item;

    if (!c->told_up) {
        c->told_up = true;
        nx_join_state_connected(j->state, c->exporter, r->now);
        return;
    }
    item = nx_list_entry(nx_list_pop(&c->to_joiner), rig_item, link);
    if (item->end) {
        j->conn = NULL;
        free_conn(c);
        nx_join_state_closed(j->state, NEXAR_ECONNECT, item->ended, "closed by the seed", r->now);
    } else {
        nx_join_state_frame(j->state, item->data, item->len, r->now);
        settle(j);
    }
    nx_free(item);
}

static bool has_for_joiner(const rig_conn *c)
{
    return (c->joiner != NULL) && c->up && (!c->told_up || !nx_list_empty(&c->to_joiner));
}

bool rig_step(rig *r)
{
    rig_conn *chosen = NULL;
    uint64_t n = 0;

    nx_list_for_each (at, &r->conns) {
        rig_conn *c = nx_list_entry(at, rig_conn, link);
        const bool some =
            (!c->up && r->seed_lives) || !nx_list_empty(&c->to_seed) || has_for_joiner(c);

        if (some && (nx_random_below(&r->random.random, ++n) == 0)) {
            chosen = c;
        }
    }
    if (chosen == NULL) {
        return false;
    }
    if (!chosen->up) {
        bring_up(r, chosen);
    } else if (nx_list_empty(&chosen->to_seed) ||
               (has_for_joiner(chosen) && (nx_random_below(&r->random.random, 2) == 0))) {
        deliver_to_joiner(r, chosen);
    } else {
        deliver_to_seed(r, chosen);
    }
    return true;
}

void rig_run(rig *r)
{
    while (rig_step(r)) {
    }
}

bool rig_advance(rig *r, uint64_t limit)
{
    uint64_t due = (r->seed == NULL) ? UINT64_MAX : nx_seed_state_due(r->seed);

    nx_list_for_each (at, &r->joiners) {
        const rig_joiner *j = nx_list_entry(at, rig_joiner, link);
        const uint64_t other = j->dead ? UINT64_MAX : nx_join_state_due(j->state);

        due = (other < due) ? other : due;
    }
    if (due > limit) {
        r->now = limit;
        return false;
    }
    r->now = (due > r->now) ? due : r->now;
    if (r->seed != NULL) {
        nx_seed_state_tick(r->seed, r->now);
    }
    nx_list_for_each (at, &r->joiners) {
        rig_joiner *j = nx_list_entry(at, rig_joiner, link);

        if (!j->dead) {
            nx_join_state_tick(j->state, r->now);
            settle(j);
        }
    }
    return true;
}

void rig_run_until(rig *r, uint64_t limit)
{
    rig_run(r);
    while (rig_advance(r, limit)) {
        rig_run(r);
    }
}

const rig_item *rig_find(const rig_conn *c, nx_join_frame type)
{
    nx_list_for_each (at, &c->to_joiner) {
        const rig_item *item = nx_list_entry(at, rig_item, link);

        if (!item->end && (item->len > 0) && (item->data[0] == (uint8_t)type)) {
            return item;
        }
    }
    return NULL;
}

unsigned rig_count(const rig_conn *c, nx_join_frame type)
{
    unsigned n = 0;

    nx_list_for_each (at, &c->to_joiner) {
        const rig_item *item = nx_list_entry(at, rig_item, link);

        n += !item->end && (item->len > 0) && (item->data[0] == (uint8_t)type);
    }
    return n;
}

bool rig_is_closed(const rig_conn *c)
{
    return c->client == NULL;
}
