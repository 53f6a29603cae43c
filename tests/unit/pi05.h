/* pi05.h - the tiny pi0.5 of tests/reference/pi05.py as a policy. */
#ifndef MF_TEST_PI05_H
#define MF_TEST_PI05_H

#include <string.h>

#include "flow/policy.h"
#include "policies.h"
#include "run/safetensors.h"

enum {
    B = 3,
    SIDE = 28,
    I = 3,
    L = 12,
    P = 4,
    SLOTS = I * P + L,
    WIDTH = 64,
    HEAD = 16,
    EXPERT = 32,
    H = 5,
    A = 8,
    D = H * A,
    PICTURE = SIDE * SIDE * 3,
    O = I * PICTURE + L + I
};

static struct mf_safetensors pi05_file, pi05_checkpoint;

static inline void pi05_open(void)
{
    struct mf_err err;
    must(mf_safetensors_open(&pi05_file, "tests/fixtures/pi05.safetensors", &err), &err);
    must(mf_safetensors_open(&pi05_checkpoint, "tests/fixtures/pi05_tiny.safetensors", &err), &err);
}

static inline void pi05_close(void)
{
    mf_safetensors_close(&pi05_file);
    mf_safetensors_close(&pi05_checkpoint);
}

/* Floats of an array of the fixture, whose data is not aligned; the caller frees them. */
static inline float *pi05_array(const struct mf_safetensors *f, const char *name, size_t n)
{
    const struct mf_array *a = mf_safetensors_find(f, name);
    if (!a || (n && a->count != n)) {
        printf("Bail out! no %s of %zu numbers in the fixture\n", name, n);
        exit(1);
    }
    float *x = malloc(a->bytes + 1);
    memcpy(x, a->data, a->bytes);
    return x;
}

static inline float *pi05_read(const char *name, size_t n)
{
    return pi05_array(&pi05_file, name, n);
}

static inline struct mf_policy_spec pi05_spec(void)
{
    struct mf_err err;
    struct mf_policy_spec s = {.n_obs_steps = 1,
                               .action_dim = A,
                               .horizon = H,
                               .n_action_steps = H,
                               .K = 4,
                               .convention = MF_NOISE1,
                               .noise_method = MF_FLOW_SDE,
                               .n_critic = 3,
                               .critic = {24, 20, 12},
                               .n_noise = 2,
                               .noise = {16, 12}};
    s.net = (struct mf_net_spec){.layers = 2,
                                 .heads = 8,
                                 .width = WIDTH,
                                 .mlp = 96,
                                 .head_dim = HEAD,
                                 .vocabulary = 256,
                                 .expert_width = EXPERT,
                                 .expert_mlp = 56,
                                 .vit_width = 48,
                                 .vit_heads = 4,
                                 .vit_layers = 2,
                                 .vit_mlp = 80,
                                 .patch = 14};
    for (int i = 0; i < I; i++) {
        struct mf_obs o = {.dim = {SIDE, SIDE, 3}};
        snprintf(o.name, sizeof o.name, "image_%d", i);
        mf_layout_add(&s.obs, &o);
    }
    mf_layout_add(&s.obs, &(struct mf_obs){.name = MF_OBS_TOKENS, .dim = {L}});
    mf_layout_add(&s.obs, &(struct mf_obs){.name = MF_OBS_IMAGE_MASK, .dim = {I}});
    must(mf_net_find(&s.net.net, "pi05", &err), &err);
    return s;
}

/* (B, O) */
static inline float *pi05_observations(void)
{
    float *flat = malloc(sizeof *flat * B * O), *images = pi05_read("images", B * I * PICTURE),
          *tokens = pi05_read("tokens", B * L), *mask = pi05_read("image_mask", B * I);
    for (int b = 0; b < B; b++) {
        float *to = flat + b * O;
        memcpy(to, images + b * I * PICTURE, sizeof *to * I * PICTURE);
        memcpy(to + I * PICTURE, tokens + b * L, sizeof *to * L);
        memcpy(to + I * PICTURE + L, mask + b * I, sizeof *to * I);
    }
    free(images), free(tokens), free(mask);
    return flat;
}

/* Element j of a parameter as the file has it: a convolution there is (out, in, rows, columns). */
static inline size_t pi05_place(const struct mf_param *p, size_t j)
{
    if (p->rank != 4)
        return j;
    size_t window = (size_t)p->window[0] * (size_t)p->window[1], cols = (size_t)p->cols, in = cols / window;
    return j / cols * cols + j % window * in + j % cols / window;
}

/* Weights from the checkpoint, those of the heads too. Parameters that neither has stay. */
static inline void pi05_load(struct mf_params *ps)
{
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *p = &ps->p[i];
        char name[160];
        snprintf(name, sizeof name, "head/%s", p->name);
        const struct mf_array *a = mf_safetensors_find(&pi05_checkpoint, p->name);
        a = a ? a : mf_safetensors_find(&pi05_file, name);
        if (strstr(p->name, "embed_tokens"))
            a = mf_safetensors_find(&pi05_checkpoint, "paligemma_with_expert.paligemma.lm_head.weight");
        if (!a || strstr(p->name, ".logvar_m"))
            continue;
        if (a->count != (size_t)p->rows * (size_t)p->cols) {
            printf("Bail out! %s has another size\n", p->name);
            exit(1);
        }
        for (size_t j = 0; j < a->count; j++)
            memcpy(ps->value + p->at + pi05_place(p, j), (const char *)a->data + j * sizeof(float), sizeof(float));
    }
    mf_params_touch(ps);
}

static inline struct mf_policy pi05_policy(const struct mf_policy_spec *s)
{
    struct mf_err err;
    struct mf_policy p;
    must(mf_policy_init(&p, s, &err), &err);
    mf_policy_fresh(&p, 1);
    pi05_load(&p.params);
    return p;
}

/* The largest difference, of rows of n where the mask (NULL: all) is not 0. */
static inline double pi05_apart(const float *got, const float *want, size_t rows, size_t n, const float *mask)
{
    double worst = 0;
    for (size_t i = 0; i < rows * n; i++)
        if (!mask || mask[i / n] != 0)
            worst = worse(worst, got[i] == got[i] ? fabs((double)got[i] - (double)want[i]) : 1e9);
    return worst;
}

static inline void pi05_same(const char *name, const float *got, size_t rows, size_t n, const float *mask, double bound)
{
    float *want = pi05_read(name, rows * n);
    double off = pi05_apart(got, want, rows, n, mask);
    if (!ok(off <= bound, "%s as published", name))
        printf("#   off by %g\n", off);
    free(want);
}

/* The gradients of `prefix`: all that the fixture has, each to the largest of all. */
static inline void pi05_gradients(const char *prefix, const struct mf_params *ps, const float *grads, int count)
{
    double worst = 0, most = 0;
    int found = 0;
    for (int i = 0; i < ps->n; i++) {
        const struct mf_param *p = &ps->p[i];
        char name[256];
        snprintf(name, sizeof name, "%s/%s/at", prefix, p->name);
        const struct mf_array *a = mf_safetensors_find(&pi05_file, name);
        if (!a)
            continue;
        float *want = pi05_read(name, a->count);
        size_t size = (size_t)p->rows * (size_t)p->cols, stride = (size / 300 ? size / 300 : 1) | 1;
        found++;
        for (size_t j = 0; j < a->count; j++) {
            worst = worse(worst, fabs((double)grads[p->at + pi05_place(p, j * stride)] - (double)want[j]));
        }
        snprintf(name, sizeof name, "%s/%s/most", prefix, p->name);
        float *largest = pi05_read(name, 1);
        most = fmax(most, (double)*largest);
        free(want), free(largest);
    }
    if (!ok(found == count && worst <= 1e-4 * most, "%d gradients of %s", count, prefix))
        printf("#   %d are there, off by %g of %g\n", found, worst, most);
}

#endif
