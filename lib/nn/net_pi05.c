/* pi0.5 (Black et al., 2025): a vision-language model encodes pictures and a prompt, and an action expert beside it
 * denoises the actions of a horizon.
 *
 * Observation, one step: all its pictures, in the order of the keys, float in [-1, 1] or uint8; MF_OBS_TOKENS, float32
 * (L): the ids of the prompt's tokens, 0 behind it; and, where pictures may be missing,
 * MF_OBS_IMAGE_MASK, float32 (I): 1 for each picture that is there, else 0. Other keys are not read but in the prompt
 * (policy.state_in_prompt). The normaliser of these keys is the identity. Time runs from noise at 1 to
 * actions at 0.
 *
 * The prefix has I*P slots of pictures and L of text. Its keys and values, of every layer, are computed once for all
 * denoising steps; actions attend to them and to each other. Nobody attends to a slot that is masked, so none is
 * computed where the device can leave rows out; in the published code such a slot attends to all slots.
 *
 *   S = I*P + L slots of the prefix  k steps
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "nn/encoder.h"
#include "nn/mlp.h"
#include "nn/pi05.h"

#define LANGUAGE "paligemma_with_expert.paligemma.model.language_model."
#define EXPERT   "paligemma_with_expert.gemma_expert.model."

/* Of an observation's share: part[2i] and part[2i + 1] are keys and values of layer i, and behind these of all layers
 * are the mask of the slots (S, 1), and the waves of the positions of slots and of actions. */
enum { MASK, SLOTS, ACTIONS, PARTS };

static int part_of(const struct mf_net_spec *s, int what)
{
    return 2 * s->layers + what;
}

/* ---- sizes ---- */

static int check_keys(const struct mf_net_spec *s, struct mf_err *err)
{
    const struct mf_obs *tokens = mf_layout_find(&s->obs, MF_OBS_TOKENS),
                        *mask = mf_layout_find(&s->obs, MF_OBS_IMAGE_MASK);
    if (!tokens || mf_obs_rank(tokens) != 1 || tokens->u8)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.network=pi05 reads a prompt: policy.obs_keys need the key " MF_OBS_TOKENS
                          ", float32 of one dimension");
    if (mask && (mf_obs_rank(mask) != 1 || mask->u8 || mask->dim[0] != mf_layout_pictures(&s->obs)))
        return mf_err_set(err, MF_EUSAGE,
                          "the observation " MF_OBS_IMAGE_MASK " must be float32 with a number for each of %d pictures",
                          mf_layout_pictures(&s->obs));
    return 0;
}

static int check(const struct mf_net_spec *s, struct mf_err *err)
{
    const int most = MF_LAYERS_MAX - (PARTS + 1) / 2;
    if (s->n_obs_steps != 1)
        return mf_err_set(err, MF_EUSAGE, "policy.network=pi05 reads one step, not policy.n_obs_steps=%d",
                          s->n_obs_steps);
    if (s->layers > most)
        return mf_err_set(err, MF_EUSAGE, "policy.n_layer=%d: policy.network=pi05 has at most %d layers", s->layers,
                          most);
    if (s->head_dim % 2 || s->expert_width % 2 || s->expert_width < 4)
        return mf_err_set(err, MF_EUSAGE,
                          "policy.head_dim=%d and policy.expert_width=%d must be even, and the latter at least 4",
                          s->head_dim, s->expert_width);
    return check_keys(s, err) ? err->code : mf_pi05_vision_check(s, err);
}

/* ---- the prefix ---- */

/* Column (n, 1) of a key's numbers. */
static struct mf_val numbers(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val raw, const char *name)
{
    const int n = mf_layout_find(&s->obs, name)->dim[0];
    return mf_reshape(g, mf_slice_cols(g, raw, mf_layout_column(&s->obs, name), n), n, 1);
}

/* (S, 1). Without a mask of its own a picture is there: any number is above -infinity. */
static struct mf_val mask_of(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val raw, struct mf_val tokens)
{
    const bool own = mf_layout_find(&s->obs, MF_OBS_IMAGE_MASK);
    const int P = mf_layout_pictures(&s->obs) * mf_pi05_patches(s);
    struct mf_val seen = own ? numbers(g, s, raw, MF_OBS_IMAGE_MASK) : mf_slice_rows(g, tokens, 0, 1);
    struct mf_val both[] = {mf_above(g, seen, own ? .5f : -INFINITY, P), mf_above(g, tokens, .5f, mf_rows(g, tokens))};
    return mf_stack(g, 2, both);
}

static struct mf_val embeddings(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val raw,
                                struct mf_val tokens, struct mf_val mask)
{
    const int W = mf_param_add(mf_graph_params(g), LANGUAGE "embed_tokens.weight", s->vocabulary, s->width, 2,
                               MF_GROUP_ENCODER, MF_INIT_NORMAL, (float)(1 / sqrt(s->width)));
    const bool missing = mf_layout_find(&s->obs, MF_OBS_IMAGE_MASK);
    struct mf_val seen = missing ? mf_slice_rows(g, mask, 0, mf_rows(g, mask) - mf_rows(g, tokens)) : MF_NONE;
    struct mf_val both[] = {mf_pi05_vision(g, s, raw, seen), mf_lookup(g, tokens, W, sqrtf((float)s->width))};
    return mf_only(g, mf_stack(g, 2, both), mask);
}

static struct mf_gemma language(const struct mf_net_spec *s, const struct mf_share *c)
{
    return (struct mf_gemma){.s = s,
                             .root = LANGUAGE,
                             .group = MF_GROUP_ENCODER,
                             .width = s->width,
                             .mlp = s->mlp,
                             .waves = c->part[part_of(s, SLOTS)]};
}

/* The norm before layer i's attention, and what is behind keys and values. */
static struct mf_val enter(struct mf_graph *g, const struct mf_gemma *a, int i, struct mf_val h, struct mf_val m)
{
    char name[64];
    snprintf(name, sizeof name, "layers.%d.input_layernorm", i);
    return mf_gemma_norm(g, a, name, h, m);
}

static struct mf_keys keys_of(const struct mf_net_spec *s, const struct mf_share *c, int i)
{
    return (struct mf_keys){.k = c->part[2 * i], .v = c->part[2 * i + 1], .mask = c->part[part_of(s, MASK)]};
}

/* What only a critic reads has parameters in every checkpoint: they are recorded in a graph that is thrown away. */
static void add_rest(struct mf_params *ps, const struct mf_net_spec *s, int slots)
{
    struct mf_graph *g = mf_graph_new(ps);
    const int last = s->layers - 1, D = s->head_dim;
    struct mf_share c = {.features[0] = mf_input(g, slots, s->width)};
    c.part[2 * last] = mf_input(g, slots, D);
    c.part[2 * last + 1] = mf_input(g, slots, D);
    c.part[part_of(s, MASK)] = mf_input(g, slots, 1);
    c.part[part_of(s, SLOTS)] = mf_input(g, slots, D);
    mf_pi05_output(g, s, &c);
    mf_graph_free(g);
}

/* Of the last layer only keys and values are computed, which is all that actions read; features[0] is its input. All of
 * it is the encoder's, so that a frozen one is detached in all. */
static void encoder(struct mf_graph *g, const struct mf_net_spec *s, struct mf_share *c)
{
    const int D = s->head_dim;
    struct mf_val tokens = numbers(g, s, c->raw, MF_OBS_TOKENS), mask = mask_of(g, s, c->raw, tokens);
    struct mf_val waves = mf_waves(g, mf_places(g, mask, s->horizon), 1, pow(1e4, -2.0 / D), D);
    c->part[part_of(s, MASK)] = mask;
    c->part[part_of(s, SLOTS)] = mf_slice_rows(g, waves, 0, mf_rows(g, mask));
    c->part[part_of(s, ACTIONS)] = mf_slice_rows(g, waves, mf_rows(g, mask), s->horizon);
    const struct mf_gemma a = language(s, c);
    struct mf_val h = embeddings(g, s, c->raw, tokens, mask);
    for (int i = 0; i < s->layers; i++) {
        struct mf_val n = enter(g, &a, i, h, MF_NONE);
        mf_gemma_keys(g, &a, i, n, &c->part[2 * i], &c->part[2 * i + 1]);
        const struct mf_keys keys = keys_of(s, c, i);
        if (i < s->layers - 1)
            h = mf_gemma_layer(g, &a, i, h, n, &keys, 1, MF_NONE, MF_NONE);
    }
    c->features[0] = h;
    add_rest(mf_graph_params(g), s, mf_rows(g, h));
}

/* ---- the critic and the noise ---- */

/* The rest of the last layer and the last norm. */
struct mf_val mf_pi05_output(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *c)
{
    const int last = s->layers - 1;
    const struct mf_gemma a = language(s, c);
    const struct mf_keys keys = keys_of(s, c, last);
    struct mf_val h = mf_only(g, c->features[0], keys.mask), n = enter(g, &a, last, h, MF_NONE);
    h = mf_gemma_layer(g, &a, last, h, n, &keys, 1, MF_NONE, MF_NONE);
    return mf_gemma_norm(g, &a, "norm", h, MF_NONE);
}

/* Attention of scale 0 is the mean of the keys. */
struct mf_val mf_pi05_mean(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *c)
{
    struct mf_val out = mf_detach(g, mf_pi05_output(g, s, c));
    const struct mf_keys keys = {.k = out, .v = out, .mask = c->part[part_of(s, MASK)]};
    const struct mf_attend mean = {.heads = 1, .blocks = 1, .dim = 1, .out = s->width};
    return mf_attention_to(g, mf_slice_rows(g, out, 0, 1), &keys, &mean);
}

static struct mf_val value(struct mf_graph *g, const struct mf_net_spec *s, int n_hidden, const int *hidden,
                           const struct mf_share *c)
{
    return mf_value_mlp(g, n_hidden, hidden, mf_pi05_mean(g, s, c));
}

static struct mf_val noise(struct mf_graph *g, const struct mf_net_spec *s, int n_hidden, const int *hidden,
                           struct mf_val tokens)
{
    const int k = mf_rows(g, tokens) / s->horizon;
    struct mf_val u = mf_noise_net(g, "noise_head", n_hidden, hidden, s->D / s->horizon, MF_NONE, tokens);
    return mf_reshape(g, u, k, s->D);
}

/* ---- the action expert ---- */

static struct mf_gemma expert(const struct mf_net_spec *s, struct mf_val waves)
{
    return (struct mf_gemma){.s = s,
                             .root = EXPERT,
                             .group = MF_GROUP_POLICY,
                             .width = s->expert_width,
                             .mlp = s->expert_mlp,
                             .waves = waves};
}

static struct mf_val dense(struct mf_graph *g, const char *name, struct mf_val x, int out, enum mf_act act)
{
    return mf_layer_apply(g, mf_layer(g, MF_GROUP_POLICY, name, mf_cols(g, x), out), x, act);
}

/* The condition and the modulations of 2 norms of each layer and of the last one. */
static struct mf_share time_code(struct mf_graph *g, const struct mf_net_spec *s, struct mf_val t, struct mf_val d)
{
    static const char *const norm[] = {"input_layernorm", "post_attention_layernorm"};
    const int W = s->expert_width;
    const struct mf_gemma a = expert(s, MF_NONE);
    struct mf_share c = {.obs = MF_NONE};
    char name[64];
    (void)d;
    struct mf_val e = mf_waves(g, t, 2 * 3.14159265358979323846 / .004, pow(1000, -1.0 / (W / 2 - 1)), W);
    c.embed = dense(g, "time_mlp_out", dense(g, "time_mlp_in", e, W, MF_ACT_SILU), W, MF_ACT_SILU);
    for (int i = 0; i < 2 * s->layers; i++) {
        snprintf(name, sizeof name, "layers.%d.%s", i / 2, norm[i % 2]);
        c.part[i] = mf_gemma_modulation(g, &a, name, c.embed);
    }
    c.part[2 * s->layers] = mf_gemma_modulation(g, &a, "norm", c.embed);
    return c;
}

/* (k, H*A) are k*H tokens; those of a step attend to each other. */
static struct mf_val suffix(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                            const struct mf_share *time, struct mf_val x)
{
    const int k = mf_rows(g, x), H = s->horizon;
    const struct mf_gemma a = expert(s, obs->part[part_of(s, ACTIONS)]);
    struct mf_val h = dense(g, "action_in_proj", mf_reshape(g, x, k * H, s->D / H), a.width, MF_ACT_NONE);
    for (int i = 0; i < s->layers; i++) {
        struct mf_keys keys = keys_of(s, obs, i);
        struct mf_val m1 = time->part[2 * i], m2 = time->part[2 * i + 1], n = enter(g, &a, i, h, m1);
        mf_gemma_keys(g, &a, i, n, &keys.own_k, &keys.own_v);
        h = mf_gemma_layer(g, &a, i, h, n, &keys, k, m1, m2);
    }
    return mf_gemma_norm(g, &a, "norm", h, time->part[2 * s->layers]);
}

static struct mf_val velocity(struct mf_graph *g, const struct mf_net_spec *s, const struct mf_share *obs,
                              const struct mf_share *time, struct mf_val tokens)
{
    const int k = mf_rows(g, tokens) / s->horizon;
    (void)obs, (void)time;
    return mf_reshape(g, dense(g, "action_out_proj", tokens, s->D / s->horizon, MF_ACT_NONE), k, s->D);
}

const struct mf_net mf_net_pi05 = {
    .name = "pi05",
    .sizes = MF_PI05_SIZES,
    .check = check,
    .encoder = encoder,
    .time = time_code,
    .tokens = suffix,
    .velocity = velocity,
    .noise = noise,
    .value = value,
    .summary = mf_pi05_mean,
};
