/* Demonstrations cut into samples: histories, chunks, edges, normalisers. */
#include "flow/lessons.h"
#include "policies.h"

/* Two demonstrations of 3 and 2 steps; observation (t, 10 t, 7), action (100 demo + t). */
static float obs[5 * 3], actions[5];
static struct mf_demo demo[] = {{"demo_0", 0, 0, 3}, {"demo_4", 4, 3, 2}};
static struct mf_demos demos = {.n_demos = 2,
                                .total = 5,
                                .demo = demo,
                                .n_keys = 1,
                                .key = {{"state", {3}, false}},
                                .obs_dim = 3,
                                .action_dim = 1,
                                .obs = obs,
                                .actions = actions};

static struct mf_policy policy_of(int n_obs_steps, int offset)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = small_spec("reflow_mlp");
    s.obs = (struct mf_layout){1, 3, {{"state", {3}, false}}};
    s.n_obs_steps = n_obs_steps, s.action_dim = 1, s.horizon = 3, s.n_action_steps = 1;
    s.action_offset = offset;
    must(mf_policy_init(&p, &s, &err), &err);
    mf_policy_fresh(&p, 0);
    return p;
}

static void cuts(void)
{
    struct mf_err err;
    struct mf_policy p = policy_of(2, 1);
    struct mf_lessons l;
    static const float want_t[5][2] = {{0, 0}, {0, 1}, {1, 2}, {0, 0}, {0, 1}};
    static const float want_a[5][3] = {{0, 0, 1}, {0, 1, 2}, {1, 2, 2}, {100, 100, 101}, {100, 101, 101}};
    must(mf_lessons_cut(&l, &p, &demos, &err), &err);
    int good = l.n == 5;
    for (int i = 0; good && i < 5; i++) {
        for (int k = 0; k < 2; k++)
            good = good && l.obs[i * 6 + k * 3] == want_t[i][k] && l.obs[i * 6 + k * 3 + 1] == 10 * want_t[i][k];
        for (int k = 0; k < 3; k++)
            good = good && l.actions[i * 3 + k] == want_a[i][k];
    }
    ok(good, "histories repeat the first observation, chunks the first and the last action, demos stay apart");
    mf_lessons_release(&l);
    mf_policy_release(&p);
}

static void fits(void)
{
    struct mf_err err;
    struct mf_policy p = policy_of(1, 0);
    struct mf_lessons l;
    mf_lessons_fit(&p, &demos, MF_LIMITS, 0, false);
    must(mf_lessons_cut(&l, &p, &demos, &err), &err);
    ok(l.obs[0] == -1 && l.obs[2 * 3] == 1 && l.obs[1] == -1 && l.obs[3] == 0, "limits: the range to [-1, 1]");
    ok(p.obs_scale[2] == 1 && l.obs[2] == 0, "a feature that does not vary is moved to 0");
    ok(p.action_scale[0] == 1 && p.action_offset[0] == 0, "actions stay as they are");
    mf_lessons_release(&l);
    mf_lessons_fit(&p, &demos, MF_LIMITS, 4, true);
    must(mf_lessons_cut(&l, &p, &demos, &err), &err);
    ok(l.obs[0] == -.5f && l.obs[2 * 3] == .5f && l.obs[1] == -1 && l.obs[2] == 0,
       "a range below the floor is not stretched");
    near(l.actions[0], -1, 1e-6, "actions too, when asked");
    mf_lessons_release(&l);
    mf_lessons_fit(&p, &demos, MF_GAUSSIAN, 0, false);
    must(mf_lessons_cut(&l, &p, &demos, &err), &err);
    near(l.obs[0], (0 - .8) / sqrt(.56), 1e-6, "gaussian: mean 0, deviation 1");
    ok(p.obs_scale[2] == 1, "of what varies");
    mf_lessons_release(&l);
    mf_lessons_fit(&p, &demos, MF_IDENTITY, 0, true);
    ok(p.obs_scale[1] == 1 && p.obs_offset[1] == 0 && p.action_scale[0] == 1, "identity");
    mf_policy_release(&p);
}

/* A cloud of two points of one feature beside an image of one pixel, the same bytes as `obs`. */
static void fits_clouds(void)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = small_spec("reflow_mlp");
    s.obs = (struct mf_layout){2, 3, {{"cloud", {2, 1}, false}, {"image", {1, 1, 1}, true}}};
    s.action_dim = 1, s.horizon = 3, s.n_action_steps = 1, s.action_offset = 0;
    must(mf_policy_init(&p, &s, &err), &err);
    mf_lessons_fit(&p, &demos, MF_LIMITS, 0, false);
    near(p.obs_scale[0], 2. / 20, 1e-6, "the points of a cloud share their features' range");
    ok(p.obs_scale[1] == p.obs_scale[0] && p.obs_offset[1] == -1 && p.obs_offset[0] == -1, "each point alike");
    near(p.obs_scale[2], 2. / 255, 1e-6, "bytes go from 0..255 to [-1, 1], whatever there is of them");
    mf_lessons_fit(&p, &demos, MF_GAUSSIAN, 0, false);
    near(-p.obs_offset[1] / p.obs_scale[1], 4.4, 1e-6, "and their mean");
    mf_policy_release(&p);
}

int main(void)
{
    for (size_t i = 0; i < 5; i++) {
        size_t k = i >= 3, t = i - demo[k].start;
        obs[i * 3] = (float)t, obs[i * 3 + 1] = 10 * (float)t, obs[i * 3 + 2] = 7;
        actions[i] = (float)(100 * k + t);
    }
    cuts();
    fits();
    fits_clouds();
    return done();
}
