/*
 * address.h - converts addresses for the socket.
 *
 * An IPv6 socket that also carries IPv4 uses ::ffff:a.b.c.d for IPv4 addresses; everywhere else
 * they are IPv4.
 */
#ifndef NX_ADDRESS_H
#define NX_ADDRESS_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum { NX_ADDRESS_TEXT = 64 };

socklen_t nx_address_len(const struct sockaddr_storage *a);
bool nx_address_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b);
uint16_t nx_address_port(const struct sockaddr_storage *a);
void nx_address_set_port(struct sockaddr_storage *a, uint16_t port);

/* Converts |a| for a socket of |family|; false: such a socket cannot reach it. */
bool nx_address_for(const struct sockaddr_storage *a, int family, struct sockaddr_storage *out);
/* Converts back: IPv4 as IPv4. */
void nx_address_plain(const struct sockaddr_storage *a, struct sockaddr_storage *out);

/* "10.1.2.3:4567", "[fe80::1%2]:4567"; returns |buf| of NX_ADDRESS_TEXT bytes. */
const char *nx_address_text(const struct sockaddr_storage *a, char *buf);

/* 127.0.0.0/8 or ::1. */
bool nx_address_loopback(const struct sockaddr_storage *a);

#endif /* NX_ADDRESS_H */
