/*
 * local_seed.h - the seed of ranks that nexar_init_local has created: it stays until the last of
 * them has finalized, so that their world can grow.
 */
#ifndef NX_LOCAL_SEED_H
#define NX_LOCAL_SEED_H

#include "cluster/seed/seed.h"

typedef struct nx_local_seed nx_local_seed;

/* A seed for |n| ranks, held once.  NEXAR_ENOMEM, NEXAR_ESYS, NEXAR_EINVAL. */
NX_MUST_CHECK nexar_err nx_local_seed_create(nx_local_seed **out, uint32_t n,
                                             uint64_t formation_timeout_ns);
NX_MUST_CHECK nexar_err nx_local_seed_join_text(const nx_local_seed *s, char *buf, size_t size);
/* One more rank needs it; one less, which may end it.  NULL is left alone.  Any thread, without a
 * lock. */
nx_local_seed *nx_local_seed_hold(nx_local_seed *s);
void nx_local_seed_release(nx_local_seed *s);

#endif /* NX_LOCAL_SEED_H */
