/* tls_record.c - sealing and opening records, and their keys. */
#include "tls_record.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "transport/quic/crypto/aead.h"

enum { MESSAGE_HEAD = 4, TICKET = 4, KEY_UPDATE = 24 };

/* One direction. */
typedef struct half {
    nx_aead *aead;
    uint8_t secret[NX_RECORD_SECRET], iv[NX_AEAD_NONCE];
    uint64_t number; /* of the next record under this key */
} half;

struct nx_tls_record {
    half rx, tx;
    size_t secret_len, key_len;
    bool answer_due; /* the peer has asked for a KeyUpdate */

    /* The head of the handshake message in progress. */
    uint8_t head[MESSAGE_HEAD];
    size_t head_len, body_left;
};

/* ---- keys ------------------------------------------------------------------------------- */

/* RFC 8446, 7.1: HKDF-Expand-Label without a context. */
static bool expand(const nx_tls_record *r, const uint8_t *secret, const char *label, uint8_t *out,
                   size_t len)
{
    char name[28];
    const size_t n = (size_t)snprintf(name, sizeof(name), "tls13 %s", label);
    uint8_t info[32] = {0, (uint8_t)len, (uint8_t)n};
    const gnutls_datum_t key = {.data = (unsigned char *)secret,
                                .size = (unsigned int)r->secret_len},
                         about = {.data = info, .size = (unsigned int)(3 + n + 1)};

    memcpy(info + 3, name, n); /* then the length of the context: 0 */
    return gnutls_hkdf_expand((r->secret_len == 32) ? GNUTLS_MAC_SHA256 : GNUTLS_MAC_SHA384, &key,
                              &about, out, len) == 0;
}

/* Derives the key of |h| from its secret. */
static nexar_err set_key(const nx_tls_record *r, half *h)
{
    uint8_t key[32];
    nx_aead *aead = NULL;
    bool made = expand(r, h->secret, "key", key, r->key_len) &&
                expand(r, h->secret, "iv", h->iv, sizeof(h->iv));

    if (made) {
        aead = nx_aead_create(key, r->key_len);
    }
    explicit_bzero(key, sizeof(key));
    if (aead == NULL) {
        return made ? NEXAR_ENOMEM : NEXAR_EINTERNAL;
    }
    nx_aead_destroy(h->aead);
    h->aead = aead;
    h->number = 0;
    return NEXAR_OK;
}

static nexar_err next_key(const nx_tls_record *r, half *h)
{
    uint8_t next[NX_RECORD_SECRET];
    nexar_err err = NEXAR_EINTERNAL;

    if (expand(r, h->secret, "traffic upd", next, r->secret_len)) {
        memcpy(h->secret, next, r->secret_len);
        err = set_key(r, h);
    }
    explicit_bzero(next, sizeof(next));
    return err;
}

nexar_err nx_tls_record_create(nx_tls_record **out, const nx_record_secrets *secrets)
{
    nx_tls_record *r = nx_zalloc(sizeof(*r));
    nexar_err err;

    if (r == NULL) {
        return nx_fail_nomem("the keys of a connection");
    }
    r->secret_len = secrets->len;
    r->key_len = secrets->key_len;
    memcpy(r->rx.secret, secrets->rx, secrets->len);
    memcpy(r->tx.secret, secrets->tx, secrets->len);
    err = set_key(r, &r->rx);
    err = (err == NEXAR_OK) ? set_key(r, &r->tx) : err;
    if (err != NEXAR_OK) {
        nx_tls_record_destroy(r);
        return (err == NEXAR_ENOMEM) ? nx_fail_nomem("the keys of a connection")
                                     : nx_fail(err, "the keys of a connection");
    }
    *out = r;
    return NEXAR_OK;
}

void nx_tls_record_destroy(nx_tls_record *r)
{
    if (r != NULL) {
        nx_aead_destroy(r->rx.aead);
        nx_aead_destroy(r->tx.aead);
        explicit_bzero(r, sizeof(*r));
        nx_free(r);
    }
}

/* ---- records ------------------------------------------------------------------------------ */

/* RFC 8446, 5.3. */
static void make_nonce(const half *h, uint8_t nonce[NX_AEAD_NONCE])
{
    memcpy(nonce, h->iv, NX_AEAD_NONCE);
    for (int i = 0; i < 8; i++) {
        nonce[NX_AEAD_NONCE - 1 - i] ^= (uint8_t)(h->number >> (8 * i));
    }
}

size_t nx_tls_record_seal(nx_tls_record *r, nx_record_type type, uint8_t *buf, size_t len)
{
    const size_t sealed = len + 1 + NX_AEAD_TAG;
    uint8_t nonce[NX_AEAD_NONCE];
    const nx_aead_text text = {.nonce = nonce,
                               .head = buf,
                               .head_len = NX_RECORD_HEAD,
                               .in = buf + NX_RECORD_HEAD,
                               .len = len + 1};

    buf[0] = NX_RECORD_DATA; /* whatever the inner type is */
    buf[1] = buf[2] = 3;
    buf[3] = (uint8_t)(sealed >> 8);
    buf[4] = (uint8_t)sealed;
    buf[NX_RECORD_HEAD + len] = (uint8_t)type;
    make_nonce(&r->tx, nonce);
    if ((r->tx.number > NX_RECORD_KEY_MOST) ||
        !nx_aead_seal(r->tx.aead, &text, buf + NX_RECORD_HEAD)) {
        return 0;
    }
    r->tx.number++;
    return NX_RECORD_HEAD + sealed;
}

bool nx_tls_record_update_due(const nx_tls_record *r)
{
    return r->answer_due || (r->tx.number >= NX_RECORD_KEY_MOST) ||
           (nx_aead_used(r->tx.aead) >= NX_AEAD_BLOCKS_MAX / 2);
}

size_t nx_tls_record_update(nx_tls_record *r, bool ask, uint8_t *buf)
{
    /* Some implementations refuse an answer that requests another update. */
    const uint8_t message[] = {KEY_UPDATE, 0, 0, 1, (ask && !r->answer_due) ? 1 : 0};
    size_t len;

    memcpy(buf + NX_RECORD_HEAD, message, sizeof(message));
    len = nx_tls_record_seal(r, NX_RECORD_HANDSHAKE, buf, sizeof(message));
    if ((len == 0) || (next_key(r, &r->tx) != NEXAR_OK)) {
        return 0;
    }
    r->answer_due = false;
    return len;
}

size_t nx_tls_record_length(const uint8_t head[NX_RECORD_HEAD])
{
    const size_t sealed = ((size_t)head[3] << 8) | head[4];

    return ((head[0] == NX_RECORD_DATA) && (head[1] == 3) && (head[2] == 3) &&
            (sealed > NX_AEAD_TAG) && (sealed <= NX_RECORD_MOST - NX_RECORD_HEAD))
               ? NX_RECORD_HEAD + sealed
               : 0;
}

static nexar_err refuse(char why[NX_RECORD_WHY], const char *text)
{
    (void)snprintf(why, NX_RECORD_WHY, "%s", text);
    return NEXAR_EPROTO;
}

/* The body of a KeyUpdate is complete; |last|: its record ends with it, as required, since what
 * follows uses the next key. */
static nexar_err on_key_update(nx_tls_record *r, uint8_t request, bool last,
                               char why[NX_RECORD_WHY])
{
    if ((request > 1) || !last) {
        return refuse(why, "a malformed KeyUpdate");
    }
    r->answer_due = r->answer_due || (request == 1);
    return next_key(r, &r->rx);
}

/* Messages may cross the borders of records. */
static nexar_err take_messages(nx_tls_record *r, const uint8_t *data, size_t len,
                               char why[NX_RECORD_WHY])
{
    nexar_err err = NEXAR_OK;

    if (len == 0) {
        return refuse(why, "an empty record of the handshake");
    }
    for (size_t i = 0; (i < len) && (err == NEXAR_OK); i++) {
        if (r->head_len < MESSAGE_HEAD) {
            r->head[r->head_len++] = data[i];
            if (r->head_len < MESSAGE_HEAD) {
                continue;
            }
            r->body_left = ((size_t)r->head[1] << 16) | ((size_t)r->head[2] << 8) | r->head[3];
            if (((r->head[0] != TICKET) && (r->head[0] != KEY_UPDATE)) || (r->body_left == 0) ||
                ((r->head[0] == KEY_UPDATE) && (r->body_left != 1))) {
                err = refuse(why, "a message of the handshake out of place");
            }
        } else if (--r->body_left == 0) {
            r->head_len = 0;
            if (r->head[0] == KEY_UPDATE) {
                err = on_key_update(r, data[i], i + 1 == len, why);
            }
        }
    }
    return err;
}

nexar_err nx_tls_record_open(nx_tls_record *r, uint8_t *record, size_t len, nx_record_type *type,
                             nx_bytes *data, char why[NX_RECORD_WHY])
{
    uint8_t nonce[NX_AEAD_NONCE], *plain = record + NX_RECORD_HEAD;
    const nx_aead_text text = {.nonce = nonce,
                               .head = record,
                               .head_len = NX_RECORD_HEAD,
                               .in = plain,
                               .len = len - NX_RECORD_HEAD};
    size_t n = len - NX_RECORD_HEAD - NX_AEAD_TAG;

    why[0] = '\0';
    make_nonce(&r->rx, nonce);
    if (!nx_aead_open(r->rx.aead, &text, plain)) {
        return refuse(why, "a record is not what the peer has sealed");
    }
    r->rx.number++;
    while ((n > 0) && (plain[n - 1] == 0)) {
        n--;
    }
    if ((n == 0) || (--n > NX_RECORD_PLAIN)) {
        return refuse(why, "a record without a type, or too long");
    }
    *type = (nx_record_type)plain[n];
    *data = (nx_bytes){.ptr = plain, .len = n};
    if ((r->head_len > 0) && (*type != NX_RECORD_HANDSHAKE)) {
        return refuse(why, "a record between the parts of a message");
    }
    switch (*type) {
    case NX_RECORD_HANDSHAKE:
        data->len = 0;
        return take_messages(r, plain, n, why);
    case NX_RECORD_ALERT:
        return (n == 2) ? NEXAR_OK : refuse(why, "a malformed alert");
    case NX_RECORD_DATA:
        return NEXAR_OK;
    default:
        return refuse(why, "a record of an unknown type");
    }
}

void nx_tls_record_set_sealed(nx_tls_record *r, uint64_t records)
{
    r->tx.number = records;
}
