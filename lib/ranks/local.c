/* local.c - which of the processes on this host one is: also for a plugin, which has a copy of this file. */
#include <stdlib.h>

#include "ranks/ranks.h"

/* Open MPI's mpirun; Hydra's, of MPICH and Intel; srun. The innermost launcher that is there numbers its processes. */
int mf_ranks_local(void)
{
    static const char *const names[] = {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"};
    for (int i = 0; i < 3; i++) {
        const char *text = getenv(names[i]);
        if (text && *text)
            return atoi(text) > 0 ? atoi(text) : 0;
    }
    return 0;
}
