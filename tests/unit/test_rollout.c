#include <stdlib.h>
#include <string.h>

#include "stream/rollout.h"
#include "tap.h"

enum { T = 4, N = 3, C = 2, A = 5, H = 6, K = 3 };
enum { ALL = MF_NEED_VALUES | MF_NEED_CHAINS | MF_NEED_ADVANTAGES };

static struct mf_err err;
static struct mf_rollout r;

static void *add(struct mf_frame *f, const char *name, enum mf_dtype dtype, int rank, const size_t *dim)
{
    void *data = NULL;
    if (mf_frame_add(f, name, dtype, rank, dim, &data, &err))
        printf("# %s\n", err.text);
    return data;
}

#define ADD(f, name, dtype, ...)                                                                                       \
    add(f, name, dtype, (int)(sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t)), (size_t[]){__VA_ARGS__})

static struct mf_frame *whole(void)
{
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    mf_frame_set_int(f, "iter", 3);
    mf_frame_set_ints(f, "slice", (int64_t[]){1, 4}, 2);
    mf_frame_set_ints(f, "envs", (int64_t[]){6, N}, 2);
    ADD(f, "obs/state", MF_F32, T, N, 1, 7);
    ADD(f, "obs/image", MF_U8, T, N, 1, 2, 2, 3);
    ADD(f, "rewards", MF_F32, T, N, C);
    ADD(f, "terminated", MF_U8, T, N);
    ADD(f, "truncated", MF_U8, T, N);
    memset(ADD(f, "valid", MF_U8, T, N), 1, T * N);
    memset(ADD(f, "loss_mask", MF_U8, T, N), 1, T * N);
    int32_t *n_exec = ADD(f, "n_exec", MF_I32, T, N), *k = ADD(f, "denoise_inds", MF_I32, T, N, K);
    for (int i = 0; i < T * N; i++)
        n_exec[i] = C;
    for (int i = 0; i < T * N * K; i++)
        k[i] = i % K;
    ADD(f, "prev_values", MF_F32, T, N);
    ADD(f, "last_values", MF_F32, N);
    ADD(f, "final_values", MF_F32, T, N);
    ADD(f, "actions", MF_F32, T, N, C, A);
    ADD(f, "chains", MF_F32, T, N, K + 1, H, A);
    ADD(f, "prev_logprobs", MF_F32, T, N, C, A);
    ADD(f, "advantages", MF_F32, T, N);
    ADD(f, "returns", MF_F32, T, N);
    return f;
}

static void binds(void)
{
    struct mf_frame *f = whole();
    ok(!mf_rollout_bind(&r, f, ALL, &err), "a whole rollout binds");
    ok(r.T == T && r.N == N && r.C == C && r.A == A && r.H == H && r.K == K && r.iter == 3 && r.slice == 1 &&
           r.slices == 4 && r.first_env == 6 && !r.normalized,
       "its sizes and its place");
    ok(r.rewards == mf_frame_find(f, "rewards")->data && r.chains == mf_frame_find(f, "chains")->data && r.n_exec &&
           r.valid && r.final_values && r.prev_logprobs->rank == 4 && !r.rewards_scaled,
       "its pointers");
    ok(!mf_rollout_bind(&r, f, 0, &err) && !r.prev_values && !r.chains && !r.advantages && r.rewards,
       "no more than needed");
    mf_frame_set_bool(f, "normalized", true);
    ok(!mf_rollout_bind(&r, f, 0, &err) && r.normalized, "normalized");
    mf_frame_free(f);

    f = mf_frame_new(MF_ROLLOUT);
    mf_frame_set_int(f, "iter", 0);
    ADD(f, "rewards", MF_F32, 2, 1, 1);
    ADD(f, "terminated", MF_B1, 2, 1);
    ADD(f, "truncated", MF_B1, 2, 1);
    ok(!mf_rollout_bind(&r, f, 0, &err) && r.slices == 1 && !r.valid && !r.n_exec,
       "the least there is; flags may be bools");
    mf_frame_free(f);
}

/* Of 12 decisions the second of 3 shares has 4 .. 7, which is (1, 1) .. (2, 1). */
static void shares(void)
{
    bool each = true;
    for (size_t n = 5; n < 9; n++)
        for (size_t i = 0; i < n; i++) {
            const int k = mf_share_of(n, i, 5);
            each = each && i >= mf_share_first(n, k, 5) && i < mf_share_first(n, k + 1, 5);
        }
    ok(each, "every decision is in one share");
    struct mf_frame *f = whole();
    float *obs = ADD(f, "obs/state", MF_F32, 1, 4, 2);
    obs[2 * 2 + 1] = NAN;
    ok(mf_rollout_bind(&r, f, ALL, &err) == MF_EFORMAT && strstr(err.text, "expected (T=4, N=3) first"), "%s",
       err.text);
    mf_frame_set_share(f, 1, 3);
    ok(mf_rollout_bind(&r, f, ALL, &err) == MF_EFORMAT && strstr(err.text, "obs/state[2,0,1] is NaN"), "%s", err.text);
    obs[2 * 2 + 1] = 0;
    ok(!mf_rollout_bind(&r, f, ALL, &err) && r.share == 1 && r.shares == 3 && r.first == 4 && r.end == 8,
       "a share of the observations binds");
    ADD(f, "obs/state", MF_F32, 1, 5, 2);
    ok(mf_rollout_bind(&r, f, ALL, &err) == MF_EFORMAT, "no other number of them: %s", err.text);
    mf_frame_free(f);
}

/* ---- refusals: `edit` spoils a whole rollout, the sentence holds `word` ---- */

static void refused(struct mf_frame *f, unsigned need, const char *word)
{
    int rc = mf_rollout_bind(&r, f, need, &err);
    ok(rc == MF_EFORMAT && strstr(err.text, word) && strstr(err.text, "iteration 3"), "%s",
       rc ? err.text : "was taken");
    mf_frame_free(f);
}

#define REFUSED(need, word, ...)                                                                                       \
    do {                                                                                                               \
        struct mf_frame *f = whole();                                                                                  \
        __VA_ARGS__;                                                                                                   \
        refused(f, need, word);                                                                                        \
    } while (0)

static struct mf_frame *bare(void)
{
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    mf_frame_set_int(f, "iter", 3);
    ADD(f, "rewards", MF_F32, T, N, C);
    ADD(f, "terminated", MF_U8, T, N);
    return f;
}

static void missing(void)
{
    struct mf_frame *f = bare();
    refused(f, 0, "no array 'truncated', expected (T=4, N=3)");
    f = bare();
    ADD(f, "truncated", MF_U8, T, N);
    refused(f, MF_NEED_VALUES,
            "no array 'prev_values', expected (T=4, N=3): a collector that acts by a policy with a critic sends it");
    f = bare();
    ((uint8_t *)ADD(f, "truncated", MF_U8, T, N))[4] = 1;
    ADD(f, "prev_values", MF_F32, T, N);
    ADD(f, "last_values", MF_F32, N);
    refused(f, MF_NEED_VALUES, "no array 'final_values', expected (T=4, N=3), since an episode was truncated");
}

static void shapes(void)
{
    REFUSED(0, "'rewards' has shape (4, 3), expected (T, N, C)", ADD(f, "rewards", MF_F32, T, N));
    REFUSED(0, "'rewards' has shape (0, 3, 2)", ADD(f, "rewards", MF_F32, 0, N, C));
    REFUSED(0, "'truncated' has shape (4, 4), expected (T=4, N=3)", ADD(f, "truncated", MF_U8, T, N + 1));
    REFUSED(0, "'rewards' has dtype <f8, expected <f4", ADD(f, "rewards", MF_F64, T, N, C));
    REFUSED(0, "expected <f4: numpy's .astype('<f4') makes it so", ADD(f, "rewards", MF_F64, T, N, C));
    REFUSED(0, "'valid' has dtype <f4, expected |u1", ADD(f, "valid", MF_F32, T, N));
    REFUSED(MF_NEED_CHAINS, "'chains' has shape (4, 3, 3, 6, 5), expected (T=4, N=3, K+1=4, H, W)",
            ADD(f, "chains", MF_F32, T, N, K, H, A));
    REFUSED(MF_NEED_CHAINS, "'chains' has shape (4, 3, 4, 6, 4)", ADD(f, "chains", MF_F32, T, N, K + 1, H, A - 1));
    REFUSED(MF_NEED_CHAINS, "'obs/state' has shape (3, 4, 7), expected (T=4, N=3) first",
            ADD(f, "obs/state", MF_F32, N, T, 7));
    REFUSED(MF_NEED_CHAINS, "'prev_logprobs' has dtype", ADD(f, "prev_logprobs", MF_F64, T, N));
    REFUSED(0, "envs [6, 5]", mf_frame_set_ints(f, "envs", (int64_t[]){6, 5}, 2));
    REFUSED(0, "slice [4, 4]", mf_frame_set_ints(f, "slice", (int64_t[]){4, 4}, 2));
    REFUSED(MF_NEED_CHAINS, "denoise_inds[1,2,0] is 3, not within -1..2",
            ((int32_t *)mf_frame_find(f, "denoise_inds")->data)[(1 * N + 2) * K] = K);
    REFUSED(0, "n_exec[0,1] is 0, not within 1..2", ((int32_t *)mf_frame_find(f, "n_exec")->data)[1] = 0);
}

static float *at(struct mf_frame *f, const char *name)
{
    return mf_frame_find(f, name)->data;
}

static void nans(void)
{
    REFUSED(0, "rewards[3,1,0] is NaN, and neither valid nor loss_mask masks it",
            at(f, "rewards")[(3 * N + 1) * C] = NAN);
    REFUSED(0, "rewards[0,0,1] is -1e+30, beyond the 1e15 up to which float32 can learn, and neither valid",
            at(f, "rewards")[1] = -1e30f);
    REFUSED(MF_NEED_VALUES, "prev_values[0,2] is NaN", at(f, "prev_values")[2] = NAN);
    REFUSED(MF_NEED_VALUES, "last_values[2] is NaN, and its episode goes on", at(f, "last_values")[2] = NAN);
    REFUSED(MF_NEED_VALUES, "final_values[2,0] is NaN", at(f, "final_values")[2 * N] = NAN;
            ((uint8_t *)mf_frame_find(f, "truncated")->data)[2 * N] = 1);
    REFUSED(MF_NEED_CHAINS, "obs/state[1,0,0,6] is NaN", at(f, "obs/state")[N * 7 + 6] = NAN);
    REFUSED(MF_NEED_CHAINS, "chains[3,2,3,5,4] is NaN", at(f, "chains")[T * N * (K + 1) * H * A - 1] = NAN);
    REFUSED(MF_NEED_CHAINS, "prev_logprobs[0,0,1,0] is NaN", at(f, "prev_logprobs")[A] = NAN);
    REFUSED(MF_NEED_ADVANTAGES, "returns[0,0] is NaN", at(f, "returns")[0] = NAN);
}

static void spoil(struct mf_frame *f, int row)
{
    for (int i = 0; i < mf_frame_arrays(f); i++) {
        struct mf_array *a = mf_frame_array(f, i);
        size_t inner = a->count / (T * N) * mf_dtype_size(a->dtype);
        if (a->rank >= 2 && strcmp(a->name, "valid") && strcmp(a->name, "loss_mask"))
            memset((char *)a->data + (size_t)row * inner, 0xff, inner);
    }
}

static void masks(void)
{
    struct mf_frame *f = whole();
    spoil(f, 4);
    ((uint8_t *)mf_frame_find(f, "valid")->data)[4] = 0;
    spoil(f, 7);
    ((uint8_t *)mf_frame_find(f, "loss_mask")->data)[7] = 0;
    at(f, "final_values")[0] = NAN;
    at(f, "final_values")[3 * N] = NAN;
    ((uint8_t *)mf_frame_find(f, "truncated")->data)[3 * N] = 1;
    ((uint8_t *)mf_frame_find(f, "terminated")->data)[3 * N] = 1;
    at(f, "last_values")[1] = NAN;
    ((uint8_t *)mf_frame_find(f, "terminated")->data)[(T - 1) * N + 1] = 1;
    ok(!mf_rollout_bind(&r, f, ALL, &err), "masked entries may hold anything, a final value where terminated wins too");
    ((uint8_t *)mf_frame_find(f, "terminated")->data)[(T - 1) * N + 1] = 0;
    refused(f, ALL, "last_values[1] is NaN");

    f = bare();
    ((uint8_t *)ADD(f, "truncated", MF_U8, T, N))[4] = 1;
    ((uint8_t *)mf_frame_find(f, "terminated")->data)[4] = 1;
    ADD(f, "prev_values", MF_F32, T, N);
    ADD(f, "last_values", MF_F32, N);
    ok(!mf_rollout_bind(&r, f, MF_NEED_VALUES, &err) && !r.final_values, "where terminated wins, none is needed: %s",
       err.text);
    mf_frame_free(f);
}

int main(void)
{
    binds();
    shares();
    missing();
    shapes();
    nans();
    masks();
    return done();
}
