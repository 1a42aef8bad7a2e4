/* join_source.h - the origin of the join string: a setting, a file, a token file. */
#ifndef NX_JOIN_SOURCE_H
#define NX_JOIN_SOURCE_H

#include "cluster/join/join_string.h"
#include "core/config/config.h"

/*
 * Combines `join`, `join_file` and `token_file` to a join string in `join`.  |*alone|: `join` is
 * "none", the process forms a world of one; then `join` becomes empty, as when no setting names a
 * cluster.  Blocks until a join file exists, up to formation_timeout.
 *
 * NEXAR_EINVAL
 *     Contradictory settings; a file that is not regular, or whose text is neither a join string
 * nor a token. NEXAR_EAUTH
 *     The file belongs to another user, or others may access it.
 * NEXAR_ETIMEDOUT
 *     It does not exist, or is not complete.
 * NEXAR_ESYS, NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_join_source_resolve(nexar_config *cfg, bool *alone);

/* Adds the token of `token_file` to a join string in `join` that has none.  Errors as above. */
NX_MUST_CHECK nexar_err nx_join_source_add_token(nexar_config *cfg);

/* The token in `token_file`; |*given| is false if the setting is empty.  Errors as above. */
NX_MUST_CHECK nexar_err nx_join_source_token(const nexar_config *cfg, nx_token *out, bool *given);

#endif /* NX_JOIN_SOURCE_H */
