/* describe - opens a device in every precision, and prints what it is.
 *
 *   describe [cuda:0]
 *
 * Exit status 1 where it does not open in fp32; why is printed.
 */
#include <stdio.h>

#include "graph/engine.h"

int main(int argc, char **argv)
{
    static const char *const words[] = {[MF_FP32] = "fp32", [MF_BF16] = "bf16", [MF_TF32] = "tf32"};
    const char *name = argc > 1 ? argv[1] : "cuda:0";
    struct mf_device_usage use = {0};
    struct mf_err err;
    int rc = 0;
    for (int i = 0; i < 3; i++) {
        struct mf_engine *e;
        if (mf_engine_open(&e, name, 0, (enum mf_precision)i, &err)) {
            printf("%s: %s\n", words[i], err.text);
            rc |= i == MF_FP32;
            continue;
        }
        if (i == MF_FP32)
            printf("%s: %s\n", name, e->device->describe(e->dev));
        if (i == MF_FP32 && mf_engine_usage(e, &use))
            printf("%.2f of %.2f GiB in use, utilisation %.0f %%\n", use.used / (1 << 30), use.total / (1 << 30),
                   use.utilisation);
        printf("%s: opens\n", words[i]);
        mf_engine_close(e);
    }
    return rc;
}
