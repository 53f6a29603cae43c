/* The conditional 1-D U-Net: in an agent of the ReinFlow document's stages, in diffusion policy's workspace, alone, or
 * as mf-ckpt export writes it. Widths follow from shapes; the horizon and the groups of the norms are in the file's
 * configuration, if anywhere.
 */
#include <stdio.h>

#include "flow/spec.h"
#include "import/import_families.h"

#define NET "velocity_net.unet."
static const char *const anchors[] = {NET "diffusion_step_encoder.1.weight", "critic.Q1.layers.0.weight",
                                      "explore_noise_net.mlp_logvar.moduleList.0.linear_1.weight", MF_ENCODER_ANCHORS,
                                      NULL};

static const char diffusion[] = "noise_pred_net."; /* ManiSkill's baseline */
static const struct mf_rename names[] = {{"velocity_net.", "velocity_net."},
                                         {"velocity_net.", "noisy_velocity_net.base_net."},
                                         {"velocity_net.", "base_net."},
                                         {NET, "model."},
                                         {NET, diffusion},
                                         {NET, "unet."},
                                         {NET, ""},
                                         {"critic.", "critic."},
                                         {"explore_noise_net.", "explore_noise_net."},
                                         MF_ENCODER_NAMES,
                                         {0}};

static const char idle[] = "the published network makes them and does not use them",
                  other[] = "the noise network and the critic there are of another form: fresh ones are grown",
                  again[] = "they are the average of the weights again",
                  twice[] = "they are the encoder's weights again";
static const struct mf_left left[] = {{"velocity_net_ema.", again},
                                      {"velocity_net.step_size_embed.", idle},
                                      {"velocity_net.combine_embed.", idle},
                                      {"noisy_velocity_net.base_net.step_size_embed.", idle},
                                      {"noisy_velocity_net.base_net.combine_embed.", idle},
                                      {"base_net.step_size_embed.", idle},
                                      {"base_net.combine_embed.", idle},
                                      {"noisy_velocity_net.", other},
                                      {"value_net", other},
                                      {"obs_encoder.obs_nets.*.backbone.", twice},
                                      {"obs_encoder.obs_nets.*.pool.", twice},
                                      {0}};

/* The layers for a step size may be trained or unused: the file does not show which. */
static int choose(const struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w,
                  struct mf_err *err)
{
    if (!mf_import_dim(im, "velocity_net.step_size_embed.0.weight", 0))
        return mf_net_find(&s->net.net, "unet", err);
    if (mf_conf_was_set(w->conf, "policy.network"))
        return 0;
    return mf_err_set(err, MF_EUSAGE,
                      "%s has layers for a step size, which the published network does not use: give "
                      "policy.network=unet, or policy.network=shortcut_unet where they were trained",
                      im->file.zip.path);
}

static int describe_net(const struct mf_import *im, struct mf_net_spec *net, const struct mf_import_world *w,
                        struct mf_err *err)
{
    static const char first[] = NET "down_modules.0.0.blocks.0.block.0.weight";
    const char *path = im->file.zip.path;
    net->time_dim = mf_import_dim(im, NET "diffusion_step_encoder.1.weight", 1);
    net->n_down = mf_import_rows(im, NET "down_modules.", 0, ".0.blocks.0.block.0.weight", net->down);
    net->kernel = mf_import_dim(im, first, 2);
    if (net->n_down < 1 || net->kernel < 1)
        return mf_err_set(err, MF_EFORMAT, "%s has a U-Net without %s (out, in, kernel)", path, first);
    if ((mf_torch_value(&im->file, "cfg", "policy.noise_scheduler._target_") ||
         mf_import_tensor(im, im->layout.weights, diffusion, "final_conv.1.weight")) &&
        !mf_conf_was_set(w->conf, "policy.network"))
        return mf_err_set(err, MF_EFORMAT,
                          "%s was trained to predict the noise of a diffusion, and not a velocity; policy.network=unet "
                          "imports its weights nevertheless, as a start for a flow",
                          path);
    if (mf_import_dim(im, NET "down_modules.0.0.cond_encoder.1.weight", 0) != 2 * net->down[0])
        return mf_err_set(
            err, MF_EFORMAT,
            "the blocks of %s add what they know of the observation (cond_predict_scale: false), and ours "
            "scale by it, too",
            path);
    if (!mf_import_known(im, w, "policy.n_groups", "policy.n_groups", &net->n_groups) &&
        !mf_import_known(im, w, "policy.n_groups", "policy.model.n_groups", &net->n_groups))
        return mf_err_set(err, MF_EUSAGE,
                          "%s does not say how many groups of channels its norms have: give policy.n_groups=N; "
                          "published ones have 8",
                          path);
    return 0;
}

/* Observations: the environment's, or those that keys and file name. The network reads `code` numbers of a step's
 * pictures, and the others as they are. */
static int describe_world(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w,
                          struct mf_err *err)
{
    struct mf_pictured found;
    struct mf_layout l = w->obs ? *w->obs : (struct mf_layout){0};
    if (mf_import_encoder(im, &s->net, w, &found, err) ||
        (found.channels && mf_import_pictures(im, w, &found, &l, err)))
        return err->code;
    int O = mf_import_dim(im, NET "down_modules.0.0.cond_encoder.1.weight", 1) - s->net.time_dim;
    int A = mf_import_dim(im, NET "final_conv.1.weight", 0), dim = 1;
    if (w->obs)
        dim = found.channels ? found.width + mf_layout_features(&l) : l.dim;
    const char *path = im->file.zip.path;
    if (!mf_import_known(im, w, "policy.horizon", "horizon", &s->horizon))
        return mf_err_set(err, MF_EUSAGE, "%s does not say how many actions it predicts at once: give policy.horizon=N",
                          path);
    if (w->obs && O > 0 && O % dim == 0)
        s->n_obs_steps = O / dim;
    else if (!w->obs)
        mf_import_known(im, w, "policy.n_obs_steps", "n_obs_steps", &s->n_obs_steps);
    const int state = O / s->n_obs_steps - found.width;
    if (O < 1 || O % (s->n_obs_steps * dim) || state < 0 || A < 1 || (w->obs && A != w->A))
        return mf_err_set(
            err, MF_EUSAGE,
            "the network of %s reads %d numbers and predicts actions of %d, which are not %d observations of "
            "%d and actions of %d: does it want another env=NAME, policy.obs_keys or policy.n_obs_steps?",
            path, O, A, s->n_obs_steps, w->obs ? dim : O / s->n_obs_steps, w->obs ? w->A : A);
    if (w->obs || found.channels)
        s->obs = l;
    if (w->obs)
        return 0;
    s->action_dim = A;
    return state == 0 ? 0 : mf_import_observe(im, w, state, "state", NULL, &s->obs, err);
}

static int describe(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w, struct mf_err *err)
{
    if (choose(im, s, w, err) || describe_net(im, &s->net, w, err) || describe_world(im, s, w, err))
        return err->code;
    mf_import_heads(im, s);
    mf_import_chunk(im, w, s);
    return 0;
}

const struct mf_family mf_family_unet = {
    .name = "a conditional 1-D U-Net",
    .anchors = anchors,
    .names = names,
    .left = left,
    .describe = describe,
};
