/* The quantile normaliser of demonstrations: against numpy (tests/reference/quantile.py), constants, tokens. */
#include <stdbool.h>

#include "demo_file.h"
#include "demos/bins.h"
#include "fixture.h"
#include "flow/dataset.h"
#include "policies.h"

enum { CASES = 4, L = 4 };

static char path[] = "/tmp/mf_quantile_XXXXXX";
static struct mf_err err;

/* One demonstration of n steps: state (x, 3), tokens, action x. */
static void write_file(const float *x, hsize_t n)
{
    hid_t file = create(path);
    float *state = malloc(n * 2 * sizeof *state), *tokens = malloc(n * L * sizeof *tokens);
    for (hsize_t t = 0; t < n; t++) {
        state[2 * t] = x[t], state[2 * t + 1] = 3;
        for (hsize_t i = 0; i < L; i++)
            tokens[t * L + i] = (float)(200000 + t * i);
    }
    mf_h5_put(file, "data/demo_0/actions", MF_F32, 2, (hsize_t[]){n, 1}, x, NULL);
    mf_h5_put(file, "data/demo_0/obs/state", MF_F32, 2, (hsize_t[]){n, 2}, state, NULL);
    mf_h5_put(file, "data/demo_0/obs/tokens", MF_F32, 2, (hsize_t[]){n, L}, tokens, NULL);
    mf_h5_close(file);
    free(state), free(tokens);
}

static void fit(struct mf_policy *p)
{
    struct mf_demos demos;
    struct mf_policy_spec s = small_spec("reflow_mlp");
    const struct mf_fit how = {.how = MF_QUANTILE, .actions = true};
    s.obs = (struct mf_layout){2, 2 + L, {{"state", {2}, false}, {"tokens", {L}, false}}};
    s.n_obs_steps = 1, s.action_dim = 1, s.horizon = 2, s.n_action_steps = 1, s.action_offset = 0;
    must(mf_policy_init(p, &s, &err), &err);
    mf_policy_fresh(p, 0);
    must(mf_demos_open(
             &demos, path,
             &(struct mf_demos_opts){.n_keys = 2, .keys = (const char *const[]){"state", "tokens"}, .cache = 1 << 20},
             &err),
         &err);
    must(mf_dataset_fit(p, &demos, &how, &err), &err);
    mf_demos_close(&demos);
}

static void test_case(const struct fixture *f, int i)
{
    char name[32];
    size_t n = 0;
    struct mf_policy p;
    double worst = 0, back = 0;
    snprintf(name, sizeof name, "%d/x", i);
    float *x = fixture_find(f, name, &n);
    snprintf(name, sizeof name, "%d/normalized", i);
    float *want = fixture_find(f, name, NULL);
    write_file(x, n);
    fit(&p);
    for (size_t t = 0; t < n; t++) {
        float obs[2 + L] = {x[t], 3, 200000, 0, 0, 1}, action = want[t];
        mf_policy_normalize(&p, 1, obs, obs);
        worst = worse(worst, fabs((double)obs[0] - (double)want[t]));
        action = (action - p.action_offset[0]) / p.action_scale[0];
        back = worse(back, fabs((double)action - (double)x[t]));
    }
    const double tolerance = i == 1 ? 2e-5 : 2e-6; /* the second: near 5, a range of .05, in float32 */
    if (!ok(worst < tolerance, "case %d: 2 (x - q01)/(q99 - q01 + 1e-6) - 1, not clipped", i))
        printf("# %g\n", worst);
    ok(back < 1e-5, "and actions back");
    float obs[2 + L] = {x[0], 3, 200001, 7, 0, 0};
    mf_policy_normalize(&p, 1, obs, obs);
    ok(obs[1] == -1 && obs[2] == 200001 && obs[3] == 7 && obs[4] == 0, "a constant is -1, tokens stay");
    mf_policy_release(&p);
    free(x), free(want);
}

static void test_bins(const struct fixture *f)
{
    static struct mf_bins bins, none;
    size_t n;
    float *x = fixture_find(f, "0/x", &n), *want = fixture_find(f, "0/quantiles", NULL);
    bins.low = INFINITY, bins.high = -INFINITY;
    for (size_t i = 0; i < n; i++)
        bins.low = fmin(bins.low, (double)x[i]), bins.high = fmax(bins.high, (double)x[i]);
    for (size_t i = 0; i < n; i++)
        mf_bins_add(&bins, (double)x[n - 1 - i]);
    near(mf_bins_quantile(&bins, .01), (double)want[0], 1e-7, "the quantile of 1 %, in any order");
    near(mf_bins_quantile(&bins, .99), (double)want[1], 1e-7, "the quantile of 99 %");
    ok(mf_bins_quantile(&bins, 1) >= want[1] && mf_bins_quantile(&bins, 1) < bins.high, "of all: the last bin's edge");
    mf_bins_add(&none, 0);
    ok(mf_bins_quantile(&none, .5) == 0, "of a constant: itself");
    free(x), free(want);
}

int main(void)
{
    struct fixture f = fixture_load("tests/fixtures/quantile.bin");
    close(mkstemp(path));
    test_bins(&f);
    for (int i = 0; i < CASES; i++)
        test_case(&f, i);
    unlink(path);
    free(f.bytes);
    return done();
}
