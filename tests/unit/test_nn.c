/* Published parameter counts (ReinFlow's configurations), names and invalid sizes. */
#include "policies.h"

struct row {
    const char *what, *net;
    int obs, act, chunk, hidden, time, cond[2], noise;
    size_t policy, noise_net, critic;
};

static const struct row rows[] = {
    {"Hopper ReFlow", "reflow_mlp", 11, 3, 4, 512, 16, {0}, 64, 553020, 6734, 134913},
    {"Hopper shortcut", "shortcut_mlp", 11, 3, 4, 512, 16, {64, 16}, 64, 548924, 7054, 134913},
    {"Ant ReFlow", "reflow_mlp", 111, 8, 4, 512, 16, {0}, 64, 624720, 14434, 160513},
    {"Kitchen shortcut", "shortcut_mlp", 60, 9, 4, 256, 16, {32, 16}, 64, 157684, 8614, 147457},
    {"Transport ReFlow", "reflow_mlp", 59, 14, 8, 1024, 32, {0}, 128, 2427088, 42738, 147201},
};

static struct mf_policy_spec spec_of(const struct row *r)
{
    struct mf_policy_spec s = small_spec(r->net);
    s.obs.dim = r->obs, s.action_dim = r->act, s.horizon = s.n_action_steps = r->chunk, s.action_offset = 0;
    s.learned_noise = true;
    s.net.time_dim = r->time;
    s.net.n_cond = r->cond[0] ? 2 : 0;
    for (int i = 0; i < 3; i++)
        s.net.hidden[i] = r->hidden, s.critic[i] = 256;
    for (int i = 0; i < 2; i++)
        s.net.cond[i] = r->cond[i], s.noise[i] = r->noise;
    return s;
}

static void counts(void)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct mf_err err;
        struct mf_policy p;
        struct mf_policy_spec s = spec_of(&rows[i]);
        must(mf_policy_init(&p, &s, &err), &err);
        size_t noise = mf_params_count(&p.params, MF_GROUP_NOISE) + mf_params_count(&p.params, MF_GROUP_BUFFER);
        ok(mf_params_count(&p.params, MF_GROUP_POLICY) == rows[i].policy, "%s: policy", rows[i].what);
        ok(noise == rows[i].noise_net, "%s: noise net", rows[i].what);
        ok(mf_params_count(&p.params, MF_GROUP_CRITIC) == rows[i].critic, "%s: critic", rows[i].what);
        mf_policy_release(&p);
    }
}

static void names(void)
{
    static const struct {
        const char *net, *name;
        int rows, cols;
    } want[] = {
        {"reflow_mlp", "network.time_embedding.1.weight", 16, 8},
        {"reflow_mlp", "network.time_embedding.3.bias", 1, 8},
        {"reflow_mlp", "network.mlp_mean.layers.0.weight", 16, 6 + 8 + 5},
        {"reflow_mlp", "network.mlp_mean.layers.1.l1.weight", 16, 16},
        {"reflow_mlp", "network.mlp_mean.layers.2.bias", 1, 6},
        {"reflow_mlp", "critic.Q1.layers.1.l2.weight", 9, 9},
        {"reflow_mlp", "explore_noise_net.mlp_logvar.moduleList.2.linear_1.weight", 6, 6},
        {"reflow_mlp", "explore_noise_net.logvar_max", 1, 1},
        {"shortcut_mlp", "network.t_emb.0.weight", 8, 16},
        {"shortcut_mlp", "network.cond_emb.moduleList.1.linear_1.weight", 8, 10},
        {"shortcut_mlp", "network.vel_head.layers.0.weight", 16, 6 + 8},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        struct mf_err err;
        struct mf_policy p;
        struct mf_policy_spec s = small_spec(want[i].net);
        s.learned_noise = true;
        must(mf_policy_init(&p, &s, &err), &err);
        int at = mf_param_find(&p.params, want[i].name);
        ok(at >= 0 && p.params.p[at].rows == want[i].rows && p.params.p[at].cols == want[i].cols, "%s", want[i].name);
        mf_policy_release(&p);
    }
}

static void fresh(void)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = small_spec("reflow_mlp");
    s.learned_noise = true;
    must(mf_policy_init(&p, &s, &err), &err);
    p.noise_low = .1, p.noise_high = .24;
    mf_policy_fresh(&p, 3);
    const struct mf_param *w = &p.params.p[mf_param_find(&p.params, "network.mlp_mean.layers.1.l1.weight")];
    float low = 0, high = 0;
    for (int i = 0; i < w->rows * w->cols; i++) {
        low = fminf(low, p.params.value[w->at + (size_t)i]);
        high = fmaxf(high, p.params.value[w->at + (size_t)i]);
    }
    ok(low >= -.25f && low < -.2f && high <= .25f && high > .2f, "a fresh weight is U(+-1/sqrt(16))");
    float logvar = p.params.value[p.params.p[mf_param_find(&p.params, "explore_noise_net.logvar_min")].at];
    near(logvar, 2 * log(.1), 1e-6, "logvar_min follows the bounds");
    mf_policy_release(&p);
}

static void refused(void)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = small_spec("reflow_mlp");
    s.net.hidden[1] = 8;
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "uneven widths: %s", err.text);
    s = small_spec("reflow_mlp");
    s.net.n_hidden = 2;
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "half a block");
    s = small_spec("reflow_mlp");
    s.critic[2] = 8;
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "uneven critic: %s", err.text);
    s = small_spec("shortcut_mlp");
    s.net.n_cond = 0;
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "a condition that cannot be added: %s", err.text);
    s = small_spec("reflow_mlp");
    s.objective = MF_STEP;
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "step without single: %s", err.text);
    s.objective = MF_STEP_MEAN, s.denoise = MF_SINGLE;
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "step_mean without joint");
    s = small_spec("reflow_mlp");
    s.action_offset = 2;
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "a slice beyond the horizon: %s", err.text);
    s = small_spec("reflow_mlp");
    s.learned_noise = true, s.noise_method = MF_FLOW_SDE;
    ok(mf_policy_init(&p, &s, &err) == MF_EUSAGE, "learned noise of an SDE");
    ok(mf_net_find(&s.net.net, "resnet", &err) == MF_EUSAGE, "%s", err.text);
}

int main(void)
{
    counts();
    names();
    fresh();
    refused();
    return done();
}
