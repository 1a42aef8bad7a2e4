/*
 * alpn_fuzz.c - the protocol names that an unauthenticated client offers: any bytes as a client
 * hello, and as its ALPN extension.  The recorded text is one line, and contains the offered name.
 *
 * Input: a byte; if its lowest bit is set the rest is the extension, otherwise a hello as GnuTLS
 * passes it on, without its headers.
 */
#include <gnutls/gnutls.h>
#include <string.h>

#include "fuzz.h"
#include "transport/quic/crypto/tls_verify.h"

/* Offset of the first name in the extension, after the length of the list and of the name; and a
 * length that no name exceeds. */
enum { NAME = 3, MOST = 300 };

static void check_text(const char *text, size_t room)
{
    nxt_must(memchr(text, '\0', room) != NULL);
    for (; *text != '\0'; text++) {
        nxt_must((*text > ' ') && (*text <= '~'));
    }
}

static void try_extension(const uint8_t *data, size_t size)
{
    const bool there = (size > NAME) && (data[NAME - 1] > 0) && (data[NAME - 1] <= size - NAME);

    for (size_t room = 1; room <= MOST; room += 23) {
        char text[MOST + 1] = "";
        size_t len;

        text[room] = '!';
        nx_tls_first_protocol(data, size, text, room);
        nxt_must(text[room] == '!');
        check_text(text, room);
        len = strlen(text);
        nxt_must(len == (!there ? 0 : (data[NAME - 1] < room) ? data[NAME - 1] : room - 1));
        for (size_t i = 0; i < len; i++) {
            nxt_must((text[i] == (char)data[NAME + i]) || (text[i] == '?'));
        }
    }
}

static void try_hello(const uint8_t *data, size_t size)
{
    static gnutls_session_t session; /* kept: only its pointer is used */
    static nx_tls_session s;
    const gnutls_datum_t hello = {.data = (void *)data, .size = (unsigned int)size};
    int rv;

    if (session == NULL) {
        nxt_must(gnutls_init(&session, GNUTLS_SERVER) == 0);
        gnutls_session_set_ptr(session, &s.ref);
    }
    memset(s.offered, 0, sizeof(s.offered));
    rv = nx_tls_on_client_hello(session, GNUTLS_HANDSHAKE_CLIENT_HELLO, GNUTLS_HOOK_PRE, 1, &hello);
    check_text(s.offered, sizeof(s.offered));
    nxt_must((rv == 0) == (s.offered[0] != '\0'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) {
        return 0;
    }
    if ((data[0] & 1) != 0) {
        try_extension(data + 1, size - 1);
    } else {
        try_hello(data + 1, size - 1);
    }
    return 0;
}
