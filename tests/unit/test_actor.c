/* Rollouts of the actor: the same bytes for any number of threads, and after a save and load. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "flow/frames.h"
#include "flow/sampler.h"
#include "rl/rounds.h"
#include "rl/slices.h"
#include "tap.h"

static struct mf_err err;

struct rig {
    struct mf_engine *engine;
    struct mf_policy policy;
    struct mf_sampler *sampler;
    struct mf_actor actor;
};

static void open_rig_of(struct rig *r, int N, int group, int critics, int threads, int obs_steps, bool scale)
{
    struct mf_actor_opts o = {
        .vec = {.N = N, .threads = threads, .group = group, .seed = 5, .reset_purpose = MF_RNG_RESET},
        .T = group ? 20 : 9,
        .reward_scale = scale,
        .gamma = 0.99};
    struct mf_policy_spec s = {.n_obs_steps = obs_steps,
                               .horizon = 4,
                               .n_action_steps = 3,
                               .K = 3,
                               .noise_method = MF_FLOW_NOISE,
                               .n_critic = 1,
                               .critic = {16}};
    if (mf_env_find(&o.vec.env, "point", &err))
        abort();
    if (mf_env_layout(o.vec.env, 0, NULL, NULL, &s.obs, &err))
        abort();
    s.action_dim = o.vec.env->action_dim;
    s.net = (struct mf_net_spec){.O = s.obs.dim * obs_steps,
                                 .D = 4 * s.action_dim,
                                 .n_hidden = 1,
                                 .hidden = {16},
                                 .act = MF_ACT_RELU,
                                 .time_dim = 8};
    s.n_critic = critics;
    s.critic[1] = s.critic[2] = 16;
    s.net.n_hidden = 3;
    s.net.hidden[1] = s.net.hidden[2] = 16;
    if (mf_net_find(&s.net.net, "reflow_mlp", &err) || mf_engine_open(&r->engine, "cpu", threads, MF_FP32, &err) ||
        mf_policy_init(&r->policy, &s, &err))
        abort();
    mf_policy_fresh(&r->policy, 2);
    mf_policy_set_noise(&r->policy, 0.3, 0.3);
    if (mf_sampler_new(&r->sampler, r->engine, &r->policy, false, &err) ||
        mf_actor_init(&r->actor, &o, &r->policy, r->sampler, &err))
        abort();
}

static void open_rig(struct rig *r, int threads, int obs_steps, bool scale)
{
    open_rig_of(r, 7, 0, 3, threads, obs_steps, scale);
}

static void close_rig(struct rig *r)
{
    mf_actor_release(&r->actor);
    mf_sampler_free(r->sampler);
    mf_policy_release(&r->policy);
    mf_engine_close(r->engine);
}

static void rollout(struct rig *r)
{
    if (mf_actor_rollout(&r->actor, &err))
        printf("# %s\n", err.text);
}

static bool same(const struct mf_columns *a, const struct mf_columns *b)
{
    bool all = a->n == b->n;
    for (int i = 0; all && i < a->n; i++)
        all = !memcmp(a->column[i].data, b->column[i].data,
                      (a->column[i].per_env ? 1 : a->T) * a->N * a->column[i].bytes);
    return all;
}

/* The point mass moves by x += .05 v, so the positions in a history identify its control steps. */
static void history(struct rig *r)
{
    const struct mf_actor *a = &r->actor;
    const size_t N = (size_t)a->N;
    int repeated = 0, consecutive = 0, begun = 0, went_on = 0;
    for (size_t t = 0; t < (size_t)a->opts.T; t++) {
        const float *x = mf_columns_at(&a->columns, a->id.obs[0], t), *v = mf_columns_at(&a->columns, a->id.obs[1], t);
        const uint8_t *term = t ? mf_columns_at(&a->columns, a->id.terminated, t - 1) : NULL,
                      *trunc = t ? mf_columns_at(&a->columns, a->id.truncated, t - 1) : NULL;
        for (size_t n = 0; n < N; n++, x += 2, v += 2)
            if (!t || term[n] || trunc[n])
                begun++, repeated += x[0] == x[1] && v[0] == v[1];
            else
                went_on++, consecutive += x[1] == x[0] + 0.05f * v[1] && v[0] != v[1];
    }
    ok(begun >= 7 && repeated == begun, "an episode's first observation is repeated in the history");
    ok(went_on > 20 && consecutive == went_on, "then it holds consecutive control steps, although a decision has 3");
}

static void shapes(struct rig *r)
{
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    ok(mf_columns_slice(&r->actor.columns, f, 2, 3, &err) == 0, "a slice of environments 2..4");
    struct mf_array *a = mf_frame_find(f, "chains");
    ok(a && a->rank == 5 && a->dim[0] == 9 && a->dim[1] == 3 && a->dim[2] == 4 && a->dim[3] == 4,
       "chains are (T, N, K+1, H, A)");
    const float *whole = mf_columns_at(&r->actor.columns, r->actor.id.chains, 3), *cut = a->data;
    size_t row = a->bytes / (9 * 3 * sizeof(float));
    ok(!memcmp(whole + 2 * row, cut + 3 * 3 * row, 3 * row * sizeof(float)), "its rows are those of the whole");
    a = mf_frame_find(f, "last_values");
    ok(a && a->rank == 1 && a->dim[0] == 3, "last_values are (N)");
    mf_frame_free(f);
}

static int64_t number(const struct mf_frame *f, const char *path)
{
    int64_t v = -1;
    (void)mf_frame_get_int(f, path, &v, &err);
    return v;
}

/* As the learner gathers them: each is added, and which environments they have. */
static int gather(struct mf_rounds *q, const struct mf_slices *s, bool *covered)
{
    int64_t next = 0;
    int rc = 0;
    for (int k = 0; rc == 0 && k <= s->of; k++) {
        struct mf_frame *f;
        rc = k < s->of ? mf_slices_frame(s, k, &f, &err) : mf_slices_round(s, &f, &err);
        if (k < s->of && number(f, "envs.0") == next)
            next += number(f, "envs.1");
        rc = rc ? rc : mf_rounds_add(q, f, s->iter, &err);
        mf_frame_free(f);
    }
    *covered = next == s->actor->N;
    return rc;
}

/* A rollout in frames is a round again, whose parts say which policy acted and how the environments stand. */
static void slices(struct rig *r, struct rig *other)
{
    struct mf_rounds *q = mf_rounds_new(0, 1);
    const struct mf_actor *a = &r->actor;
    struct mf_slices s = mf_slices_cut(a, 3, 0, "left");
    char digest[17];
    const char *says = "";
    const void *state = NULL;
    size_t size = 0;
    bool covered, exact = false;
    int n;
    ok(s.of == 3 && mf_slices_cut(a, 1, 0, "").of == 1 && mf_slices_cut(a, 100, 0, "").of == 7,
       "as many slices as asked for, one environment the least");
    mf_rounds_join(q, "left");
    ok(gather(q, &s, &covered) == 0 && covered && mf_rounds_whole(q, 0), "3 slices of 7 environments are a round");
    struct mf_round_part *part = mf_rounds_parts(q, 0, &n);
    mf_policy_digest(&r->policy, digest);
    ok(n == 1 && part->n == 3 && number(part->slices[2], "slice.0") == 2 && number(part->slices[2], "slice.1") == 3 &&
           number(part->slices[0], "policy.version") == r->policy.version &&
           mf_frame_get_str(part->slices[0], "policy.digest", &says, &err) == 0 && !strcmp(says, digest),
       "by the policy that acted");
    double mean = 0;
    ok(a->ended.n > 1 && number(part->round, "episodes.n") == a->ended.n &&
           mf_frame_get_num(part->round, "episodes.length", &mean, &err) == 0 &&
           mean == (double)a->ended.length / (double)a->ended.n,
       "with its episodes in the mean");
    ok(mf_frame_get_bin(part->round, "state", &state, &size, &err) == 0 &&
           mf_actor_load(&other->actor, state, size, &exact, &err) == 0 && exact,
       "and the state from which another actor continues");
    free(part);
    mf_rounds_free(q);
}

/* Groups of 3, of 6 environments: episodes of one number start alike, and go on in their own ways. */
static void groups(void)
{
    enum { LAST = 19 };
    struct rig one, other;
    void *state;
    size_t size;
    int64_t wins = 0, won = 0;
    bool exact = false, alike = true, differ = false;
    open_rig_of(&one, 6, 3, 0, 1, 1, false);
    open_rig_of(&other, 6, 3, 0, 4, 1, false);
    mf_policy_set_noise(&one.policy, 3, 3); /* some succeed */
    mf_policy_set_noise(&other.policy, 3, 3);
    const struct mf_actor *a = &one.actor;
    for (int k = 0; k < 8; k++) {
        rollout(&one);
        const int32_t *group = mf_columns_at(&a->columns, a->id.group, 0);
        const float *x = mf_columns_at(&a->columns, a->id.obs[0], 0);
        for (int n = 0; n < 6; n++) {
            alike &= x[n] == x[n / 3 * 3] && group[n] == group[n / 3 * 3];
            differ |= memcmp(mf_columns_at(&a->columns, a->id.actions, 0),
                             (float *)mf_columns_at(&a->columns, a->id.actions, 0) + 3, sizeof(float)) != 0;
        }
        alike &= x[0] != x[3] && group[0] != group[3];
        won += a->ended.success;
        for (size_t t = 0; t <= LAST; t++)
            for (size_t n = 0; n < 6; n++)
                wins += ((uint8_t *)mf_columns_at(&a->columns, a->id.success, t))[n] &&
                        ((uint8_t *)mf_columns_at(&a->columns, a->id.terminated, t))[n];
    }
    ok(alike && differ, "a group starts a rollout alike, and acts by its own noise; another group starts elsewhere");
    const int32_t *first = mf_columns_at(&a->columns, a->id.group, 0),
                  *now = mf_columns_at(&a->columns, a->id.group, LAST);
    const int32_t *episode = mf_vec_episode(a->vec);
    ok(first[0] % 2 == 0 && first[3] == first[0] + 1 && now[0] > first[0] && now[0] % 2 == 0 && episode[0] > 1,
       "groups are numbered by episode and by group");
    int matched = 0, wrong = 0;
    for (size_t t = 1; t <= LAST; t++)
        for (size_t u = 1; u <= LAST; u++) { /* later episodes of two members, at different times */
            const int32_t *gt = mf_columns_at(&a->columns, a->id.group, t),
                          *gu = mf_columns_at(&a->columns, a->id.group, u),
                          *bt = mf_columns_at(&a->columns, a->id.group, t - 1),
                          *bu = mf_columns_at(&a->columns, a->id.group, u - 1);
            if (gt[0] == bt[0] || gu[1] == bu[1] || gt[0] != gu[1])
                continue;
            matched++;
            wrong += ((float *)mf_columns_at(&a->columns, a->id.obs[0], t))[0] !=
                     ((float *)mf_columns_at(&a->columns, a->id.obs[0], u))[1];
        }
    ok(matched > 0 && wrong == 0, "so do later episodes of one number (%d)", matched);
    ok(wins > 0 && wins == won, "success is set where an episode ends with one (%lld)", (long long)wins);
    bool values = false;
    for (int i = 0; i < a->columns.n; i++)
        values |= strstr(a->columns.column[i].name, "values") != NULL;
    ok(!values, "a policy without a critic sends no values");
    ok(a->counted.n >= 6 && a->episodes.n_ended < 6, "every first episode of the rollout is counted");

    mf_actor_save(&one.actor, &state, &size, &err);
    ok(mf_actor_load(&other.actor, state, size, &exact, &err) == 0 && exact, "the state loads");
    free(state);
    rollout(&one);
    rollout(&other);
    ok(same(&one.actor.columns, &other.actor.columns) &&
           !memcmp(&one.actor.counted, &other.actor.counted, sizeof one.actor.counted),
       "and the next rollout is the same, bit for bit");

    struct mf_slices s = mf_slices_cut(a, 5, 0, "");
    struct mf_frame *f = NULL;
    ok(s.of == 2 && mf_slices_frame(&s, 1, &f, &err) == 0 && number(f, "envs.0") == 3 && number(f, "envs.1") == 3 &&
           number(f, "group_size") == 3,
       "a slice has whole groups");
    mf_frame_free(f);
    close_rig(&one);
    close_rig(&other);
}

/* The expert's rollout has no policy. */
static void expert(void)
{
    struct mf_actor_opts o = {.vec = {.N = 2, .threads = 1, .first_env = 5, .expert_error = 1}, .T = 3};
    struct mf_actor a;
    struct mf_frame *f, *round;
    if (mf_env_find(&o.vec.env, "point", &err) || mf_env_layout(o.vec.env, 0, NULL, NULL, &o.vec.obs, &err) ||
        mf_actor_init(&a, &o, NULL, NULL, &err) || mf_actor_rollout(&a, &err))
        abort();
    struct mf_slices s = mf_slices_cut(&a, 2, 1, "");
    if (mf_slices_frame(&s, 1, &f, &err) || mf_slices_round(&s, &round, &err))
        abort();
    ok(number(f, "envs.0") == 6 && number(f, "envs.1") == 1, "environments are counted from the first of the group");
    ok(!mf_frame_has(f, "policy") && !mf_frame_has(round, "state"), "the expert has no policy and no state");
    mf_frame_free(f);
    mf_frame_free(round);
    mf_actor_release(&a);
}

int main(void)
{
    struct rig one, many, resumed;
    void *state;
    bool exact = false;
    size_t size;
    open_rig(&one, 1, 2, true);
    open_rig(&many, 4, 2, true);
    open_rig(&resumed, 2, 2, true);
    rollout(&one);
    rollout(&many);
    history(&one);
    shapes(&one);
    ok(same(&one.actor.columns, &many.actor.columns), "1 and 4 threads give the same rollout");
    for (int i = 0; i < 6; i++)
        rollout(&one);
    mf_actor_save(&one.actor, &state, &size, &err);
    ok(mf_actor_load(&resumed.actor, state, size, &exact, &err) == 0 && exact, "the state loads into a fresh actor");
    rollout(&one);
    rollout(&resumed);
    ok(same(&one.actor.columns, &resumed.actor.columns) && one.actor.global_step == resumed.actor.global_step &&
           one.actor.counted.n > 0 && !memcmp(&one.actor.counted, &resumed.actor.counted, sizeof one.actor.counted),
       "and the next rollout is the same, bit for bit");
    ok(mf_actor_load(&resumed.actor, state, size - 1, &exact, &err) < 0 &&
           mf_actor_load(&resumed.actor, "x", 1, &exact, &err) < 0,
       "a cut state is refused");
    free(state);
    slices(&one, &many);
    expert();
    groups();
    close_rig(&one);
    close_rig(&many);
    close_rig(&resumed);
    return done();
}
