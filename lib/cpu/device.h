/* device.h - functions that the devices "cpu" and "ref" share: one executor, and memory that is the host's. */
#ifndef MF_CPU_DEVICE_H
#define MF_CPU_DEVICE_H

#include "base/err.h"
#include "cpu/program.h"

/* fast, products: as in struct mf_dev. */
int mf_cpu_open(struct mf_dev **d, const char *which, struct mf_workers *workers, const char *name,
                const struct mf_fast *const *fast, const struct mf_products *products, struct mf_err *err);
void mf_cpu_close(struct mf_dev *d);
float *mf_cpu_take(struct mf_dev *d, float *host, size_t floats, const char *what, struct mf_err *err);
void mf_cpu_give(struct mf_dev *d, float *p, float *host, size_t floats);
int mf_cpu_copy(struct mf_dev *d, float *to, const float *from, size_t floats, struct mf_err *err);
int mf_cpu_hold(struct mf_dev *d, const float *base, size_t floats, struct mf_err *err);
void mf_cpu_let_go(struct mf_dev *d, const float *base);
const char *mf_cpu_describe(const struct mf_dev *d);
int mf_cpu_usage(const struct mf_dev *d, struct mf_device_usage *u);

/* The table of such a device, but for its name and open. */
#define MF_CPU_FUNCTIONS                                                                                               \
    .ahead = 1, .divides = true, .close = mf_cpu_close, .describe = mf_cpu_describe, .usage = mf_cpu_usage,            \
    .take = mf_cpu_take, .give = mf_cpu_give, .put = mf_cpu_copy, .get = mf_cpu_copy, .copy = mf_cpu_copy,             \
    .hold = mf_cpu_hold, .let_go = mf_cpu_let_go, .samples = mf_cpu_samples, .compile = mf_cpu_compile,                \
    .forget = mf_cpu_forget, .memory = mf_cpu_memory, .set = mf_cpu_set, .start = mf_cpu_start,                        \
    .finish = mf_cpu_finish, .grads = mf_cpu_grads, .ranks = mf_cpu_ranks

#endif
