/* device_ref.c - the reference loops of every operation, against which every other device is tested. */
#include "cpu/device.h"

static int open_ref(struct mf_dev **d, const char *which, struct mf_workers *workers, enum mf_precision precision,
                    struct mf_err *err)
{
    if (precision != MF_FP32)
        return mf_err_set(err, MF_EUSAGE, "precision=%s: device=ref computes in fp32 alone; take precision=fp32",
                          precision == MF_BF16 ? "bf16" : "tf32");
    return mf_cpu_open(d, which, workers, "ref", NULL, NULL, err);
}

const struct mf_device mf_device_ref = {.name = "ref", .open = open_ref, MF_CPU_FUNCTIONS};
