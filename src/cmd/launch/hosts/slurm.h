/* slurm.h - the hosts of an allocation of Slurm, in the environment of salloc and sbatch. */
#ifndef NX_SLURM_H
#define NX_SLURM_H

#include <stdbool.h>

#include "host_list.h"

/*
 * Whether this process is in an allocation and in none of its steps: in a step srun has started
 * it, and it is one of several.  False too for an allocation whose only node is this machine.
 */
bool nx_slurm_allocated(void);

/*
 * The nodes of the allocation, with as many slots as it has tasks there; if |n| is more than
 * that, as many as it has CPUs there.  Runs scontrol.
 *
 * NEXAR_EINVAL
 *     Variables of Slurm are missing or malformed: the sentence names them.
 * NEXAR_ESYS, NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_slurm_hosts(nx_host_list *list, uint64_t n);

/* The numbers in "4(x2),3" as 4, 4, 3: the first |room| into |out|; |*n| is how many there are.
 * False: malformed. */
bool nx_slurm_counts(const char *text, uint32_t *out, size_t room, size_t *n);

#endif /* NX_SLURM_H */
