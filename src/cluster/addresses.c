/* addresses.c - the addresses of this host at which other processes may reach it. */
#include "cluster/addresses.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/containers/vec.h"
#include "base/text/text.h"

/* Kinds of addresses, best first; the last kind is useless to other hosts. */
enum { GLOBAL, PRIVATE, UNIQUE_LOCAL, SELF_ASSIGNED, LOOPBACK, USELESS };

/* The bytes of an address, and their number. */
static const uint8_t *address_bytes(const struct sockaddr_storage *a, size_t *len)
{
    if (a->ss_family == AF_INET) {
        *len = 4;
        return (const uint8_t *)&((const struct sockaddr_in *)(const void *)a)->sin_addr;
    }
    *len = 16;
    return ((const struct sockaddr_in6 *)(const void *)a)->sin6_addr.s6_addr;
}

static int kind_v4(const uint8_t *b)
{
    if ((b[0] == 0) || (b[0] >= 224)) {
        return USELESS;
    }
    if (b[0] == 127) {
        return LOOPBACK;
    }
    if ((b[0] == 169) && (b[1] == 254)) {
        return SELF_ASSIGNED;
    }
    if ((b[0] == 10) || ((b[0] == 172) && ((b[1] & 0xf0) == 16)) ||
        ((b[0] == 192) && (b[1] == 168)) || ((b[0] == 100) && ((b[1] & 0xc0) == 64))) {
        return PRIVATE;
    }
    return GLOBAL;
}

static int kind_v6(const uint8_t *b)
{
    static const uint8_t loopback[16] = {[15] = 1}, none[16];

    if (memcmp(b, loopback, 16) == 0) {
        return LOOPBACK;
    }
    if ((memcmp(b, none, 16) == 0) || (b[0] == 0xff) ||
        ((b[0] == 0xfe) && ((b[1] & 0xc0) == 0x80))) {
        return USELESS; /* link-local needs the peer's interface, which is unknown */
    }
    return ((b[0] & 0xfe) == 0xfc) ? UNIQUE_LOCAL : GLOBAL;
}

static int address_kind(const struct sockaddr_storage *a)
{
    size_t len;
    const uint8_t *b = address_bytes(a, &len);

    return (len == 4) ? kind_v4(b) : kind_v6(b);
}

/* Ethernet, InfiniBand and bonds of them, by the names that Linux assigns. */
static bool is_wired(const char *name)
{
    static const char *const wired[] = {"en", "eth", "ib", "bond"};

    for (size_t i = 0; i < sizeof(wired) / sizeof(wired[0]); i++) {
        if (strncmp(name, wired[i], strlen(wired[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* A smaller number means a better address. */
static int preference(const nx_interface *i)
{
    return address_kind(&i->address) * 2 + (is_wired(i->name) ? 0 : 1);
}

static bool usable(const nx_interface *i)
{
    return i->up && (address_kind(&i->address) != USELESS);
}

/* One entry of the setting `interfaces`: a name, or a network. */
typedef struct pattern {
    char text[NX_ADDRESS_TEXT];
    struct sockaddr_storage network; /* family 0: a name */
    size_t bits;
} pattern;

static nexar_err parse_pattern(pattern *p)
{
    char *slash = strchr(p->text, '/');
    struct in6_addr probe;
    uint64_t bits = 0;
    size_t len;

    p->network.ss_family = 0;
    if ((slash == NULL) && (inet_pton(AF_INET, p->text, &probe) != 1) &&
        (inet_pton(AF_INET6, p->text, &probe) != 1)) {
        return (strlen(p->text) < IF_NAMESIZE)
                   ? NEXAR_OK
                   : nx_fail(NEXAR_EINVAL, "interfaces: \"%s\" is too long for a name", p->text);
    }
    if (slash != NULL) {
        *slash = '\0';
    }
    if ((inet_pton(AF_INET, p->text, &probe) != 1) && (inet_pton(AF_INET6, p->text, &probe) != 1)) {
        return nx_fail(NEXAR_EINVAL,
                       "interfaces: \"%s\" is no address; a network is written "
                       "10.0.0.0/8 or fd00::/8",
                       p->text);
    }
    if (nx_address_parse(p->text, 0, &p->network) != NEXAR_OK) {
        return NEXAR_EINVAL;
    }
    (void)address_bytes(&p->network, &len);
    p->bits = len * 8;
    if (slash != NULL) {
        if (!nx_parse_uint(slash + 1, &bits) || (bits > len * 8)) {
            return nx_fail(NEXAR_EINVAL,
                           "interfaces: %s must be followed by / and a number up "
                           "to %zu",
                           p->text, len * 8);
        }
        *slash = '/';
        p->bits = (size_t)bits;
    }
    return NEXAR_OK;
}

static bool same_bits(const uint8_t *a, const uint8_t *b, size_t bits)
{
    const size_t whole = bits / 8, rest = bits % 8;

    if (memcmp(a, b, whole) != 0) {
        return false;
    }
    return (rest == 0) || ((a[whole] ^ b[whole]) >> (8 - rest) == 0);
}

static bool matches(const pattern *p, const nx_interface *i)
{
    size_t len;
    const uint8_t *mine, *theirs;

    if (p->network.ss_family == 0) {
        return strcmp(p->text, i->name) == 0;
    }
    if (p->network.ss_family != i->address.ss_family) {
        return false;
    }
    mine = address_bytes(&p->network, &len);
    theirs = address_bytes(&i->address, &len);
    return same_bits(mine, theirs, p->bits);
}

static nexar_err no_match(const pattern *p, const nx_interface *list, size_t n)
{
    nx_text there = {0};
    const char *text;
    nexar_err err;

    for (size_t i = 0; i < n; i++) {
        struct sockaddr_storage a = list[i].address;
        char buf[NX_ADDRESS_TEXT];

        if (usable(&list[i])) {
            (void)nx_address_text(&a, buf);
            *strrchr(buf, ':') = '\0'; /* the port */
            nx_text_addf(&there, "%s%s %s", (there.len == 0) ? "" : ", ", list[i].name, buf);
        }
    }
    text = nx_text_str(&there);
    err = nx_fail(NEXAR_EINVAL, "interfaces: \"%s\" matches none of this host's: %s", p->text,
                  (text == NULL) ? "(no memory to list them)" : text);
    nx_text_fini(&there);
    return err;
}

/* Sets |keep[i]| for the addresses that the setting selects. */
static nexar_err apply_setting(const nx_interface *list, size_t n, const char *interfaces,
                               bool *keep)
{
    const char *at = interfaces;
    pattern p;
    bool bad;

    while (nx_address_list_next(&at, p.text, sizeof(p.text), &bad)) {
        bool any = false;
        nexar_err err = parse_pattern(&p);

        if (err != NEXAR_OK) {
            return err;
        }
        for (size_t i = 0; i < n; i++) {
            if (usable(&list[i]) && matches(&p, &list[i])) {
                keep[i] = any = true;
            }
        }
        if (!any) {
            return no_match(&p, list, n);
        }
    }
    return bad ? nx_fail(NEXAR_EINVAL,
                         "interfaces: \"%.80s\" has an entry that is empty or too "
                         "long; accepted is a list such as eth0,10.0.0.0/8,fd00::/8",
                         interfaces)
               : NEXAR_OK;
}

static bool is_empty(const char *setting)
{
    return (setting == NULL) || (*setting == '\0');
}

/* Sorts by one preference after another; each sort is stable, which keeps the kernel's order. */
static size_t by_preference(const nx_interface *list, size_t nlist, const bool *keep, uint16_t port,
                            struct sockaddr_storage *out, size_t room)
{
    size_t count = 0;

    for (int want = 0; want < USELESS * 2; want++) {
        for (size_t i = 0; (i < nlist) && (count < room); i++) {
            if (keep[i] && (preference(&list[i]) == want)) {
                out[count] = list[i].address;
                nx_address_set_port(&out[count++], port);
            }
        }
    }
    return count;
}

nexar_err nx_addresses_select(const nx_interface *list, size_t nlist, const char *interfaces,
                              uint16_t port, struct sockaddr_storage *out, size_t room, size_t *n)
{
    bool *keep = nx_calloc(nlist, sizeof(*keep));
    nexar_err err = NEXAR_OK;

    if (keep == NULL) {
        return nx_fail_nomem("the list of interfaces");
    }
    for (size_t i = 0; i < nlist; i++) {
        keep[i] = is_empty(interfaces) && usable(&list[i]);
    }
    if (!is_empty(interfaces)) {
        err = apply_setting(list, nlist, interfaces, keep);
    }
    if (err == NEXAR_OK) {
        *n = by_preference(list, nlist, keep, port, out, room);
    }
    nx_free(keep);
    return err;
}

static nexar_err advertised(const char *advertise, uint16_t port, struct sockaddr_storage *out,
                            size_t room, size_t *n)
{
    char entry[NX_ADDRESS_NAME_MAX];
    const char *at = advertise;
    size_t count = 0;
    bool bad;

    while (nx_address_list_next(&at, entry, sizeof(entry), &bad)) {
        if (count == room) {
            return nx_fail(NEXAR_EINVAL, "advertise: more than %zu addresses", room);
        }
        if (nx_address_parse(entry, port, &out[count]) != NEXAR_OK) {
            return NEXAR_EINVAL;
        }
        if (nx_address_any(&out[count]) || (nx_address_port(&out[count]) == 0)) {
            return nx_fail(NEXAR_EINVAL, "advertise: \"%.80s\" cannot be connected to", entry);
        }
        count++;
    }
    if (bad) {
        return nx_fail(NEXAR_EINVAL, "advertise: \"%.80s\" has an entry that is empty or too long",
                       advertise);
    }
    *n = count;
    return NEXAR_OK;
}

/* An interface that has just come up is reported as running up to a second after its carrier.
 * <net/if.h> lacks the second flag. */
#define CARRIER (IFF_RUNNING | (1U << 16)) /* IFF_LOWER_UP */

/* Converts the kernel's list; |*out| is the caller's. */
static nexar_err read_interfaces(nx_interface **out, size_t *n)
{
    struct ifaddrs *all = NULL;
    nx_interface *list = NULL;
    size_t room = 0, count = 0;

    if (getifaddrs(&all) != 0) {
        return nx_fail_sys("getifaddrs", "", errno);
    }
    for (const struct ifaddrs *at = all; at != NULL; at = at->ifa_next) {
        const int family = (at->ifa_addr == NULL) ? 0 : at->ifa_addr->sa_family;
        nx_interface *grown;

        if ((family != AF_INET) && (family != AF_INET6)) {
            continue;
        }
        grown = nx_vec_grow(list, &room, count + 1, sizeof(*list));
        if (grown == NULL) {
            nx_free(list);
            freeifaddrs(all);
            return nx_fail_nomem("the list of interfaces");
        }
        list = grown;
        list[count] = (nx_interface){.up = ((at->ifa_flags & IFF_UP) != 0) &&
                                           ((at->ifa_flags & CARRIER) != 0)};
        (void)snprintf(list[count].name, sizeof(list[count].name), "%s", at->ifa_name);
        memcpy(&list[count].address, at->ifa_addr,
               (family == AF_INET) ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6));
        count++;
    }
    freeifaddrs(all);
    *out = list;
    *n = count;
    return NEXAR_OK;
}

nexar_err nx_addresses_find(const char *interfaces, const char *advertise, uint16_t port,
                            struct sockaddr_storage *out, size_t room, size_t *n)
{
    nx_interface *list = NULL;
    size_t nlist = 0;
    nexar_err err;

    if (!is_empty(advertise)) {
        return advertised(advertise, port, out, room, n);
    }
    err = read_interfaces(&list, &nlist);
    if (err != NEXAR_OK) {
        return err;
    }
    err = nx_addresses_select(list, nlist, interfaces, port, out, room, n);
    nx_free(list);
    return err;
}
