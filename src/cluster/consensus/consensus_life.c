/* consensus_life.c - creation, destruction and queries. */
#include <inttypes.h>

#include "base/alloc.h"
#include "consensus_inner.h"

void nx_consensus_slot_open(nx_consensus_slot *s, uint64_t seq)
{
    s->seq = seq;
    s->started = s->decided = s->up_sent = s->accepted = s->ack_sent = false;
    s->got = s->acks = 0;
    nx_consensus_value_reset(&s->own);
    nx_consensus_value_reset(&s->gather);
    nx_consensus_value_reset(&s->acc);
}

static nexar_err slot_init(nx_consensus_slot *s, const nx_consensus_config *c, uint64_t seq)
{
    if ((nx_consensus_value_init(&s->own, c->size, c->payload_max) != NEXAR_OK) ||
        (nx_consensus_value_init(&s->gather, c->size, c->payload_max) != NEXAR_OK) ||
        (nx_consensus_value_init(&s->acc, c->size, c->payload_max) != NEXAR_OK)) {
        return NEXAR_ENOMEM;
    }
    nx_consensus_slot_open(s, seq);
    return NEXAR_OK;
}

static nexar_err check_config(const nx_consensus_config *c)
{
    if ((c->size == 0) || (c->size > NX_WORLD_MAX) || (c->self >= c->size)) {
        return nx_fail(NEXAR_EINVAL, "an agreement of rank %" PRIu32 " of %" PRIu32, c->self,
                       c->size);
    }
    if ((c->fanout == 1) || (c->fanout > NX_CONSENSUS_FANOUT_MAX)) {
        return nx_fail(NEXAR_EINVAL, "a tree with %" PRIu32 " children; accepted: 2 to %d",
                       c->fanout, NX_CONSENSUS_FANOUT_MAX);
    }
    if (c->payload_max > NX_CONSENSUS_PAYLOAD_MAX) {
        return nx_fail(NEXAR_EINVAL, "payloads of %" PRIu32 " bytes; accepted: up to %d",
                       c->payload_max, NX_CONSENSUS_PAYLOAD_MAX);
    }
    if (c->early && (c->quorum == NX_QUORUM_MAJORITY)) {
        return nx_fail(NEXAR_EINVAL, "an early decision may be that of a minority");
    }
    return NEXAR_OK;
}

static nexar_err take_memory(nx_consensus *a)
{
    const nx_consensus_config *c = &a->config;

    if ((nx_rankset_init(&a->dead, c->size) != NEXAR_OK) ||
        (nx_rankset_init(&a->left, c->size) != NEXAR_OK) ||
        (nx_rankset_init(&a->fell, c->size) != NEXAR_OK) ||
        (nx_rankset_init(&a->gone, c->size) != NEXAR_OK) ||
        (nx_rankset_init(&a->done, c->size) != NEXAR_OK) ||
        (nx_rankset_init(&a->away, c->size) != NEXAR_OK) ||
        (nx_rankset_init(&a->in_dead, c->size) != NEXAR_OK) ||
        (nx_rankset_init(&a->in_left, c->size) != NEXAR_OK) ||
        (nx_consensus_value_init(&a->in_value, c->size, c->payload_max) != NEXAR_OK) ||
        (slot_init(&a->slots[0], c, 0) != NEXAR_OK) ||
        (slot_init(&a->slots[1], c, 1) != NEXAR_OK)) {
        return NEXAR_ENOMEM;
    }
    a->out_room = nx_consensus_encoded_max(c->size, c->payload_max);
    a->out = nx_zalloc(a->out_room);
    return (a->out == NULL) ? nx_fail_nomem("frames of an agreement") : NEXAR_OK;
}

nexar_err nx_consensus_create(nx_consensus **out, const nx_consensus_config *config,
                              const nx_consensus_ops *ops, void *ctx)
{
    nx_consensus *a;
    nexar_err err = check_config(config);

    if (err != NEXAR_OK) {
        return err;
    }
    a = nx_zalloc(sizeof(*a));
    if (a == NULL) {
        return nx_fail_nomem("an agreement");
    }
    a->config = *config;
    a->config.fanout = (config->fanout == 0) ? NX_CONSENSUS_FANOUT : config->fanout;
    a->ops = ops;
    a->ctx = ctx;
    err = take_memory(a);
    if (err != NEXAR_OK) {
        nx_consensus_destroy(a);
        return err;
    }
    nx_consensus_find_place(a);
    *out = a;
    return NEXAR_OK;
}

static void slot_fini(nx_consensus_slot *s)
{
    nx_consensus_value_fini(&s->own);
    nx_consensus_value_fini(&s->gather);
    nx_consensus_value_fini(&s->acc);
}

void nx_consensus_destroy(nx_consensus *a)
{
    if (a == NULL) {
        return;
    }
    nx_rankset_fini(&a->dead);
    nx_rankset_fini(&a->left);
    nx_rankset_fini(&a->fell);
    nx_rankset_fini(&a->gone);
    nx_rankset_fini(&a->done);
    nx_rankset_fini(&a->away);
    nx_rankset_fini(&a->in_dead);
    nx_rankset_fini(&a->in_left);
    nx_consensus_value_fini(&a->in_value);
    slot_fini(&a->slots[0]);
    slot_fini(&a->slots[1]);
    nx_free(a->out);
    nx_free(a);
}

const nx_consensus_value *nx_consensus_accepted(const nx_consensus *a)
{
    const nx_consensus_slot *now = &a->slots[a->next & 1], *last = &a->slots[(a->next + 1) & 1];

    if (a->running && (now->seq == a->next) && (now->acc.ballot > 0)) {
        return &now->acc;
    }
    return ((a->next > 0) && (last->seq == a->next - 1) && last->decided) ? &last->acc : NULL;
}

uint64_t nx_consensus_seq(const nx_consensus *a)
{
    return a->next;
}

const nx_rankset *nx_consensus_dead(const nx_consensus *a)
{
    return &a->dead;
}

bool nx_consensus_has_left(const nx_consensus *a, uint32_t rank)
{
    return nx_rankset_has(&a->gone, rank);
}

uint32_t nx_consensus_waits_for(const nx_consensus *a, uint32_t ranks[], uint32_t room)
{
    const nx_consensus_slot *s = &a->slots[a->next & 1];
    const uint64_t came = s->accepted ? s->acks : s->got;
    uint32_t n = 0;

    if (!a->running) {
        return 0;
    }
    for (uint32_t i = 0; (i < a->tree.nchildren) && (n < room); i++) {
        if (((came >> i) & 1) == 0) {
            ranks[n++] = a->tree.children[i];
        }
    }
    if ((n == 0) && !nx_consensus_is_root(a) && (room > 0)) {
        ranks[n++] = a->tree.parent;
    }
    return n;
}
