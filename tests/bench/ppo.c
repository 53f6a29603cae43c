/* ppo - the PPO update of ReinFlow's Hopper policy, minibatch by minibatch, as mf-ppo does it.
 *
 *   ppo DIR check | serve [fp32|tf32|bf16]
 *
 * Reads "update 50000" (drawn with tenfold repetition from 20,000 rows, as published), "update 4096", "update 512",
 * "distinct 50000" (distinct rows) and answers with the seconds of one minibatch, its share of shuffling, folding and
 * gathering included, and the multiply-adds' rate.
 */
#include "round.h"

#include "rl/minibatch.h"

enum { ROUND = 20000, FEW = 4096, LARGE = 50000 };
enum { CHECKED = 600 }; /* rows whose gradients are compared in LARGE's stead, drawn tenfold, 5,000 a minibatch */

struct bench {
    struct mf_engine *engine;
    struct mf_policy policy;
    struct mf_safetensors file;
    struct mf_ppo *ppo;
    struct mf_rows rows;
    int batch; /* what ppo and rows are made for .. */
    bool tenfold;
};

/* tenfold: rows are drawn with repetition. still: the weights do not change, so that moments show gradients. */
static struct mf_ppo_opts options(int batch, bool tenfold, bool still)
{
    return (struct mf_ppo_opts){.seed = 1,
                                .total_timesteps = 1,
                                /* What a GPU does once a round, as training has it. */
                                .num_epochs = still || bench_on_cpu() ? 1 : 5,
                                .batch_size = tenfold && still ? LARGE / 10 : batch,
                                .repeat_samples = tenfold ? 10 : 1,
                                .clip_range = 0.01,
                                .logprob_clamp = 1,
                                .value_coef = 0.5,
                                .entropy_coef = 0.03,
                                .learning_rate = still ? 1e-30 : 1e-12,
                                .critic_learning_rate = still ? 1e-30 : 1e-12,
                                .noise_learning_rate = still ? 1e-30 : 1e-12,
                                .max_grad_norm = still ? 0 : 0.5,
                                .normalize_over = MF_OVER_MINIBATCH,
                                .normalize_advantages = true};
}

static void drop(struct bench *b)
{
    mf_ppo_free(b->ppo);
    mf_rows_release(&b->rows);
    b->ppo = NULL;
}

/* Turns use the log-probabilities themselves, and learning rates that move no weight: no row is ever clipped, so all
 * are computed. */
static void prepare(struct bench *b, size_t n, const struct mf_ppo_opts *o, bool still)
{
    struct mf_err err;
    drop(b);
    bench_round(&b->rows, &b->policy, &b->file, n, bench_rows(&b->file, "obs", n), still ? "clipped" : "logprobs");
    bench_must(mf_ppo_new(&b->ppo, b->engine, &b->policy, o, &err), &err);
}

static int64_t pass(void *arg)
{
    struct bench *b = arg;
    struct mf_err err;
    struct mf_ppo_stats st;
    bench_must(mf_ppo_update(b->ppo, &b->rows, &st, &err), &err);
    b->policy.iter++;
    return st.minibatches;
}

static void update(struct bench *b, int batch, bool tenfold)
{
    if (b->batch != batch || b->tenfold != tenfold) {
        struct mf_ppo_opts o = options(batch, tenfold, false);
        prepare(b, tenfold ? ROUND : batch > FEW ? (size_t)batch : FEW, &o, false);
        b->batch = batch;
        b->tenfold = tenfold;
        if (!tenfold || !bench_on_cpu())
            pass(b);
    }
    bench_turns(pass, b);
}

/* AdamW's first moment after a pass with weights that stay: the gradients of its minibatches, 0.1 (.. + 0.9 g + g'). */
static void moments(struct bench *b, int batch, struct mf_array **all, int *n)
{
    char name[MF_NAME_MAX + 32];
    size_t rows = batch == LARGE ? CHECKED : (size_t)batch;
    struct mf_ppo_opts o = options(batch, batch == LARGE, true);
    prepare(b, rows, &o, true);
    b->policy.iter = 0;
    struct mf_minibatches m = {.deck = NULL};
    const struct mf_minibatch *dealt;
    struct mf_err err;
    bench_must(mf_minibatches_init(&m, &b->rows, &o, 1, 1, &err), &err);
    uint32_t *drawn = mf_xcalloc((size_t)batch, sizeof *drawn);
    mf_minibatches_shuffle(&m, &b->rows, 0, 0);
    for (int k = 0; (dealt = mf_minibatches_next(&m, &b->rows)); k++) {
        size_t count = 0;
        for (size_t i = 0; i < dealt->n; i++)
            for (uint32_t c = 0; c < dealt->count[i]; c++)
                drawn[count++] = dealt->row[i];
        snprintf(name, sizeof name, "rows%d/%d", batch, k);
        bench_put(all, n, MF_U32, drawn, count, name);
    }
    free(drawn);
    mf_minibatches_release(&m);
    pass(b);
    for (int i = 0; i < b->policy.params.n; i++) {
        const struct mf_param *q = &b->policy.params.p[i];
        snprintf(name, sizeof name, "moment%d/%s", batch, q->name);
        bench_put(all, n, MF_F32, mf_ppo_optimizer(b->ppo)->adam.m + q->at, (size_t)(q->rows * q->cols), name);
    }
}

static void check(struct bench *b, const char *dir)
{
    struct mf_array *all = NULL;
    int n = 0, batch[] = {LARGE, 4096, 512};
    for (int i = 0; i < 3; i++)
        moments(b, batch[i], &all, &n);
    bench_write(all, n, dir, "ppo");
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    char what[16];
    int size;
    if (argc < 3)
        return 2;
    b.engine = bench_engine(argv[3]);
    bench_open(&b.file, argv[1]);
    bench_hopper(&b.policy, &b.file);
    if (strcmp(argv[2], "check") == 0)
        check(&b, argv[1]);
    else
        while (scanf("%15s %d", what, &size) == 2) {
            update(&b, size, size == LARGE && strcmp(what, "update") == 0);
            fflush(stdout);
        }
    drop(&b);
    mf_policy_release(&b.policy);
    mf_safetensors_close(&b.file);
    mf_engine_close(b.engine);
    return 0;
}
