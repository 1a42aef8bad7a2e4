/* address_parse.c - parses addresses in their textual forms. */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>

#include "base/text/text.h"
#include "cluster/addresses.h"

static const struct sockaddr_in *as_v4(const struct sockaddr_storage *a)
{
    return (const struct sockaddr_in *)(const void *)a;
}

static const struct sockaddr_in6 *as_v6(const struct sockaddr_storage *a)
{
    return (const struct sockaddr_in6 *)(const void *)a;
}

bool nx_address_any(const struct sockaddr_storage *a)
{
    if (a->ss_family == AF_INET) {
        return as_v4(a)->sin_addr.s_addr == htonl(INADDR_ANY);
    }
    return IN6_IS_ADDR_UNSPECIFIED(&as_v6(a)->sin6_addr) != 0;
}

bool nx_address_list_next(const char **list, char *out, size_t room, bool *bad)
{
    const char *at = *list;
    size_t len;

    *bad = false;
    if (*at == '\0') {
        return false;
    }
    len = strcspn(at, ",");
    /* A trailing comma announces an entry that is missing. */
    if ((len == 0) || (len >= room) || ((at[len] == ',') && (at[len + 1] == '\0'))) {
        *bad = true;
        return false;
    }
    memcpy(out, at, len);
    out[len] = '\0';
    *list = at + len + (at[len] == ',');
    return true;
}

static nexar_err malformed(const char *text)
{
    return nx_fail(NEXAR_EINVAL,
                   "address \"%.80s\" is malformed; accepted are host, host:port, 192.0.2.7:port, "
                   "[2001:db8::7]:port",
                   text);
}

/* Splits |text| into host and port; |*port| is unchanged if there is none. */
static nexar_err split(const char *text, char host[NX_ADDRESS_NAME_MAX], uint16_t *port)
{
    const char *begin = text, *end, *digits = NULL;
    uint64_t number;

    if (*text == '[') {
        begin = text + 1;
        end = strchr(begin, ']');
        if ((end == NULL) || ((end[1] != '\0') && (end[1] != ':'))) {
            return malformed(text);
        }
        digits = (end[1] == ':') ? end + 2 : NULL;
    } else {
        end = strchr(text, ':');
        if ((end != NULL) && (strchr(end + 1, ':') != NULL)) {
            end = NULL; /* several colons: IPv6 without a port */
        }
        digits = (end != NULL) ? end + 1 : NULL;
        end = (end != NULL) ? end : text + strlen(text);
    }
    if ((end == begin) || ((size_t)(end - begin) >= NX_ADDRESS_NAME_MAX)) {
        return malformed(text);
    }
    if (digits != NULL) {
        if (!nx_parse_uint(digits, &number) || (number > UINT16_MAX)) {
            return nx_fail(NEXAR_EINVAL, "address \"%.80s\": the port must be a number up to 65535",
                           text);
        }
        *port = (uint16_t)number;
    }
    memcpy(host, begin, (size_t)(end - begin));
    host[end - begin] = '\0';
    return NEXAR_OK;
}

static bool parse_numeric(const char *host, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_storage a = {0};

    if (inet_pton(AF_INET, host, &((struct sockaddr_in *)(void *)&a)->sin_addr) == 1) {
        a.ss_family = AF_INET;
    } else if (inet_pton(AF_INET6, host, &((struct sockaddr_in6 *)(void *)&a)->sin6_addr) == 1) {
        a.ss_family = AF_INET6;
    } else {
        return false;
    }
    nx_address_set_port(&a, port);
    *out = a;
    return true;
}

/* The characters of a host name, so that no garbage is sent to a name server. */
static bool is_name(const char *host)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "0123456789-._";

    return (host[strspn(host, letters)] == '\0') && (host[0] != '-') && (host[0] != '.');
}

nexar_err nx_address_resolve(const char *text, uint16_t port, struct sockaddr_storage *out,
                             size_t room, size_t *n)
{
    struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_DGRAM}, *found = NULL;
    char host[NX_ADDRESS_NAME_MAX];
    nexar_err err = split(text, host, &port);
    size_t count = 0;
    int code;

    if (err != NEXAR_OK) {
        return err;
    }
    if (parse_numeric(host, port, out)) {
        *n = 1;
        return NEXAR_OK;
    }
    if ((text[0] == '[') || !is_name(host)) {
        return malformed(text);
    }
    code = getaddrinfo(host, NULL, &hints, &found);
    if (code != 0) {
        return nx_fail(NEXAR_ECONNECT, "host \"%.80s\" does not resolve: %s", host,
                       gai_strerror(code));
    }
    for (const struct addrinfo *at = found; (at != NULL) && (count < room); at = at->ai_next) {
        if ((at->ai_family == AF_INET) || (at->ai_family == AF_INET6)) {
            out[count] = (struct sockaddr_storage){0};
            memcpy(&out[count], at->ai_addr, at->ai_addrlen);
            nx_address_set_port(&out[count], port);
            count++;
        }
    }
    freeaddrinfo(found);
    *n = count;
    return (count > 0) ? NEXAR_OK
                       : nx_fail(NEXAR_ECONNECT, "host \"%.80s\" has no IP address", host);
}

nexar_err nx_address_parse(const char *text, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_storage a;
    size_t n = 0;
    nexar_err err = nx_address_resolve(text, port, &a, 1, &n);

    if (err != NEXAR_OK) {
        return NEXAR_EINVAL;
    }
    *out = a;
    return NEXAR_OK;
}
