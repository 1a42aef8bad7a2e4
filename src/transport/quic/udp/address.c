/* address.c - comparing, converting and writing socket addresses. */
#include "address.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

static const struct sockaddr_in *v4(const struct sockaddr_storage *a)
{
    return (const struct sockaddr_in *)a;
}

static const struct sockaddr_in6 *v6(const struct sockaddr_storage *a)
{
    return (const struct sockaddr_in6 *)a;
}

socklen_t nx_address_len(const struct sockaddr_storage *a)
{
    return (a->ss_family == AF_INET6) ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

uint16_t nx_address_port(const struct sockaddr_storage *a)
{
    return ntohs((a->ss_family == AF_INET6) ? v6(a)->sin6_port : v4(a)->sin_port);
}

void nx_address_set_port(struct sockaddr_storage *a, uint16_t port)
{
    if (a->ss_family == AF_INET6) {
        ((struct sockaddr_in6 *)a)->sin6_port = htons(port);
    } else {
        ((struct sockaddr_in *)a)->sin_port = htons(port);
    }
}

bool nx_address_equal(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
    if ((a->ss_family != b->ss_family) || (nx_address_port(a) != nx_address_port(b))) {
        return false;
    }
    if (a->ss_family == AF_INET6) {
        return memcmp(&v6(a)->sin6_addr, &v6(b)->sin6_addr, sizeof(struct in6_addr)) == 0;
    }
    return v4(a)->sin_addr.s_addr == v4(b)->sin_addr.s_addr;
}

bool nx_address_for(const struct sockaddr_storage *a, int family, struct sockaddr_storage *out)
{
    struct sockaddr_storage plain;

    nx_address_plain(a, &plain);
    if (plain.ss_family == family) {
        *out = plain;
        return true;
    }
    if ((plain.ss_family == AF_INET) && (family == AF_INET6)) {
        struct sockaddr_in6 mapped = {.sin6_family = AF_INET6, .sin6_port = v4(&plain)->sin_port};

        mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
        memcpy(&mapped.sin6_addr.s6_addr[12], &v4(&plain)->sin_addr, 4);
        memset(out, 0, sizeof(*out));
        memcpy(out, &mapped, sizeof(mapped));
        return true;
    }
    return false;
}

void nx_address_plain(const struct sockaddr_storage *a, struct sockaddr_storage *out)
{
    if ((a->ss_family == AF_INET6) && IN6_IS_ADDR_V4MAPPED(&v6(a)->sin6_addr)) {
        struct sockaddr_in plain = {.sin_family = AF_INET, .sin_port = v6(a)->sin6_port};

        memcpy(&plain.sin_addr, &v6(a)->sin6_addr.s6_addr[12], 4);
        memset(out, 0, sizeof(*out));
        memcpy(out, &plain, sizeof(plain));
    } else {
        *out = *a;
    }
}

const char *nx_address_text(const struct sockaddr_storage *a, char *buf)
{
    char host[INET6_ADDRSTRLEN] = "?", scope[16] = "";
    struct sockaddr_storage plain;

    nx_address_plain(a, &plain);
    if (plain.ss_family == AF_INET6) {
        (void)inet_ntop(AF_INET6, &v6(&plain)->sin6_addr, host, sizeof(host));
        if (v6(&plain)->sin6_scope_id != 0) {
            (void)snprintf(scope, sizeof(scope), "%%%u", v6(&plain)->sin6_scope_id);
        }
        (void)snprintf(buf, NX_ADDRESS_TEXT, "[%.40s%s]:%u", host, scope, nx_address_port(&plain));
    } else {
        (void)inet_ntop(AF_INET, &v4(&plain)->sin_addr, host, sizeof(host));
        (void)snprintf(buf, NX_ADDRESS_TEXT, "%.40s:%u", host, nx_address_port(&plain));
    }
    return buf;
}

bool nx_address_loopback(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)a;

        return (ntohl(in->sin_addr.s_addr) >> 24) == 127;
    }
    return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}
