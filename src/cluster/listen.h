/*
 * listen.h - the settings listen, port_range, interfaces and advertise, as an endpoint takes them,
 * and the member record of this process.
 */
#ifndef NX_LISTEN_H
#define NX_LISTEN_H

#include "cluster/view.h"
#include "transport/quic/quic.h" /* struct nx_quic_config */

/* Sets listen and ports of |config|: "" or NULL is every address; ":port" too,
 * at that port; "host", "host:port", "0.0.0.0" (IPv4 only), "[::]" (IPv6 only).
 * A port in |listen| goes before the range.  NEXAR_EINVAL. */
NX_MUST_CHECK nexar_err nx_listen_parse(const char *listen, uint16_t port_first, uint16_t port_last,
                                        nx_quic_config *config);

/*
 * The addresses of an endpoint, opened with |config| at |port|: as nx_addresses_find, but only
 * those it listens on.
 *
 * NEXAR_EINVAL
 *     As there, or none is left.
 */
NX_MUST_CHECK nexar_err nx_listen_addresses(const nx_quic_config *config, uint16_t port,
                                            const char *interfaces, const char *advertise,
                                            struct sockaddr_storage *out, size_t room, size_t *n);

/* Fills in boot id, host and process; the rest is unchanged. The network namespace is mixed into
 * the boot id: processes of one kernel in different namespaces can reach each other neither by
 * Unix sockets nor by loopback.  |host_id| (NULL: "") is mixed in too: with it a user separates
 * hosts of one kernel. */
void nx_member_self(nx_member *m, const char *host_id);

#endif /* NX_LISTEN_H */
