/* ReinFlow's image policies: a ViT and a SpatialEmb of each camera before FlowMLP (VisionFlowMLP) or ShortCutFlowMLP
 * (ShortCutFlowViT), with ViTCritic. Sizes follow from shapes; heads, pictures and steps are in the file's
 * configuration, if anywhere.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "flow/spec.h"
#include "import/import_families.h"
#include "nn/encoder.h"

#define VIT "network.backbone.vit."
static const char *const anchors[] = {VIT "pos_embed", "explore_noise_net.mlp_logvar.moduleList.0.linear_1.weight",
                                      "critic.Q1.layers.0.weight", NULL};

struct sizes {             /* of the file's shapes */
    int patches, cameras;  /* P; SpatialEmbs */
    int steps, state;      /* whose pictures the ViT encodes; numbers of all steps' states */
    int condition, action; /* what the network reads beside actions and time; numbers of a chunk */
    bool shortcut;
};

/* Parts of the published classes that our networks do not have. */
static int refuse(const struct mf_import *im, struct mf_err *err)
{
    static const struct {
        const char *name, *why;
    } unknown[] = {
        {"network.compress.0.weight", "is a Linear over all tokens (spatial_emb: 0); policy.encoder=vit has a "
                                      "SpatialEmb"},
        {VIT "patch_embed.embed.1.weight", "is a group norm of the patches (embed_norm: 1), which policy.encoder=vit "
                                           "does not have"},
        {"network.mlp_mean.moduleList.0.linear_1.weight", "belongs to a plain MLP (residual_style: false), and our "
                                                          "networks are residual ones"},
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        const struct mf_torch_tensor *t = mf_import_find(im, im->layout.weights, unknown[i].name);
        if (t)
            return mf_err_set(err, MF_EFORMAT, "%s of %s %s", t->name, im->file.zip.path, unknown[i].why);
    }
    return 0;
}

/* Keys that no tensor determines. DPPO's VisionDiffusionMLP has the names of VisionFlowMLP. */
static int ask(const struct mf_import *im, const struct mf_import_world *w, bool shortcut, struct mf_err *err)
{
    int horizon;
    char keys[300] = "";
    if (!shortcut && !mf_conf_was_set(w->conf, "policy.network"))
        strcat(keys, ", policy.network=reflow_mlp (if it predicts a velocity: policies that predict noise have the "
                     "same names)");
    if (!mf_conf_was_set(w->conf, "policy.activation"))
        strcat(keys, ", policy.activation=relu or mish");
    if (!w->obs && !mf_import_known(im, w, "policy.horizon", "horizon_steps", &horizon))
        strcat(keys, ", env=NAME (or policy.horizon=N where no environment of that name is here)");
    return *keys ? mf_err_set(err, MF_EUSAGE, "%s does not say all of the policy: give %s", im->file.zip.path, keys + 2)
                 : 0;
}

/* ---- sizes ---- */

static int cameras(const struct mf_import *im)
{
    char name[64];
    int n = 0;
    if (mf_import_dim(im, "network.compress.weight", 2))
        return 1;
    do
        snprintf(name, sizeof name, "network.compress%d.weight", n + 1);
    while (mf_import_dim(im, name, 2) && ++n < MF_OBS_KEYS);
    return n;
}

static int dim_of_camera(const struct mf_import *im, const char *of, int cameras, const char *rest, int d)
{
    char name[96];
    snprintf(name, sizeof name, "%s.compress%s.%s", of, cameras == 1 ? "" : "1", rest);
    return mf_import_dim(im, name, d);
}

static int describe_net(const struct mf_import *im, struct mf_net_spec *net, struct sizes *to, struct mf_err *err)
{
    char name[128];
    const bool shortcut = to->shortcut = mf_import_dim(im, "network.vel_head.layers.0.weight", 0) > 0;
    to->action =
        mf_import_residual(im, shortcut ? "network.vel_head" : "network.mlp_mean", &net->n_hidden, net->hidden);
    net->time_dim = shortcut ? mf_import_dim(im, "network.td_emb.0.weight", 0)
                             : mf_import_dim(im, "network.time_embedding.1.weight", 1);
    net->n_cond = 0;
    net->n_state = mf_import_rows(im, "network.prop_emb.moduleList.", 0, ".linear_1.weight", net->state);
    to->condition = shortcut ? mf_import_dim(im, "network.cond_embed.0.weight", 1)
                             : mf_import_dim(im, "network.mlp_mean.layers.0.weight", 1) - to->action - net->time_dim;
    to->patches = mf_import_dim(im, VIT "pos_embed", 1);
    to->steps = mf_import_dim(im, VIT "patch_embed.embed.0.weight", 1) / 3;
    to->cameras = cameras(im);
    to->state = dim_of_camera(im, "network", to->cameras, "input_proj.0.weight", 1) - to->patches;
    net->vit_width = mf_import_dim(im, VIT "pos_embed", 2);
    for (net->vit_layers = 0; net->vit_layers < 48; net->vit_layers++) {
        snprintf(name, sizeof name, VIT "net.%d.linear1.weight", net->vit_layers);
        if (!mf_import_dim(im, name, 0))
            break;
    }
    net->spatial_emb = dim_of_camera(im, "network", to->cameras, "weight", 2);
    if (to->action < 1 || net->time_dim < 1 || to->patches < 1 || to->steps < 1 || to->cameras < 1)
        return mf_err_set(err, MF_EFORMAT,
                          "%s lacks the last layer or the time embedding of its network, its pos_embed, its "
                          "patch_embed or its compress",
                          im->file.zip.path);
    return mf_encoder_find(&net->encoder, "vit", err) ||
                   mf_net_find(&net->net, shortcut ? "shortcut_mlp" : "reflow_mlp", err)
               ? err->code
               : 0;
}

/* The noise network reads the time where its input is as wide. A clone has neither critic nor noise network: an own
 * encoder and no time, as published. */
static void describe_heads(const struct mf_import *im, struct mf_policy_spec *s, const struct sizes *z)
{
    struct mf_net_spec *net = &s->net;
    const int in = mf_import_dim(im, "explore_noise_net.mlp_logvar.moduleList.0.linear_1.weight", 1),
              emb = dim_of_camera(im, "critic", z->cameras, "weight", 2);
    mf_import_heads(im, s);
    const bool shared = s->n_critic && !mf_import_dim(im, "critic.backbone.vit.pos_embed", 1);
    net->critic_encoder = shared ? MF_CRITIC_SHARED : MF_CRITIC_OWN;
    net->critic_emb = emb == net->spatial_emb ? 0 : emb;
    net->noise_time = in && in == (z->shortcut ? net->time_dim : z->condition) + net->time_dim;
}

/* ---- observations and actions ---- */

/* Windows along a side. */
static int windows(int side)
{
    return ((side - 8) / 4 + 1 - 3) / 2 + 1;
}

/* The side of the square picture of so many patches; 0: none. */
static int side_of(int patches)
{
    for (int side = 16; windows(side) * windows(side) <= patches; side += 8)
        if (windows(side) * windows(side) == patches)
            return side;
    return 0;
}

/* The i'th word of a list in the file's configuration, "[3, 96, 96]"; false: it has none. */
static bool listed(const char *list, int i, char *word, size_t size)
{
    if (!list || *list++ != '[')
        return false;
    for (; i > 0 && list; i--)
        list = (list = strchr(list, ',')) ? list + 1 : NULL;
    const int n = list ? (int)strcspn(list += strspn(list, " "), ",]") : 0;
    snprintf(word, size, "%.*s", n, list ? list : "");
    return n > 0 && n < (int)size;
}

/* Height and width: of env.image_size, of the configuration, or of a square. */
static int picture_size(struct mf_import *im, const struct mf_import_world *w, int patches, int dim[2],
                        struct mf_err *err)
{
    const char *shape = mf_import_configured(im, "shape_meta.obs.rgb.shape");
    char height[16], width[16];
    dim[0] = dim[1] = side_of(patches);
    if (mf_conf_was_set(w->conf, "env.image_size")) {
        dim[0] = dim[1] = atoi(mf_conf_text(w->conf, "env.image_size"));
    } else if (listed(shape, 1, height, sizeof height) && listed(shape, 2, width, sizeof width)) {
        dim[0] = atoi(height), dim[1] = atoi(width);
    } else if (dim[0]) {
        mf_import_assume(im, "pictures of %d x %d pixels, the square of %d patches (env.image_size)", dim[0], dim[1],
                         patches);
    } else {
        return mf_err_set(err, MF_EUSAGE,
                          "%s has %d patches, which no square picture has: give env=NAME and "
                          "policy.obs_keys, which name its pictures",
                          im->file.zip.path, patches);
    }
    return 0;
}

static bool is_picture(const char *name)
{
    return mf_ends(name, "_image") || mf_ends(name, "_rgb");
}

/* The names of the cameras: those of policy.obs_keys, of the configuration, or published ones. */
static void camera_name(struct mf_import *im, const struct mf_import_world *w, int cameras, int i, char name[64])
{
    int seen = 0;
    for (int k = 0; k < w->keys->n; k++)
        if (is_picture(w->keys->v[k]) && seen++ == i) {
            snprintf(name, 64, "%s", w->keys->v[k]);
            return;
        }
    if (listed(mf_import_configured(im, "env.wrappers.robomimic_image.image_keys"), i, name, 64))
        return;
    snprintf(name, 64, cameras == 1 ? "robot0_eye_in_hand_image" : "shouldercamera%d_image", i);
    mf_import_assume(im, "picture %s (policy.obs_keys)", name);
}

/* Without an environment: pictures, then states, whose names are the other ones of policy.obs_keys. */
static int observe(struct mf_import *im, const struct mf_import_world *w, const struct sizes *z, int state,
                   struct mf_layout *l, struct mf_err *err)
{
    int dim[2], named = 0;
    for (int i = 0; i < w->keys->n; i++)
        named += is_picture(w->keys->v[i]);
    if (w->keys->n && named != z->cameras)
        return mf_err_set(err, MF_EUSAGE,
                          "%s encodes %d camera(s), and policy.obs_keys names %d: names of pictures end in _image",
                          im->file.zip.path, z->cameras, named);
    if (picture_size(im, w, z->patches, dim, err))
        return err->code;
    *l = (struct mf_layout){0};
    for (int i = 0; i < z->cameras; i++) {
        struct mf_obs o = {.dim = {dim[0], dim[1], 3}, .u8 = true};
        camera_name(im, w, z->cameras, i, o.name);
        if (mf_import_add(im, l, &o, err))
            return err->code;
    }
    return state ? mf_import_observe(im, w, state, "state", NULL, l, err) : 0;
}

/* The patches of the pictures, and the cameras, are those of the file. */
static int check_pictures(const struct mf_import *im, const struct sizes *z, const struct mf_layout *l,
                          struct mf_err *err)
{
    if (mf_layout_pictures(l) != z->cameras)
        return mf_err_set(err, MF_EUSAGE,
                          "%s encodes %d camera(s), and the observation has %d: name them before the states, as in "
                          "policy.obs_keys=[robot0_eye_in_hand_image,robot0_eef_pos,robot0_eef_quat,"
                          "robot0_gripper_qpos]",
                          im->file.zip.path, z->cameras, mf_layout_pictures(l));
    for (int i = 0; i < l->n; i++) {
        const struct mf_obs *o = &l->key[i];
        if (!mf_obs_is_picture(o) || windows(o->dim[0]) * windows(o->dim[1]) == z->patches)
            continue;
        char advice[80] = "";
        if (side_of(z->patches))
            snprintf(advice, sizeof advice, ": give env.image_size=%d", side_of(z->patches));
        return mf_err_set(err, MF_EUSAGE, "pos_embed of %s has %d patches, and the %d x %d pixels of %s give %d x %d%s",
                          im->file.zip.path, z->patches, o->dim[0], o->dim[1], o->name, windows(o->dim[0]),
                          windows(o->dim[1]), advice);
    }
    return 0;
}

static int state_width(const struct mf_layout *l)
{
    int n = 0;
    for (int i = 0; i < l->n; i++)
        n += mf_obs_is_picture(&l->key[i]) ? 0 : mf_obs_size(&l->key[i]);
    return n;
}

/* Observation steps: as many states as the SpatialEmb reads, or as the key, the configuration or the pictures say. */
static int describe_steps(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w,
                          const struct sizes *z, struct mf_err *err)
{
    const int of_step = w->obs ? state_width(w->obs) : 0;
    const bool known = mf_import_known(im, w, "policy.n_obs_steps", "cond_steps", &s->n_obs_steps);
    char of[24] = "";
    if (z->state < 0)
        return mf_err_set(err, MF_EFORMAT,
                          "compress of %s reads %d numbers of a token's column, fewer than the %d patches of pos_embed",
                          im->file.zip.path, z->state + z->patches, z->patches);
    if (of_step && z->state % of_step == 0)
        s->n_obs_steps = z->state / of_step;
    else if (!known)
        s->n_obs_steps = z->steps;
    if (w->obs)
        snprintf(of, sizeof of, " of %d", of_step);
    if (s->n_obs_steps < 1 || z->state % s->n_obs_steps || (w->obs && of_step * s->n_obs_steps != z->state))
        return mf_err_set(err, MF_EUSAGE,
                          "compress of %s reads a state of %d numbers beside %d patches, which are not %d "
                          "observation(s)%s: does it want another env=NAME, policy.obs_keys or policy.n_obs_steps?",
                          im->file.zip.path, z->state, z->patches, s->n_obs_steps, of);
    s->net.img_steps = z->steps == s->n_obs_steps ? 0 : z->steps;
    return 0;
}

static int describe_chunk(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w, int D,
                          struct mf_err *err)
{
    if (w->obs && D % w->A == 0)
        s->horizon = D / w->A;
    else if (!w->obs)
        mf_import_known(im, w, "policy.horizon", "horizon_steps", &s->horizon);
    if (D % s->horizon || (w->obs && D % w->A))
        return mf_err_set(err, MF_EUSAGE, "the network of %s predicts %d numbers, which are not actions of %d%s",
                          im->file.zip.path, D, w->obs ? w->A : s->horizon,
                          w->obs ? ": does it want another env=NAME?" : " steps: give another policy.horizon");
    s->action_dim = w->obs ? w->A : D / s->horizon;
    if (!mf_conf_was_set(w->conf, "policy.n_action_steps"))
        s->n_action_steps = s->horizon - s->action_offset;
    mf_import_expect(im, w, "policy.n_action_steps", "act_steps", &s->n_action_steps);
    mf_import_expect(im, w, "policy.num_inference_steps", "denoising_steps", &s->K);
    return 0;
}

static void describe_attention(struct mf_import *im, const struct mf_import_world *w, struct mf_net_spec *net)
{
    static const char *const cfg[] = {"model.network.backbone.cfg.num_heads", "model.policy.backbone.cfg.num_heads",
                                      "model.actor.backbone.cfg.num_heads"};
    for (size_t i = 0; i < sizeof cfg / sizeof *cfg; i++)
        if (mf_import_known(im, w, "policy.encoder_heads", cfg[i], &net->vit_heads))
            return;
    mf_import_assume(im, "policy.encoder_heads=%d", net->vit_heads);
}

/* The condition: z of each camera, and the states or their embedding. */
static int check_condition(const struct mf_import *im, const struct mf_net_spec *net, const struct sizes *z,
                           struct mf_err *err)
{
    const int state = z->shortcut && z->state && net->n_state ? net->state[net->n_state - 1] : z->state,
              want = z->cameras * net->spatial_emb + state;
    return z->condition == want
               ? 0
               : mf_err_set(
                     err, MF_EFORMAT,
                     "%s of %s reads a condition of %d numbers, and %d camera(s) of %d and a state of %d give %d",
                     z->shortcut ? "cond_embed.0" : "mlp_mean.layers.0", im->file.zip.path, z->condition, z->cameras,
                     net->spatial_emb, state, want);
}

static int describe(struct mf_import *im, struct mf_policy_spec *s, const struct mf_import_world *w, struct mf_err *err)
{
    struct sizes z = {0};
    if (refuse(im, err) || describe_net(im, &s->net, &z, err) || ask(im, w, z.shortcut, err) ||
        (w->obs && check_pictures(im, &z, w->obs, err)) || describe_steps(im, s, w, &z, err) ||
        describe_chunk(im, s, w, z.action, err) || check_condition(im, &s->net, &z, err))
        return err->code;
    describe_heads(im, s, &z);
    describe_attention(im, w, &s->net);
    if (w->obs)
        return 0;
    return observe(im, w, &z, z.state / s->n_obs_steps, &s->obs, err) ? err->code
                                                                      : check_pictures(im, &z, &s->obs, err);
}

const struct mf_family mf_family_vit = {
    .name = "ReinFlow's image policy",
    .anchors = anchors,
    .names = mf_reinflow_names,
    .left = mf_reinflow_left,
    .describe = describe,
};
