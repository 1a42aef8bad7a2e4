/*
 * dial.c - connects to a member by any of its addresses.
 *
 * The link tries all addresses, one every STAGGER_NS or as soon as the previous one has failed. The
 * first connection that comes up wins (simultaneous_open.c), so one unreachable address costs 50
 * ms, not a time-out. The loopback, which comes first among processes of one host, answers
 * immediately or never. It is late only where many processes connect at the same time, and more
 * attempts would delay them further.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/text/sentence.h"
#include "transport/quic/endpoint.h"
#include "transport/quic/udp/address.h"

static const uint64_t STAGGER_NS = UINT64_C(50000000), NEAR_STAGGER_NS = UINT64_C(2000000000);

/* Records the result of each address; a refusal outranks silence. */
static void note(nx_quic_link *link, nexar_err err, const char *why)
{
    size_t len = strlen(link->why);

    if ((link->err == NEXAR_OK) ||
        ((link->err == NEXAR_ECONNECT) && (err != NEXAR_ECONNECT) && (err != NEXAR_ENOMEM))) {
        link->err = err;
    }
    if (sizeof(link->why) - len >= 8) { /* otherwise the text was truncated already */
        (void)nx_sentence(link->why + len, sizeof(link->why) - len, "%s%s", (len > 0) ? "; " : "",
                          why);
    }
}

/* Starts an attempt to the next address; returns whether it succeeded. */
static bool attempt(nx_quic_link *link)
{
    nx_quic *q = link->q;
    const struct sockaddr_storage *address = &link->addresses[link->next++];
    char text[NX_ADDRESS_TEXT], why[NX_QUIC_WHY];
    nx_udp_path path = {0};
    nx_conn_io *k;
    nexar_err err;

    if (!nx_address_for(address, nx_udp_family(q->udp), &path.remote)) {
        (void)nx_sentence(why, sizeof(why), "%s: this host has no way to it",
                          nx_address_text(address, text));
        note(link, NEXAR_ECONNECT, why);
        return false;
    }
    err = nx_conn_io_create(&k, q, &path, &link->target, NULL, NULL);
    if (err != NEXAR_OK) {
        note(link, err, nexar_last_error());
        return false;
    }
    k->link = link;
    nx_list_push_back(&link->conn_ios, &k->in_link);
    return true;
}

static void set_timer(nx_quic_link *link, uint64_t after_ns)
{
    nx_loop *loop = link->q->config.loop;
    uint64_t at = nx_loop_now(loop) + after_ns;

    if (link->closing && (at > link->give_up_ns)) {
        at = link->give_up_ns;
    }
    /* Without memory for the timer, the other addresses wait for the first to fail. */
    (void)!nx_loop_timer_set(loop, &link->timer, at);
}

/* When all addresses have been tried, the last connection has this long to come up, and the peer to
 * choose it. */
static uint64_t patience_ns(const nx_quic_link *link)
{
    return 2 * link->q->config.handshake_timeout_ns;
}

/* How long the last tried address has before the link tries the next. */
static uint64_t stagger_ns(const nx_quic_link *link)
{
    return nx_address_loopback(&link->addresses[link->next - 1]) ? NEAR_STAGGER_NS : STAGGER_NS;
}

void nx_dial_next(nx_quic_link *link)
{
    while (link->next < link->n) {
        if (attempt(link)) {
            set_timer(link, (link->next < link->n) ? stagger_ns(link) : patience_ns(link));
            return;
        }
    }
    if (nx_list_empty(&link->conn_ios)) {
        nx_quic_link_down(link, (link->err == NEXAR_OK) ? NEXAR_ECONNECT : link->err,
                          (link->why[0] != '\0') ? NULL : "the peer has chosen none of them");
    } else {
        set_timer(link, patience_ns(link));
    }
}

void nx_dial_failed(nx_quic_link *link, const struct sockaddr_storage *address, nexar_err err,
                    const char *why)
{
    if (link->state != NX_LINK_SETTLING) {
        return;
    }
    if (address != NULL) {
        note(link, err, why);
    }
    if ((address != NULL) || nx_list_empty(&link->conn_ios)) {
        nx_dial_next(link);
    }
}

/* Adopts connections that the member opened before this side wanted a link. */
static void adopt(nx_quic_link *link)
{
    nx_list_for_each (at, &link->q->conn_ios) {
        nx_conn_io *k = nx_list_entry(at, nx_conn_io, in_all);

        if ((k->conn != NULL) && k->up && (k->link == NULL) && !k->dialled &&
            (nx_conn_member(k->conn) == link->target.member)) {
            k->link = link;
            nx_list_push_back(&link->conn_ios, &k->in_link);
        }
    }
}

static nexar_err check(nx_quic *q, const nx_quic_target *target)
{
    nx_quic_link *link;

    if (target->n == 0) {
        return nx_fail(NEXAR_EINVAL, "no address to dial");
    }
    if (target->member == 0) {
        return NEXAR_OK;
    }
    if (nx_tls_member(q->tls) == 0) {
        return nx_fail(NEXAR_EINVAL, "only a member can dial member %" PRIu64, target->member);
    }
    link = nx_map_get(&q->by_member, target->member);
    if ((link != NULL) && link->closing) {
        nx_quic_link_leave_map(link); /* the dial does not wait for the old link */
        link = NULL;
    }
    if ((nx_tls_member(q->tls) == target->member) || (link != NULL)) {
        return nx_fail(NEXAR_EINVAL, "there is a link to member %" PRIu64 " already",
                       target->member);
    }
    return NEXAR_OK;
}

nexar_err nx_quic_dial(nx_quic *q, const nx_quic_target *target, const nx_link_up *up, void *up_ctx,
                       nx_link **out)
{
    nx_tls_target wanted = {.member = target->member, .pin = target->pin};
    nx_quic_link *link = NULL;
    nexar_err err = check(q, target);

    if (err == NEXAR_OK) {
        err = nx_quic_link_create(&link, q, &wanted);
    }
    if (err != NEXAR_OK) {
        return err;
    }
    link->addresses = nx_calloc(target->n, sizeof(*link->addresses));
    if (link->addresses == NULL) {
        nx_quic_link_end(link);
        return nx_fail_nomem("addresses");
    }
    memcpy(link->addresses, target->addresses, target->n * sizeof(*link->addresses));
    link->n = target->n;
    link->base.up = up;
    link->base.up_ctx = up_ctx;
    if (target->member != 0) {
        adopt(link);
    }
    nx_dial_next(link);
    *out = &link->base;
    return NEXAR_OK;
}
