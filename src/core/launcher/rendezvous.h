/*
 * rendezvous.h - from the settings and the launcher's variables to the cluster that a process
 * joins, or to a world of one.
 *
 * If the launcher has a channel (channel.h) and no setting names a cluster, rank 0 runs the seed
 * inside its process.  It publishes the join string; the others read it there.
 */
#ifndef NX_RENDEZVOUS_H
#define NX_RENDEZVOUS_H

#include <stdbool.h>

#include "core/config/config.h"

typedef struct nx_rendezvous nx_rendezvous;

/*
 * On success `join`, `rank` and `world_size` of |cfg| are complete: `join` names the cluster by a
 * join string, or is empty for a world of one.  |*out| must live until the world has ended, NULL if
 * not needed; free it with nx_rendezvous_end().  Blocks, up to formation_timeout for a join file
 * and as long for the calls of the other processes.
 *
 * NEXAR_EINVAL
 *     A launcher or a setting says that this process is one of several, and there is no cluster to
 *     join: the message names the variable and the ways to name a cluster.  Contradictory settings.
 * NEXAR_EAUTH
 *     A join file or token file belongs to another user, or others may access it.
 * NEXAR_ETIMEDOUT
 *     The join file did not appear, or not all processes of the launcher have called.
 * NEXAR_EPROTO, NEXAR_ESYS, NEXAR_ENOMEM and those of nx_seed_create()
 */
NX_MUST_CHECK nexar_err nx_rendezvous_start(nexar_config *cfg, nx_rendezvous **out);

/* Whether nx_rendezvous_start would look for others: a cluster is named, or the launcher says that
 * this process is one of several. */
bool nx_rendezvous_is_due(const nexar_config *cfg);

/* The launcher that brought the processes together, "mpirun of Open MPI (OMPI_COMM_WORLD_RANK=2,
 * PMIx)". */
const char *nx_rendezvous_name(const nx_rendezvous *r);

/* Stops the seed, if it runs here, and closes the channel.  NULL is allowed. */
void nx_rendezvous_end(nx_rendezvous *r);

#endif /* NX_RENDEZVOUS_H */
