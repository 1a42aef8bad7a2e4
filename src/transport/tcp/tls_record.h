/*
 * tls_record.h - the record layer of TLS 1.3 (RFC 8446, 5) with nexar's own AES-GCM.
 *
 * It takes over from GnuTLS when the handshake is done, before the first application record, so
 * both sequence numbers begin at 0. The bytes on the wire are standard: the peer may be any TLS 1.3
 * implementation. No sockets: records are sealed and opened in place.
 *
 * Keys change by KeyUpdate (4.6.3): when the peer asks for it, and before this side has sealed
 * NX_RECORD_KEY_MOST records (5.5) or the AEAD's limit. Other messages after the handshake
 * (tickets) are skipped. Secrets are wiped when they are no longer needed.
 */
#ifndef NX_TLS_RECORD_H
#define NX_TLS_RECORD_H

#include "base/error.h"
#include "transport/transport.h" /* nx_bytes */

enum {
    NX_RECORD_HEAD = 5,
    NX_RECORD_PLAIN = 16384,
    NX_RECORD_EXTRA =
        NX_RECORD_HEAD + 1 + 16, /* bytes of a record beyond the text: head, type, tag */
    NX_RECORD_MOST = NX_RECORD_HEAD + NX_RECORD_PLAIN + 256,
    NX_RECORD_UPDATE = NX_RECORD_EXTRA + 5, /* bytes of a sealed KeyUpdate */
    NX_RECORD_SECRET = 48,
    NX_RECORD_WHY = 96,
};

/* AES-GCM may seal 2^24.5 records with one key. */
#define NX_RECORD_KEY_MOST (UINT64_C(1) << 24)

typedef enum nx_record_type {
    NX_RECORD_ALERT = 21,
    NX_RECORD_HANDSHAKE = 22,
    NX_RECORD_DATA = 23
} nx_record_type;

/* The traffic secrets of the application after a handshake; 32 bytes: SHA-256, 48: SHA-384. */
typedef struct nx_record_secrets {
    uint8_t rx[NX_RECORD_SECRET], tx[NX_RECORD_SECRET];
    size_t len;
    size_t key_len; /* 16 or 32 */
} nx_record_secrets;

typedef struct nx_tls_record nx_tls_record;

/* |secrets| is copied. Requires nx_aead_usable(). NEXAR_ENOMEM, NEXAR_EINTERNAL. */
NX_MUST_CHECK nexar_err nx_tls_record_create(nx_tls_record **out, const nx_record_secrets *secrets);
void nx_tls_record_destroy(nx_tls_record *r); /* NULL is allowed */

/* Seals the |len| bytes at buf + NX_RECORD_HEAD, at most NX_RECORD_PLAIN, in place; |buf| has room
 * for NX_RECORD_EXTRA more. Returns the length of the record at |buf|; 0: the key has reached its
 * limit, or there is no memory for the next key. */
size_t nx_tls_record_seal(nx_tls_record *r, nx_record_type type, uint8_t *buf, size_t len);

/* Whether a KeyUpdate must be sealed before anything else; and seals it to |buf|, of
 * NX_RECORD_UPDATE bytes. Later records use the next key. |ask|: asks the peer to change its key
 * too. Returns the length; 0 as above. */
bool nx_tls_record_update_due(const nx_tls_record *r);
size_t nx_tls_record_update(nx_tls_record *r, bool ask, uint8_t *buf);

/* The length of the record that begins at |head|, of NX_RECORD_HEAD bytes; 0: no valid record. */
size_t nx_tls_record_length(const uint8_t head[NX_RECORD_HEAD]);

/*
 * Opens the complete record of |len| bytes at |record| in place. |*data| is its content. Handshake
 * messages are handled internally: |*data| is empty then.
 *
 * NEXAR_EPROTO The peer has not sealed it, or it breaks the rules; |why| explains.
 * NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_tls_record_open(nx_tls_record *r, uint8_t *record, size_t len,
                                           nx_record_type *type, nx_bytes *data,
                                           char why[NX_RECORD_WHY]);

/* For tests: sets the number of records that this side has sealed with its key. */
void nx_tls_record_set_sealed(nx_tls_record *r, uint64_t records);

#endif /* NX_TLS_RECORD_H */
