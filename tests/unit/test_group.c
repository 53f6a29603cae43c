/* Advantages relative to a group: by hand, and what counts. */
#include <string.h>

#include "rl/group.h"
#include "tap.h"

enum { MOST = 64 };

static struct mf_err err;
static float A[MOST], S[MOST];
static uint8_t mask[MOST];
static struct mf_group_counts counts;
static const struct mf_group_opts by_return = {MF_GROUP_RETURN, MF_BASELINE_GROUP},
                                  by_success = {MF_GROUP_SUCCESS, MF_BASELINE_GROUP},
                                  by_others = {MF_GROUP_RETURN, MF_BASELINE_OTHERS};

static void run(const struct mf_group_opts *o, const struct mf_rollout *r, size_t size)
{
    counts = (struct mf_group_counts){0};
    memset(A, 0x7f, sizeof A);
    ok(mf_group_advantage(o, r, size, A, S, mask, &counts, &err) == 0, "it computes");
}

static bool equal(const float *a, const double *want, int n)
{
    bool all = true;
    for (int i = 0; i < n; i++)
        all &= fabs((double)a[i] - want[i]) < 1e-6;
    for (int i = 0; !all && i < n; i++)
        printf("# %d: %.9g, want %.9g\n", i, (double)a[i], want[i]);
    return all;
}

static const uint8_t yes[MOST] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, no[MOST];

/* One decision an episode, n of them in one group. */
static struct mf_rollout once(size_t n, const float *rewards)
{
    static const int32_t group[MOST];
    return (struct mf_rollout){
        .T = 1, .N = n, .C = 1, .rewards = rewards, .terminated = yes, .truncated = no, .group = group, .success = no};
}

static void closed_forms(void)
{
    const float scores[] = {1, 0, 0, 1}, same[] = {.1f, .1f, .1f}, pair[] = {3, 1}, one[] = {7};
    struct mf_rollout r = once(4, scores);
    run(&by_return, &r, 4);
    ok(equal(A, (double[]){.8660239, -.8660239, -.8660239, .8660239}, 4), "RLinf's numbers: unbiased std + 1e-6");
    ok(equal(S, (double[]){1, 0, 0, 1}, 4), "returns are the scores");
    ok(counts.groups == 1 && counts.equal + counts.single + counts.cut + counts.masked == 0 && counts.decisions == 4,
       "a whole group of 4");
    run(&by_others, &r, 4);
    ok(equal(A, (double[]){2. / 3, -2. / 3, -2. / 3, 2. / 3}, 4), "leave one out: score less the mean of the others");
    r.rewards = (const float[]){5, 6, 7, 8};
    r.success = (const uint8_t[]){1, 0, 0, 1};
    run(&by_success, &r, 4);
    ok(equal(A, (double[]){.8660239, -.8660239, -.8660239, .8660239}, 4), "by success, whatever the rewards");
    r = once(2, pair);
    run(&by_return, &r, 2);
    ok(equal(A, (double[]){.7071062812, -.7071062812}, 2), "a pair: 1 / (sqrt 2 + 1e-6)");
    r = once(3, same);
    run(&by_return, &r, 3);
    ok(A[0] == 0 && A[1] == 0 && A[2] == 0 && counts.equal == 1 && mask[0], "equal scores give exactly 0");
    r = once(1, one);
    run(&by_return, &r, 1);
    ok(A[0] == 0 && counts.single == 1 && counts.equal == 0 && mask[0], "one episode gives 0");
    run(&by_others, &r, 1);
    ok(A[0] == 0, "also without the others");
}

/* Two groups of two environments; chunks of 2; episodes of 1, 2 and 3 decisions:
 *
 *   environment 0  group 0: 0 0|  group 2: 2|2.   the second 2 is another episode, which is cut
 *   environment 1  group 0: 0|    group 2: 2 2|-  '-' is not valid
 *   environment 2  group 1: 1 1 1|1               its next episode is of a group by itself
 *   environment 3  group 1: 1 1 1 1.              cut by the end of the rollout
 */
static void episodes(void)
{
    enum { T = 4, N = 4, C = 2 };
    static const int32_t group[T * N] = {0, 0, 1, 1, 0, 2, 1, 1, 2, 2, 1, 1, 4, 2, 3, 1},
                                   ran[T * N] = {2, 2, 2, 2, 1, 2, 2, 2, 2, 1, 2, 2, 2, 0, 2, 2};
    static const uint8_t term[T * N] = {0, 1, 0, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0},
                                  trunc[T * N] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0},
                                  valid[T * N] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1};
    float rewards[T * N * C];
    for (int i = 0; i < T * N * C; i++)
        rewards[i] = 1;
    rewards[4 * C + 1] = rewards[9 * C + 1] = rewards[13 * C] = NAN; /* not executed */
    struct mf_rollout r = {.T = T,
                           .N = N,
                           .C = C,
                           .rewards = rewards,
                           .terminated = term,
                           .truncated = trunc,
                           .valid = valid,
                           .n_exec = ran,
                           .group = group};
    const double a = .5 / (sqrt(.5) + 1e-6);
    run(&by_return, &r, 2);
    ok(equal(A, (double[]){a, -a, 0, 0, a, a, 0, 0, -a, a, 0, 0, 0, 0, 0, 0}, T * N),
       "every decision of an episode gets its advantage: 3 control steps against 2");
    ok(equal(S, (double[]){3, 2, 0, 0, 3, 3, 0, 0, 2, 3, 0, 0, 0, 0, 0, 0}, T * N), "and its score");
    ok(!memcmp(mask, (const uint8_t[]){1, 1, 0, 0, 1, 1, 0, 0, 1, 1, 0, 0, 0, 1, 0, 0}, T * N),
       "groups that are not whole are masked: cut, or of too few");
    ok(counts.groups == 2 && counts.cut == 3 && counts.decisions == 15 && counts.masked == 9, "and counted");
    run(&by_return, &r, 1);
    ok(counts.cut == 3, "without a size, a group whose episodes have all ended is whole");
    r.loss_mask = (const uint8_t[T * N]){0, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    run(&by_return, &r, 2);
    ok(counts.groups == 1 && !mask[0] && !mask[1] && !mask[4] && mask[5] && mask[8],
       "an episode that loss_mask masks is none, and its group is not whole");
}

/* A frame gets the arrays, and says that its advantages are normalised. */
static void frames(void)
{
    const size_t dim[] = {1, 4, 1};
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    void *p;
    mf_frame_set_int(f, "iter", 3);
    mf_frame_add(f, "rewards", MF_F32, 3, dim, &p, &err);
    memcpy(p, (const float[]){1, 0, 0, 1}, 16);
    for (const char *const *name = (const char *[]){"terminated", "truncated", "loss_mask", NULL}; *name; name++) {
        mf_frame_add(f, *name, MF_U8, 2, dim, &p, &err);
        memset(p, **name == 't' && (*name)[1] == 'e', 4);
    }
    memset(p, 1, 4);
    ok(mf_group_add(&by_return, f, &counts, &err) == MF_EFORMAT && strstr(err.text, "there is no array 'group'") &&
           strstr(err.text, "collect.group=8"),
       "a rollout without groups: %s", err.text);
    mf_frame_add(f, "group", MF_I32, 2, dim, &p, &err);
    memset(p, 0, 16);
    ok(mf_group_add(&by_success, f, &counts, &err) == MF_EFORMAT && strstr(err.text, "there is no array 'success'"),
       "one without successes: %s", err.text);
    mf_frame_set_int(f, "group_size", 5);
    counts = (struct mf_group_counts){0};
    ok(mf_group_add(&by_return, f, &counts, &err) == 0 && counts.cut == 1, "the frame says how many make a group");
    ok(((const uint8_t *)mf_frame_find(f, "loss_mask")->data)[2] == 0, "the others are masked in its loss_mask");
    mf_frame_set_int(f, "group_size", 0);
    ok(mf_group_add(&by_return, f, &counts, &err) == MF_EFORMAT && strstr(err.text, "group_size is 0"), "%s", err.text);
    bool normalized = false;
    ok(mf_frame_get_bool(f, "normalized", &normalized, &err) == 0 && normalized, "standardised already");
    mf_frame_free(f);
}

int main(void)
{
    closed_forms();
    episodes();
    frames();
    return done();
}
