/* bench.h - what the timed programs share: the peer's file, ReinFlow's Hopper policy, and the way to be asked.
 *
 * A program reads lines "NAME SIZE" on stdin and answers each with the seconds of one turn, and for an update on the
 * cpu the GF/s that the processor's multiply-adds made between the turns; `check` as its second argument makes it write
 * what peer.py compares instead. MF_BENCH_DEVICE is the device, cpu by default.
 */
#ifndef MF_BENCH_H
#define MF_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "flow/policy.h"
#include "graph/engine.h"
#include "run/safetensors.h"
#include "fma.h"

static inline double bench_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static inline void bench_must(int rc, const struct mf_err *err)
{
    if (rc) {
        fprintf(stderr, "bench: error: %s\n", err->text);
        exit(1);
    }
}

static inline const char *bench_device(void)
{
    const char *name = getenv("MF_BENCH_DEVICE");
    return name ? name : "cpu";
}

static inline bool bench_on_cpu(void)
{
    return strcmp(bench_device(), "cpu") == 0;
}

/* precision: a word, or NULL for fp32. */
static inline struct mf_engine *bench_engine(const char *precision)
{
    static const char *const words[] = {[MF_FP32] = "fp32", [MF_BF16] = "bf16", [MF_TF32] = "tf32"};
    struct mf_engine *e;
    struct mf_err err;
    for (int i = 0; i < 3; i++)
        if (strcmp(precision ? precision : "fp32", words[i]) == 0) {
            bench_must(mf_engine_open(&e, bench_device(), 0, (enum mf_precision)i, &err), &err);
            return e;
        }
    bench_must(mf_err_set(&err, MF_EUSAGE, "precision %s: there are fp32, tf32 and bf16", precision), &err);
    return NULL;
}

static inline void bench_open(struct mf_safetensors *f, const char *dir)
{
    char path[4096];
    struct mf_err err;
    snprintf(path, sizeof path, "%s/data.safetensors", dir);
    bench_must(mf_safetensors_open(f, path, &err), &err);
}

/* A copy of the first `rows` rows of a tensor. */
static inline void *bench_rows(const struct mf_safetensors *f, const char *name, size_t rows)
{
    struct mf_err err;
    const struct mf_array *a = mf_safetensors_find(f, name);
    if (!a || a->dim[0] < rows)
        bench_must(mf_err_set(&err, MF_EFORMAT, "the peer's file has no %zu rows of %s", rows, name), &err);
    size_t size = a->bytes / a->dim[0] * rows;
    return memcpy(mf_xcalloc(1, size), a->data, size);
}

/* peer.py's Agent with its weights. */
static inline void bench_hopper(struct mf_policy *p, const struct mf_safetensors *f)
{
    struct mf_err err;
    struct mf_policy_spec s = {.obs = {1, 11, {{"state", {11}, false}}},
                               .n_obs_steps = 1,
                               .action_dim = 3,
                               .horizon = 4,
                               .n_action_steps = 4,
                               .K = 4,
                               .convention = MF_NOISE0,
                               .noise_method = MF_FLOW_NOISE,
                               .denoise = MF_JOINT,
                               .objective = MF_CHAIN_MEAN,
                               .learned_noise = true,
                               .mean_limit = 1,
                               .net = {.n_hidden = 3, .hidden = {512, 512, 512}, .act = MF_ACT_RELU, .time_dim = 16},
                               .n_critic = 3,
                               .critic = {256, 256, 256},
                               .n_noise = 2,
                               .noise = {64, 64}};
    bench_must(mf_net_find(&s.net.net, "reflow_mlp", &err), &err);
    bench_must(mf_policy_init(p, &s, &err), &err);
    mf_policy_fresh(p, 0);
    mf_policy_set_noise(p, 0.10, 0.24);
    for (int i = 0; i < p->params.n; i++) {
        const struct mf_param *q = &p->params.p[i];
        if (q->group == MF_GROUP_BUFFER)
            continue;
        float *w = bench_rows(f, q->name, (size_t)(q->rank == 1 ? q->cols : q->rows));
        memcpy(p->params.value + q->at, w, (size_t)(q->rows * q->cols) * sizeof *w);
        free(w);
    }
    mf_params_touch(&p->params);
}

/* One array more to be written. */
static inline void bench_put(struct mf_array **all, int *n, enum mf_dtype dtype, const void *data, size_t count,
                             const char *name)
{
    *all = mf_xrealloc(*all, (size_t)*n + 1, sizeof **all);
    struct mf_array *a = &(*all)[(*n)++];
    *a = (struct mf_array){.dtype = dtype, .rank = 1, .dim = {count}, .count = count};
    a->bytes = count * mf_dtype_size(dtype);
    snprintf(a->name, sizeof a->name, "%.*s", MF_NAME_MAX - 1, name);
    a->data = memcpy(mf_xcalloc(1, a->bytes), data, a->bytes);
}

static inline void bench_write(struct mf_array *all, int n, const char *dir, const char *name)
{
    char path[4096];
    struct mf_err err;
    snprintf(path, sizeof path, "%s/%s.safetensors", dir, name);
    bench_must(mf_safetensors_write(path, all, n, NULL, 0, &err), &err);
    for (int i = 0; i < n; i++)
        free(all[i].data);
    free(all);
}

/* Seconds of one turn; a short one is repeated for a while. */
static inline double bench_time(void (*turn)(void *arg), void *arg, double least)
{
    double begin = bench_now(), seconds;
    int n = 0;
    do {
        turn(arg);
        seconds = bench_now() - begin;
        n++;
    } while (seconds < least);
    return seconds / n;
}

/* Turns for half a second: prints the seconds of a turn, which returns how many it was. On the cpu each is followed by
 * a burst of multiply-adds on all cores, whose mean rate is printed, too. */
static inline void bench_turns(int64_t (*turn)(void *arg), void *arg)
{
    double seconds = 0, rates = 0;
    int64_t turns = 0;
    int bursts = 0;
    for (; seconds < .5; bursts++) {
        double begin = bench_now();
        turns += turn(arg);
        seconds += bench_now() - begin;
        rates += bench_on_cpu() ? bench_fma((int)sysconf(_SC_NPROCESSORS_ONLN), 10000000, false) : 0;
    }
    printf("%.9g %.1f\n", seconds / (double)turns, rates / bursts);
}

#endif
