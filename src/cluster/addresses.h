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

#include <net/if.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"
#include "transport/quic/udp/address.h" /* nx_address_text, nx_address_port */

enum { NX_ADDRESS_NAME_MAX = 256 };

/*
 * Writes at most |room| addresses with |port| in them, best first; |*n| is how
 * many.  "" or NULL in both settings: no restriction.
 *
 * NEXAR_EINVAL
 *     A malformed entry, or one that matches no address: the sentence names it
 *     and lists the interfaces that there are.
 * NEXAR_ESYS, NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_addresses_find(const char *interfaces, const char *advertise,
                                          uint16_t port, struct sockaddr_storage *out, size_t room,
                                          size_t *n);

/* One address of one interface, as the kernel tells it. */
typedef struct nx_interface {
    char name[IF_NAMESIZE];
    bool up; /* and it has a carrier */
    struct sockaddr_storage address;
} nx_interface;

/* The choice and the order of nx_addresses_find, from |list| instead of the
 * kernel's.  NEXAR_EINVAL as above. */
NX_MUST_CHECK nexar_err nx_addresses_select(const nx_interface *list, size_t nlist,
                                            const char *interfaces, uint16_t port,
                                            struct sockaddr_storage *out, size_t room, size_t *n);

/* "host:port", "1.2.3.4", "[::]:0", "fe80::1": without a port it is |port|.  A
 * name is resolved, which may block; its first address is taken.  NEXAR_EINVAL. */
NX_MUST_CHECK nexar_err nx_address_parse(const char *text, uint16_t port,
                                         struct sockaddr_storage *out);

/*
 * The same for all that a name resolves to, at most |room|; |*n| is how many.
 *
 * NEXAR_EINVAL
 *     Malformed, or a port that is no number.
 * NEXAR_ECONNECT
 *     The name does not resolve.
 */
NX_MUST_CHECK nexar_err nx_address_resolve(const char *text, uint16_t port,
                                           struct sockaddr_storage *out, size_t room, size_t *n);

/* Whether it is 0.0.0.0 or ::, which one can listen on but not dial. */
bool nx_address_any(const struct sockaddr_storage *a);

/*
 * The next entry of the comma-separated |*list|, copied to |out|, and |*list|
 * moved behind it; false at the end, and for one that is empty or does not fit
 * in |room|, with |*bad| set then.
 */
bool nx_address_list_next(const char **list, char *out, size_t room, bool *bad);

#endif /* NX_ADDRESSES_H */
