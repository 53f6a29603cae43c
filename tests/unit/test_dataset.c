/* Demonstrations cut into samples: histories, chunks, edges, normalisers. */
#include "flow/dataset.h"
#include "demo_file.h"
#include "policies.h"

static char path[] = "/tmp/mf_dataset_XXXXXX";
static struct mf_demos demos;

/* Two demonstrations of 3 and 2 steps; state (t, 10 t, 7), cloud (t; 10 t), action (100 demo + t). */
static void put_rows(hid_t file, const char *name, int rank, const hsize_t *dim, const float *x)
{
    mf_h5_put(file, name, MF_F32, rank, dim, x, NULL);
}

static void write_file(void)
{
    hid_t file = create(path);
    for (int k = 0; k < 2; k++) {
        hsize_t n = k ? 2 : 3;
        const char *demo = k ? "data/demo_4" : "data/demo_0";
        float state[9], cloud[6], action[3];
        char name[64];
        for (hsize_t t = 0; t < n; t++) {
            state[t * 3] = cloud[t * 2] = (float)t;
            state[t * 3 + 1] = cloud[t * 2 + 1] = 10 * (float)t;
            state[t * 3 + 2] = 7;
            action[t] = (float)(100 * k) + (float)t;
        }
        snprintf(name, sizeof name, "%s/actions", demo);
        put_rows(file, name, 2, (hsize_t[]){n, 1}, action);
        snprintf(name, sizeof name, "%s/obs/state", demo);
        put_rows(file, name, 2, (hsize_t[]){n, 3}, state);
        snprintf(name, sizeof name, "%s/obs/cloud", demo);
        put_rows(file, name, 3, (hsize_t[]){n, 2, 1}, cloud);
        snprintf(name, sizeof name, "%s/obs/image", demo);
        put_image(file, name, n, 1, 0);
    }
    mf_h5_close(file);
}

static void open_file(int n, const char *const *keys)
{
    struct mf_err err;
    must(mf_demos_open(&demos, path, &(struct mf_demos_opts){.n_keys = n, .keys = keys, .cache = 1 << 20}, &err), &err);
}

/* All samples in one batch, in order. */
static struct {
    float obs[64], actions[64];
    size_t n;
} l;
static void cut(const struct mf_policy *p, int64_t before, int64_t after)
{
    struct mf_err err;
    struct mf_dataset windows;
    must(mf_dataset_open(&windows, p, &demos, before, after, 0, MF_AUGMENT_NONE, 8, &err), &err);
    uint32_t index[8] = {0, 1, 2, 3, 4, 5, 6, 7};
    l.n = windows.n;
    must(mf_dataset_batch(&windows, l.n, index, l.obs, l.actions, &err), &err);
    mf_dataset_close(&windows);
}

static void fit(struct mf_policy *p, enum mf_normalizer how, double floor, bool too)
{
    struct mf_err err;
    must(mf_dataset_fit(p, &demos, &(struct mf_fit){.how = how, .floor = floor, .actions = too}, &err), &err);
}

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
    struct mf_policy p = policy_of(2, 1);
    static const float want_t[5][2] = {{0, 0}, {0, 1}, {1, 2}, {0, 0}, {0, 1}};
    static const float want_a[5][3] = {{0, 0, 1}, {0, 1, 2}, {1, 2, 2}, {100, 100, 101}, {100, 101, 101}};
    cut(&p, -1, -1);
    int good = l.n == 5;
    for (int i = 0; good && i < 5; i++) {
        for (int k = 0; k < 2; k++)
            good = good && l.obs[i * 6 + k * 3] == want_t[i][k] && l.obs[i * 6 + k * 3 + 1] == 10 * want_t[i][k];
        for (int k = 0; k < 3; k++)
            good = good && l.actions[i * 3 + k] == want_a[i][k];
    }
    ok(good, "histories repeat the first observation, chunks the first and the last action, demos stay apart");
    cut(&p, 0, -1);
    ok(l.n == 3 && l.obs[3] == 1 && l.actions[0] == 0 && l.actions[6] == 100, "no padding before: later by a step");
    cut(&p, -1, 0);
    ok(l.n == 3 && l.obs[9] == 1 && l.obs[15] == 0 && l.actions[8] == 101, "none after: the last steps have no sample");
    cut(&p, 0, 0);
    ok(l.n == 1 && l.obs[0] == 0 && l.obs[3] == 1 && l.actions[2] == 2, "none at all: whole windows");
    mf_policy_release(&p);
    struct mf_err err;
    struct mf_dataset none;
    struct mf_policy_spec s = p.spec;
    p = policy_of(4, 0);
    s = p.spec;
    ok(s.horizon == 3 && mf_dataset_open(&none, &p, &demos, 1, 0, 0, MF_AUGMENT_NONE, 8, &err) == MF_EUSAGE &&
           strstr(err.text, "the 5 steps") && strstr(err.text, "clone.pad_before=1"),
       "demonstrations that are too short for that");
    mf_policy_release(&p);
}

/* Whatever the order and the cache, a sample is the same. */
static void orders(void)
{
    struct mf_err err;
    struct mf_policy p = policy_of(2, 1);
    struct mf_dataset a;
    struct mf_demos small;
    const char *const keys[] = {"state"};
    uint32_t index[] = {4, 0, 3, 3, 2, 1};
    float obs[36], actions[18];
    cut(&p, -1, -1);
    must(mf_demos_open(&small, path, &(struct mf_demos_opts){.n_keys = 1, .keys = keys, .cache = 1}, &err), &err);
    must(mf_dataset_open(&a, &p, &small, -1, -1, 0, MF_AUGMENT_NONE, 6, &err), &err);
    must(mf_dataset_batch(&a, 6, index, obs, actions, &err), &err);
    int good = 1;
    for (int i = 0; i < 6; i++)
        good = good && !memcmp(obs + i * 6, l.obs + index[i] * 6, 24) &&
               !memcmp(actions + i * 3, l.actions + index[i] * 3, 12);
    ok(good, "samples in any order, again and again, from a cache of a byte");
    mf_dataset_close(&a);
    mf_demos_close(&small);
    mf_policy_release(&p);
}

static void fits(void)
{
    struct mf_policy p = policy_of(1, 0);
    fit(&p, MF_LIMITS, 0, false);
    cut(&p, -1, -1);
    ok(l.obs[0] == -1 && l.obs[2 * 3] == 1 && l.obs[1] == -1 && l.obs[3] == 0, "limits: the range to [-1, 1]");
    ok(p.obs_scale[2] == 1 && l.obs[2] == 0, "a feature that does not vary is moved to 0");
    ok(p.action_scale[0] == 1 && p.action_offset[0] == 0, "actions stay as they are");
    fit(&p, MF_LIMITS, 4, true);
    cut(&p, -1, -1);
    ok(l.obs[0] == -.5f && l.obs[2 * 3] == .5f && l.obs[1] == -1 && l.obs[2] == 0,
       "a range below the floor is not stretched");
    near(l.actions[0], -1, 1e-6, "actions too, when asked");
    fit(&p, MF_GAUSSIAN, 0, false);
    cut(&p, -1, -1);
    near(l.obs[0], (0 - .8) / sqrt(.56), 1e-6, "gaussian: mean 0, deviation 1");
    ok(p.obs_scale[2] == 1, "of what varies");
    fit(&p, MF_IDENTITY, 0, true);
    ok(p.obs_scale[1] == 1 && p.obs_offset[1] == 0 && p.action_scale[0] == 1, "identity");
    mf_policy_release(&p);
}

/* A cloud of two points of one feature, and an image of one pixel. */
static void fits_clouds(void)
{
    struct mf_err err;
    struct mf_policy p;
    struct mf_policy_spec s = small_spec("reflow_mlp");
    s.obs = (struct mf_layout){2, 3, {{"cloud", {2, 1}, false}, {"image", {1, 1, 3}, true}}};
    s.action_dim = 1, s.horizon = 3, s.n_action_steps = 1, s.action_offset = 0;
    must(mf_policy_init(&p, &s, &err), &err);
    mf_policy_fresh(&p, 0);
    struct mf_dataset none;
    p.spec.obs.key[0].dim[2] = 1; /* a depth of (2, 1, 1) */
    ok(mf_dataset_open(&none, &p, &demos, -1, -1, 0, MF_AUGMENT_OPENPI, 8, &err) == MF_EUSAGE &&
           strstr(err.text, "cloud, float32 (2, 1, 1), would no longer match"),
       "%s", err.text);
    p.spec.obs.key[0].dim[2] = 0;
    fit(&p, MF_LIMITS, 0, false);
    near(p.obs_scale[0], 2. / 20, 1e-6, "the points of a cloud share their features' range");
    ok(p.obs_scale[1] == p.obs_scale[0] && p.obs_offset[1] == -1 && p.obs_offset[0] == -1, "each point alike");
    cut(&p, -1, -1);
    ok(((const uint8_t *)&l.obs[2])[0] == 240 && ((const uint8_t *)&l.obs[2])[3] == 0, "an image stays as its bytes");
    fit(&p, MF_GAUSSIAN, 0, false);
    near(-p.obs_offset[1] / p.obs_scale[1], 4.4, 1e-6, "and their mean");
    mf_policy_release(&p);
}

int main(void)
{
    mf_h5_quiet();
    close(mkstemp(path));
    write_file();
    open_file(1, (const char *const[]){"state"});
    cuts();
    orders();
    fits();
    mf_demos_close(&demos);
    open_file(2, (const char *const[]){"cloud", "image"});
    fits_clouds();
    mf_demos_close(&demos);
    unlink(path);
    return done();
}
