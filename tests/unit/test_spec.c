/* A policy's spec: to a head and back, as text, and the error where two differ. */
#include <string.h>

#include "flow/fields.h"
#include "flow/spec_keys.h"
#include "flow/policy.h"
#include "nn/encoder.h"
#include "tap.h"

static struct mf_policy_spec example(void)
{
    struct mf_policy_spec s = {.obs = {.n = 4,
                                       .dim = 4 + 3 + 6144 + 12,
                                       .key = {{"state", {4}, false},
                                               {"robot0_eef_pos", {3}, false},
                                               {"point_cloud", {1024, 6}, false},
                                               {"image", {4, 4, 3}, true}}},
                               .n_obs_steps = 2,
                               .action_dim = 3,
                               .horizon = 8,
                               .n_action_steps = 4,
                               .action_offset = 1,
                               .K = 5,
                               .convention = MF_NOISE1,
                               .noise_method = MF_FLOW_SDE,
                               .denoise = MF_SINGLE,
                               .objective = MF_STEP,
                               .learned_noise = true,
                               .mean_limit = 1,
                               .noise_clip = .1f,
                               .net = {.n_hidden = 2, .hidden = {32, 48}, .act = MF_ACT_MISH, .time_dim = 16},
                               .n_critic = 1,
                               .critic = {64},
                               .env = "lift"};
    struct mf_err err;
    mf_net_find(&s.net.net, "reflow_mlp", &err);
    return s;
}

/* Sizes that are in order one by one. */
static void products(void)
{
    struct mf_policy_spec s = example();
    struct mf_policy p;
    struct mf_err err = {0};
    s.horizon = s.action_dim = MF_SPEC_DIM_MAX;
    ok(mf_policy_outline(&p, &s, &err) == MF_EUSAGE && strstr(err.text, "policy.horizon=1048576 times 1048576"), "%s",
       err.text);
    s = example();
    s.n_obs_steps = MF_SPEC_DIM_MAX;
    ok(mf_policy_outline(&p, &s, &err) == MF_EUSAGE && strstr(err.text, "policy.n_obs_steps=1048576 times 6199"), "%s",
       err.text);
}

static void heads(void)
{
    struct mf_policy_spec s = example(), back;
    struct mf_err err = {0};
    struct mf_frame *head = mf_frame_new(MF_HEAD);
    mf_frame_set_str(head, "run", "x");
    mf_policy_spec_to_head(&s, head);
    ok(mf_policy_spec_from_head(&back, head, &err) == 0, "a head's spec reads back %s", err.text);
    ok(mf_policy_spec_agree(&s, "the first", &back, "the second", &err) == 0, "and is the same %s", err.text);
    ok(back.obs.dim == 6163 && back.obs.key[3].u8 && back.noise_clip == .1f && back.critic[0] == 64 &&
           back.n_noise == 0 && back.net.net == s.net.net && !strcmp(back.env, "lift"),
       "to the last field");
    int64_t dim = 0;
    const char *word = "";
    ok(!mf_frame_get_int(head, "spec.obs.robot0_eef_pos.shape.0", &dim, &err) && dim == 3 &&
           !mf_frame_get_str(head, "spec.objective", &word, &err) && !strcmp(word, "step") &&
           !mf_frame_get_int(head, "spec.denoising_steps", &dim, &err) && dim == 5,
       "others find it under its names");

    mf_frame_set_str(head, "spec.objective", "steps");
    ok(mf_policy_spec_from_head(&back, head, &err) == MF_EFORMAT && strstr(err.text, "objective cannot be 'steps'"),
       "%s", err.text);
    mf_frame_set_str(head, "spec.objective", "step");
    mf_frame_set_int(head, "spec.horizon", (int64_t)1 << 40);
    ok(mf_policy_spec_from_head(&back, head, &err) == MF_EFORMAT && strstr(err.text, "horizon"), "%s", err.text);
    mf_frame_set_int(head, "spec.horizon", 8);
    mf_frame_set_ints(head, "spec.hidden", (int64_t[]){32, -1}, 2);
    ok(mf_policy_spec_from_head(&back, head, &err) == MF_EFORMAT && strstr(err.text, "hidden"), "%s", err.text);
    mf_frame_set_ints(head, "spec.hidden", (int64_t[]){32, 48}, 2);
    mf_frame_set_str(head, "spec.obs.state.dtype", "<f8");
    ok(mf_policy_spec_from_head(&back, head, &err) == MF_EFORMAT && strstr(err.text, "<f8"), "%s", err.text);
    mf_frame_set_str(head, "spec.obs.state.dtype", "<f4");
    mf_frame_set_ints(head, "spec.obs.state.shape", (int64_t[]){1, 2, 3, 4}, 4);
    ok(mf_policy_spec_from_head(&back, head, &err) == MF_EFORMAT && strstr(err.text, "shape"), "%s", err.text);
    mf_frame_free(head);

    s.env[0] = 0;
    head = mf_frame_new(MF_HEAD);
    mf_policy_spec_to_head(&s, head);
    ok(!mf_frame_has(head, "spec.env") && mf_policy_spec_from_head(&back, head, &err) == 0 && !*back.env,
       "a head need not name the environment %s", err.text);
    mf_frame_free(head);

    head = mf_frame_new(MF_HEAD);
    mf_frame_set_str(head, "run", "x");
    ok(mf_policy_spec_from_head(&back, head, &err) == MF_EFORMAT, "a head without a spec: %s", err.text);
    mf_frame_free(head);
}

/* Whatever a head or a file says, a size is in the range of its key, so that the network's code may rely on it. */
static void ranges(void)
{
    static const struct {
        const char *field, *good, *bad;
    } size[] = {{"n_obs_steps", "64", "65"},
                {"encoder_heads", "1", "0"},
                {"encoder_layers", "48", "49"},
                {"encoder_output_dim", "65536", "65537"},
                {"resnet_channels", "[1,2,3,65536]", "[1,2,3,65537]"},
                {"obs", "1024x1024x3u8:image,16777216:state", "1024x1024x17u8:image"}};
    for (size_t i = 0; i < sizeof size / sizeof *size; i++) {
        struct mf_policy_spec s = example();
        struct mf_err err = {0};
        const struct mf_spec_field *f = mf_spec_fields;
        while (strcmp(f->name, size[i].field))
            f++;
        ok(mf_spec_set(&s, f, size[i].good, "here", &err) == 0 &&
               mf_spec_set(&s, f, size[i].bad, "here", &err) == MF_EFORMAT,
           "%s may be %s and not %s: %s", f->name, size[i].good, size[i].bad, err.text);
    }
    struct mf_policy_spec s = example();
    struct mf_policy p;
    struct mf_err err = {0};
    s.obs = (struct mf_layout){0};
    for (int i = 0; i < 3; i++) {
        struct mf_obs o = {.dim = {1024, 1024, 16}, .u8 = true};
        o.name[0] = (char)('a' + i);
        mf_layout_add(&s.obs, &o);
    }
    s.n_obs_steps = 64; /* its packed floats are few enough; the pixels that a network reads are not */
    ok(mf_policy_outline(&p, &s, &err) == MF_EUSAGE && strstr(err.text, "64 times 50331648"), "%s", err.text);
}

/* Names of other tools' observations: with the separators of paths and lists in them. */
static void names(void)
{
    static const char *const name[] = {"observation",      "observation.state", "a,b",
                                       "policy/joint_pos", "back\\slash",       "位 置:0"};
    struct mf_policy_spec s = example(), back = {0};
    struct mf_err err = {0};
    char text[MF_SPEC_TEXT];
    s.obs = (struct mf_layout){0};
    for (int i = 0; i < 6; i++) {
        struct mf_obs o = {.dim = {i + 1}, .u8 = i == 2};
        strcpy(o.name, name[i]);
        mf_layout_add(&s.obs, &o);
    }
    mf_spec_text(&s, &mf_spec_fields[0], text);
    ok(mf_spec_set(&back, &mf_spec_fields[0], text, "here", &err) == 0 && !memcmp(&back.obs, &s.obs, sizeof s.obs) &&
           strstr(text, "2:observation.state,3u8:a\\,b,4:policy/joint_pos"),
       "names with separators in a checkpoint's metadata: %s", text);
    struct mf_frame *head = mf_frame_new(MF_HEAD);
    mf_policy_spec_to_head(&s, head);
    back.obs = (struct mf_layout){0};
    ok(mf_policy_spec_from_head(&back, head, &err) == 0 && !memcmp(&back.obs, &s.obs, sizeof s.obs) &&
           mf_frame_has(head, "spec.obs.observation\\.state.shape.0") &&
           !mf_frame_has(head, "spec.obs.observation.state"),
       "and in a head %s", err.text);
    mf_frame_free(head);
    ok(mf_obs_names_clash("a", "a") && mf_obs_names_clash("a/b", "a") && !mf_obs_names_clash("a.b", "a") &&
           !mf_obs_names_clash("a/b", "a/c"),
       "names of one file: a and a/b clash");
    static const char *const bad[] = {"", "a\tb", "/a", "a/", "a//b", "a/./b", "\xff", "\xc3", "\xed\xa0\x80"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok(mf_obs_name_fault(bad[i]) != NULL, "no name: %s", mf_obs_name_fault(bad[i]));
    memset(text, 'a', 64);
    text[64] = 0;
    ok(mf_obs_name_fault(text) && !mf_obs_name_fault(text + 1), "63 bytes are a name, 64 are not");
}

static void texts(void)
{
    struct mf_policy_spec s = example(), back = {0};
    struct mf_err err = {0};
    char text[MF_SPEC_TEXT];
    int bad = 0;
    for (const struct mf_spec_field *f = mf_spec_fields; f < mf_spec_fields + mf_spec_n; f++) {
        int *size = (int *)(void *)((char *)&s + f->at);
        if (f->form == MF_SPEC_INT && f->words && *size == 0)
            sscanf(f->words, "[%d", size); /* that the example's network does not read */
        mf_spec_text(&s, f, text);
        bad += mf_spec_set(&back, f, text, "here", &err) != 0;
    }
    ok(bad == 0 && mf_policy_spec_agree(&s, "a", &back, "b", &err) == 0, "every field's text reads back %s", err.text);

    static const struct {
        const char *name, *text;
    } broken[] = {{"obs", ""},
                  {"obs", "4"},
                  {"obs", "4:"},
                  {"obs", "0:a"},
                  {"obs", "4:a,"},
                  {"obs", "4:a//b"},
                  {"obs", "4:a\n"},
                  {"obs", "4:a\\,b,"},
                  {"obs", "4x:a"},
                  {"obs", "4u:a"},
                  {"obs", "2x2x2x2:a"},
                  {"obs", "4096x4097:a"},
                  {"obs", "1:a,1:a,1:a,1:a,1:a,1:a,1:a,1:a,1:a,1:a,1:a,1:a,1:a,1:a,1:a,1:a,1:a"},
                  {"hidden", "[1"},
                  {"hidden", "[1,]"},
                  {"hidden", "[1]x"},
                  {"hidden", "[1,1,1,1,1,1,1,1,1]"},
                  {"hidden", "[0]"},
                  {"hidden", ""},
                  {"hidden", "[65537]"},
                  {"horizon", "-1"},
                  {"horizon", "8x"},
                  {"horizon", ""},
                  {"noise_clip", "nan"},
                  {"noise_clip", "-1"},
                  {"noise_clip", "1x"},
                  {"learned_noise", "1"},
                  {"env", "two\nlines"},
                  {"env", "of 64 letters, which is one more than there is room for in a spec."},
                  {"network", "transformer"}};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++)
        for (const struct mf_spec_field *f = mf_spec_fields; f < mf_spec_fields + mf_spec_n; f++)
            if (!strcmp(f->name, broken[i].name))
                ok(mf_spec_set(&back, f, broken[i].text, "here", &err) < 0 && strstr(err.text, "here"), "%s", err.text);
}

static void differences(void)
{
    struct mf_policy_spec a = example(), b = example();
    struct mf_err err = {0};
    strcpy(b.env, "can");
    ok(mf_policy_spec_agree(&a, "FILE", &b, "the head", &err) == MF_EUSAGE &&
           !strcmp(err.text, "env.name is lift in FILE and can in the head"),
       "%s", err.text);
    b.env[0] = 0;
    ok(mf_policy_spec_agree(&a, "FILE", &b, "the head", &err) == 0, "one that is not known agrees with any");
    b.horizon = 16;
    b.K = 9;
    ok(mf_policy_spec_agree(&a, "FILE", &b, "the head", &err) == MF_EUSAGE &&
           !strcmp(err.text, "policy.horizon is 8 in FILE and 16 in the head"),
       "%s", err.text);
    b.horizon = 8;
    ok(mf_policy_spec_agree(&a, "FILE", &b, "the head", &err) == MF_EUSAGE &&
           !strcmp(err.text, "policy.num_inference_steps is 5 in FILE and 9 in the head"),
       "%s", err.text);
    ok(mf_spec_agree(&a, "FILE", &b, "the head", false, &err) == 0, "which is not a learned field");
    b.obs.key[2].dim[1] = 3;
    ok(mf_spec_agree(&a, "FILE", &b, "the head", false, &err) == MF_EUSAGE &&
           strstr(err.text, "1024x6:point_cloud,4x4x3u8:image in FILE and 4:state,3:robot0_eef_pos,1024x3"),
       "%s", err.text);
}

/* An enum has values that its key does not offer: an import or another program may write them. */
static void choices(void)
{
    struct mf_policy_spec s = example(), back = {0};
    struct mf_err err = {0};
    char text[MF_SPEC_TEXT];
    int wrong = 0;
    for (const struct mf_spec_field *f = mf_spec_fields; f < mf_spec_fields + mf_spec_n; f++)
        for (int i = 0; i <= MF_ACT_GELU_ERF && !strcmp(f->name, "activation"); i++) {
            s.net.act = (enum mf_act)i;
            mf_spec_text(&s, f, text);
            wrong += mf_spec_set(&back, f, text, "here", &err) || back.net.act != s.net.act;
        }
    ok(wrong == 0 && !strcmp(mf_spec_value(&s, "activation", text), "gelu_erf"), "each activation has its word");
}

/* The spec of the words of a configuration. */
static int make(struct mf_policy_spec *s, int n, const char *const *words, struct mf_err *err)
{
    const struct mf_layout obs = example().obs;
    struct mf_conf *conf = mf_conf_new();
    int rc = mf_conf_load(conf, &(struct mf_sources){.n_words = n, .word = words}, err);
    rc = rc ? rc : mf_policy_spec_make(s, conf, &obs, 3, err);
    mf_conf_free(conf);
    return rc;
}

static void keys(void)
{
    struct mf_policy_spec s;
    struct mf_err err = {0};
    const char *const words[] = {"policy.noise_method=flow_cps", "policy.activation=mish",      "policy.horizon=9",
                                 "policy.cond_hidden=[7,5]",     "policy.add_value_head=false", "policy.mean_limit=.1",
                                 "policy.network=ditx",          "policy.qk_norm=false"};
    ok(make(&s, 8, words, &err) == 0 && s.noise_method == MF_FLOW_CPS && s.net.act == MF_ACT_MISH && s.horizon == 9 &&
           s.net.n_cond == 2 && s.net.cond[1] == 5 && s.n_critic == 0 && s.mean_limit == .1f && !s.net.qk_norm &&
           !strcmp(s.net.net->name, "ditx"),
       "each key is where it belongs %s", err.text);
    ok(s.net.n_hidden == 3 && s.net.hidden[2] == 256 && s.net.layers == 12 && s.net.net->dropout && s.K == 4,
       "and has its default otherwise");
    ok(make(&s, 1, (const char *const[]){"policy.hidden=[1,1,1,1,1,1,1,1,1]"}, &err) == MF_EUSAGE &&
           strstr(err.text, "policy.hidden=[1, 1, 1, 1, 1, 1, 1, 1, 1] has more than 8 layers"),
       "%s", err.text);
}

/* A checkpoint holds the sizes that its network reads, and no others. */
static void sizes(void)
{
    for (int i = 0; mf_nets[i]; i++) {
        struct mf_policy_spec s = example();
        uint64_t found = 0;
        bool step = false;
        s.net.net = mf_nets[i];
        for (const struct mf_spec_field *f = NULL; (f = mf_spec_next(&s, f));) {
            found |= f->size;
            step |= f->step;
        }
        ok(found == mf_nets[i]->sizes && step == mf_nets[i]->step_size, "%s has the fields of its sizes",
           mf_nets[i]->name);
    }
}

static int warnings;
static char said[400];
static void warn(const char *text)
{
    warnings++;
    snprintf(said, sizeof said, "%s", text);
}

/* What a fresh policy reads as what it is not; the example's image is read by a network with an encoder or by none. */
static void doubts(void)
{
    struct mf_policy_spec s = example();
    struct mf_err err;
    s.obs.key[3].u8 = false;
    strcpy(s.obs.key[3].name, "color_image");
    mf_encoder_find(&s.net.encoder, "nature", &err);
    mf_policy_spec_warn(&s, warn);
    ok(warnings == 1 && strstr(said, "'color_image' is float32 and has 3 channels"), "colors as meters: %s", said);
    s.obs.key[3].dim[2] = 1;
    mf_policy_spec_warn(&s, warn);
    ok(warnings == 1, "depth is no color");
    s.net.encoder = NULL;
    mf_policy_spec_warn(&s, warn);
    ok(warnings == 2 && strstr(said, "every pixel as a number"), "pixels: %s", said);
    strcpy(s.obs.key[0].name, MF_OBS_TOKENS);
    mf_policy_spec_warn(&s, warn);
    ok(warnings == 4 && strstr(said, "the ids of tokens"), "words: %s", said);
}

int main(void)
{
    doubts();
    choices();
    keys();
    sizes();
    products();
    ranges();
    heads();
    names();
    texts();
    differences();
    return done();
}
