/* policies.h - small policies for tests: specs, weights of a fixture, comparison with one. */
#ifndef MF_POLICIES_H
#define MF_POLICIES_H

#include "fixture.h"
#include "tap.h"
#include "flow/policy.h"

static inline void must(int rc, const struct mf_err *err)
{
    if (rc) {
        printf("Bail out! %s\n", err->text);
        exit(1);
    }
}

/* No policy can have this spec: the error says why. */
static inline void refuses(struct mf_policy_spec s, const char *why)
{
    struct mf_err err = {0};
    struct mf_policy p;
    ok(mf_policy_outline(&p, &s, &err) == MF_EUSAGE && strstr(err.text, why), "%s", err.text);
}

/* The sizes of tests/reference/flow.py; MLP networks of 16x3. */
static inline struct mf_policy_spec small_spec(const char *net)
{
    struct mf_err err;
    struct mf_policy_spec s = {.obs = {1, 5, {{"state", {5}, false}}},
                               .n_obs_steps = 1,
                               .action_dim = 2,
                               .horizon = 3,
                               .n_action_steps = 2,
                               .action_offset = 1,
                               .K = 4,
                               .noise_method = MF_FLOW_NOISE,
                               .net = {.n_hidden = 3, .hidden = {16, 16, 16}, .act = MF_ACT_MISH, .time_dim = 8},
                               .n_critic = 3,
                               .critic = {9, 9, 9},
                               .n_noise = 2,
                               .noise = {6, 6}};
    must(mf_net_find(&s.net.net, net, &err), &err);
    if (s.net.net->step_size) {
        s.net.n_cond = 2;
        s.net.cond[0] = 10, s.net.cond[1] = 8;
    }
    return s;
}

/* Weights `prefix`/NAME into the parameters that have one. */
static inline void load_params(const struct fixture *f, const char *prefix, const struct mf_params *ps, float *value)
{
    for (int i = 0; i < ps->n; i++) {
        char name[256];
        size_t n;
        snprintf(name, sizeof name, "%s/%s", prefix, ps->p[i].name);
        float *v = fixture_find(f, name, &n);
        if (v && n == (size_t)ps->p[i].rows * (size_t)ps->p[i].cols)
            memcpy(value + ps->p[i].at, v, n * sizeof *v);
        free(v);
    }
}

/* Largest |got - want| over largest |want| of all parameters that have a record. */
static inline double grads_error(const struct fixture *f, const char *prefix, const struct mf_params *ps,
                                 const float *grads, int *found)
{
    double worst = 0, scale = 0;
    *found = 0;
    for (int i = 0; i < ps->n; i++) {
        char name[256];
        size_t n;
        snprintf(name, sizeof name, "%s/%s", prefix, ps->p[i].name);
        float *v = fixture_find(f, name, &n);
        if (!v)
            continue;
        ++*found;
        for (size_t j = 0; j < n; j++) {
            worst = worse(worst, fabs((double)grads[ps->p[i].at + j] - v[j]));
            scale = fmax(scale, fabs(v[j]));
        }
        free(v);
    }
    return worst / scale;
}

#endif
