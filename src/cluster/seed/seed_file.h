/*
 * seed_file.h - the state of a lasting seed on disk, so that a restarted seed is the same: its key
 * and token, its port, and the view.
 *
 * The file is private (base/os/private_file.h) and always complete. A checksum detects damage. A
 * process that can read it can do all that the seed can: docs/internals/joining.md.
 */
#ifndef NX_SEED_FILE_H
#define NX_SEED_FILE_H

#include "cluster/join/join_string.h"
#include "cluster/seed/seed_state.h"
#include "transport/identity.h"

typedef struct nx_seed_file {
    nx_authority *authority;
    nx_token token;
    uint16_t port;
    uint32_t world_size;
    nx_seed_memory memory;
} nx_seed_file;

/* The bytes of a file: the caller wipes and frees |*bytes|. NEXAR_EINTERNAL, NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_seed_file_encode(const nx_seed_file *f, uint8_t **bytes, size_t *len);
/* Free |*f| with nx_seed_file_fini.  NEXAR_EPROTO: not such a file, or damaged, as the message
 * says; NEXAR_ENOMEM. */
NX_MUST_CHECK nexar_err nx_seed_file_decode(const uint8_t *bytes, size_t len, nx_seed_file *f);

/* Replaces the file at |path|.  NEXAR_EINTERNAL, and as nx_private_file_write. */
NX_MUST_CHECK nexar_err nx_seed_file_write(const char *path, const nx_seed_file *f);

/* |*there| false: there is none, which is no error. As nx_private_file_read; and NEXAR_EPROTO: not
 * the state of a seed, or damaged; the message says what to do. */
NX_MUST_CHECK nexar_err nx_seed_file_read(const char *path, nx_seed_file *f, bool *there);

/* Frees what was read; also of a zeroed one. */
void nx_seed_file_fini(nx_seed_file *f);

#endif /* NX_SEED_FILE_H */
