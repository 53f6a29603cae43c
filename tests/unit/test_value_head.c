/* The critic over tokens against its formulas in double: their mean, a learned query's attention by 4 heads as
 * torch.nn.MultiheadAttention computes it, and a softmax of scores. */
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "graph/plan.h"
#include "nn/dp3.h"
#include "policies.h"

enum { TO = 2, POINTS = 5, L = TO * POINTS, F = 12, W = F + MF_STATE_DIM, HIDDEN = 7, HEADS = 4, B = 3 };

static struct mf_engine *engine;

static const float *of(const struct mf_params *ps, const char *name)
{
    int i = mf_param_find(ps, name);
    if (i < 0)
        printf("Bail out! no %s\n", name), exit(1);
    return ps->value + ps->p[i].at;
}

/* y (rows) = A x + b; A (rows, cols). */
static void affine(const float *A, const float *b, const double *x, int rows, int cols, double *y)
{
    for (int i = 0; i < rows; i++) {
        y[i] = (double)b[i];
        for (int j = 0; j < cols; j++)
            y[i] += (double)A[i * cols + j] * x[j];
    }
}

/* to = sum_l softmax(score)_l x_l, n numbers each, `stride` apart. */
static void weigh(const double *score, const double *x, int n, int stride, double *to)
{
    double sum = 0;
    memset(to, 0, (size_t)n * sizeof *to);
    for (int l = 0; l < L; l++) {
        sum += exp(score[l]);
        for (int j = 0; j < n; j++)
            to[j] += exp(score[l]) * x[l * stride + j];
    }
    for (int j = 0; j < n; j++)
        to[j] /= sum;
}

static void mean(const struct mf_params *ps, const double *x, double *to)
{
    double none[L] = {0};
    (void)ps;
    weigh(none, x, W, W, to);
}

static void attention(const struct mf_params *ps, const double *x, double *to)
{
    const float *query = of(ps, "attention_pool.query"), *in = of(ps, "attention_pool.attn.in_proj_weight"),
                *bias = of(ps, "attention_pool.attn.in_proj_bias");
    double from[W], q[W], k[L * W], v[L * W], all[W], score[L];
    for (int j = 0; j < W; j++)
        from[j] = (double)query[j];
    affine(in, bias, from, W, W, q);
    for (int l = 0; l < L; l++) {
        affine(in + W * W, bias + W, x + l * W, W, W, k + l * W);
        affine(in + 2 * W * W, bias + 2 * W, x + l * W, W, W, v + l * W);
    }
    for (int h = 0, n = W / HEADS; h < HEADS; h++) {
        for (int l = 0; l < L; l++) {
            score[l] = 0;
            for (int j = h * n; j < (h + 1) * n; j++)
                score[l] += q[j] * k[l * W + j] / sqrt(n);
        }
        weigh(score, v + h * n, n, W, all + h * n);
    }
    affine(of(ps, "attention_pool.attn.out_proj.weight"), of(ps, "attention_pool.attn.out_proj.bias"), all, W, W, to);
}

static void score(const struct mf_params *ps, const double *x, double *to)
{
    double hidden[W / 4], s[L];
    for (int l = 0; l < L; l++) {
        affine(of(ps, "attention_pool.attention.0.weight"), of(ps, "attention_pool.attention.0.bias"), x + l * W, W / 4,
               W, hidden);
        for (int j = 0; j < W / 4; j++)
            hidden[j] = tanh(hidden[j]);
        affine(of(ps, "attention_pool.attention.2.weight"), of(ps, "attention_pool.attention.2.bias"), hidden, 1, W / 4,
               &s[l]);
    }
    weigh(s, x, W, W, to);
}

static double head(const struct mf_params *ps, const double *pooled)
{
    double hidden[HIDDEN], v;
    affine(of(ps, "value_head.mlp.0.weight"), of(ps, "value_head.mlp.0.bias"), pooled, HIDDEN, W, hidden);
    for (int j = 0; j < HIDDEN; j++)
        hidden[j] = fmax(hidden[j], 0);
    affine(of(ps, "value_head.mlp.2.weight"), of(ps, "value_head.mlp.2.bias"), hidden, 1, HIDDEN, &v);
    return v;
}

static void check(const char *name, enum mf_value_pool how,
                  void (*pool)(const struct mf_params *ps, const double *x, double *to))
{
    static float points[B * L * F], state[B * TO * MF_STATE_DIM];
    struct mf_err err;
    struct mf_params ps = {0};
    struct mf_plan *plan;
    struct mf_graph *g = mf_graph_new(&ps);
    struct mf_share obs = {.features = {mf_input(g, L, F), mf_input(g, TO, MF_STATE_DIM)}};
    struct mf_val v = mf_value_head(g, &(struct mf_net_spec){.value_pool = how}, 1, (int[]){HIDDEN}, &obs);
    must(mf_params_alloc(&ps, &err), &err);
    must(mf_plan_new(&plan, engine, g, &(struct mf_plan_opts){0}, &err), &err);
    struct mf_rng rng = mf_rng_at(7, MF_RNG_TEST, 0, 0, 0);
    mf_rng_normal(&rng, ps.value, ps.size);
    mf_rng_normal(&rng, points, B * L * F);
    mf_rng_normal(&rng, state, B * TO * MF_STATE_DIM);
    for (size_t i = 0; i < ps.size; i++)
        ps.value[i] *= .3f;
    mf_params_touch(&ps);
    float got[B];
    struct mf_feed feed[] = {{obs.features[0], points, L * F, false},
                             {obs.features[1], state, TO * MF_STATE_DIM, false}};
    must(mf_plan_run(plan,
                     &(struct mf_batch){
                         .n = B, .feed = feed, .n_feeds = 2, .fetch = &(struct mf_fetch){v, got, 1}, .n_fetches = 1},
                     &err),
         &err);
    double worst = 0, x[L * W], pooled[W];
    for (int b = 0; b < B; b++) {
        for (int l = 0; l < L; l++)
            for (int j = 0; j < W; j++)
                x[l * W + j] =
                    (double)(j < F ? points[(b * L + l) * F + j] : state[(b * TO + l / POINTS) * MF_STATE_DIM + j - F]);
        pool(&ps, x, pooled);
        worst = worse(worst, fabs((double)got[b] - head(&ps, pooled)));
    }
    ok(worst < 1e-5, "%s: off by %.1e", name, worst);
    mf_plan_free(plan);
    mf_graph_free(g);
    mf_params_release(&ps);
}

int main(void)
{
    struct mf_err err;
    must(mf_engine_open(&engine, "cpu", 1, MF_FP32, &err), &err);
    check("the mean of the tokens", MF_VALUE_MEAN, mean);
    check("what a learned query attends to", MF_VALUE_ATTENTION, attention);
    check("each token by its score", MF_VALUE_SCORE, score);
    mf_engine_close(engine);
    return done();
}
