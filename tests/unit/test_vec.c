#include "env/vec.h"

#include <stdlib.h>
#include <string.h>

#include "tap.h"

enum { C = 4, DECISIONS = 25, A_MAX = 8 };

struct trace { /* all that DECISIONS decisions gave, one after the other */
    char *bytes;
    size_t used, room;
};

static void note(struct trace *t, const void *x, size_t n)
{
    if (t->used + n > t->room)
        t->bytes = realloc(t->bytes, t->room = 2 * (t->used + n));
    memcpy(t->bytes + t->used, x, n);
    t->used += n;
}

static struct mf_vec *make(const char *name, int N, int threads, int first)
{
    struct mf_err err;
    struct mf_vec *v = NULL;
    const float *obs;
    struct mf_vec_opts o = {
        .N = N, .threads = threads, .first_env = first, .expert_error = 1, .seed = 7, .reset_purpose = MF_RNG_RESET};
    if (mf_env_find(&o.env, name, &err) || mf_vec_new(&v, &o, &err) || mf_vec_reset(v, NULL, &obs, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    return v;
}

/* Environment `which` of v (all: -1) through decisions of the expert's last action plus noise, seed-fixed per number.
 */
static struct trace roll(struct mf_vec *v, const struct mf_env *env, int N, int first, int decisions, int which)
{
    struct trace t = {0};
    struct mf_err err;
    struct mf_decision d;
    size_t A = (size_t)env->action_dim, O = (size_t)mf_vec_layout(v)->dim;
    float *guide = calloc((size_t)N * A, sizeof *guide), *actions = calloc((size_t)N * C * A, sizeof *actions);
    for (int k = 0; k < decisions; k++) {
        mf_vec_expert(v, guide, &err);
        for (int n = 0; n < N; n++)
            for (int c = 0; c < C; c++) {
                struct mf_rng rng = mf_rng_at(3, MF_RNG_TEST, (uint32_t)(first + n), (uint32_t)mf_vec_episode(v)[n],
                                              (uint32_t)(mf_vec_clock(v)[n] + c));
                float noise[A_MAX];
                mf_rng_normal(&rng, noise, A);
                for (size_t a = 0; a < A; a++)
                    actions[((size_t)n * C + (size_t)c) * A + a] = guide[(size_t)n * A + a] + 0.1f * noise[a];
            }
        if (mf_vec_step(v, actions, C, true, &d, &err))
            printf("Bail out! %s\n", err.text), exit(1);
        for (int n = which < 0 ? 0 : which; n < (which < 0 ? N : which + 1); n++) {
            bool ended = d.terminated[n] || d.truncated[n];
            note(&t, d.rewards + (size_t)n * C, C * sizeof(float));
            note(&t, d.n_exec + n, sizeof(int32_t));
            note(&t, d.terminated + n, 1);
            note(&t, d.truncated + n, 1);
            note(&t, d.obs + (size_t)n * O, O * sizeof(float));
            if (ended) {
                note(&t, d.final_obs + (size_t)n * O, O * sizeof(float));
                note(&t, d.episode_return + n, sizeof(float));
                note(&t, d.episode_length + n, sizeof(int32_t));
                note(&t, d.episode_success + n, 1);
            }
        }
    }
    free(guide);
    free(actions);
    return t;
}

static bool same(struct trace a, struct trace b)
{
    bool equal = a.used == b.used && a.used && !memcmp(a.bytes, b.bytes, a.used);
    free(a.bytes);
    free(b.bytes);
    return equal;
}

static struct trace once(const char *name, int N, int threads, int first, int which)
{
    struct mf_err err;
    const struct mf_env *env;
    mf_env_find(&env, name, &err);
    struct mf_vec *v = make(name, N, threads, first);
    struct trace t = roll(v, env, N, first, DECISIONS, which);
    mf_vec_free(v);
    return t;
}

static void check_streams(const char *name)
{
    ok(same(once(name, 6, 1, 0, -1), once(name, 6, 2, 0, -1)), "%s: 2 threads give the bytes of 1", name);
    ok(same(once(name, 6, 1, 0, -1), once(name, 6, 4, 0, -1)), "%s: 4 threads give the bytes of 1", name);
    ok(same(once(name, 2, 1, 3, 1), once(name, 6, 2, 0, 4)), "%s: environment 1 from number 3 is environment 4", name);
    ok(!same(once(name, 6, 1, 0, 1), once(name, 6, 1, 0, 2)), "%s: two environments differ", name);
}

static void check_resume(const char *name)
{
    struct mf_err err;
    const struct mf_env *env;
    mf_env_find(&env, name, &err);
    struct mf_vec *v = make(name, 5, 2, 0), *w = make(name, 5, 2, 0);
    const float *obs;
    free(roll(v, env, 5, 0, 13, -1).bytes);
    size_t size = 0;
    char *bytes = NULL;
    bool exact = false;
    mf_vec_save(v, (void **)&bytes, &size, &err);
    struct trace straight = roll(v, env, 5, 0, DECISIONS, -1);
    free(roll(w, env, 5, 0, 4, -1).bytes);
    ok(mf_vec_load(w, bytes, size, &obs, &exact, &err) == 0 && exact, "%s: a used vec loads", name);
    ok(same(straight, roll(w, env, 5, 0, DECISIONS, -1)), "%s: and continues with the bytes of the saved one", name);
    ok(mf_vec_load(w, bytes, size - 1, &obs, &exact, &err) == MF_EFORMAT, "%s: a short state is refused", name);
    bytes[0] ^= 1;
    ok(mf_vec_load(w, bytes, size, &obs, &exact, &err) == MF_EFORMAT, "%s: another environment's state is refused",
       name);
    free(bytes);
    mf_vec_free(v);
    mf_vec_free(w);
}

/* Reward per step of the point: the reduction of its distance, so an episode's return is the total reduction. */
static void check_chunks(void)
{
    struct mf_err err;
    struct mf_decision d;
    struct mf_vec *v = make("point", 3, 1, 0);
    float zero[3 * 7] = {0}, first[9], start[9];
    const float *obs;
    mf_vec_reset(v, NULL, &obs, &err);
    memcpy(first, obs, sizeof first);
    int decisions = 0;
    do
        mf_vec_step(v, zero, 7, true, &d, &err);
    while (++decisions < 50 && !d.truncated[0]);
    ok(decisions == 6 && d.n_exec[0] == 5 && d.episode_length[0] == 40, "40 steps end inside the sixth chunk of 7");
    ok(!d.terminated[0] && !d.episode_success[0], "by the clock alone");
    ok(d.rewards[5] == 0 && d.rewards[6] == 0, "the rest of the chunk has reward 0");
    ok(!memcmp(d.final_obs, first, 3 * sizeof(float)), "the final observation is the true last one (nothing moved)");
    ok(memcmp(d.obs, first, 3 * sizeof(float)) && mf_vec_episode(v)[0] == 1 && mf_vec_clock(v)[0] == 0,
       "the observation is the next episode's first");
    memcpy(start, d.obs, sizeof start);
    ok(mf_vec_reset(v, (int32_t[]){1, 1, 1}, &obs, &err) == 0 && !memcmp(obs, start, sizeof start),
       "which a reset to episode 1 gives too");

    mf_vec_reset(v, NULL, &obs, &err);
    for (int i = 0; i < 6; i++)
        mf_vec_step(v, zero, 7, false, &d, &err);
    ok(d.truncated[1] && d.n_exec[1] == 5, "without autoreset an episode ends alike");
    mf_vec_step(v, zero, 7, false, &d, &err);
    ok(d.n_exec[1] == 0 && !d.truncated[1] && !memcmp(d.obs, first, sizeof first), "and then idles");
    zero[7] = NAN;
    ok(mf_vec_step(v, zero, 7, false, &d, &err) == 0, "an idle environment's action is not looked at");
    mf_vec_reset(v, NULL, &obs, &err);
    ok(mf_vec_step(v, zero, 7, false, &d, &err) == MF_EMATH && strstr(err.text, "environment 1"),
       "a NaN action is refused: %s", err.text);
    mf_vec_free(v);
}

static void check_names(void)
{
    struct mf_err err;
    const struct mf_env *env;
    ok(mf_env_find(&env, "pint", &err) == MF_EUSAGE && strstr(err.text, "point"), "%s", err.text);
}

int main(void)
{
    check_names();
    check_chunks();
    check_streams("point");
    check_resume("point");
    check_streams("lift");
    check_resume("lift");
    check_streams("can");
    check_resume("can");
    return done();
}
