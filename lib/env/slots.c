#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/stepper.h"

int mf_slots_init(struct mf_slots *r, const struct mf_vec_opts *o, struct mf_err *err)
{
    if (o->N < 1 || o->N > 1 << 20 || o->first_env < 0 || o->first_env > (1 << 24) - o->N)
        return mf_err_set(err, MF_EUSAGE,
                          "cannot run %d environments from number %d: 1 to %d are possible, numbers to %d", o->N,
                          o->first_env, 1 << 20, 1 << 24);
    *r = (struct mf_slots){.o = *o, .N = o->N, .A = o->env->action_dim};
    int rc = o->obs.n ? 0 : mf_env_layout(o->env, 0, NULL, NULL, &r->o.obs, err);
    for (int i = 0; rc == 0 && i < o->obs.n; i++)
        rc = mf_env_shows(o->env, &o->obs.key[i], err);
    if (rc)
        return rc;
    if (o->turn && !o->env->served && mf_layout_pictures(&r->o.obs))
        return mf_err_set(
            err, MF_EUSAGE,
            "policy.turn_images=true: env=%s draws pictures that are upright, and only a server's are turned",
            o->env->name);
    if (!o->max_steps)
        r->o.max_steps = o->env->max_steps;
    r->O = r->o.obs.dim;
    size_t N = (size_t)r->N, O = (size_t)r->O;
    const struct {
        void *at;
        size_t size;
    } want[] = {{&r->episode, N * sizeof(int32_t)},
                {&r->clock, N * sizeof(int32_t)},
                {&r->task, N * sizeof(int32_t)},
                {&r->idle, N},
                {&r->obs, N * O * sizeof(float)},
                {&r->final_obs, N * O * sizeof(float)},
                {&r->trail, N * (size_t)o->trail * O * sizeof(float)},
                {&r->n_trail, N * sizeof(int32_t)},
                {&r->n_exec, N * sizeof(int32_t)},
                {&r->terminated, N},
                {&r->truncated, N},
                {&r->fresh, N},
                {&r->lost, N}};
    for (size_t i = 0; rc == 0 && i < sizeof want / sizeof *want; i++)
        rc = mf_alloc(want[i].at, want[i].size, "the environments", err);
    return rc;
}

int mf_slots_chunk(struct mf_slots *r, int C, struct mf_err *err)
{
    size_t N = (size_t)r->N, n = N * (size_t)C;
    if (n > r->room || !r->rewards) {
        free(r->rewards);
        free(r->success);
        r->rewards = NULL, r->success = NULL, r->room = 0;
        if (mf_alloc((void **)&r->rewards, n * sizeof(float), "rewards", err) ||
            mf_alloc((void **)&r->success, n, "rewards", err))
            return err->code;
        r->room = n;
    }
    r->C = C;
    memset(r->rewards, 0, n * sizeof(float));
    memset(r->success, 0, n);
    memset(r->n_exec, 0, N * sizeof(int32_t));
    memset(r->n_trail, 0, N * sizeof(int32_t));
    memset(r->terminated, 0, N);
    memset(r->truncated, 0, N);
    memset(r->fresh, 0, N);
    memset(r->lost, 0, N);
    return 0;
}

struct mf_rng mf_slots_reset_rng(const struct mf_slots *r, int n, int32_t episode)
{
    const int env = r->o.first_env + n, first = r->o.group > 1 ? env - env % r->o.group : env;
    return mf_rng_at(r->o.seed, r->o.reset_purpose, (uint32_t)first, (uint32_t)episode, 0);
}

int mf_slots_task(const struct mf_slots *r, int n, int32_t episode)
{
    const struct mf_suite *suite = &r->o.env->language.suite[0];
    const int env = r->o.first_env + n, group = r->o.group > 1 ? env / r->o.group : env;
    return suite->first + (int)(((int64_t)group + episode) % suite->n);
}

void mf_slots_release(struct mf_slots *r)
{
    void *const all[] = {r->trail,  r->n_trail,    r->episode,   r->clock,   r->task,
                         r->idle,   r->obs,        r->final_obs, r->rewards, r->success,
                         r->n_exec, r->terminated, r->truncated, r->fresh,   r->lost};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]);
    *r = (struct mf_slots){0};
}
