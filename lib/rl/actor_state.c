/* actor_state.c - the state from which a collector goes on. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/window.h"
#include "rl/actor.h"

static size_t history_bytes(const struct mf_actor *a)
{
    return (size_t)a->N * (size_t)(a->To * a->O) * sizeof *a->history;
}

static const char magic[8] = "mfactr2", before[8] = "mfactor"; /* `before` has no episodes */

struct saved { /* followed by history, running, episodes and the environments */
    char magic[8];
    int64_t N, To, O, global_step;
    struct mf_scale scale;
};

int mf_actor_save(const struct mf_actor *a, void **bytes, size_t *size, struct mf_err *err)
{
    size_t hist = history_bytes(a), run = (size_t)a->N * sizeof *a->running, envs_size,
           played = mf_episodes_size(&a->episodes);
    void *envs;
    int rc = mf_vec_save(a->vec, &envs, &envs_size, err);
    if (rc)
        return rc;
    *size = sizeof(struct saved) + hist + run + played + envs_size;
    if ((rc = mf_alloc(bytes, *size, "the environments' state", err))) {
        free(envs);
        return rc;
    }
    char *p = *bytes;
    struct saved s = {.N = a->N, .To = a->To, .O = a->O, .global_step = a->global_step, .scale = a->scale};
    memcpy(s.magic, magic, sizeof magic);
    memcpy(p, &s, sizeof s);
    memcpy(p += sizeof s, a->history, hist);
    memcpy(p += hist, a->running, run);
    mf_episodes_save(&a->episodes, p += run);
    memcpy(p + played, envs, envs_size);
    free(envs);
    return 0;
}

int mf_actor_load(struct mf_actor *a, const void *bytes, size_t size, bool *exact, struct mf_err *err)
{
    struct saved s;
    size_t hist = history_bytes(a), run = (size_t)a->N * sizeof *a->running;
    if (size < sizeof s || (memcmp(bytes, magic, sizeof magic) != 0 && memcmp(bytes, before, sizeof before) != 0))
        return mf_err_set(err, MF_EFORMAT, "the policy's frames carry a state that is not the state of a collector");
    memcpy(&s, bytes, sizeof s);
    if (s.N != a->N || s.To != a->To || s.O != a->O || size < sizeof s + hist + run)
        return mf_err_set(err, MF_EUSAGE,
                          "the run has %lld environments with %lld observation steps of %lld numbers, and the "
                          "configuration has %d, %d and %d: resume with the run's training.num_envs, "
                          "policy.n_obs_steps and env.name",
                          (long long)s.N, (long long)s.To, (long long)s.O, a->N, a->To, a->O);
    const char *p = (const char *)bytes + sizeof s;
    const float *obs;
    size_t left = size - sizeof s - hist - run, played = 0;
    if (!memcmp(s.magic, magic, sizeof magic) && !(played = mf_episodes_load(&a->episodes, p + hist + run, left)))
        return mf_err_set(err, MF_EFORMAT,
                          "the collector's state in the policy's frames is incomplete: its episodes are cut");
    memcpy(a->history, p, hist);
    memcpy(a->running, p + hist, run);
    a->global_step = s.global_step;
    a->scale = s.scale;
    a->started = true;
    int rc = mf_vec_load(a->vec, p + hist + run + played, left - played, &obs, exact, err);
    for (int n = 0; rc == 0 && !*exact && n < a->N; n++) {
        a->running[n] = 0;
        a->episodes.began[n] = a->episodes.now;
    }
    if (rc == 0 && !*exact)
        mf_windows_push(a->history, a->N, (size_t)a->To, (size_t)a->O, NULL, obs);
    return rc;
}
