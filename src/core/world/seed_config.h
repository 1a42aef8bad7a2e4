/* seed_config.h - a seed's configuration, from the settings. */
#ifndef NX_SEED_CONFIG_H
#define NX_SEED_CONFIG_H

#include "cluster/seed/seed.h"
#include "core/config/config.h"

/* Texts in |*out| are borrowed from |cfg|; the caller wipes its token.
 *
 * NEXAR_EINVAL
 *     No world size, or one that is not between min_world and max_world.
 * NEXAR_EINVAL, NEXAR_EAUTH, NEXAR_ETIMEDOUT, NEXAR_ESYS
 *     The file of `token_file`, as nx_join_source_token(). */
NX_MUST_CHECK nexar_err nx_seed_config_from(const nexar_config *cfg, nx_seed_config *out);

#endif /* NX_SEED_CONFIG_H */
