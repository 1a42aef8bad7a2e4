/* slurm.h - the hosts of an allocation of Slurm, in the environment of salloc and sbatch. */
#ifndef NX_SLURM_H
#define NX_SLURM_H

#include <stdbool.h>

#include "host_list.h"

/*
 * Whether this process is in an allocation and in none of its steps: in a step, srun has started
 * this process as one of several. Also false if this machine is the only node of the allocation.
 */
bool nx_slurm_allocated(void);

/*
 * The nodes of the allocation. The slots of a node are its tasks, or its CPUs if |n| exceeds the
 * number of tasks. Runs scontrol.
 *
 * NEXAR_EINVAL
 *     Variables of Slurm are missing or malformed: the message names them.
 * NEXAR_ESYS, NEXAR_ENOMEM
 */
NX_MUST_CHECK nexar_err nx_slurm_hosts(nx_host_list *list, uint64_t n);

/* The numbers in "4(x2),3" as 4, 4, 3: stores the first |room| in |out| and their total number
 * in |*n|. False: malformed. */
bool nx_slurm_counts(const char *text, uint32_t *out, size_t room, size_t *n);

#endif /* NX_SLURM_H */
