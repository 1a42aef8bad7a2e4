/* transport_choice.c - chooses transports, and identifies the rank behind an incoming link. */
#include "transport_choice.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cluster/addresses.h"
#include "core/coll/host_boards.h"
#include "core/failure/failure.h"
#include "core/failure/process_exit.h"
#include "core/update/update.h"

_Static_assert(sizeof(nx_shm_offer) == NX_LOCAL_MAX, "a member's record has room for it");

bool nx_links_same_host(const nx_world *world, const nx_member *m)
{
    return memcmp(m->boot_id, nx_view_slot(world->view, world->self)->boot_id,
                  sizeof(m->boot_id)) == 0;
}

uint32_t nx_links_neighbours(const nx_world *world)
{
    const nx_view *view = world->view;
    uint32_t n = (view == NULL) ? 1 : 0;

    for (uint32_t rank = 0; (view != NULL) && (rank < view->size); rank++) {
        n += nx_links_same_host(world, &view->members[rank]);
    }
    return n;
}

static nx_transports allowed(const nx_world *world)
{
    char buf[NX_NUMBER_ROOM];

    return nx_setting_transports(nx_config_text(world->config, NX_SET_TRANSPORTS, buf));
}

static bool may_use_network(const nx_world *world)
{
    const nx_transports t = allowed(world);

    return t.quic || t.tcp;
}

unsigned int nx_links_network(const nx_world *world)
{
    const nx_transports t = allowed(world);

    return (t.quic ? NX_INET_QUIC : 0U) | (t.tcp ? NX_INET_TCP : 0U);
}

/* ---- the network --------------------------------------------------------------------- */

/* The addresses of |m|, in the order of dialling.  For a rank of this host the loopback comes
 * first, since it has the largest datagrams.  For another rank it comes last. */
static void order_addresses(const nx_member *m, bool here, struct sockaddr_storage *out)
{
    size_t n = 0;

    for (int turn = 0; turn < 2; turn++) {
        for (size_t i = 0; i < m->naddresses; i++) {
            if (nx_address_loopback(&m->addresses[i]) == (here == (turn == 0))) {
                out[n++] = m->addresses[i];
            }
        }
    }
}

static nexar_err dial_network(nx_world *world, const nx_member *m, const nx_link_up *up,
                              void *up_ctx, nx_link **link)
{
    struct sockaddr_storage addresses[NX_ADDRESSES_MAX];
    const nx_quic_target target = {.member = m->id, .addresses = addresses, .n = m->naddresses};
    nexar_err err;

    order_addresses(m, nx_links_same_host(world, m), addresses);
    err = nx_inet_dial(nx_join_endpoint(world->join), &target, up, up_ctx, link);
    if (err == NEXAR_OK) {
        nx_process_exit_watch(world, m);
    }
    if ((err == NEXAR_OK) && nx_failure_ended(world, m->slot)) {
        nx_inet_link_exited(*link);
    }
    return err;
}

/* A leaving rank stays until all peers with a link to it have its goodbye (quic/link.c).  So if a
 * link existed and no goodbye arrived, the rank has failed. */
void nx_links_ended(nx_world *world, uint32_t slot)
{
    nx_link *link = (slot < world->slots) ? nx_msg_link(world->msg, slot) : NULL;

    if ((link != NULL) && !nx_shm_is(link)) {
        nx_inet_link_exited(link);
    }
}

/* ---- shared memory ------------------------------------------------------------------- */

/* False: |member| is unknown, messages do not exist yet, or another link to |member| exists. */
static bool find_offer(void *ctx, uint64_t member, nx_shm_offer *offer)
{
    const nx_world *world = ctx;
    const nx_member *m = (world->msg == NULL) ? NULL : nx_view_member(world->view, member);
    const nx_link *link;
    nx_member next;

    if ((m == NULL) && (world->msg != NULL) && !nx_early_links_has(world, member) &&
        nx_update_expects(world, member, &next) && (next.nlocal == sizeof(*offer)) &&
        nx_links_same_host(world, &next)) {
        memcpy(offer, next.local, sizeof(*offer));
        return true;
    }
    if ((m == NULL) || (m->nlocal != sizeof(*offer)) || !nx_links_same_host(world, m)) {
        return false;
    }
    link = nx_msg_link(world->msg, m->slot);
    if ((link != NULL) && !nx_shm_is(link)) {
        return false;
    }
    memcpy(offer, m->local, sizeof(*offer));
    return true;
}

static nexar_err fall_back(void *ctx, uint64_t member, const char *why, const nx_link_up *up,
                           void *up_ctx, nx_link **out)
{
    nx_world *world = ctx;
    const nx_member *m = nx_view_member(world->view, member);
    char text[NX_PEER_TEXT];

    if (m == NULL) {
        return nx_fail(NEXAR_EPEER, "it is gone");
    }
    nx_log(NX_LOG_INFO, "no shared memory with %s, but the network: %s",
           nx_world_peer_text(world, m->slot, text), why);
    return dial_network(world, m, up, up_ctx, out);
}

nexar_err nx_links_open(nx_world *world)
{
    nx_shm_config config = {.loop = world->loop,
                            .random = &nx_random_system,
                            .find = find_offer,
                            .on_accept = nx_links_accept,
                            .on_pass = nx_host_coll_on_pass,
                            .ctx = world};
    const bool network = may_use_network(world);
    nexar_err err;

    if (!allowed(world).shm) {
        return NEXAR_OK;
    }
    config.fallback = network ? fall_back : NULL;
    err = nx_shm_open(&world->shm, &config);
    if ((err != NEXAR_OK) && network && (err != NEXAR_ENOMEM)) {
        nx_log(NX_LOG_INFO, "no shared memory on this host: %s", nexar_last_error());
        return NEXAR_OK;
    }
    return err;
}

nexar_err nx_links_start(nx_world *world)
{
    if (world->shm == NULL) {
        return NEXAR_OK;
    }
    return nx_shm_start(world->shm, nx_view_slot(world->view, world->self)->id);
}

/* ---- both ---------------------------------------------------------------------------- */

nexar_err nx_links_connect(void *ctx, uint32_t peer, const nx_link_up *up, void *up_ctx,
                           nx_link **link)
{
    nx_world *world = ctx;
    const nx_member *m = nx_view_slot(world->view, peer);
    char text[NX_PEER_TEXT];

    if (m == NULL) {
        return nx_fail(NEXAR_EPEER, "it is gone");
    }
    if ((world->shm != NULL) && (m->nlocal > 0) && nx_links_same_host(world, m)) {
        return nx_shm_dial(world->shm, m->id, up, up_ctx, link);
    }
    if (!may_use_network(world)) {
        return nx_fail(NEXAR_ENOTSUP,
                       "%s has no shared memory with this one, and the setting "
                       "transports allows nothing else",
                       nx_world_peer_text(world, peer, text));
    }
    return dial_network(world, m, up, up_ctx, link);
}

/* The network link of a rank to which this rank has begun to dial by shared memory.  The peer has
 * found that shared memory does not work, so both ranks use the network. */
static void replace(nx_link *old, nx_link *link, uint64_t member)
{
    if (!nx_shm_pairing(old)) {
        nx_log(NX_LOG_WARN, "refused a second link of member %" PRIu64, member);
        nx_link_close(link, false);
    } else if (nx_shm_move(old, link) != NEXAR_OK) {
        nx_link_close(link, false);
    }
}

void nx_links_accept(void *ctx, nx_link *link, uint64_t member)
{
    nx_world *world = ctx;
    const nx_member *m = (world->msg == NULL) ? NULL : nx_view_member(world->view, member);
    nx_link *old;

    if ((m == NULL) && !nx_early_links_has(world, member) &&
        ((world->msg == NULL) || nx_update_expects(world, member, NULL))) {
        nx_early_links_take(world, link, member);
        return;
    }
    if ((m == NULL) || (m->slot == world->self)) {
        nx_log(NX_LOG_WARN, "refused member %" PRIu64 ": it is not in this world", member);
        nx_link_close(link, false);
        return;
    }
    if (nx_failure_turn_away(world, m->slot, link)) {
        return;
    }
    if (!nx_shm_is(link) && (nx_inet_link_know(link, m->addresses, m->naddresses) != NEXAR_OK)) {
        nx_log(NX_LOG_WARN, "member %" PRIu64 " can be reached by one address only: %s", member,
               nexar_last_error());
    }
    old = nx_msg_link(world->msg, m->slot);
    link->up = nx_msg_up(world->msg);
    link->up_ctx = nx_msg_up_ctx(world->msg, m->slot);
    if (old != NULL) {
        replace(old, link, member);
    } else {
        nx_msg_attach(world->msg, m->slot, link);
        nx_world_part_from(world, m->slot);
    }
    if ((nx_msg_link(world->msg, m->slot) == link) && !nx_shm_is(link)) {
        nx_process_exit_watch(world, m);
    }
}

static double seconds_since(const nx_world *world, uint64_t then_ns)
{
    const uint64_t now = nx_loop_now(world->loop);

    return (now > then_ns) ? (double)(now - then_ns) / 1e9 : 0;
}

const char *nx_links_text(const nx_world *world, uint32_t slot, char out[NX_LINKS_TEXT])
{
    const nx_link *link = nx_msg_link(world->msg, slot);
    char heard[48] = "", waiting[96] = "", lost[48] = "";
    nx_link_info info = {0};

    if (link == NULL) {
        (void)snprintf(out, NX_LINKS_TEXT, "none");
        return out;
    }
    link->ops->info(link, &info);
    if (info.heard_ns != 0) {
        (void)snprintf(heard, sizeof(heard), ", something came %.1f s ago",
                       seconds_since(world, info.heard_ns));
    }
    if (info.waiting != 0) {
        (void)snprintf(waiting, sizeof(waiting),
                       ", %" PRIu64 " bytes in flight, none acknowledged for %.1f s", info.waiting,
                       seconds_since(world, info.waiting_ns));
    }
    if (info.packets_lost != 0) {
        (void)snprintf(lost, sizeof(lost), ", %" PRIu64 " packets lost", info.packets_lost);
    }
    (void)snprintf(out, NX_LINKS_TEXT, "%s to %s, %s%s%s%s", link->ops->name,
                   (info.remote[0] == '\0') ? "no address yet" : info.remote, info.state, heard,
                   waiting, lost);
    return out;
}
