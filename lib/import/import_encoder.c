/* Encoders of pictures in files without a network, or with one that is no flow: a fresh network gets their weights. */
#include "flow/spec.h"
#include "import/import_families.h"

static const struct mf_left left[] = {{"actor", "the policy of PPO from scratch there is no flow"},
                                      {"critic", "the critic there is of another form: a fresh one is grown"},
                                      {0}};

static int describe(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w, struct mf_err *err)
{
    struct mf_pictured found;
    if (!w->obs)
        return mf_err_set(err, MF_EUSAGE,
                          "%s has an encoder and no policy: give the observations and actions of the fresh network by "
                          "env=NAME, or by normalizer=FILE.hdf5 (demonstrations), and policy.obs_keys=[..]",
                          im->file.zip.path);
    if (mf_import_encoder(im, &s->net, w, &found, err) || mf_import_pictures(im, w, &found, &s->obs, err))
        return err->code;
    im->encoder_alone = true;
    s->n_critic = s->n_noise = 0;
    s->learned_noise = false;
    return 0;
}

static const char *const plain_anchors[] = {"visual_encoder.cnn.0.weight", NULL};
static const struct mf_rename plain_names[] = {{"visual_encoder.", "visual_encoder."}, {"visual_encoder.", ""}, {0}};

const struct mf_family mf_family_plain_conv = {
    .name = "ManiSkill's plain convolutions",
    .anchors = plain_anchors,
    .names = plain_names,
    .left = left,
    .describe = describe,
};

static const char *const nature_anchors[] = {"feature_net.extractors.rgb.0.0.weight", NULL};
static const struct mf_rename nature_names[] = {{"feature_net.", "feature_net."}, {0}};

const struct mf_family mf_family_nature = {
    .name = "ManiSkill's NatureCNN",
    .anchors = nature_anchors,
    .names = nature_names,
    .left = left,
    .describe = describe,
};

static const struct mf_rename resnet_names[] = {{"obs_encoder.", "obs_encoder."}, {0}};
static const struct mf_left again[] = {{"obs_encoder.obs_nets.*.backbone.", "they are the network's weights again"},
                                       {"obs_encoder.obs_nets.*.pool.", "they are the network's weights again"},
                                       {0}};
static const char *const spatial_anchors[] = {"obs_encoder.obs_nets.*.nets.0.nets.0.weight", NULL};
static const char *const mean_anchors[] = {"obs_encoder.key_model_map.*.layer1.0.conv1.weight", NULL};

const struct mf_family mf_family_resnet_spatial = {
    .name = "robomimic's ResNet-18",
    .anchors = spatial_anchors,
    .names = resnet_names,
    .left = again,
    .describe = describe,
};
const struct mf_family mf_family_resnet_mean = {
    .name = "diffusion policy's ResNet-18",
    .anchors = mean_anchors,
    .names = resnet_names,
    .left = again,
    .describe = describe,
};
