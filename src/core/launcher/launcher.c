/* launcher.c - the table of launchers. */
#include "core/launcher/launcher.h"

#include <stddef.h>
#include <stdint.h>

#include "base/text/text.h"
#include "core/config/environment.h"

/*
 * srun numbers the tasks of a step.  A script of sbatch and a shell of salloc also have a
 * SLURM_PROCID, which is 0, and their children inherit it.  Such processes have no step, or a step
 * with a number that Slurm reserves, from the shell's number on.
 */
static bool is_task_of_slurm(void)
{
    static const uint64_t first_reserved = UINT64_C(0xfffffffa);
    const char *step = nx_environment("SLURM_STEP_ID");
    uint64_t number;

    if (step == NULL) {
        return nx_environment("SLURM_JOB_ID") == NULL;
    }
    return nx_parse_uint(step, &number) && (number < first_reserved);
}

/* RANK alone says nothing: other programs use that name. */
static bool is_of_torch(void)
{
    return nx_environment("WORLD_SIZE") != NULL;
}

#define TORCH_REMEDY \
    "torchrun carries no join string: start `nexar seed --world N --join-file PATH` first"

/*
 * The innermost launcher comes first: srun or mpirun starts torchrun, not the reverse, and srun
 * starts mpirun.  A process has the variables of all its launchers.
 */
static const nx_launcher launchers[] = {
    {.name = "torchrun",
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .with = "TORCHELASTIC_RUN_ID",
     .counts = is_of_torch,
     .remedy = TORCH_REMEDY},
    {.name = "mpirun of Open MPI",
     .rank = "OMPI_COMM_WORLD_RANK",
     .size = "OMPI_COMM_WORLD_SIZE",
     .channel = NX_CHANNEL_PMIX,
     .channel_variable = "PMIX_NAMESPACE",
     .remedy = "this mpirun offers no PMIx: use that of Open MPI 4 or later"},
    {.name = "a launcher with PMI",
     .rank = "PMI_RANK",
     .size = "PMI_SIZE",
     .channel = NX_CHANNEL_PMI,
     .channel_variable = "PMI_FD",
     .remedy = "this launcher offers no PMI_FD: use `mpirun` of MPICH or `srun --mpi=pmi2`"},
    {.name = "a launcher with PMIx",
     .rank = "PMIX_RANK",
     .channel = NX_CHANNEL_PMIX,
     .channel_variable = "PMIX_NAMESPACE",
     .remedy = "PMIX_NAMESPACE is not set: use `srun --mpi=pmix` or `mpirun`"},
    {.name = "a launcher of torch.distributed",
     .rank = "RANK",
     .size = "WORLD_SIZE",
     .with = "MASTER_ADDR",
     .counts = is_of_torch,
     .remedy = TORCH_REMEDY},
    {.name = "srun of Slurm",
     .rank = "SLURM_PROCID",
     .size = "SLURM_NTASKS",
     .counts = is_task_of_slurm,
     .remedy = "start it by `srun --mpi=pmix` (or pmi2), or by `nexar run`"},
    {.name = "an indexed Job of Kubernetes",
     .rank = "JOB_COMPLETION_INDEX",
     .remedy = "Kubernetes carries no join string: run `nexar seed` in a Pod with a Service"},
};

static bool row_counts(const nx_launcher *l)
{
    return (nx_environment(l->rank) != NULL) &&
           ((l->with == NULL) || (nx_environment(l->with) != NULL)) &&
           ((l->counts == NULL) || l->counts());
}

const nx_launcher *nx_launcher_find(void)
{
    for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
        if (row_counts(&launchers[i])) {
            return &launchers[i];
        }
    }
    return NULL;
}

nx_channel_kind nx_launcher_channel(const nx_launcher *by)
{
    return ((by->channel_variable != NULL) && (nx_environment(by->channel_variable) != NULL))
               ? by->channel
               : NX_CHANNEL_NONE;
}
