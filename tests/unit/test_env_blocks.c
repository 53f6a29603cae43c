/* Blocks and bins: tasks and suites, the expert, pictures, saved states, and tokens of the tasks. */
#include <stdlib.h>
#include <string.h>

#include "env/vec.h"
#include "lang/prompt.h"
#include "tap.h"

enum { N = 240, O = 16, A = 3, TASKS = 12, SIDE = 32, L = 24, GRIPPER = 0, GOAL = 12 };

static const struct mf_env *env;
static struct mf_err err;

static struct mf_env_opts opts_of(const char *suite, const char *tokenizer, int length)
{
    return (struct mf_env_opts){.name = "blocks", .suite = suite, .tokenizer = tokenizer, .prompt_length = length};
}

/* ---- tasks ---- */

static void test_tasks(void)
{
    bool differ = true;
    int n = 0;
    for (; env->language.text[n]; n++)
        for (int i = 0; i < n; i++)
            differ &= strcmp(env->language.text[i], env->language.text[n]) != 0;
    ok(n == TASKS && differ, "12 tasks");
    const struct mf_suite *s = env->language.suite;
    ok(!strcmp(s[0].name, "train") && s[0].n == 8 && !strcmp(s[1].name, "unseen") && s[1].first == 8 && s[1].n == 4,
       "8 of them for training, 4 unseen");
    bool seen = true;
    for (int i = s[1].first; i < TASKS; i++) {
        bool block = false, bin = false;
        for (int k = 0; k < s[0].n; k++) {
            const char *a = env->language.text[i], *b = env->language.text[k];
            block |= !strncmp(a, b, strcspn(a, "k") + 1);
            bin |= !strcmp(strstr(a, "into"), strstr(b, "into"));
        }
        seen &= block && bin;
    }
    ok(seen, "the block and the bin of an unseen task are those of tasks for training");
}

/* ---- acting ---- */

static void by_expert(struct mf_vec *v, const float *obs, float *actions)
{
    (void)obs;
    mf_vec_expert(v, actions, &err);
}

/* To the block, close; to the bin, open: without the expert's errors. */
static void by_law(struct mf_vec *v, const float *obs, float *actions)
{
    (void)v;
    for (int n = 0; n < N; n++, obs += O, actions += A) {
        const bool holds = obs[GRIPPER + 3] != 0;
        const float *to = obs + GOAL + (holds ? 2 : 0), x = to[0] - obs[GRIPPER], y = to[1] - obs[GRIPPER + 1];
        const bool there = hypotf(x, y) < .05f;
        actions[0] = 10 * x, actions[1] = 10 * y;
        actions[2] = holds != there ? 1 : -1;
    }
}

static void by_chance(struct mf_vec *v, const float *obs, float *actions)
{
    (void)obs;
    struct mf_rng rng = mf_rng_at(2, MF_RNG_TEST, 0, 0, (uint32_t)mf_vec_clock(v)[0]);
    mf_rng_normal(&rng, actions, (size_t)N * A);
}

static double play(void (*act)(struct mf_vec *v, const float *obs, float *actions))
{
    struct mf_decision d;
    struct mf_vec *v;
    static float actions[N * A];
    double success = 0;
    if (mf_vec_new(&v, &(struct mf_vec_opts){.env = env, .N = N, .threads = 1, .expert_error = 1, .seed = 1}, &err))
        printf("Bail out! %s\n", err.text), exit(1);
    const float *obs;
    mf_vec_reset(v, NULL, &obs, &err);
    for (int t = 0; t < env->max_steps; t++) {
        act(v, obs, actions);
        mf_vec_step(v, actions, 1, false, &d, &err);
        obs = d.obs;
    }
    for (int n = 0; n < N; n++)
        success += d.episode_success[n] / (double)N;
    mf_vec_free(v);
    return success;
}

static void test_acting(void)
{
    double law = play(by_law), expert = play(by_expert), chance = play(by_chance);
    ok(law > .99, "a calibrated law succeeds (%.3f)", law);
    ok(expert > .6 && expert < .9, "the expert's errors cost it some of the tasks (%.3f)", expert);
    ok(chance < .05, "chance hardly ever succeeds (%.3f)", chance);
}

/* ---- pictures and states ---- */

static void *begun(int task, unsigned episode)
{
    void *state;
    struct mf_rng rng = mf_rng_at(3, MF_RNG_TEST, 0, episode, 0);
    if (env->init(&state, NULL, env->max_steps, &err))
        exit(1);
    env->language.assign(state, task);
    env->reset(state, &rng);
    return state;
}

static struct mf_layout sized(int side)
{
    struct mf_layout l;
    mf_env_layout(env, 1, (const char[1][64]){"image"}, NULL, &l, &err);
    mf_env_side(env, &l, side);
    return l;
}

static void test_picture(void)
{
    const struct mf_layout l = sized(SIDE);
    static float one[SIDE * SIDE], two[SIDE * SIDE], low[O];
    struct mf_layout all;
    void *state = begun(2, 0), *painter = NULL;
    mf_env_layout(env, 0, NULL, NULL, &all, &err);
    mf_env_observe(env, state, &all, low);
    env->picture(state, &painter, &l, one, &err);
    const int row = (int)((1 - low[GOAL + 1]) * SIDE / 2), column = (int)((low[GOAL] + 1) * SIDE / 2);
    const uint8_t *pixel = (const uint8_t *)one + 3 * (row * SIDE + column);
    ok(l.dim == SIDE * SIDE * 3 / 4 && pixel[1] > pixel[0] + 50 && pixel[1] > pixel[2] + 50,
       "the green block is where the goal says");
    env->step(state, (const float[A]){.1f, 0, -1});
    env->picture(state, &painter, &l, two, &err);
    ok(memcmp(one, two, sizeof(float) * (size_t)l.dim) != 0, "a sixth of a pixel is seen");
    env->end_paint(painter);
    env->release(state);
}

static void test_states(void)
{
    const size_t size = env->state_size(NULL);
    const struct mf_layout l = sized(SIDE);
    static float obs[SIDE * SIDE];
    char *bytes = malloc(size), *ends[2] = {malloc(size), malloc(size)};
    void *state = begun(5, 1), *painter = NULL;
    for (int turn = 0; turn < 2; turn++) {
        if (turn == 0)
            env->save(state, bytes);
        else
            env->load(state, bytes);
        for (int t = 0; t < 30; t++)
            env->step(state, (const float[A]){(float)(t % 5) - 2, .7f, t % 7 ? 1 : -1});
        env->save(state, ends[turn]);
    }
    ok(!memcmp(ends[0], ends[1], size) && env->language.task(state) == 5, "steps after a load are the same bits");
    bool good = true;
    for (uint32_t k = 0; k < 200; k++) { /* any bytes: with NaN and numbers beyond every range */
        struct mf_rng rng = mf_rng_at(9, MF_RNG_TEST, 0, 0, k);
        for (size_t i = 0; i < size; i++)
            bytes[i] = k == 0 ? '\xff' : (char)mf_rng_u32(&rng);
        env->load(state, bytes);
        env->step(state, (const float[A]){1, NAN, 1});
        env->picture(state, &painter, &l, obs, &err);
        good &= env->language.task(state) >= 0 && env->language.task(state) < TASKS;
    }
    ok(good, "any bytes are a state");
    env->release(state);
    free(bytes), free(ends[0]), free(ends[1]);
}

/* ---- language ---- */

static void test_tokens(void)
{
    const struct mf_env_opts o = opts_of("unseen", "tests/fixtures/tokenizer.model", L);
    const struct mf_env *e;
    struct mf_tokenizer t;
    struct mf_vec *v;
    struct mf_decision d;
    struct mf_layout l;
    static const float idle[8 * A];
    const float *obs;
    bool good = true;
    if (!ok(mf_env_open(&e, &o, &err) == 0 && mf_tokenizer_open(&t, o.tokenizer, &err) == 0, "tokens of a suite"))
        printf("Bail out! %s\n", err.text), exit(1);
    ok(mf_env_layout(e, 1, (const char[1][64]){"tokens"}, NULL, &l, &err) == 0 && l.dim == L, "an observation more");
    mf_vec_new(&v, &(struct mf_vec_opts){.env = e, .obs = l, .N = 8, .threads = 2, .group = 2, .max_steps = 2}, &err);
    mf_vec_reset(v, NULL, &obs, &err);
    for (int step = 0; step < 6; step++) {
        for (int n = 0; n < 8; n++) {
            int32_t ids[L];
            mf_prompt(&t, e->language.text[8 + (n / 2 + mf_vec_episode(v)[n]) % 4], 0, NULL, L, ids, &err);
            for (int i = 0; i < L; i++)
                good &= obs[n * L + i] == (float)ids[i];
        }
        mf_vec_step(v, idle, 1, true, &d, &err);
        obs = d.obs;
    }
    ok(good && mf_vec_episode(v)[0] == 3, "episodes take the suite's tasks in turn, groups the same");
    mf_vec_free(v);
    mf_tokenizer_close(&t);
    mf_env_close(e);
}

/* The prompt with the state of the same observation, also of an episode's last one, which another task follows. */
static bool tells(const struct mf_env *e, const struct mf_tokenizer *t, int task, int length, const float *obs)
{
    float state[4];
    int32_t ids[64];
    for (int i = 0; i < 4; i++)
        state[i] = obs[length + i] * (float)(i + 1) - .5f;
    mf_prompt(t, e->language.text[task], 4, state, length, ids, &err);
    for (int i = 0; i < length; i++)
        if (obs[i] != (float)ids[i])
            return false;
    return true;
}

static void test_state(void)
{
    enum { length = 64, all = length + 4 };
    const struct mf_env_opts o = opts_of("train", "tests/fixtures/tokenizer.model", 0);
    static const float scale[all] = {[length] = 1, 2, 3, 4}, offset[all] = {[length] = -.5f, -.5f, -.5f, -.5f};
    const struct mf_layout like = {1, length, {{MF_OBS_TOKENS, {length}, false}}};
    const struct mf_env *e;
    struct mf_tokenizer t;
    struct mf_vec *v;
    struct mf_decision d;
    struct mf_layout l;
    static const float moves[2 * A] = {.3f, .7f, 1, -.2f, .4f, 1};
    const float *obs;
    bool good = true, last = true;
    mf_env_open(&e, &o, &err);
    mf_tokenizer_open(&t, o.tokenizer, &err);
    ok(mf_env_layout(e, 2, (const char[2][64]){"tokens", "gripper"}, &like, &l, &err) == 0 && l.dim == all,
       "as many tokens as a policy reads, unless a key says how many");
    const struct mf_vec_opts how = {.env = e, .obs = l, .N = 2, .threads = 1, .max_steps = 3, .state = {scale, offset}};
    mf_vec_new(&v, &how, &err);
    mf_vec_reset(v, NULL, &obs, &err);
    for (int step = 0; step < 8; step++) {
        const int task[2] = {mf_vec_task(v)[0], mf_vec_task(v)[1]};
        for (int n = 0; n < 2; n++)
            good &= tells(e, &t, task[n], length, obs + n * all);
        mf_vec_step(v, moves, 1, true, &d, &err);
        for (int n = 0; n < 2; n++)
            last &= !d.truncated[n] ||
                    (task[n] != mf_vec_task(v)[n] && tells(e, &t, task[n], length, d.final_obs + n * all));
        obs = d.obs;
    }
    ok(good && last && mf_vec_episode(v)[0] == 2, "the state in prompts is that of their observation, normalised");
    mf_vec_free(v);
    mf_tokenizer_close(&t);
    mf_env_close(e);
}

static void refused(struct mf_env_opts o, const char *why)
{
    const struct mf_env *e = NULL;
    int rc = mf_env_open(&e, &o, &err);
    if (!ok(rc && strstr(err.text, why), "refused: %s", err.text))
        printf("# %d\n", rc);
    mf_env_close(e);
}

int main(void)
{
    if (mf_env_find(&env, "blocks", &err))
        return 1;
    test_tasks();
    test_acting();
    test_picture();
    test_states();
    test_tokens();
    test_state();
    refused(opts_of("unsaid", NULL, 0), "train, unseen, all");
    refused(opts_of(NULL, "tests/fixtures/tokens.json", L), "SentencePiece");
    struct mf_env_opts point = opts_of(NULL, "tests/fixtures/tokenizer.model", L);
    point.name = "point";
    refused(point, "no language");
    point.suite = "train";
    refused(point, "no suites");
    return done();
}
