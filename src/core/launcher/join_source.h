/* join_source.h - where the join string comes from: a setting, a file, a token file. */
#ifndef NX_JOIN_SOURCE_H
#define NX_JOIN_SOURCE_H

#include "cluster/join/join_string.h"
#include "core/config/config.h"

/*
 * Makes a join string of `join`, `join_file` and `token_file`, and puts it into `join`.  |*alone|:
 * `join` is "none", the process was asked to be a world of one; then `join` is empty, as it is
 * where nothing names a cluster.  Blocks until a join file is there, up to formation_timeout.
 *
 * NEXAR_EINVAL
 *     Settings that contradict each other; a file that is no regular one, or whose text is no
 *     join string or token.
 * NEXAR_EAUTH
 *     The file belongs to another user, or others may use it.
 * NEXAR_ETIMEDOUT
 *     It is not there, or not complete.
 * NEXAR_ESYS, NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_join_source_resolve(nexar_config *cfg, bool *alone);

/* Puts the token of `token_file` into a join string in `join` that has none.  Errors as above. */
NX_MUST_CHECK nexar_err nx_join_source_add_token(nexar_config *cfg);

/* The token in `token_file`; |*given| is false if the setting is empty.  Errors as above. */
NX_MUST_CHECK nexar_err nx_join_source_token(const nexar_config *cfg, nx_token *out, bool *given);

#endif /* NX_JOIN_SOURCE_H */
