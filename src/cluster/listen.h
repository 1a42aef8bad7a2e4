/*
 * listen.h - the settings listen, port_range, interfaces and advertise, as an
 * endpoint takes them, and what others are told of it.
 */
#ifndef NX_LISTEN_H
#define NX_LISTEN_H

#include "cluster/view.h"
#include "transport/quic/quic.h" /* nx_quic_config */

/* Sets listen and ports of |config|: "" or NULL is every address; ":port" too,
 * at that port; "host", "host:port", "0.0.0.0" (IPv4 only), "[::]" (IPv6 only).
 * A port in |listen| goes before the range.  NEXAR_EINVAL. */
NX_MUST_CHECK nexar_err nx_listen_parse(const char *listen, uint16_t port_first, uint16_t port_last,
                                        nx_quic_config *config);

/*
 * The addresses by which an endpoint, opened with |config| at |port|, is reached:
 * as nx_addresses_find, but only what it listens on.
 *
 * NEXAR_EINVAL
 *     As there, or none is left.
 */
NX_MUST_CHECK nexar_err nx_listen_addresses(const nx_quic_config *config, uint16_t port,
                                            const char *interfaces, const char *advertise,
                                            struct sockaddr_storage *out, size_t room, size_t *n);

/* What others should know of this process: boot id, host, process; the rest is left
 * alone.  The network namespace is mixed into the boot id, since processes of one kernel
 * that share none can reach one another neither by Unix sockets nor by the loopback; and
 * |host_id| (NULL: ""), by which a user tells hosts of one kernel apart. */
void nx_member_self(nx_member *m, const char *host_id);

#endif /* NX_LISTEN_H */
