/*
 * roam.c - selects the addresses of a connection when its first addresses stop working.
 *
 * No negotiation takes place. A connection without answers probes its peer (conn_probe.c) at all
 * addresses of the peer, from any local address that the kernel selects. The peer answers to the
 * address that the probe came from, and this side then uses that path. So it does not matter which
 * side has lost an address, or whether that side has noticed; a recovered path is as good as
 * another.
 *
 * Trust: only a packet that decrypts under the connection's keys moves it. If the peer has
 * announced the new address, the connection moves after a moment without packets from the old one.
 * Otherwise the peer must be heard at the new address for that moment. An attacker that copies
 * packets and resends them from elsewhere changes nothing unless it can also suppress the
 * originals. The moment is longer for a dialler that receives answers, so that two ends that both
 * move do not chase each other.
 */
#include <string.h>

#include "base/log.h"
#include "transport/quic/endpoint.h"
#include "transport/quic/udp/address.h"

enum { FOLLOW_SOON = 4 }; /* a quarter of the patience */

static bool is_loopback(const struct sockaddr_storage *a)
{
    struct sockaddr_storage plain;

    nx_address_plain(a, &plain);
    if (plain.ss_family == AF_INET) {
        return (ntohl(((const struct sockaddr_in *)&plain)->sin_addr.s_addr) >> 24) == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&plain)->sin6_addr);
}

bool nx_roam_is_here(const nx_conn_io *k, const nx_udp_path *path)
{
    return nx_address_equal(&k->path.remote, &path->remote) &&
           (!k->path.has_source || !path->has_source ||
            (memcmp(&k->path.source, &path->source, sizeof(path->source)) == 0));
}

static bool is_known(const nx_conn_io *k, const struct sockaddr_storage *remote)
{
    const nx_quic_link *link = k->link;
    struct sockaddr_storage known;

    if (nx_address_equal(&k->path.remote, remote)) {
        return true; /* another local address */
    }
    for (size_t i = 0; (link != NULL) && (i < link->n); i++) {
        if (nx_address_for(&link->addresses[i], nx_udp_family(k->q->udp), &known) &&
            nx_address_equal(&known, remote)) {
            return true;
        }
    }
    return false;
}

/* How long the present path may stay silent. */
static uint64_t wait_ns(const nx_conn_io *k, uint64_t now_ns)
{
    const uint64_t patience = nx_conn_patience(k->conn);
    const bool soon = !k->dialled || nx_conn_is_stuck(k->conn, now_ns);

    return soon ? patience / FOLLOW_SOON : patience;
}

/* Whether only |path| has delivered packets for a while. */
static bool has_moved(nx_conn_io *k, const nx_udp_path *path, uint64_t now_ns)
{
    if ((k->elsewhere_ns <= k->heard_ns) ||
        !nx_address_equal(&k->elsewhere.remote, &path->remote)) {
        k->elsewhere = *path;
        k->elsewhere_ns = now_ns;
        return false;
    }
    return now_ns - k->elsewhere_ns >= wait_ns(k, now_ns);
}

void nx_roam_heard(nx_conn_io *k, const nx_udp_path *path, uint64_t now_ns)
{
    char old[NX_ADDRESS_TEXT], new[NX_ADDRESS_TEXT];

    if (!nx_conn_opened(k->conn)) {
        return;
    }
    if (is_known(k, &path->remote) ? (now_ns - k->heard_ns < wait_ns(k, now_ns))
                                   : !has_moved(k, path, now_ns)) {
        return;
    }
    nx_log(NX_LOG_INFO, "quic: peer %s migrated to %s", nx_address_text(&k->path.remote, old),
           nx_address_text(&path->remote, new));
    k->path = *path;
    k->heard_ns = now_ns;
    nx_conn_limit(k->conn, nx_udp_datagram_max(&path->remote));
    /* The peer waits to learn this side's address. Without memory the next packet reports the
     * address. */
    if ((k->link != NULL) && (k->link->used == k) && (nx_sendq_word(&k->link->sendq) == NEXAR_OK)) {
        nx_conn_io_wake(k);
    }
}

void nx_roam_call(nx_conn_io *k, uint64_t now_ns)
{
    const nx_quic_link *link = k->link;
    const bool loopback = is_loopback(&k->path.remote);
    nx_udp_path path = {0};
    const uint8_t *data;
    const size_t len = nx_conn_call(k->conn, now_ns, &data);

    if (len == 0) {
        return;
    }
    /* The kernel's result is ignored: a failed send equals a packet lost in the network. */
    (void)nx_udp_send(k->q->udp, &k->path, data, len, len);
    if (k->path.has_source) {
        path.remote = k->path.remote;
        (void)nx_udp_send(k->q->udp, &path, data, len, len);
    }
    for (size_t i = 0; (link != NULL) && (link->used == k) && (i < link->n); i++) {
        if (nx_address_for(&link->addresses[i], nx_udp_family(k->q->udp), &path.remote) &&
            !nx_address_equal(&path.remote, &k->path.remote) &&
            (loopback || !is_loopback(&path.remote))) {
            (void)nx_udp_send(k->q->udp, &path, data, len, len);
        }
    }
}
