/*
 * addresses.h - the addresses at which other processes may reach this host.
 *
 * Every interface that is up, IPv4 and IPv6; the own host name is never resolved. Order: global
 * before private before unique local, wired names before others, loopback last (useful only on this
 * host). Link-local IPv6 and docker-style bridges without carrier are left out. The setting
 * `interfaces` ("eth0,10.0.0.0/8,fd00::/8") keeps only matching addresses; `advertise`
 * ("198.51.100.7" or "host:port", several by comma) replaces the list.
 */
#ifndef NX_ADDRESSES_H
#define NX_ADDRESSES_H

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "transport/quic/udp/address.h" /* nx_address_text, nx_address_port */

enum { NX_ADDRESS_NAME_MAX = 256 };

/*
 * Writes at most |room| addresses with |port|, best first; |*n| is their number. "" or NULL in both
 * settings: no restriction.
 *
 * NEXAR_EINVAL
 *     A malformed entry, or one that matches no address: the message names it
 *     and lists the existing interfaces.
 * NEXAR_ESYS, NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_addresses_find(const char *interfaces, const char *advertise,
                                          uint16_t port, struct sockaddr_storage *out, size_t room,
                                          size_t *n);

/* One address of one interface, as the kernel reports it. */
typedef struct nx_interface {
    char name[IF_NAMESIZE];
    bool up; /* and it has a carrier */
    struct sockaddr_storage address;
} nx_interface;

/* The selection and order of nx_addresses_find, from |list| instead of the kernel.  NEXAR_EINVAL as
 * above. */
NX_MUST_CHECK nexar_err nx_addresses_select(const nx_interface *list, size_t nlist,
                                            const char *interfaces, uint16_t port,
                                            struct sockaddr_storage *out, size_t room, size_t *n);

/* Parses "host:port", "1.2.3.4", "[::]:0", "fe80::1"; the default port is |port|. A name is
 * resolved, which may block; its first address is used.  NEXAR_EINVAL. */
NX_MUST_CHECK nexar_err nx_address_parse(const char *text, uint16_t port,
                                         struct sockaddr_storage *out);

/*
 * The same for all addresses of a name, at most |room|; |*n| is their number.
 *
 * NEXAR_EINVAL
 *     Malformed, or an invalid port.
 * NEXAR_ECONNECT
 *     The name does not resolve.
 */
NX_MUST_CHECK nexar_err nx_address_resolve(const char *text, uint16_t port,
                                           struct sockaddr_storage *out, size_t room, size_t *n);

/* Whether it is 0.0.0.0 or ::, which can be bound but not dialled. */
bool nx_address_any(const struct sockaddr_storage *a);

/*
 * Copies the next entry of the comma-separated |*list| to |out| and advances |*list|. False at the
 * end, and for an entry that is empty or longer than |room|, which also sets |*bad|.
 */
bool nx_address_list_next(const char **list, char *out, size_t room, bool *bad);

#endif /* NX_ADDRESSES_H */
