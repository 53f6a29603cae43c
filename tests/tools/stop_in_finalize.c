/* stop_in_finalize - rank 1 of Open MPI's mpirun stops where all leave. Preloaded. */
#include <signal.h>
#include <stdlib.h>

int PMPI_Finalize(void);
int MPI_Finalize(void);

int MPI_Finalize(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (rank && *rank == '1')
        raise(SIGSTOP);
    return PMPI_Finalize();
}
