/* pi0.5 in files of openpi, RLinf and LeRobot (whose names begin with "model."): names are ours; sizes follow from
 * shapes, but for the heads of the vision tower. Published vision towers have heads of 72 numbers.
 */
#include <math.h>
#include <stdio.h>

#include "import/import_families.h"

#define PALIGEMMA "paligemma_with_expert.paligemma."
#define TOWER     PALIGEMMA "model.vision_tower."
#define LANGUAGE  PALIGEMMA "model.language_model."
#define EXPERT    "paligemma_with_expert.gemma_expert."

static const char *const anchors[] = {EXPERT "model.norm.dense.weight",
                                      LANGUAGE "embed_tokens.weight",
                                      TOWER "vision_model.post_layernorm.weight",
                                      "action_in_proj.weight",
                                      "time_mlp_in.weight",
                                      "value_head.mlp.0.weight",
                                      "noise_head.mlp_logvar.moduleList.0.linear_1.weight",
                                      NULL};
/* The embedding and the language model's head are one matrix: safetensors files often hold it as the latter. */
static const struct mf_rename names[] = {{LANGUAGE "embed_tokens.", LANGUAGE "embed_tokens."},
                                         {LANGUAGE "embed_tokens.", PALIGEMMA "lm_head."},
                                         {TOWER "vision_model.", TOWER "vision_model."},
                                         {TOWER "vision_model.", TOWER},
                                         {"paligemma_with_expert.", "paligemma_with_expert."},
                                         {"action_", "action_"},
                                         {"time_mlp_", "time_mlp_"},
                                         {"time_mlp_", "action_time_mlp_"},
                                         {"value_head.", "value_head."},
                                         {"noise_head.", "noise_head."},
                                         {0}};
static const struct mf_left left[] = {
    {PALIGEMMA "lm_head.", "it is the embedding again, which predicts words"},
    {EXPERT "lm_head.", "the action expert predicts no words"},
    {EXPERT "model.layers.*layernorm.weight", "the norms of pi0.5's expert have modulations instead of weights"},
    {EXPERT "model.norm.weight", "the norms of pi0.5's expert have modulations instead of weights"},
    {"state_proj.", "pi0.5 reads the state in its prompt"},
    {0}};

static int layers(const struct mf_import *im, const char *root, const char *rest)
{
    char name[160];
    int n = 0;
    for (; n <= MF_LAYERS_MAX; n++) {
        snprintf(name, sizeof name, "%s%d.%s", root, n, rest);
        if (!mf_import_dim(im, name, 0))
            break;
    }
    return n;
}

static int describe_net(const struct mf_import *im, struct mf_net_spec *net, const struct mf_import_world *w,
                        struct mf_err *err)
{
    net->layers = layers(im, LANGUAGE "layers.", "self_attn.k_proj.weight");
    net->width = mf_import_dim(im, LANGUAGE "embed_tokens.weight", 1);
    net->vocabulary = mf_import_dim(im, LANGUAGE "embed_tokens.weight", 0);
    net->mlp = mf_import_dim(im, LANGUAGE "layers.0.mlp.up_proj.weight", 0);
    net->head_dim = mf_import_dim(im, LANGUAGE "layers.0.self_attn.k_proj.weight", 0);
    net->expert_width = mf_import_dim(im, EXPERT "model.layers.0.mlp.up_proj.weight", 1);
    net->expert_mlp = mf_import_dim(im, EXPERT "model.layers.0.mlp.up_proj.weight", 0);
    net->vit_layers = layers(im, TOWER "vision_model.encoder.layers.", "self_attn.k_proj.weight");
    net->vit_width = mf_import_dim(im, TOWER "vision_model.embeddings.patch_embedding.weight", 0);
    net->vit_mlp = mf_import_dim(im, TOWER "vision_model.encoder.layers.0.mlp.fc1.weight", 0);
    net->patch = mf_import_dim(im, TOWER "vision_model.embeddings.patch_embedding.weight", 2);
    net->action_width = mf_import_dim(im, "action_in_proj.weight", 1);
    if (net->head_dim)
        net->heads = mf_import_dim(im, LANGUAGE "layers.0.self_attn.q_proj.weight", 0) / net->head_dim;
    const int all[] = {net->layers,       net->width,      net->vocabulary,  net->mlp,       net->head_dim,
                       net->heads,        net->expert_mlp, net->vit_layers,  net->vit_width, net->vit_mlp,
                       net->expert_width, net->patch,      net->action_width};
    bool whole = net->layers <= MF_LAYERS_MAX && net->vit_layers <= MF_LAYERS_MAX;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        whole = whole && all[i] > 0;
    if (!whole)
        return mf_err_set(err, MF_EFORMAT, "%s lacks layers of the language model, patches or action_in_proj",
                          im->file.zip.path);
    const bool known = mf_import_known(im, w, "policy.encoder_heads", "policy.encoder_heads", &net->vit_heads);
    if (!known && net->vit_width % 72 == 0)
        net->vit_heads = net->vit_width / 72;
    else if (!known)
        return mf_err_set(err, MF_EUSAGE,
                          "%s does not say how many heads its vision tower has: give policy.encoder_heads=N",
                          im->file.zip.path);
    return mf_net_find(&net->net, "pi05", err);
}

/* Without an environment: published cameras, with pictures of the size of the position embedding, and 200 tokens. */
static int describe_world(const struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w,
                          struct mf_err *err)
{
    static const char *const cameras[] = {"image", "wrist_image"};
    const int tokens = mf_import_dim(im, TOWER "vision_model.embeddings.position_embedding.weight", 0),
              side = (int)lround(sqrt(tokens)) * s->net.patch;
    for (int i = 0; !w->obs && i < 2; i++) {
        struct mf_obs o = {.dim = {side, side, 3}, .u8 = true};
        snprintf(o.name, sizeof o.name, "%s", cameras[i]);
        if (mf_import_add(im, &s->obs, &o, err))
            return err->code;
    }
    if (!w->obs) {
        mf_layout_add(&s->obs, &(struct mf_obs){.name = MF_OBS_TOKENS, .dim = {200}});
        s->action_dim = s->net.action_width;
    }
    return 0;
}

static int describe(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w, struct mf_err *err)
{
    if (describe_net(im, &s->net, w, err) || describe_world(im, s, w, err))
        return err->code;
    s->convention = MF_NOISE1;
    s->n_critic = 0;
    for (char name[48]; s->n_critic < MF_DIMS_MAX; s->n_critic++) {
        snprintf(name, sizeof name, "value_head.mlp.%d.weight", 2 * s->n_critic);
        if (!(s->critic[s->n_critic] = mf_import_dim(im, name, 0)))
            break;
    }
    s->n_critic -= s->n_critic > 0; /* the last is the output */
    s->n_noise = mf_import_rows(im, "noise_head.mlp_logvar.moduleList.", 0, ".linear_1.weight", s->noise);
    s->learned_noise = s->n_noise > 0;
    s->n_noise -= s->n_noise > 0;
    mf_import_expect(im, w, "policy.horizon", "horizon", &s->horizon);
    mf_import_chunk(im, w, s);
    return 0;
}

const struct mf_family mf_family_pi05 = {
    .name = "pi0.5",
    .anchors = anchors,
    .names = names,
    .left = left,
    .describe = describe,
};
