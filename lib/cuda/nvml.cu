#include "cuda/nvml.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <cuda_runtime.h>

/* As nvml.h of the driver declares them; this interface does not change. 0 is success. */
typedef struct nvmlDevice_st *nvmlDevice_t;
struct nvmlUtilization_t {
    unsigned gpu, memory; /* percent */
};

struct mf_nvml {
    void *library;
    int (*shutdown)(void);
    int (*find)(const char *pci, nvmlDevice_t *device);
    int (*rates)(nvmlDevice_t device, struct nvmlUtilization_t *rates);
};

template <class F> static bool look_up(void *library, const char *name, F *f)
{
    *f = (F)dlsym(library, name);
    return *f != NULL;
}

struct mf_nvml *mf_nvml_open(void)
{
    struct mf_nvml n;
    int (*init)(void);
    n.library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!n.library)
        return NULL;
    struct mf_nvml *to = (struct mf_nvml *)malloc(sizeof *to);
    if (to && look_up(n.library, "nvmlInit_v2", &init) && look_up(n.library, "nvmlShutdown", &n.shutdown) &&
        look_up(n.library, "nvmlDeviceGetHandleByPciBusId_v2", &n.find) &&
        look_up(n.library, "nvmlDeviceGetUtilizationRates", &n.rates) && init() == 0) {
        *to = n;
        return to;
    }
    free(to);
    dlclose(n.library);
    return NULL;
}

void mf_nvml_close(struct mf_nvml *n)
{
    if (!n)
        return;
    n->shutdown();
    dlclose(n->library);
    free(n);
}

/* NVML numbers GPUs by itself; the runtime may show some of them alone, in another order. So a GPU is found by its
 * address on the bus. */
double mf_nvml_utilisation(const struct mf_nvml *n, int gpu)
{
    char pci[32];
    nvmlDevice_t device;
    struct nvmlUtilization_t rates;
    if (!n || cudaDeviceGetPCIBusId(pci, sizeof pci, gpu) != cudaSuccess || n->find(pci, &device) ||
        n->rates(device, &rates))
        return -1;
    return rates.gpu;
}
