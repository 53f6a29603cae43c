/* NVML's part of the usage of a GPU: a library of ours takes its place, one made with the compiler of the build. */
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <string>
#include <unistd.h>

#include "cuda/nvml.h"

#include "../unit/tap.h"

static const char stand_in[] = R"(
#include <string.h>
struct rates { unsigned gpu, memory; };
static int open_times;
int nvmlInit_v2(void) { return open_times ? 1 : open_times++; }
int nvmlShutdown(void) { return --open_times; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *pci, void **device)
{
    static char gpu[2];
    *device = gpu + !strcmp(pci, "0000:1B:00.0");
    return open_times != 1 || strncmp(pci, "0000:1", 6);
}
int nvmlDeviceGetUtilizationRates(void *device, struct rates *r)
{
    void *first;
    r->gpu = 87, r->memory = 12;
    return nvmlDeviceGetHandleByPciBusId_v2("0000:1B:00.0", &first) || device != first ? 3 : 0;
}
)";

/* A library of that name which is loaded already is the one that dlopen finds. */
static void *load(const std::string &folder)
{
    std::string source = folder + "/nvml.c", library = folder + "/nvml.so";
    FILE *f = fopen(source.c_str(), "w");
    if (!f || fputs(stand_in, f) < 0 || fclose(f))
        return NULL;
    if (system(("cc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o " + library + " " + source).c_str()))
        return NULL;
    void *loaded = dlopen(library.c_str(), RTLD_NOW);
    unlink(source.c_str());
    unlink(library.c_str());
    return loaded;
}

int main(void)
{
    char folder[] = "/tmp/test_nvml.XXXXXX";
    setenv("CUEMU_DEVICES", "2", 1);
    ok(mf_nvml_utilisation(NULL, 0) < 0, "without NVML nothing is known");
    mf_nvml_close(NULL);
    if (!mkdtemp(folder) || !load(folder)) {
        printf("Bail out! no library in place of NVML\n");
        return 1;
    }
    rmdir(folder);
    struct mf_nvml *n = mf_nvml_open();
    ok(n && mf_nvml_utilisation(n, 0) == 87, "a GPU is found by its address on the bus");
    ok(n && mf_nvml_utilisation(n, 1) < 0, "what NVML does not answer is unknown");
    ok(n && mf_nvml_utilisation(n, 7) < 0, "a GPU that is not there");
    ok(!mf_nvml_open(), "one that does not start is none");
    mf_nvml_close(n);
    n = mf_nvml_open();
    ok(n != NULL, "closed, and opened again");
    mf_nvml_close(n);
    return done();
}
