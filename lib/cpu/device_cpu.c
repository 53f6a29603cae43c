/* device_cpu.c - this processor: own kernels as wide as it is, plain loops where little time goes. */
#include "cpu/device.h"
#include "cpu/kern.h"

static int open_cpu(struct mf_dev **d, const char *which, struct mf_workers *workers, enum mf_precision precision,
                    struct mf_err *err)
{
    return mf_cpu_open(d, which, workers, "cpu", mf_fasts, mf_products(precision == MF_BF16), err);
}

const struct mf_device mf_device_cpu = {.name = "cpu", .open = open_cpu, MF_CPU_VERBS};
