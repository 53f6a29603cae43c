/* device.c - opening, and memory, of both devices that compute in the host's memory. */
#include "cpu/device.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cpu/kern.h"

int mf_cpu_open(struct mf_dev **d, const char *which, struct mf_workers *workers, const char *name,
                const struct mf_fast *const *fast, const struct mf_products *products, struct mf_err *err)
{
    if (*which)
        return mf_err_set(err, MF_EUSAGE, "device=%s:%.40s: there is one processor; take device=%s", name, which, name);
    if (!mf_kern_is_known())
        return mf_err_set(err, MF_EUSAGE, "MF_CPU=%.40s: there are base, avx2, avx512 and avx512_bf16; or unset it",
                          getenv("MF_CPU"));
    *d = mf_xcalloc(1, sizeof **d);
    **d = (struct mf_dev){.name = name, .workers = workers, .fast = fast, .products = products};
    return 0;
}

void mf_cpu_close(struct mf_dev *d)
{
    free(d);
}

float *mf_cpu_take(struct mf_dev *d, float *host, size_t floats, const char *what, struct mf_err *err)
{
    (void)d, (void)floats, (void)what, (void)err;
    return host;
}

void mf_cpu_give(struct mf_dev *d, float *p, float *host, size_t floats)
{
    (void)d, (void)p, (void)host, (void)floats;
}

int mf_cpu_copy(struct mf_dev *d, float *to, const float *from, size_t floats, struct mf_err *err)
{
    (void)d, (void)err;
    if (to != from)
        memcpy(to, from, floats * sizeof *to);
    return 0;
}

int mf_cpu_hold(struct mf_dev *d, const float *base, size_t floats, struct mf_err *err)
{
    (void)d, (void)base, (void)floats, (void)err;
    return 0;
}

void mf_cpu_let_go(struct mf_dev *d, const float *base)
{
    (void)d, (void)base;
}

const char *mf_cpu_describe(const struct mf_dev *d)
{
    return d->name;
}

int mf_cpu_usage(const struct mf_dev *d, struct mf_device_usage *u)
{
    (void)d, (void)u;
    return 0;
}
