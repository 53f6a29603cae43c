/* device_cpu.c - this processor: kernels as wide as its vectors, reference loops for operations that take little time.
 */
#include "cpu/device.h"
#include "cpu/kern.h"

static int open_cpu(struct mf_dev **d, const char *which, struct mf_workers *workers, enum mf_precision precision,
                    struct mf_err *err)
{
    if (precision == MF_TF32)
        return mf_err_set(
            err, MF_EUSAGE,
            "precision=tf32: device=cpu computes in fp32 and bf16; take precision=fp32 or precision=bf16");
    return mf_cpu_open(d, which, workers, "cpu", mf_fasts, mf_products(precision == MF_BF16), err);
}

const struct mf_device mf_device_cpu = {.name = "cpu", .open = open_cpu, MF_CPU_FUNCTIONS};
