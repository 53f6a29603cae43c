/* demos - minibatches of demonstrations, as mf-bc gathers them: two observations and the sixteen actions from now on.
 *
 *   demos DIR check | serve
 *
 * Reads "demos 256" and answers with the seconds of one minibatch of an epoch in random order; "demos 0" with those of
 * opening the file and going through it once.
 */
#include "bench.h"

#include "base/rng.h"
#include "flow/dataset.h"

enum { BATCH = 256 };

static const char *const keys[] = {"object", "robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos"};

struct bench {
    char path[4096];
    struct mf_policy policy;
    struct mf_demos demos;
    struct mf_dataset windows;
    uint32_t *order;
    float *obs, *actions;
    uint32_t epoch;
};

static void open_file(struct bench *b)
{
    struct mf_err err;
    struct mf_demos_opts opts = {.n_keys = 4, .keys = keys, .cache = 1 << 30};
    bench_must(mf_demos_open(&b->demos, b->path, &opts, &err), &err);
    bench_must(mf_dataset_open(&b->windows, &b->policy, &b->demos, -1, -1, 0, MF_AUGMENT_NONE, b->demos.total, &err),
               &err);
}

static void close_file(struct bench *b)
{
    mf_dataset_close(&b->windows);
    mf_demos_close(&b->demos);
}

static void make(struct bench *b)
{
    struct mf_err err;
    struct mf_policy_spec s = {
        .obs = {4,
                19,
                {{"object", {10}, false}, {"eef_pos", {3}, false}, {"eef_quat", {4}, false}, {"qpos", {2}, false}}},
        .n_obs_steps = 2,
        .action_dim = 7,
        .horizon = 16,
        .n_action_steps = 8,
        .K = 4,
        .net = {.n_hidden = 1, .hidden = {8}, .act = MF_ACT_RELU, .time_dim = 8}};
    bench_must(mf_net_find(&s.net.net, "reflow_mlp", &err), &err);
    bench_must(mf_policy_init(&b->policy, &s, &err), &err);
    mf_policy_fresh(&b->policy, 0); /* which normalises by 1 and 0: the numbers are the file's */
    open_file(b);
    b->order = mf_xcalloc(b->windows.n, sizeof *b->order);
    b->obs = mf_xcalloc(b->windows.n * 38, sizeof *b->obs);
    b->actions = mf_xcalloc(b->windows.n * 112, sizeof *b->actions);
}

/* Every sample once, in random order; what is left of the last minibatch is dropped. */
static void epoch(void *arg)
{
    struct bench *b = arg;
    struct mf_err err;
    struct mf_rng rng = mf_rng_at(0, MF_RNG_SHUFFLE, 0, b->epoch++, 0);
    for (uint32_t i = 0; i < b->windows.n; i++) {
        uint32_t j = mf_rng_below(&rng, i + 1);
        b->order[i] = b->order[j];
        b->order[j] = i;
    }
    for (size_t i = 0; i + BATCH <= b->windows.n; i += BATCH)
        bench_must(mf_dataset_batch(&b->windows, BATCH, b->order + i, b->obs, b->actions, &err), &err);
}

static void open_and_epoch(void *arg)
{
    struct bench *b = arg;
    close_file(b);
    open_file(b);
    epoch(b);
}

static void check(struct bench *b, const char *dir)
{
    struct mf_err err;
    struct mf_array *all = NULL;
    int n = 0;
    for (uint32_t i = 0; i < b->windows.n; i++)
        b->order[i] = i;
    bench_must(mf_dataset_batch(&b->windows, b->windows.n, b->order, b->obs, b->actions, &err), &err);
    bench_put(&all, &n, MF_F32, b->obs, b->windows.n * 38, "obs");
    bench_put(&all, &n, MF_F32, b->actions, b->windows.n * 112, "actions");
    bench_write(all, n, dir, "demos");
}

int main(int argc, char **argv)
{
    struct bench b = {.epoch = 0};
    size_t batch;
    if (argc < 3)
        return 2;
    snprintf(b.path, sizeof b.path, "%s/demos.hdf5", argv[1]);
    make(&b);
    if (strcmp(argv[2], "check") == 0)
        check(&b, argv[1]);
    else
        while (scanf("%*15s %zu", &batch) == 1) {
            double seconds = bench_time(batch ? epoch : open_and_epoch, &b, 0.2);
            printf("%.9g\n", batch ? seconds / (double)(b.windows.n / BATCH) : seconds);
            fflush(stdout);
        }
    close_file(&b);
    mf_policy_release(&b.policy);
    return 0;
}
