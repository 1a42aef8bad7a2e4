/*
 * addresses.h - which addresses of this host others may reach us by.
 *
 * Every interface that is up, IPv4 and IPv6, never by resolving our own host
 * name.  Order: global before private before unique local, wired names before
 * others, loopback last (only of use to ranks on this host); link-local IPv6 and
 * docker-style bridges without carrier are left out.  The setting `interfaces`
 * ("eth0,10.0.0.0/8,fd00::/8") keeps only those that match one entry; `advertise`
 * ("198.51.100.7" or "host:port", several by comma) replaces the list.
 */
#ifndef NX_ADDRESSES_H
#define NX_ADDRESSES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

/*
 * Writes at most |room| addresses with |port| in them, best first; |*n| is how
 * many.  "" in both settings: no restriction.
 *
 * NEXAR_EINVAL
 *     A malformed entry, or one that matches no address: the sentence names it
 *     and lists the interfaces that there are.
 * NEXAR_ESYS
 */
NX_MUST_CHECK nexar_err nx_addresses_find(const char *interfaces, const char *advertise,
                                          uint16_t port, struct sockaddr_storage *out, size_t room,
                                          size_t *n);

/* "10.0.0.7:4433", "[fe80::1]:4433"; |buf| has 64 bytes at least. */
const char *nx_address_text(const struct sockaddr_storage *a, char *buf, size_t size);

/* "host:port", "1.2.3.4", "[::]:0": the port is optional.  NEXAR_EINVAL. */
NX_MUST_CHECK nexar_err nx_address_parse(const char *text, uint16_t port,
                                         struct sockaddr_storage *out);

#endif /* NX_ADDRESSES_H */
