/* ReinFlow's FlowMLP, ShortCutFlowMLP, NoisyFlowMLP and critic; DPPO's MLPs have the same names. A cloned policy is
 * network.*; a fine-tuned one is actor_ft.*, beside the policy that fine-tuning began with.
 */
#include <stdio.h>

#include "flow/spec.h"
#include "import/import_families.h"

static const char *const anchors[] = {"network.mlp_mean.layers.0.weight",
                                      "network.mlp_mean.moduleList.0.linear_1.weight",
                                      "network.vel_head.layers.0.weight",
                                      "explore_noise_net.mlp_logvar.moduleList.0.linear_1.weight",
                                      "critic.Q1.layers.0.weight",
                                      MF_ENCODER_ANCHORS,
                                      NULL};

const struct mf_rename mf_reinflow_names[] = {
    {"network.", "actor_ft.policy."},
    {"network.", "actor_ft."},
    {"network.", "network."},
    {"network.", "actor."},
    {"network.", ""},
    {"explore_noise_net.", "actor_ft.explore_noise_net."},
    {"explore_noise_net.", "explore_noise_net."},
    {"critic.", "critic."},
    MF_ENCODER_NAMES,
    {0},
};

static const char before[] = "they are the policy that fine-tuning began with";
const struct mf_left mf_reinflow_left[] = {{"actor_old.", before}, {"actor.", before}, {"network.", before}, {0}};

/* Keys that no tensor determines. */
static int ask(const struct mf_import *im, const struct mf_import_world *w, struct mf_err *err)
{
    bool activation = mf_conf_was_set(w->conf, "policy.activation");
    bool world = w->obs || mf_conf_was_set(w->conf, "policy.horizon");
    if (activation && world)
        return 0;
    return mf_err_set(err, MF_EUSAGE, "%s does not say all of the policy: give %s%s%s", im->file.zip.path,
                      activation ? "" : "policy.activation=relu or mish", activation || world ? "" : ", and ",
                      world ? "" : "env=NAME (or policy.horizon=N where no environment of that name is here)");
}

/* The network maps O numbers to D: n_obs_steps observations to horizon actions, of the environment or, without one, of
 * the keys; then policy.obs_keys names the observation, else it is "state", as ReinFlow calls Gymnasium's. Of pictures
 * it reads the features of the encoder that was found. */
static int divide(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w,
                  const struct mf_pictured *found, int O, int D, struct mf_err *err)
{
    struct mf_layout l = w->obs ? *w->obs : (struct mf_layout){0};
    if (found->channels && mf_import_pictures(im, w, found, &l, err))
        return err->code;
    const int dim = found->channels ? found->width + mf_layout_features(&l) : l.dim;
    if (w->obs && (O % dim || D % w->A))
        return mf_err_set(
            err, MF_EUSAGE,
            "the network of %s reads %d numbers and predicts %d, but an observation has %d and an action %d: "
            "does it want another env=NAME or policy.obs_keys?",
            im->file.zip.path, O, D, dim, w->A);
    if (!w->obs && (O % s->n_obs_steps || D % s->horizon))
        return mf_err_set(err, MF_EUSAGE,
                          "the network of %s reads %d numbers and predicts %d, which are not policy.n_obs_steps=%d "
                          "observations and policy.horizon=%d actions",
                          im->file.zip.path, O, D, s->n_obs_steps, s->horizon);
    if (w->obs || found->channels)
        s->obs = l;
    if (w->obs) {
        s->n_obs_steps = O / dim;
        s->horizon = D / w->A;
    } else {
        const int state = O / s->n_obs_steps - found->width;
        if (state > 0 && mf_import_observe(im, w, state, "state", NULL, &s->obs, err))
            return err->code;
        s->action_dim = D / s->horizon;
    }
    if (!mf_conf_was_set(w->conf, "policy.n_action_steps"))
        s->n_action_steps = s->horizon - s->action_offset;
    mf_import_expect(im, w, "policy.n_action_steps", "act_steps", &s->n_action_steps);
    mf_import_expect(im, w, "policy.num_inference_steps", "denoising_steps", &s->K);
    return 0;
}

static int describe(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w, struct mf_err *err)
{
    struct mf_net_spec *net = &s->net;
    struct mf_pictured found;
    bool shortcut = mf_import_dim(im, "network.vel_head.layers.0.weight", 0) > 0;
    const char *trunk = shortcut ? "network.vel_head" : "network.mlp_mean";
    const char *cond = shortcut ? "network.cond_emb.moduleList." : "network.cond_mlp.moduleList.";
    char name[128];
    if (mf_import_dim(im, "network.mlp_mean.moduleList.0.linear_1.weight", 0))
        return mf_err_set(err, MF_EFORMAT,
                          "mlp_mean of %s is a plain MLP (residual_style: false), and our networks are residual ones",
                          im->file.zip.path);
    int D = mf_import_residual(im, trunk, &net->n_hidden, net->hidden);
    net->time_dim = shortcut ? mf_import_dim(im, "network.t_emb.0.weight", 0)
                             : mf_import_dim(im, "network.time_embedding.1.weight", 1);
    net->n_cond = mf_import_rows(im, cond, 0, ".linear_1.weight", net->cond);
    snprintf(name, sizeof name, "%s0.linear_1.weight", cond);
    int O = net->n_cond ? mf_import_dim(im, name, 1)
            : shortcut  ? net->time_dim
                        : mf_import_dim(im, "network.mlp_mean.layers.0.weight", 1) - D - net->time_dim;
    mf_import_heads(im, s);
    if (D < 1 || O < 1 || net->time_dim < 1)
        return mf_err_set(err, MF_EFORMAT, "%s of %s lacks its last layer, its time embedding or its condition", trunk,
                          im->file.zip.path);
    if (mf_net_find(&net->net, shortcut ? "shortcut_mlp" : "reflow_mlp", err) || ask(im, w, err) ||
        mf_import_encoder(im, net, w, &found, err))
        return err->code;
    return divide(im, s, w, &found, O, D, err);
}

const struct mf_family mf_family_reinflow = {
    .name = "ReinFlow's or DPPO's MLP",
    .anchors = anchors,
    .names = mf_reinflow_names,
    .left = mf_reinflow_left,
    .describe = describe,
};
