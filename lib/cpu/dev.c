#include "base/err.h"
#include "dev/dev.h"

#include <stdlib.h>
#include <string.h>

#include "cpu/kern.h"

int mf_dev_find(struct mf_dev *dev, const char *name, enum mf_precision precision, struct mf_err *err)
{
    *dev = (struct mf_dev){0};
    if (!mf_kern_is_known())
        return mf_err_set(err, MF_EUSAGE, "MF_CPU=%.40s: there are base, avx2, avx512 and avx512_bf16; or unset it",
                          getenv("MF_CPU"));
    if (!strcmp(name, "cpu"))
        *dev = (struct mf_dev){mf_fasts, mf_products(precision == MF_BF16)};
    else if (!strncmp(name, "cuda", 4) && (name[4] == ':' || !name[4]))
        return mf_err_set(err, MF_EUSAGE, "device=%s: this build carries no CUDA device; take device=cpu", name);
    else if (strcmp(name, "ref"))
        return mf_err_set(err, MF_EUSAGE, "there is no device '%s'; there are cpu and ref", name);
    if (precision == MF_BF16 && !dev->products)
        return mf_err_set(err, MF_EUSAGE, "precision=bf16: only the cpu device has it, not %s; take precision=fp32",
                          name);
    return 0;
}
