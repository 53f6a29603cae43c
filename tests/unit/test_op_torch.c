/* Every operation against PyTorch: tests/reference/ops.py made the numbers, on double. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/layout.h"
#include "device_under_test.h"
#include "flow/ops.h"
#include "graph/plan.h"
#include "op/ops.h"
#include "op_seen.h"
#include "rl/losses.h"
#include "run/safetensors.h"
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

/* What a parameter is in the file: an operand and data are called as there, W and b of a linear are its operands 1 and
 * 2. */
static const struct mf_array *of_param(const struct bench *b, const char *param, char kind)
{
    char what[] = {*param == 'd' ? 'd' : kind,
                   *param == 'x' || *param == 'd' ? param[1]
                   : *param == 'W'                ? '1'
                                                  : '2',
                   0};
    return find(b, what);
}

/* A parameter of the file's shape, transposed when it stands for an operand. */
static int param(struct bench *b, const char *what)
{
    const struct mf_array *a = of_param(b, what, 'x');
    bool transposed = what[0] == 'x';
    int rows = (int)a->dim[0], cols = (int)a->dim[1];
    return mf_param_add(&b->ps, what, transposed ? cols : rows, transposed ? rows : cols, 2,
                        *what == 'd' ? MF_GROUP_BUFFER : MF_GROUP_POLICY, MF_INIT_CONST, 0.0f);
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

/* kv MF_NONE: q holds keys and values, too. Two heads. */
static struct mf_val attend(struct bench *b, struct mf_val q, struct mf_val kv, int blocks, int dim, const int at[3],
                            float scale)
{
    struct mf_attend how = {.heads = 2, .blocks = blocks, .dim = dim, .out = dim, .scale = scale};
    memcpy(how.at, at, sizeof how.at);
    kv = kv.id ? kv : q;
    return mf_attention(b->g, q, kv, kv, MF_NONE, &how);
}

/* Four heads of 6 numbers share keys and values of one, of which d0 hides some. */
static struct mf_val attend_to(struct bench *b, int blocks, struct mf_val own_k, struct mf_val own_v)
{
    struct mf_keys keys = {.k = x(b, 1), .v = x(b, 2), .mask = d(b, 0), .own_k = own_k, .own_v = own_v};
    struct mf_attend how = {.heads = 4, .groups = 1, .blocks = blocks, .dim = 24, .out = 24, .scale = .5f};
    return mf_attention_to(b->g, x(b, 0), &keys, &how);
}

static struct mf_val convolve(struct bench *b, const struct mf_slide *how)
{
    struct mf_val windows = mf_unfold(b->g, x(b, 0), how);
    return mf_linear(b->g, windows, param(b, "W"), 0, param(b, "b"), MF_NONE, MF_NONE, MF_ACT_NONE);
}

static struct mf_val convolve2d(struct bench *b, const struct mf_patch *how)
{
    struct mf_val windows = mf_im2col(b->g, x(b, 0), how);
    return mf_linear(b->g, windows, param(b, "W"), 0, param(b, "b"), MF_NONE, MF_NONE, MF_ACT_NONE);
}

static struct mf_val picture(struct bench *b, bool u8, int crop)
{
    struct mf_obs o = {.dim = {4, 6, 3}, .u8 = u8};
    return mf_picture(b->g, d(b, 0), 1, &o, crop, param(b, "d1"), param(b, "d2"));
}

#define CASE(name, value)                                                                                              \
    static struct mf_val case_##name(struct bench *b)                                                                  \
    {                                                                                                                  \
        return value;                                                                                                  \
    }
#include "op_torch.inc"
#undef CASE

#define CASE(name, value) {#name, case_##name},
static const struct {
    const char *name;
    struct mf_val (*record)(struct bench *b);
} cases[] = {
#include "op_torch.inc"
};
#undef CASE
enum { CASES = sizeof cases / sizeof *cases };
static bool used[CASES];

/* The row of a case of the file, or -1: that with the longest name that it begins with. */
static int row_of(const char *name)
{
    int best = -1;
    for (int i = 0; i < CASES; i++) {
        size_t n = strlen(cases[i].name);
        if (!strncmp(name, cases[i].name, n) && (best < 0 || n > strlen(cases[best].name)))
            best = i;
    }
    return best;
}

/* How far a parameter (its value or gradient) is from the file's matrix, to its largest; into: takes that over. */
static double compare(const struct mf_param *p, const float *got, const struct mf_array *a, float *into)
{
    const float *want = a->data;
    double worst = 0.0, most = 1e-3;
    bool transposed = p->name[0] == 'x';
    for (int i = 0; i < p->rows; i++)
        for (int j = 0; j < p->cols; j++) {
            float w;
            memcpy(&w, want + (transposed ? j * p->rows + i : i * p->cols + j), sizeof w);
            if (into)
                into[i * p->cols + j] = w;
            worst = worse(worst, fabs((double)w - (double)got[i * p->cols + j]));
            most = fmax(most, fabs((double)w));
        }
    return worst / most;
}

static void one(const struct mf_safetensors *file, const char *name, struct mf_engine *e, const char *device,
                struct seen *seen)
{
    int row = row_of(name);
    if (row < 0) {
        ok(false, "%s of the fixture has a row", name);
        return;
    }
    used[row] = true;
    struct bench b = {.file = file, .name = name};
    struct mf_err err = {0};
    struct mf_plan *p;
    b.g = mf_graph_new(&b.ps);
    struct mf_val y = cases[row].record(&b);
    see(seen, b.g, y);
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
    rc = rc || mf_plan_run(p,
                           &(struct mf_batch){.n = 1,
                                              .feed = b.feed,
                                              .n_feeds = b.n_feeds,
                                              .fetch = &(struct mf_fetch){y, got, (size_t)n},
                                              .n_fetches = 1},
                           &err);
    struct mf_param flat = {.name = "y", .rows = 1, .cols = n};
    double dy = compare(&flat, got, want, NULL), dg = 0.0;
    for (int i = 0; i < trained; i++)
        if (b.ps.p[i].group != MF_GROUP_BUFFER)
            dg = worse(dg,
                       compare(&b.ps.p[i], mf_plan_grads(p) + b.ps.p[i].at, of_param(&b, b.ps.p[i].name, 'g'), NULL));
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
    struct seen seen = seen_new();
    const char *const device[] = {"ref", device_under_test()};
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
        one(&f, name, e[0], device[0], &seen);
        one(&f, name, e[1], device[1], &seen);
    }
    for (int i = 0; i < CASES; i++)
        ok(used[i], "%s has a case in the fixture", cases[i].name);
    all_seen(&seen);
    mf_engine_close(e[0]);
    mf_engine_close(e[1]);
    mf_safetensors_close(&f);
    return done();
}
