/* gae - the estimator of mf-gae over T = 256 decisions of N environments.
 *
 *   gae DIR check | serve
 *
 * Reads "gae 40" and answers with the seconds of one call.
 */
#include "bench.h"

#include "rl/advantage.h"

enum { T = 256 };

struct bench {
    struct mf_rollout r;
    float *advantages, *returns;
};

static const struct mf_advantage choice = {.gamma = 0.99, .gae_lambda = 0.95};

static void turn(void *arg)
{
    struct bench *b = arg;
    struct mf_err err;
    bench_must(mf_advantage(&choice, MF_GAE, &b->r, b->advantages, b->returns, &err), &err);
}

static void *column(const struct mf_safetensors *f, size_t N, const char *what, size_t rows)
{
    char name[64];
    snprintf(name, sizeof name, "gae%zu/%s", N, what);
    return bench_rows(f, name, rows);
}

static void load(struct bench *b, const struct mf_safetensors *f, size_t N)
{
    if (b->r.N == N)
        return;
    const void *old[] = {b->r.rewards,   b->r.prev_values, b->r.last_values, b->r.terminated,
                         b->r.truncated, b->advantages,    b->returns};
    for (size_t i = 0; i < sizeof old / sizeof *old; i++)
        free((void *)old[i]);
    b->r = (struct mf_rollout){.T = T,
                               .N = N,
                               .C = 1,
                               .rewards = column(f, N, "rewards", T),
                               .prev_values = column(f, N, "values", T),
                               .last_values = column(f, N, "last", N),
                               .terminated = column(f, N, "terminated", T),
                               .truncated = mf_xcalloc(T * N, sizeof(uint8_t))};
    b->advantages = mf_xcalloc(T * N, sizeof(float));
    b->returns = mf_xcalloc(T * N, sizeof(float));
}

static void check(struct bench *b, const struct mf_safetensors *f, const char *dir)
{
    struct mf_array *all = NULL;
    int n = 0;
    for (size_t N = 40; N <= 4096; N += 4056) {
        char name[32];
        load(b, f, N);
        turn(b);
        snprintf(name, sizeof name, "advantages%zu", N);
        bench_put(&all, &n, MF_F32, b->advantages, T * N, name);
    }
    bench_write(all, n, dir, "gae");
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct mf_safetensors file;
    size_t N;
    if (argc < 3)
        return 2;
    bench_open(&file, argv[1]);
    if (strcmp(argv[2], "check") == 0)
        check(&b, &file, argv[1]);
    else
        while (scanf("%*15s %zu", &N) == 1) {
            load(&b, &file, N);
            turn(&b);
            printf("%.9g\n", bench_time(turn, &b, 0.2));
            fflush(stdout);
        }
    mf_safetensors_close(&file);
    return 0;
}
