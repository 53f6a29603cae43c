/* pi05 - a decision of pi0.5 of the published size, with random bf16 weights made on the spot.
 *
 *   pi05 FILE.safetensors [fp32|bf16] [DECISIONS]
 *
 * Makes the file, 6.3 GiB, where it is not there. Two pictures of 224 x 224, a prompt of 25 tokens in 200 slots, 10
 * actions, 10 denoising steps, on all cores; MF_BENCH_TINY=1: the same of a small network. Prints the estimate of the
 * memory before it is taken, then the seconds of each decision, also those of the processor, since a busy machine makes
 * the former longer, and the most memory that was resident.
 */
#include <sys/resource.h>
#include <sys/time.h>

#include "bench.h"
#include "flow/checkpoint.h"
#include "flow/sampler.h"

enum { TOKENS = 25, SLOTS = 200, SIDE = 224, HORIZON = 10, STEPS = 10, EXECUTED = 5, ACTION = 7 };

static struct mf_policy_spec spec_of(bool tiny)
{
    struct mf_err err;
    struct mf_policy_spec s = {.n_obs_steps = 1,
                               .action_dim = ACTION,
                               .horizon = HORIZON,
                               .n_action_steps = EXECUTED,
                               .K = STEPS,
                               .convention = MF_NOISE1,
                               .noise_method = MF_FLOW_SDE,
                               .objective = MF_CHAIN_MEAN};
    s.net = (struct mf_net_spec){.layers = tiny ? 2 : 18,
                                 .heads = 8,
                                 .width = tiny ? 64 : 2048,
                                 .mlp = tiny ? 96 : 16384,
                                 .head_dim = tiny ? 16 : 256,
                                 .vocabulary = 257152,
                                 .action_width = 32,
                                 .expert_width = tiny ? 32 : 1024,
                                 .expert_mlp = tiny ? 56 : 4096,
                                 .vit_width = tiny ? 48 : 1152,
                                 .vit_heads = tiny ? 4 : 16,
                                 .vit_layers = tiny ? 2 : 27,
                                 .vit_mlp = tiny ? 80 : 4304,
                                 .patch = 14};
    for (int i = 0; i < 2; i++) {
        struct mf_obs o = {.dim = {SIDE, SIDE, 3}, .u8 = true};
        snprintf(o.name, sizeof o.name, "%s", i ? "wrist_image" : "image");
        mf_layout_add(&s.obs, &o);
    }
    mf_layout_add(&s.obs, &(struct mf_obs){.name = MF_OBS_TOKENS, .dim = {SLOTS}});
    bench_must(mf_net_find(&s.net.net, "pi05", &err), &err);
    return s;
}

/* ---- the file ---- */

static bool is_matrix(const void *self, const struct mf_param *p)
{
    (void)self;
    return p->rows > 1;
}

/* Matrices are random, with either sign and magnitudes in [2^-6, 2^-5), about those of 1/sqrt(width) of a wide layer:
 * so numbers neither vanish nor grow on their way through the layers. Vectors have the value of their start. */
static int fill(void *self, const struct mf_array *a, size_t first, size_t n, void *to, struct mf_err *err)
{
    static uint64_t state = 0x9e3779b97f4a7c15;
    const struct mf_policy *p = self;
    const struct mf_param *q = &p->params.p[mf_param_find(&p->params, a->name)];
    (void)first, (void)err;
    for (size_t i = 0; i < n; i++) {
        const float value = q->init == MF_INIT_CONST ? q->a : 0;
        state = state * 6364136223846793005 + 1442695040888963407;
        const uint16_t bits = (uint16_t)((state >> 48 & 0x807f) | (127 - 6) << 7);
        memcpy((char *)to + i * mf_dtype_size(a->dtype), a->dtype == MF_F32 ? (const void *)&value : &bits,
               mf_dtype_size(a->dtype));
    }
    return 0;
}

static void make(const char *path, bool tiny)
{
    struct mf_policy_spec s = spec_of(tiny);
    struct mf_policy p;
    struct mf_err err;
    bench_must(mf_policy_outline(&p, &s, &err), &err);
    mf_policy_plain(&p);
    const struct mf_origin origin = {fill, &p};
    const struct mf_checkpoint c = {.policy = &p, .origin = &origin, .bf16 = is_matrix, .kind = "ppo"};
    const double begin = bench_now();
    bench_must(mf_checkpoint_save(path, &c, &err), &err);
    printf("%s made in %.1f s\n", path, bench_now() - begin);
    mf_policy_release(&p);
}

/* ---- a decision ---- */

static double processor(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + 1e-6 * (double)u.ru_utime.tv_usec;
}

static double resident(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / (1 << 20);
}

static void decide(struct mf_sampler *m, const struct mf_policy *p, int decisions)
{
    struct mf_err err;
    const size_t O = (size_t)p->spec.net.O, D = (size_t)p->spec.net.D;
    float *obs = mf_xcalloc(O, sizeof *obs), *noise = mf_xcalloc(D, sizeof *noise), actions[EXECUTED * ACTION];
    unsigned char *pixels = (unsigned char *)obs;
    for (unsigned i = 0; i < 2 * SIDE * SIDE * 3; i++)
        pixels[i] = (unsigned char)(i % 251 * i % 253);
    for (int i = 0; i < TOKENS; i++)
        obs[O - SLOTS + (size_t)i] = (float)(2 + 997 * i);
    for (size_t i = 0; i < D; i++)
        noise[i] = (float)(i % 7) / 3 - 1;
    for (int i = 0; i < decisions; i++) {
        const double begin = bench_now(), used = processor();
        bench_must(mf_sampler_run(m, 1, &(struct mf_sample){.obs = obs, .noise = noise, .actions = actions}, &err),
                   &err);
        printf("decision %d: %.2f s, %.2f s of processors, first action %.6g %.6g\n", i + 1, bench_now() - begin,
               processor() - used, (double)actions[0], (double)actions[1]);
        fflush(stdout);
    }
    free(obs), free(noise);
}

int main(int argc, char **argv)
{
    const bool tiny = getenv("MF_BENCH_TINY");
    struct mf_policy_spec s = spec_of(tiny);
    struct mf_sampler *m;
    struct mf_loaded *l;
    struct mf_policy p;
    struct mf_err err;
    if (argc < 2)
        return 2;
    if (access(argv[1], F_OK))
        make(argv[1], tiny);
    struct mf_engine *e = bench_engine(argc > 2 ? argv[2] : NULL);
    double begin = bench_now();
    bench_must(mf_checkpoint_open(&l, argv[1], &err), &err);
    bench_must(mf_loaded_outline(l, &p, &s, ~0u, mf_engine_in_host(e), MF_WEIGHTS_AUTO, &err), &err);
    struct mf_memory memory = {.beside = NULL};
    bench_must(mf_sampler_new(&m, e, &p, true, &err), &err);
    mf_policy_memory(&p, &memory);
    mf_sampler_memory(m, 1, &memory);
    mf_sampler_free(m);
    bench_must(mf_memory_say(&memory, NULL, &err), &err);
    printf("estimated in %.2f s\n", bench_now() - begin);
    begin = bench_now();
    bench_must(mf_params_alloc(&p.params, &err), &err);
    bench_must(mf_loaded_policy(l, &p, MF_WEIGHTS_AUTO, &err), &err);
    mf_checkpoint_close(l);
    printf("loaded in %.2f s, %.2f GiB resident\n", bench_now() - begin, resident());
    begin = bench_now();
    bench_must(mf_sampler_new(&m, e, &p, true, &err), &err);
    printf("planned in %.2f s\n", bench_now() - begin);
    fflush(stdout);
    decide(m, &p, argc > 3 ? atoi(argv[3]) : 2);
    printf("at most %.2f GiB resident\n", resident());
    mf_sampler_free(m);
    mf_policy_release(&p);
    mf_engine_close(e);
    return 0;
}
