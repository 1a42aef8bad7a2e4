/* detector_events.c - frames and events of the machines of failure detection. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text/sentence.h"
#include "core/agreement/agreement.h"
#include "core/failure/failure_inner.h"
#include "core/world/transport_choice.h"
#include "msg/control.h"

/* The id of the broadcast of failures.  Broadcasts of communicators use their 32-bit ids. */
#define DEATHS (UINT64_C(1) << 32)

static void send_frame(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const nx_failure *f = ctx;

    /* An unreachable rank has failed, or its failure will be detected. */
    (void)!nx_msg_send_control(f->world->msg, to, frame, len);
}

/* A frame to a slot that has failed is sent at once, when all consequences of the failure are
 * handled.  Before that, the slot may be one of several that a rank without network declares failed
 * together.  Then frames are withheld until the slot is heard from. */
void nx_failure_send(nx_world *world, uint32_t to, const void *frame, size_t len)
{
    nx_failure *f = world->failure;

    if ((f == NULL) || nx_failure_is_out(f) || nx_membership_settled(f->members, to)) {
        (void)!nx_msg_send_control(world->msg, to, frame, len);
    } else {
        nx_heard_gate_send(&f->heard_gate, to, frame, len);
    }
}

void nx_failure_vouch(nx_world *world, uint32_t to, const void *frame, size_t len)
{
    uint8_t item[NX_RBCAST_FRAME_MAX];

    for (uint32_t slot = 0; nx_failure_any(world) && (slot < world->slots); slot++) {
        const char *why = nx_failure_why(world, slot);

        if ((nx_failure_life(world, slot) == NX_LIFE_FAILED) && (slot != to)) {
            nx_failure_send(world, to, item,
                            nx_rbcast_encode(DEATHS, nx_rbcast_key(NX_RBCAST_DEAD, slot), why,
                                             strlen(why), item));
        }
    }
    nx_failure_send(world, to, frame, len);
}

void nx_failure_call_for(nx_world *world, uint32_t peer)
{
    const nx_failure *f = world->failure;

    if (!nx_failure_is_out(f)) {
        nx_detector_ask(f->detector, peer, nx_loop_now(world->loop));
    }
}

static void send_news(void *ctx, uint32_t to, const void *frame, size_t len)
{
    const nx_failure *f = ctx;

    nx_failure_send(f->world, to, frame, len);
}

static bool hears(void *ctx, uint32_t peer)
{
    const nx_failure *f = ctx;

    return nx_detector_hears(f->detector, peer, nx_loop_now(f->world->loop));
}

/* The slot is watched until it is heard from: it answers, or it is declared failed. */
static void begin_asking(void *ctx, uint32_t peer)
{
    const nx_failure *f = ctx;
    const uint64_t now = nx_loop_now(f->world->loop);

    if (nx_detector_watch(f->detector, peer, now) != NEXAR_OK) {
        nx_failure_end_receives(f->world);
    }
    nx_detector_ask(f->detector, peer, now);
}

static void end_asking(void *ctx, uint32_t peer)
{
    const nx_failure *f = ctx;

    nx_detector_unwatch(f->detector, peer);
}

static const nx_heard_gate_ops gate_ops = {
    .send = send_frame, .hears = hears, .begin = begin_asking, .end = end_asking};

/* An explanation for a rank whose network link has never come up; "" for other ranks. */
static const char *never_up(const nx_world *world, uint32_t peer)
{
    const nx_link *link = nx_msg_link(world->msg, peer);
    nx_link_info info = {0};

    if ((link == NULL) || nx_shm_is(link)) {
        return "";
    }
    link->ops->info(link, &info);
    return ((info.heard_ns == 0) && (strcmp(info.state, "dialling") == 0))
               ? "; no answer over UDP or TCP: a firewall may block its port"
               : "";
}

static void on_dead(void *ctx, uint32_t peer, const char *why)
{
    const nx_failure *f = ctx;
    const char *more = never_up(f->world, peer);
    char sentence[NX_FAILURE_WHY], at[NX_TIME_TEXT], text[NX_PEER_TEXT], link[NX_LINKS_TEXT];
    const size_t fit =
        nx_sentence_fit(why, sizeof(sentence) - sizeof(at) - sizeof(", at ") - strlen(more));

    (void)snprintf(sentence, sizeof(sentence), "%.*s%s%s, at %s", (int)fit, why,
                   (why[fit] == '\0') ? "" : "...", more, nx_time_text(at));
    nx_log(NX_LOG_WARN, "declared %s failed: %s; link: %s; longest pause here %.1f s",
           nx_world_peer_text(f->world, peer, text), why, nx_links_text(f->world, peer, link),
           (double)nx_failure_pause(f) / 1e9);
    nx_failure_failed(f->world, peer, NX_SOURCE_HEARTBEAT, sentence);
}

static void on_zombie(void *ctx, uint32_t peer)
{
    const nx_failure *f = ctx;

    nx_detector_tell(f->detector, peer, nx_failure_why(f->world, peer),
                     nx_loop_now(f->world->loop));
}

static void on_outcast(void *ctx, uint32_t by, const char *why)
{
    const nx_failure *f = ctx;
    char sentence[NX_DETECTOR_VERDICT + 64];

    (void)nx_sentence(sentence, sizeof(sentence), "%s, says rank %" PRIu32, why,
                      nx_world_rank(f->world, by));
    nx_failure_failed(f->world, f->world->self, NX_SOURCE_VERDICT, sentence);
}

static const nx_detector_ops detector_ops = {
    .send = send_frame, .dead = on_dead, .zombie = on_zombie, .outcast = on_outcast};

static void on_learned(void *ctx, uint64_t key, const void *data, size_t len, uint32_t from)
{
    const nx_failure *f = ctx;
    char why[NX_RBCAST_DATA_MAX + 64];

    (void)nx_sentence(why, sizeof(why), "%.*s, says rank %" PRIu32, (int)len, (const char *)data,
                      nx_world_rank(f->world, from));
    if ((key >> 32) == NX_RBCAST_DEAD) {
        nx_failure_failed(f->world, (uint32_t)key, NX_SOURCE_BROADCAST, why);
    } else if ((key >> 32) == NX_RBCAST_ENDED) {
        nx_links_ended(f->world, (uint32_t)key);
    }
}

static nx_life life_of(void *ctx, uint32_t slot)
{
    return nx_membership_life(((nx_failure *)ctx)->members, slot);
}

static const nx_rbcast_ops rbcast_ops = {.send = send_news, .learned = on_learned, .life = life_of};

void nx_detector_events_heard(nx_failure *f, uint32_t peer, uint64_t now_ns)
{
    if (nx_membership_life(f->members, peer) != NX_LIFE_FAILED) {
        nx_detector_heard(f->detector, peer, now_ns);
        nx_heard_gate_heard(&f->heard_gate, peer);
    }
}

bool nx_failure_on_control(nx_world *world, uint32_t peer, const void *data, size_t len)
{
    const uint8_t kind = *(const uint8_t *)data;
    nx_failure *f = world->failure;
    nexar_err err = NEXAR_OK;
    uint64_t group = 0;

    if (((kind < NX_CONTROL_PING) || (kind > NX_CONTROL_AGREE)) && (kind != NX_CONTROL_CONFIRM) &&
        (kind != NX_CONTROL_VERDICT)) {
        return false;
    }
    if ((f == NULL) || nx_failure_is_out(f)) {
        return true;
    }
    nx_detector_events_heard(f, peer, nx_loop_now(world->loop));
    if ((kind <= NX_CONTROL_PONG) || (kind == NX_CONTROL_VERDICT)) {
        err = nx_detector_frame(f->detector, peer, data, len, nx_loop_now(world->loop));
    } else if ((kind == NX_CONTROL_RBCAST) &&
               (nx_rbcast_frame_group(data, len, &group) == NEXAR_OK) && (group == DEATHS)) {
        err = nx_rbcast_frame(f->rbcast, peer, data, len);
    } else {
        nx_agreement_take(world, peer, data, len);
    }
    if (err != NEXAR_OK) {
        nx_log(NX_LOG_WARN, "peer %" PRIu32 " sent what was not taken: %s", peer,
               nexar_last_error());
    }
    if (err == NEXAR_ENOMEM) {
        nx_failure_end_receives(world);
    }
    return true;
}

void nx_detector_events_init(nx_failure *f)
{
    nx_heard_gate_init(&f->heard_gate, &gate_ops, f);
}

nexar_err nx_detector_events_start(nx_failure *f, nx_detector_config *config)
{
    nexar_err err;

    config->members = f->members;
    err =
        nx_detector_create(&f->detector, config, &detector_ops, f, nx_loop_refresh(f->world->loop));
    return (err == NEXAR_OK)
               ? nx_rbcast_create(&f->rbcast, DEATHS, config->size, config->self, &rbcast_ops, f)
               : err;
}

void nx_detector_events_stop(nx_failure *f)
{
    nx_heard_gate_fini(&f->heard_gate);
    nx_detector_destroy(f->detector);
    nx_rbcast_destroy(f->rbcast);
}
