/* Which GPUs a process opens. */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

#include "cuda/cuda.h"

extern "C" {
#include "base/plugin.h"
#include "dev/device.h"
}
#include "../unit/tap.h"

/* The number of the GPU that device=cuda:WHICH opens; -1: none, or several. */
static int opened(const char *which)
{
    const mf_device *cuda = (const mf_device *)mf_plugin.table;
    mf_err err;
    mf_dev *d;
    if (cuda->open(&d, which, NULL, MF_FP32, &err))
        return -1;
    int id = d->n_gpus == 1 ? d->id[0] : -1;
    cuda->close(d);
    return id;
}

int main(int, char **argv)
{
    const char *gpus = getenv("CUEMU_DEVICES");
    if (!gpus || strcmp(gpus, "3")) { /* the emulator reads it before main */
        setenv("CUEMU_DEVICES", "3", 1);
        execv("/proc/self/exe", argv);
    }
    for (const char *name : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"})
        unsetenv(name);
    ok(opened("") == 0 && opened("2") == 2 && opened("3") == -1, "the first GPU, or the one that is named");
    setenv("SLURM_LOCALID", "1", 1);
    ok(opened("") == 1 && opened("2") == 2, "of several processes on a host each takes another one");
    setenv("MPI_LOCALRANKID", "5", 1);
    ok(opened("") == 2, "those beyond the number of GPUs begin again");
    setenv("OMPI_COMM_WORLD_LOCAL_RANK", "0", 1);
    ok(opened("") == 0, "the innermost launcher counts");
    return done();
}
