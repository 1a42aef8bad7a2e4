/* listen.c - the addresses at which an endpoint listens, and those that it advertises. */
#include "cluster/listen.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/os/sys.h"
#include "base/text/text.h"
#include "cluster/addresses.h"

nexar_err nx_listen_parse(const char *listen, uint16_t port_first, uint16_t port_last,
                          nx_quic_config *config)
{
    uint64_t port = 0;

    config->listen = (struct sockaddr_storage){0};
    config->port_first = port_first;
    config->port_last = port_last;
    if ((listen == NULL) || (*listen == '\0')) {
        return NEXAR_OK;
    }
    if ((listen[0] == ':') && (listen[1] != ':')) {
        if (!nx_parse_uint(listen + 1, &port) || (port > UINT16_MAX)) {
            return nx_fail(NEXAR_EINVAL, "listen: \"%.40s\" has no port up to 65535", listen);
        }
    } else if (nx_address_parse(listen, 0, &config->listen) != NEXAR_OK) {
        return NEXAR_EINVAL;
    } else {
        port = nx_address_port(&config->listen);
    }
    if (port != 0) {
        config->port_first = config->port_last = (uint16_t)port;
    }
    return NEXAR_OK;
}

static bool is_empty(const char *setting)
{
    return (setting == NULL) || (*setting == '\0');
}

nexar_err nx_listen_addresses(const nx_quic_config *config, uint16_t port, const char *interfaces,
                              const char *advertise, struct sockaddr_storage *out, size_t room,
                              size_t *n)
{
    const int family = config->listen.ss_family;
    struct sockaddr_storage all[2 * NX_ADDRESSES_MAX];
    size_t nall = 0, count = 0;
    nexar_err err;

    if (is_empty(advertise) && (family != 0) && !nx_address_any(&config->listen)) {
        /* One address was named: the endpoint listens on no other. */
        out[0] = config->listen;
        nx_address_set_port(&out[0], port);
        *n = 1;
        return NEXAR_OK;
    }
    err = nx_addresses_find(interfaces, advertise, port, all, sizeof(all) / sizeof(all[0]), &nall);
    if (err != NEXAR_OK) {
        return err;
    }
    for (size_t i = 0; (i < nall) && (count < room); i++) {
        if (!is_empty(advertise) || (family == 0) || (family == all[i].ss_family)) {
            out[count++] = all[i];
        }
    }
    if (count == 0) {
        return nx_fail(NEXAR_EINVAL, "no address of this host is up by which others could reach "
                                     "it; `listen`, `interfaces` and `advertise` say which");
    }
    *n = count;
    return NEXAR_OK;
}

/* Without kernel support the result is all 0. */
static bool read_boot_id(uint8_t out[NX_BOOT_ID_SIZE])
{
    char text[64] = "";
    int fd = nx_sys_open("/proc/sys/kernel/random/boot_id", O_RDONLY, 0);
    ssize_t len = (fd < 0) ? 0 : nx_sys_read_all(fd, text, sizeof(text) - 1);
    size_t digits = 0;

    if (fd >= 0) {
        (void)nx_sys_close(fd);
    }
    memset(out, 0, NX_BOOT_ID_SIZE);
    for (ssize_t i = 0; (i < len) && (digits < 2 * NX_BOOT_ID_SIZE); i++) {
        static const char hex[] = "0123456789abcdef";
        const char *digit = (text[i] == '\0') ? NULL : strchr(hex, text[i]);

        if (digit != NULL) {
            out[digits / 2] = (uint8_t)(out[digits / 2] << 4 | (digit - hex));
            digits++;
        }
    }
    return digits == 2 * NX_BOOT_ID_SIZE;
}

/* Mixes |text| into |id|; different texts give different ids, "" leaves |id| unchanged. */
static void mix_in(uint8_t id[NX_BOOT_ID_SIZE], const char *text)
{
    /* FNV-1a, once for each half, of the text in both directions. */
    const size_t len = strlen(text);
    uint64_t hash[2] = {UINT64_C(0xcbf29ce484222325), UINT64_C(0x84222325cbf29ce4)};

    for (size_t i = 0; i < len; i++) {
        hash[0] = (hash[0] ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
        hash[1] = (hash[1] ^ (uint8_t)text[len - 1 - i]) * UINT64_C(0x100000001b3);
    }
    for (size_t i = 0; (i < NX_BOOT_ID_SIZE) && (len > 0); i++) {
        id[i] ^= (uint8_t)(hash[i / 8] >> (8 * (i % 8)));
    }
}

void nx_member_self(nx_member *m, const char *host_id)
{
    char host[NX_HOST_NAME_MAX] = "", network[64] = "";

    nx_process_self(&m->process);
    if (!read_boot_id(m->boot_id)) {
        m->process.space = m->process.started =
            0; /* meaningless if the kernel may be another one */
    }
    /* "net:[4026531840]".  If unavailable, all processes are taken to share one namespace. */
    (void)!readlink("/proc/self/ns/net", network, sizeof(network) - 1);
    mix_in(m->boot_id, network);
    mix_in(m->boot_id, (host_id == NULL) ? "" : host_id);
    /* A name that is too long is cut; it is for people only. */
    (void)gethostname(host, sizeof(host) - 1);
    for (char *at = host; *at != '\0'; at++) {
        if ((*at <= 0x20) || (*at > 0x7e)) {
            *at = '?';
        }
    }
    (void)snprintf(m->host, sizeof(m->host), "%s", (host[0] == '\0') ? "?" : host);
}
