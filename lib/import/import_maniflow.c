/* ManiFlow's point-cloud policy, DP3's encoder and DiTX, in its workspace or in the RL fork's policy_state_dict. Names
 * are ours; sizes follow from shapes, heads and observation steps from the file's configuration.
 */
#include <stdio.h>
#include <string.h>

#include "flow/spec.h"
#include "import/import_families.h"
#include "nn/dp3.h"

static const char *const anchors[] = {"model.vis_cond_pos_embed",          "obs_encoder.state_mlp.0.weight",
                                      "value_head.mlp.0.weight",           "attention_pool.query",
                                      "attention_pool.attention.0.weight", NULL};
static const struct mf_rename names[] = {{"model.", "model."},
                                         {"obs_encoder.", "obs_encoder."},
                                         {"value_head.", "value_head."},
                                         {"attention_pool.", "attention_pool."},
                                         {0}};
static const struct mf_left left[] = {
    {"noise_head.", "the RL fork's sigma does not see the time; policy.learned_noise=true grows a noise net that does"},
    {0}};

static int blocks(const struct mf_import *im)
{
    char name[64];
    int n = 0;
    for (; n <= MF_LAYERS_MAX; n++) {
        snprintf(name, sizeof name, "model.blocks.%d.mlp.fc1.weight", n);
        if (!mf_import_dim(im, name, 0))
            break;
    }
    return n;
}

static void describe_critic(const struct mf_import *im, struct mf_policy_spec *s)
{
    char name[64];
    for (s->n_critic = 0; s->n_critic < MF_DIMS_MAX; s->n_critic++) {
        snprintf(name, sizeof name, "value_head.mlp.%d.weight", 2 * s->n_critic);
        if (!(s->critic[s->n_critic] = mf_import_dim(im, name, 0)))
            break;
    }
    s->n_critic -= s->n_critic > 0; /* the last is the output */
    s->net.value_pool = mf_import_dim(im, "attention_pool.query", 2)                ? MF_VALUE_ATTENTION
                        : mf_import_dim(im, "attention_pool.attention.0.weight", 1) ? MF_VALUE_SCORE
                                                                                    : MF_VALUE_MEAN;
}

/* The sizes of the network. */
static int describe_net(const struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w,
                        struct mf_err *err)
{
    struct mf_net_spec *net = &s->net;
    int head = mf_import_dim(im, "model.blocks.0.cross_attn.q_norm.weight", 0);
    net->width = mf_import_dim(im, "model.input_emb.weight", 0);
    net->layers = blocks(im);
    net->time_dim = mf_import_dim(im, "model.flow_timestep_encoder.1.weight", 1);
    net->encoder_dim = mf_import_dim(im, "obs_encoder.extractor.final_projection.0.weight", 0);
    net->qkv_bias = mf_import_dim(im, "model.blocks.0.cross_attn.q.bias", 0) > 0;
    net->qk_norm = head > 0;
    net->color = mf_import_dim(im, "obs_encoder.extractor.mlp.0.weight", 1) == 6;
    if (head)
        net->heads = net->width / head;
    else if (!mf_import_known(im, w, "policy.n_head", "policy.n_head", &net->heads))
        return mf_err_set(err, MF_EUSAGE, "%s does not say how many heads its attention has: give policy.n_head=N",
                          im->file.zip.path);
    return mf_net_find(&net->net, "ditx", err);
}

/* Observations: the environment's, or those that the file names. L tokens: To*N points, or To. */
static int describe_world(const struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w,
                          struct mf_err *err)
{
    int L = mf_import_dim(im, "model.vis_cond_pos_embed", 1),
        S = mf_import_dim(im, "obs_encoder.state_mlp.0.weight", 1);
    int A = mf_import_dim(im, "model.input_emb.weight", 1), state = 0;
    if (!mf_import_known(im, w, "policy.n_obs_steps", "n_obs_steps", &s->n_obs_steps) || L % s->n_obs_steps)
        return mf_err_set(err, MF_EUSAGE,
                          "%s has %d tokens, and does not say of how many observations: give policy.n_obs_steps=N",
                          im->file.zip.path, L);
    int points = L / s->n_obs_steps;
    s->net.pointwise = points > 1;
    if (!w->obs && points == 1)
        return mf_err_set(err, MF_EUSAGE, "%s does not say how many points its clouds have: give env=NAME",
                          im->file.zip.path);
    const struct mf_obs cloud = {.name = "point_cloud", .dim = {points, s->net.color ? 6 : 3}};
    if (!w->obs && mf_import_observe(im, w, S, "agent_pos", &cloud, &s->obs, err))
        return err->code;
    if (!w->obs)
        s->action_dim = A;
    if (s->net.pointwise)
        mf_layout_points(&s->obs, points);
    for (int i = 0; i < s->obs.n; i++)
        state += mf_obs_rank(&s->obs.key[i]) == 1 ? mf_obs_size(&s->obs.key[i]) : 0;
    if (state != S || s->action_dim != A)
        return mf_err_set(
            err, MF_EUSAGE,
            "the network of %s reads a state of %d numbers and predicts actions of %d, and the environment's "
            "have %d and %d: does it want another env=NAME or policy.obs_keys?",
            im->file.zip.path, S, A, state, s->action_dim);
    return 0;
}

/* No tensor shows which end of time is noise, nor the input of the second time embedding: ManiFlow's workspace and the
 * RL fork's file are recognised by their layouts. */
static int describe_time(const struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w,
                         struct mf_err *err)
{
    const bool fork = !strcmp(im->layout.weights, "policy_state_dict"),
               own = !strcmp(im->layout.weights, "state_dicts.model") &&
                     !mf_import_tensor(im, im->layout.weights, "value_head.", "mlp.0.weight");
    if (!fork && !own && !mf_conf_was_set(w->conf, "policy.convention"))
        return mf_err_set(
            err, MF_EUSAGE,
            "%s does not say at which end of time the noise lies: give policy.convention=noise0 "
            "policy.target_time=step for ManiFlow's own, policy.convention=noise1 policy.target_time=zero "
            "for its RL fork",
            im->file.zip.path);
    if (fork || own)
        s->convention = fork ? MF_NOISE1 : MF_NOISE0;
    if (fork || own || !mf_conf_was_set(w->conf, "policy.target_time"))
        s->target_time = s->convention == MF_NOISE1 ? MF_TARGET_ZERO : MF_TARGET_STEP;
    return 0;
}

static int describe(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w, struct mf_err *err)
{
    if (mf_import_has_resnet(im))
        return mf_err_set(
            err, MF_EFORMAT,
            "%s is an image policy of ManiFlow, and a ResNet before its transformer is not supported: of such "
            "a file mf-ckpt import takes the encoder alone, where the tensors of 'model.' are removed",
            im->file.zip.path);
    s->horizon = mf_import_dim(im, "model.pos_emb", 1);
    if (mf_import_dim(im, "model.input_emb.weight", 1) < 1 || s->horizon < 1 || blocks(im) < 1)
        return mf_err_set(err, MF_EFORMAT, "%s lacks model.input_emb, model.pos_emb or its blocks", im->file.zip.path);
    if (describe_net(im, s, w, err) || describe_world(im, s, w, err) || describe_time(im, s, w, err))
        return err->code;
    describe_critic(im, s);
    s->n_noise = 0;
    s->learned_noise = false;
    mf_import_chunk(im, w, s);
    return 0;
}

const struct mf_family mf_family_maniflow = {
    .name = "ManiFlow's transformer",
    .anchors = anchors,
    .names = names,
    .left = left,
    .describe = describe,
};
