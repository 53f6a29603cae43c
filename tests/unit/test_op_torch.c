/* Every operation against PyTorch: tests/reference/ops.py made the numbers, on double. */
#include <stdlib.h>
#include <string.h>

#include "run/safetensors.h"
#include "graph/plan.h"
#include "flow/ops.h"
#include "op/ops.h"
#include "rl/losses.h"
#include "tap.h"

enum { A = 3, C = 2, OFFSET = 1 };

/* One case: a graph whose operands are weights (their transpose, times a unit matrix), so that the gradient is there.
 */
struct bench {
    const struct mf_safetensors *file;
    const char *name;
    struct mf_params ps;
    struct mf_graph *g;
    int n_feeds, n_sets;
    struct mf_feed feed[8];
    struct mf_val set[8];
    float *kept[16];
    int n_kept;
};

static const struct mf_array *find(const struct bench *b, const char *what)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", b->name, what);
    return mf_safetensors_find(b->file, name);
}

static float *keep(struct bench *b, size_t n)
{
    return b->kept[b->n_kept++] = calloc(n, sizeof(float));
}

/* What a parameter is in the file: an operand is called as there, W and b of a linear are its operands 1 and 2. */
static const struct mf_array *of_param(const struct bench *b, const char *param, char kind)
{
    char what[] = {kind, *param == 'x' ? param[1] : *param == 'W' ? '1' : '2', 0};
    return find(b, what);
}

/* A parameter of the file's shape, turned when it stands for an operand. */
static int param(struct bench *b, const char *what)
{
    const struct mf_array *a = of_param(b, what, 'x');
    bool turned = what[0] == 'x';
    int rows = (int)a->dim[0], cols = (int)a->dim[1];
    return mf_param_add(&b->ps, what, turned ? cols : rows, turned ? rows : cols, 2, MF_GROUP_POLICY, MF_INIT_CONST,
                        0.0f);
}

static struct mf_val x(struct bench *b, int k)
{
    char what[8];
    snprintf(what, sizeof what, "x%d", k);
    int W = param(b, what), rows = b->ps.p[W].cols;
    float *unit = keep(b, (size_t)(rows * rows));
    for (int i = 0; i < rows; i++)
        unit[i * rows + i] = 1.0f;
    struct mf_val in = mf_input(b->g, rows, rows);
    b->feed[b->n_feeds++] = (struct mf_feed){in, unit, 0, false};
    return mf_linear(b->g, in, W, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE);
}

static struct mf_val data(struct bench *b, int k, bool shared)
{
    char what[8];
    snprintf(what, sizeof what, "d%d", k);
    const struct mf_array *a = find(b, what);
    float *copy = keep(b, a->count);
    memcpy(copy, a->data, a->bytes);
    struct mf_val v = (shared ? mf_shared : mf_input)(b->g, (int)a->dim[0], (int)a->dim[1]);
    if (shared) {
        b->set[b->n_sets++] = v;
        b->kept[15 - b->n_sets] = copy; /* found again when the plan is there */
        b->n_kept--;
    } else {
        b->feed[b->n_feeds++] = (struct mf_feed){v, copy, 0, false};
    }
    return v;
}

static struct mf_val d(struct bench *b, int k)
{
    return data(b, k, false);
}
static struct mf_val s(struct bench *b, int k)
{
    return data(b, k, true);
}

static struct mf_val linear(struct bench *b, enum mf_act act)
{
    return mf_linear(b->g, x(b, 0), param(b, "W"), 3, param(b, "b"), x(b, 3), x(b, 4), act);
}

static struct mf_val reduce(struct bench *b, enum mf_reduce how)
{
    return mf_reduce(b->g, x(b, 0), d(b, 0), how, A, C, OFFSET, 0.2f);
}

static struct mf_val attend(struct bench *b, bool cross)
{
    struct mf_val q = x(b, 0), kv = cross ? x(b, 1) : q;
    struct mf_attend how = {.heads = 2, .blocks = 2, .dim = 10, .out = 10, .at = {0, 10, 20}, .scale = 0.4472136f};
    if (cross)
        how = (struct mf_attend){.heads = 2, .blocks = 1, .dim = 32, .out = 32, .at = {1, 0, 32}, .scale = 0.25f};
    return mf_attention(b->g, q, kv, kv, MF_NONE, &how);
}

/* What transformers add. */
static struct mf_val record_transformer(struct bench *b)
{
    struct mf_graph *g = b->g;
    const char *n = b->name;
    if (!strcmp(n, "slice_cols"))
        return mf_slice_cols(g, x(b, 0), 2, 3);
    if (!strcmp(n, "param_value"))
        return mf_add(g, x(b, 0), mf_param_value(g, param(b, "W")));
    if (!strncmp(n, "pool_", 5))
        return mf_pool(g, x(b, 0), 2, n[6] == 'a' ? MF_POOL_MAX : MF_POOL_MEAN);
    if (!strcmp(n, "spread"))
        return mf_add(g, x(b, 0), x(b, 1));
    if (!strcmp(n, "norm_layer"))
        return mf_norm(g, x(b, 0), 3, 22, 2, MF_NORM_LAYER, param(b, "W"), param(b, "b"), 1e-3f);
    if (!strcmp(n, "norm_plain"))
        return mf_norm(g, x(b, 0), 3, 22, 1, MF_NORM_LAYER, -1, -1, 1e-3f);
    if (!strncmp(n, "norm_", 5))
        return mf_norm(g, x(b, 0), 3, 22, 1, n[5] == 'r' ? MF_NORM_RMS : MF_NORM_RMS_LEGACY, param(b, "W"), -1, 1e-3f);
    if (!strcmp(n, "modulate"))
        return mf_modulate(g, x(b, 0), x(b, 1), 0);
    if (!strcmp(n, "gate"))
        return mf_gate(g, x(b, 0), x(b, 1), x(b, 2), 10);
    return !strncmp(n, "attention_", 10) ? attend(b, n[10] == 'c') : MF_NONE;
}

/* What convolutions add. */
static struct mf_val record_convolution(struct bench *b)
{
    static const struct mf_slide same = {2, 5, 1, 2}, half = {2, 3, 2, 1}, twice = {2, 4, 2, 1};
    struct mf_graph *g = b->g;
    const char *n = b->name;
    if (!strcmp(n, "conv_turned"))
        return mf_fold(g, mf_linear_transposed(g, x(b, 0), param(b, "W")), &twice);
    if (!strncmp(n, "conv_", 5))
        return mf_linear(g, mf_unfold(g, x(b, 0), n[5] == 's' ? &same : &half), param(b, "W"), 0, param(b, "b"),
                         MF_NONE, MF_NONE, MF_ACT_NONE);
    if (!strcmp(n, "group_norm"))
        return mf_group_norm(g, x(b, 0), 2, 2, param(b, "W"), param(b, "b"), 1e-3f);
    return record_transformer(b);
}

static struct mf_val record(struct bench *b)
{
    struct mf_graph *g = b->g;
    const char *n = b->name;
    struct mf_val none = MF_NONE;
    if (!strncmp(n, "activate_", 9) || !strncmp(n, "linear_", 7)) {
        static const char *const acts[] = {"none", "relu", "mish", "tanh", "silu", "gelu"};
        enum mf_act act = MF_ACT_NONE;
        while (strcmp(strchr(n, '_') + 1, acts[act]))
            act++;
        return *n == 'a' ? mf_activate(g, x(b, 0), act) : linear(b, act);
    }
    if (!strcmp(n, "add"))
        return mf_add(g, x(b, 0), x(b, 1));
    if (!strcmp(n, "concat"))
        return mf_concat(g, 3, (struct mf_val[]){x(b, 0), x(b, 1), x(b, 2)});
    if (!strcmp(n, "stack"))
        return mf_stack(g, 2, (struct mf_val[]){x(b, 0), x(b, 1)});
    if (!strcmp(n, "slice_rows"))
        return mf_slice_rows(g, x(b, 0), 1, 2);
    if (!strcmp(n, "reshape"))
        return mf_reshape(g, x(b, 0), 2, 10);
    if (!strcmp(n, "weigh"))
        return mf_weigh(g, x(b, 0), d(b, 0));
    if (!strcmp(n, "sinusoid"))
        return mf_sinusoid(g, d(b, 0), 1, 16);
    if (!strcmp(n, "flow_mean"))
        return mf_flow_mean(g, x(b, 0), x(b, 1), d(b, 0), 1.0f);
    if (!strcmp(n, "noise_std"))
        return mf_noise_std(g, x(b, 0), s(b, 0));
    if (!strcmp(n, "flow_noise"))
        return mf_flow_noise(g, d(b, 0), none, d(b, 1), d(b, 2), 2.0f, 1.5f);
    if (!strcmp(n, "logprob"))
        return mf_flow_logprob(g, d(b, 0), x(b, 0), none, d(b, 1));
    if (!strcmp(n, "logprob_std"))
        return mf_flow_logprob(g, d(b, 0), x(b, 0), x(b, 1), d(b, 1));
    if (!strcmp(n, "entropy"))
        return mf_flow_entropy(g, x(b, 0), 0.25f);
    if (!strncmp(n, "reduce_", 7))
        return reduce(b, n[7] == 't'   ? MF_REDUCE_TOKEN
                         : n[8] == 'l' ? MF_REDUCE_ALL
                         : n[8] == 'c' ? MF_REDUCE_ACTION
                                       : MF_REDUCE_CHUNK);
    if (!strncmp(n, "ppo", 3))
        return mf_ppo_loss(g, x(b, 0), d(b, 0), d(b, 1), d(b, 2), s(b, 3));
    if (!strncmp(n, "value", 5))
        return mf_value_loss(g, x(b, 0), d(b, 0), d(b, 1), d(b, 2), s(b, 3));
    if (!strcmp(n, "mse"))
        return mf_mse(g, x(b, 0), d(b, 0), d(b, 1));
    return record_convolution(b);
}

/* How far a parameter (its value or gradient) is from the file's matrix, to its largest; into: takes that over. */
static double compare(const struct mf_param *p, const float *got, const struct mf_array *a, float *into)
{
    const float *want = a->data;
    double worst = 0.0, most = 1e-3;
    bool turned = p->name[0] == 'x';
    for (int i = 0; i < p->rows; i++)
        for (int j = 0; j < p->cols; j++) {
            float w;
            memcpy(&w, want + (turned ? j * p->rows + i : i * p->cols + j), sizeof w);
            if (into)
                into[i * p->cols + j] = w;
            worst = fmax(worst, fabs((double)w - (double)got[i * p->cols + j]));
            most = fmax(most, fabs((double)w));
        }
    return worst / most;
}

static void one(const struct mf_safetensors *file, const char *name, struct mf_engine *e, const char *device)
{
    struct bench b = {.file = file, .name = name};
    struct mf_err err = {0};
    struct mf_plan *p;
    b.g = mf_graph_new(&b.ps);
    struct mf_val y = record(&b);
    const struct mf_array *want = find(&b, "y"), *weight = find(&b, "w");
    int n = (int)want->count, trained = b.ps.n;
    int w = mf_param_add(&b.ps, "loss", 1, n, 2, MF_GROUP_BUFFER, MF_INIT_CONST, 0.0f);
    mf_loss(b.g, mf_linear(b.g, mf_reshape(b.g, y, 1, n), w, 0, -1, MF_NONE, MF_NONE, MF_ACT_NONE), 1.0f);
    int rc = mf_params_alloc(&b.ps, &err);
    memcpy(b.ps.value + b.ps.p[w].at, weight->data, weight->bytes);
    for (int i = 0; i < trained; i++)
        compare(&b.ps.p[i], b.ps.value + b.ps.p[i].at, of_param(&b, b.ps.p[i].name, 'x'), b.ps.value + b.ps.p[i].at);
    rc = rc || mf_plan_new(&p, e, b.g, &(struct mf_plan_opts){.backward = true}, &err);
    for (int i = 0; i < b.n_sets; i++)
        mf_plan_set(p, b.set[i], b.kept[14 - i]);
    float *got = keep(&b, (size_t)n);
    rc = rc || mf_plan_run(p, 1, NULL, b.feed, b.n_feeds, &(struct mf_fetch){y, got, (size_t)n}, 1, &err);
    struct mf_param flat = {.name = "y", .rows = 1, .cols = n};
    double dy = compare(&flat, got, want, NULL), dg = 0.0;
    for (int i = 0; i < trained; i++)
        dg = fmax(dg, compare(&b.ps.p[i], mf_plan_grads(p) + b.ps.p[i].at, of_param(&b, b.ps.p[i].name, 'g'), NULL));
    if (!ok(rc == 0 && dy < 2e-6 && dg < 4e-6, "%s on %s", name, device))
        printf("#   values off by %g, gradients by %g %s\n", dy, dg, err.text);
    mf_plan_free(p);
    mf_graph_free(b.g);
    mf_params_release(&b.ps);
    for (int i = 0; i < 16; i++)
        free(b.kept[i]);
}

int main(void)
{
    struct mf_safetensors f;
    struct mf_engine *e[2];
    struct mf_err err = {0};
    static const char *const device[] = {"ref", "cpu"};
    if (mf_safetensors_open(&f, "tests/fixtures/ops.safetensors", &err) ||
        mf_engine_open(&e[0], device[0], 1, MF_FP32, &err) || mf_engine_open(&e[1], device[1], 1, MF_FP32, &err)) {
        printf("Bail out! %s\n", err.text);
        return 1;
    }
    for (int i = 0; i < f.n; i++) {
        size_t len = strlen(f.tensors[i].name) - 2;
        if (strcmp(f.tensors[i].name + len, ".y"))
            continue;
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)len, f.tensors[i].name);
        one(&f, name, e[0], device[0]);
        one(&f, name, e[1], device[1]);
    }
    mf_engine_close(e[0]);
    mf_engine_close(e[1]);
    mf_safetensors_close(&f);
    return done();
}
