/* sample - chains of ReinFlow's Hopper policy for N environments: actions, chain, log-probability and value.
 *
 *   sample DIR check | serve [fp32|tf32|bf16]
 *
 * Reads "sample 8" and answers with the seconds of one call. The noise is given, on both sides.
 */
#include "bench.h"
#include "flow/sampler.h"

enum { MOST = 1024 };

struct bench {
    struct mf_sampler *sampler;
    struct mf_sample io;
    int N;
};

static void turn(void *arg)
{
    struct bench *b = arg;
    struct mf_err err;
    bench_must(mf_sampler_run(b->sampler, b->N, &b->io, &err), &err);
}

static void check(struct bench *b, const struct mf_policy_spec *s, const char *dir)
{
    struct mf_array *all = NULL;
    int n = 0, sizes[] = {1, 8, 40};
    for (int i = 0; i < 3; i++) {
        char name[32];
        size_t N = (size_t)sizes[i];
        b->N = sizes[i];
        turn(b);
        snprintf(name, sizeof name, "chains%zu", N);
        bench_put(&all, &n, MF_F32, b->io.chains, N * (size_t)(s->K + 1) * (size_t)s->net.D, name);
        snprintf(name, sizeof name, "logprobs%zu", N);
        bench_put(&all, &n, MF_F32, b->io.logprobs, N, name);
        snprintf(name, sizeof name, "values%zu", N);
        bench_put(&all, &n, MF_F32, b->io.values, N, name);
    }
    bench_write(all, n, dir, "sample");
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    struct mf_policy policy;
    struct mf_safetensors file;
    struct mf_err err;
    if (argc < 3)
        return 2;
    struct mf_engine *engine = bench_engine(argv[3]);
    bench_open(&file, argv[1]);
    bench_hopper(&policy, &file);
    bench_must(mf_sampler_new(&b.sampler, engine, &policy, false, &err), &err);
    size_t K = (size_t)policy.spec.K, D = (size_t)policy.spec.net.D;
    int32_t *inds = mf_xcalloc(MOST * K, sizeof *inds);
    for (size_t i = 0; i < MOST * K; i++)
        inds[i] = (int32_t)(i % K);
    b.io = (struct mf_sample){.obs = bench_rows(&file, "obs", MOST),
                              .noise = bench_rows(&file, "noise", MOST),
                              .eps = bench_rows(&file, "eps", MOST),
                              .inds = inds,
                              .chains = mf_xcalloc(MOST * (K + 1) * D, sizeof(float)),
                              .logprobs = mf_xcalloc(MOST, sizeof(float)),
                              .values = mf_xcalloc(MOST, sizeof(float)),
                              .actions = mf_xcalloc(MOST * D, sizeof(float))};
    if (strcmp(argv[2], "check") == 0)
        check(&b, &policy.spec, argv[1]);
    else
        while (scanf("%*15s %d", &b.N) == 1) {
            turn(&b);
            printf("%.9g\n", b.N > 0 && b.N <= MOST ? bench_time(turn, &b, 0.2) : 0);
            fflush(stdout);
        }
    mf_sampler_free(b.sampler);
    mf_policy_release(&policy);
    mf_safetensors_close(&file);
    mf_engine_close(engine);
    return 0;
}
