/* join_string.c - join strings and the proof of their token. */
#include "cluster/join/join_string.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <string.h>

#include "cluster/addresses.h"

#define SCHEME "nexar://"
#define QUERY  "pin="

/* 32 bytes in base64url without padding. */
enum { SECRET_SIZE = 32, SECRET_TEXT = 43 };

static const char digits64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* The value of a digit; 64 if |c| is no digit.  The scan has the same length for every digit, since
 * the digit may belong to the token. */
static unsigned digit_value(char c)
{
    unsigned value = 64;

    for (unsigned i = 0; i < 64; i++) {
        const unsigned differ = (unsigned)((unsigned char)c ^ (unsigned char)digits64[i]);
        const unsigned mask = (differ - 1) >> 8; /* all ones if they are equal */

        value ^= (value ^ i) & mask;
    }
    return value;
}

static bool decode_secret(const char *text, size_t len, uint8_t out[SECRET_SIZE])
{
    uint32_t held = 0;
    unsigned bits = 0;
    size_t n = 0;

    if (len != SECRET_TEXT) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        const unsigned value = digit_value(text[i]);

        if (value == 64) {
            return false;
        }
        held = (held << 6) | value;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out[n++] = (uint8_t)(held >> bits);
        }
    }
    /* Two bits are left over.  They must be zero, so that each value has a unique encoding. */
    return (held & 3) == 0;
}

static void encode_secret(const uint8_t in[SECRET_SIZE], char out[SECRET_TEXT + 1])
{
    uint32_t held = 0;
    unsigned bits = 0;
    size_t n = 0;

    for (size_t i = 0; i < SECRET_SIZE; i++) {
        held = (held << 8) | in[i];
        bits += 8;
        while (bits >= 6) {
            bits -= 6;
            out[n++] = digits64[(held >> bits) & 63];
        }
    }
    out[n++] = digits64[(held << (6 - bits)) & 63];
    out[n] = '\0';
}

static nexar_err wrong(const char *part)
{
    return nx_fail(NEXAR_EINVAL,
                   "the join string is wrong: %s; accepted is what the seed prints, "
                   "nexar://TOKEN@host:port/?pin=PIN (several host:port by comma)",
                   part);
}

static nexar_err parse_addresses(const char *hosts, nx_join_string *out)
{
    const char *at = hosts;
    char entry[NX_ADDRESS_NAME_MAX];
    nexar_err err = NEXAR_OK;
    bool bad;

    out->naddresses = 0;
    while (nx_address_list_next(&at, entry, sizeof(entry), &bad)) {
        const size_t room = NX_SEED_ADDRESSES_MAX - out->naddresses;
        struct sockaddr_storage *first = &out->addresses[out->naddresses];
        size_t n = 0;
        nexar_err one;

        if (room == 0) {
            return wrong("it has more than 8 addresses");
        }
        one = nx_address_resolve(entry, 0, first, room, &n);
        if (one == NEXAR_EINVAL) {
            return one;
        }
        if ((n > 0) && ((nx_address_port(first) == 0) || nx_address_any(first))) {
            return wrong("an address has no port, or cannot be connected to");
        }
        out->naddresses += n;
        err = (err == NEXAR_OK) ? one : err;
    }
    if (bad) {
        return wrong("an address is empty or too long");
    }
    return (out->naddresses > 0) ? NEXAR_OK : err;
}

/* |text| is the caller's copy and is modified. */
static nexar_err parse_parts(char *text, nx_join_string *out)
{
    char *token = text + strlen(SCHEME), *hosts, *query;

    if (strncmp(text, SCHEME, strlen(SCHEME)) != 0) {
        return wrong("it does not begin with nexar://");
    }
    /* The last @: no byte after it belongs to the token, so that part may be printed. */
    hosts = strrchr(token, '@');
    if (hosts == NULL) {
        return wrong("it has no token (TOKEN@), and token_file (NEXAR_TOKEN_FILE) names none");
    }
    if (!decode_secret(token, (size_t)(hosts - token), out->token.bytes)) {
        return wrong("the token is not 43 characters of A-Z a-z 0-9 - _");
    }
    *hosts++ = '\0';
    query = strchr(hosts, '?');
    if ((query == NULL) || (strncmp(query + 1, QUERY, strlen(QUERY)) != 0)) {
        return wrong("there is no ?pin= behind the addresses");
    }
    if (strstr(hosts, token) != NULL) {
        return wrong("the token stands where an address or the pin should");
    }
    *query = '\0';
    query += 1 + strlen(QUERY);
    if (!decode_secret(query, strlen(query), out->pin.bytes)) {
        return wrong("the pin is not 43 characters of A-Z a-z 0-9 - _");
    }
    if ((*hosts != '\0') && (hosts[strlen(hosts) - 1] == '/')) {
        hosts[strlen(hosts) - 1] = '\0';
    }
    if (*hosts == '\0') {
        return wrong("there is no address");
    }
    return parse_addresses(hosts, out);
}

nexar_err nx_join_string_parse(const char *text, nx_join_string *out)
{
    nx_join_string parsed = {0};
    char copy[NX_JOIN_STRING_MAX];
    nexar_err err;

    if (strlen(text) >= sizeof(copy)) {
        return wrong("it is longer than 1023 characters");
    }
    memcpy(copy, text, strlen(text) + 1);
    err = parse_parts(copy, &parsed);
    if (err == NEXAR_OK) {
        *out = parsed;
    }
    explicit_bzero(copy, sizeof(copy));
    explicit_bzero(&parsed, sizeof(parsed));
    return err;
}

bool nx_token_parse(const char *text, nx_token *out)
{
    return decode_secret(text, strlen(text), out->bytes);
}

/* A text under construction in the caller's memory. */
typedef struct builder {
    char *buf;
    size_t len, size;
    bool full;
} builder;

static void add(builder *b, const char *text)
{
    const size_t len = strlen(text);

    if (b->full || (len >= b->size - b->len)) {
        b->full = true;
        return;
    }
    memcpy(b->buf + b->len, text, len + 1);
    b->len += len;
}

nexar_err nx_join_string_format(const nx_join_string *j, char *buf, size_t size)
{
    builder b = {.buf = buf, .size = size, .full = (size == 0)};
    char secret[SECRET_TEXT + 1], address[NX_ADDRESS_TEXT];

    encode_secret(j->token.bytes, secret);
    add(&b, SCHEME);
    add(&b, j->bare ? "" : secret);
    explicit_bzero(secret, sizeof(secret));
    for (size_t i = 0; i < j->naddresses; i++) {
        add(&b, (i > 0) ? "," : j->bare ? "" : "@");
        add(&b, nx_address_text(&j->addresses[i], address));
    }
    encode_secret(j->pin.bytes, secret);
    add(&b, "/?" QUERY);
    add(&b, secret);
    if (b.full) {
        explicit_bzero(buf, size);
        return nx_fail(NEXAR_ETRUNC, "%zu bytes are too few for the join string", size);
    }
    return NEXAR_OK;
}

nexar_err nx_join_proof(const nx_token *token, const uint8_t exporter[32], const void *csr,
                        size_t csr_len, uint8_t proof[32])
{
    static const char label[] = "nexar join 1";
    gnutls_hmac_hd_t h;
    int code = gnutls_hmac_init(&h, GNUTLS_MAC_SHA256, token->bytes, sizeof(token->bytes));

    if (code != 0) {
        return nx_fail(NEXAR_EINTERNAL, "gnutls_hmac_init: %s", gnutls_strerror(code));
    }
    code = gnutls_hmac(h, label, sizeof(label) - 1);
    code = (code == 0) ? gnutls_hmac(h, exporter, 32) : code;
    code = (code == 0) ? gnutls_hmac(h, csr, csr_len) : code;
    gnutls_hmac_deinit(h, proof);
    return (code == 0) ? NEXAR_OK
                       : nx_fail(NEXAR_EINTERNAL, "gnutls_hmac: %s", gnutls_strerror(code));
}

bool nx_join_proof_equal(const uint8_t a[32], const uint8_t b[32])
{
    return gnutls_memcmp(a, b, 32) == 0;
}
