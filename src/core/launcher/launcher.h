/*
 * launcher.h - programs that start and number processes, and the variables they set.
 */
#ifndef NX_LAUNCHER_H
#define NX_LAUNCHER_H

#include <stdbool.h>

/* The key-value space that a launcher offers to its processes. */
typedef enum nx_channel_kind { NX_CHANNEL_NONE, NX_CHANNEL_PMI, NX_CHANNEL_PMIX } nx_channel_kind;

typedef struct nx_launcher {
    const char *name;             /* "srun of Slurm" */
    const char *rank, *size;      /* variables; size NULL: not provided */
    const char *with;             /* the row counts where this is set as well */
    bool (*counts)(void);         /* and this is true; either may be NULL */
    nx_channel_kind channel;      /* of processes of this row */
    const char *channel_variable; /* set if there is a channel */
    const char *remedy;           /* how to start a job that has one, or a cluster to join */
} nx_launcher;

/* The launcher that has numbered this process, or NULL.  Of several, the innermost. */
const nx_launcher *nx_launcher_find(void);
/* What this process can use of its launcher. */
nx_channel_kind nx_launcher_channel(const nx_launcher *by);

#endif /* NX_LAUNCHER_H */
