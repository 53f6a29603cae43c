/* Pictures of lift and can: where things are, the same bytes for the same state, and drawn only when needed. */
#include <stdlib.h>
#include <string.h>

#include "env/hand.h"
#include "env/vec.h"
#include "tap.h"

enum { SIDE = 64, CAMERAS = 3, C = 4 };

static const char names[][64] = {"agentview_image", "agentview_depth",          "backview_image",
                                 "backview_depth",  "robot0_eye_in_hand_image", "robot0_eye_in_hand_depth"};
static struct mf_err err;

static void must(int rc)
{
    if (rc)
        printf("Bail out! %s\n", err.text), exit(1);
}

static struct mf_layout layout(const struct mf_env *env, int n, const char (*keys)[64], int side)
{
    struct mf_layout l;
    must(mf_env_layout(env, n, keys, NULL, &l, &err));
    mf_env_side(env, &l, side);
    return l;
}

static const struct mf_env *lift(void)
{
    const struct mf_env *env;
    must(mf_env_find(&env, "lift", &err));
    return env;
}

static void *begin(const struct mf_env *env, const void *scene, uint32_t episode)
{
    void *state;
    must(env->init(&state, scene, env->max_steps, &err));
    struct mf_rng rng = mf_rng_at(5, MF_RNG_TEST, 0, episode, 0);
    env->reset(state, &rng);
    return state;
}

/* A picture in the middle of an episode: expert steps have brought the hand to the thing. */
static void *middle(const struct mf_env *env, const void *scene, uint32_t episode)
{
    void *state = begin(env, scene, episode), *memory = calloc(1, env->expert_size);
    struct mf_layout low;
    float obs[64], action[MF_HAND_ACTION];
    must(mf_env_layout(env, 0, NULL, NULL, &low, &err));
    for (uint32_t t = 0; t < 14; t++) {
        struct mf_rng rng = mf_rng_at(5, MF_RNG_TEST, 1, episode, t);
        mf_env_observe(env, state, &low, obs);
        env->expert(state, memory, 1, &rng, obs, action);
        env->step(state, action);
    }
    free(memory);
    return state;
}

/* ---- layouts ---- */

static bool shows(const struct mf_obs *o)
{
    return mf_env_shows(lift(), o, &err) == 0;
}

static void layouts(void)
{
    struct mf_layout l = layout(lift(), 2, names, 0), low = layout(lift(), 0, NULL, 0), like;
    ok(l.key[0].u8 && l.key[0].dim[0] == 84 && l.key[0].dim[1] == 84 && l.key[0].dim[2] == 3 && !l.key[1].u8 &&
           l.key[1].dim[2] == 1 && l.dim == 84 * 84 * 3 / 4 + 84 * 84,
       "color is uint8 (84, 84, 3), depth float32 (84, 84, 1)");
    ok(!mf_env_draws(lift(), &low) && low.dim == 19 && mf_env_draws(lift(), &l), "the default layout has none");
    l = layout(lift(), 2, names, 30);
    ok(l.key[0].dim[1] == 30 && l.dim == 30 * 30 * 3 / 4 + 900, "env.image_size sets their side");
    must(mf_env_layout(lift(), 0, NULL, &l, &like, &err));
    ok(like.key[1].dim[0] == 30 && like.dim == l.dim, "unset, it is the side of the policy's training");
    must(mf_env_layout(lift(), 1, names + 2, &l, &like, &err));
    ok(like.n == 1 && like.key[0].dim[0] == 30, "also of another camera");
    struct mf_obs o = l.key[0];
    ok(shows(&o) && (o.dim[0] = o.dim[1] = 8, shows(&o)) && (o.dim[0] = o.dim[1] = 1024, shows(&o)),
       "pictures of 8 to 1024 pixels are drawn");
    o.dim[0] = o.dim[1] = 7;
    ok(!shows(&o) && strstr(err.text, "8 to 1024 pixels"), "%s", err.text);
    o.dim[0] = o.dim[1] = 1025;
    ok(!shows(&o), "1025 are refused");
    o.dim[0] = 64, o.dim[1] = 48;
    ok(!shows(&o), "and what is not square");
    o.dim[0] = o.dim[1] = 64, o.u8 = false;
    ok(!shows(&o), "or of another type");
}

/* ---- against rays ---- */

struct compared {
    int depth, colour, red, far;
};

/* The picture of one camera, and a ray through the middle of each of its pixels. A pixel on an edge may differ. */
static struct compared compare(struct mf_hand *h, const char *camera, const char *thing, const uint8_t *rgb,
                               const float *depth)
{
    static const mjtByte drawn[mjNGROUP] = {1, 1, 1};
    const mjModel *m = h->scene->m;
    const int c = mj_name2id(m, mjOBJ_CAMERA, camera), red = mj_name2id(m, mjOBJ_GEOM, thing);
    const mjtNum *mat = h->d->cam_xmat + 9 * c;
    const double half = tan(m->cam_fovy[c] * M_PI / 360);
    struct compared n = {0};
    for (int i = 0; i < SIDE * SIDE; i++) {
        double x = half * (2 * (i % SIDE + .5) / SIDE - 1), y = half * (1 - 2 * (i / SIDE + .5) / SIDE), dir[3];
        for (int k = 0; k < 3; k++)
            dir[k] = mat[3 * k] * x + mat[3 * k + 1] * y - mat[3 * k + 2];
        int geom = -1;
        double t = mj_ray(m, h->d, h->d->cam_xpos + 3 * c, dir, drawn, 1, -1, &geom);
        n.depth += t < 0 ? depth[i] == 0 : fabs(t - depth[i]) < 1e-3 * (1 + t);
        n.far += t < 0 && depth[i] == 0;
        n.colour += (geom == red) == (rgb[3 * i] > 2 * rgb[3 * i + 1]);
        n.red += geom == red;
    }
    return n;
}

static void geometry(const char *task, const char *thing)
{
    static const char *const camera[CAMERAS] = {"front", "back", "hand"};
    const struct mf_env *env;
    void *scene, *painter = NULL;
    must(mf_env_find(&env, task, &err) || env->open(&scene, NULL, &err));
    const struct mf_layout l = layout(env, 6, names, SIDE);
    float *obs = calloc((size_t)l.dim, sizeof *obs), *at = obs;
    void *state = middle(env, scene, 1);
    must(env->picture(state, &painter, &l, obs, &err));
    for (int i = 0; i < CAMERAS; i++) {
        const uint8_t *rgb = (const uint8_t *)at;
        const float *depth = at += mf_obs_size(&l.key[2 * i]);
        const struct compared n = compare(state, camera[i], thing, rgb, depth);
        at += mf_obs_size(&l.key[2 * i + 1]);
        ok(n.depth > .97 * SIDE * SIDE, "%s, %s: %d of %d pixels are as far as rays say", task, camera[i], n.depth,
           SIDE * SIDE);
        ok(n.colour > .985 * SIDE * SIDE && n.red > 10, "%d of them are red where the %s is, %d pixels", n.colour,
           thing, n.red);
        ok(i == 2 || (n.far > 50 && depth[0] == 0), "%d see nothing, which is 0 m; the first is of the top row", n.far);
    }
    env->end_paint(painter);
    env->release(state);
    env->close(scene);
    free(obs);
}

/* ---- a function of the state ---- */

static void same_bits(void)
{
    const struct mf_env *env = lift();
    const struct mf_layout l = layout(env, 6, names, 33);
    const size_t bytes = (size_t)l.dim * sizeof(float);
    float *one = calloc(1, bytes), *two = malloc(bytes);
    void *scene, *painter = NULL, *other = NULL;
    must(env->open(&scene, NULL, &err));
    void *looked = begin(env, scene, 2), *blind = begin(env, scene, 2), *loaded = begin(env, scene, 3);
    const size_t size = env->state_size(looked);
    char *a = malloc(size), *b = malloc(size);
    struct mf_rng rng = mf_rng_at(8, MF_RNG_TEST, 0, 0, 0);
    for (int t = 0; t < 30; t++) {
        float action[MF_HAND_ACTION];
        mf_rng_normal(&rng, action, MF_HAND_ACTION);
        must(env->picture(looked, &painter, &l, one, &err));
        env->step(looked, action);
        env->step(blind, action);
    }
    env->save(looked, a);
    env->save(blind, b);
    ok(!memcmp(a, b, size), "drawing changes no step");
    must(env->picture(looked, &painter, &l, one, &err));
    env->load(loaded, a);
    memset(two, 0xff, bytes);
    must(env->picture(loaded, &other, &l, two, &err));
    ok(!memcmp(one, two, bytes), "another painter draws a loaded state with the same bytes, and zeros behind them");
    struct mf_layout mixed = layout(env, 2, names, 33), small;
    small = layout(env, 1, names + 1, 9);
    mixed.n = 1, mixed.dim = mf_obs_size(&mixed.key[0]);
    mf_layout_add(&mixed, &small.key[0]);
    env->end_paint(other);
    other = NULL;
    must(env->picture(loaded, &other, &mixed, two, &err));
    ok(!memcmp(one, two, 33 * 33 * 3), "color is the same without a depth of its size");
    memset(a, 0xff, size); /* NaN everywhere */
    env->load(loaded, a);
    memset(two, 0xff, bytes);
    must(env->picture(loaded, &painter, &l, two, &err));
    int sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum += ((uint8_t *)two)[i];
    ok(sum == 0, "a simulation that diverged is black");
    env->end_paint(painter), env->end_paint(other);
    env->release(looked), env->release(blind), env->release(loaded);
    env->close(scene);
    free(a), free(b), free(one), free(two);
}

/* ---- a vec ---- */

static struct mf_env spy; /* lift, counting what is drawn */
static int drawn;

static int count_picture(void *state, void **painter, const struct mf_layout *l, float *obs, struct mf_err *e)
{
    (void)state, (void)painter;
    __atomic_add_fetch(&drawn, 1, __ATOMIC_RELAXED);
    memset(obs, 0, (size_t)l->dim * sizeof *obs);
    return 0 * (e == NULL);
}

static int no_picture(void *state, void **painter, const struct mf_layout *l, float *obs, struct mf_err *e)
{
    (void)state, (void)painter, (void)l, (void)obs;
    return mf_err_set(e, MF_EDEVICE, "no paint left");
}

static struct mf_vec *make(const struct mf_env *env, int N, int threads, int trail, int max_steps)
{
    static const char keys[][64] = {"object", "agentview_image", "robot0_eye_in_hand_depth"};
    struct mf_vec *v;
    struct mf_vec_opts o = {.env = env, .N = N, .threads = threads, .trail = trail, .max_steps = max_steps, .seed = 7};
    o.obs = layout(env, 3, keys, 16);
    must(mf_vec_new(&v, &o, &err));
    return v;
}

static void counts(void)
{
    enum { N = 3 };
    static float actions[N * C * MF_HAND_ACTION];
    struct mf_decision d;
    const float *obs;
    for (int trail = 0; trail < 3; trail++) {
        struct mf_vec *v = make(&spy, N, 2, trail, 0);
        drawn = 0;
        must(mf_vec_reset(v, NULL, &obs, &err));
        const int at_reset = drawn;
        must(mf_vec_step(v, actions, C, true, &d, &err));
        ok(at_reset == N && drawn == N * (2 + trail), "%d control steps are drawn %d times for %d observation steps", C,
           drawn / N - 1, trail + 1);
        mf_vec_free(v);
    }
    struct mf_vec *v;
    must(mf_vec_new(&v, &(struct mf_vec_opts){.env = &spy, .N = N, .seed = 7}, &err));
    drawn = 0;
    must(mf_vec_reset(v, NULL, &obs, &err));
    must(mf_vec_step(v, actions, C, true, &d, &err));
    ok(drawn == 0, "and never where no picture is observed");
    mf_vec_free(v);
    spy.picture = no_picture;
    v = make(&spy, N, 2, 0, 0);
    ok(mf_vec_reset(v, NULL, &obs, &err) == MF_EDEVICE && !strcmp(err.text, "no paint left"), "%s", err.text);
    mf_vec_free(v);
}

static void act(uint32_t n, uint32_t t, float *action)
{
    struct mf_rng rng = mf_rng_at(3, MF_RNG_TEST, n, 0, t);
    mf_rng_normal(&rng, action, MF_HAND_ACTION);
}

/* Bytes of some decisions of 5 environments on some threads, after a save and a load by another vec where `moves`. */
static float *decisions(int threads, bool moves, size_t *size)
{
    enum { N = 5, TIMES = 6, MAX = 10 };
    static float actions[N * C * MF_HAND_ACTION];
    struct mf_vec *v = make(lift(), N, threads, 2, MAX);
    const size_t O = (size_t)mf_vec_layout(v)->dim;
    float *all = calloc(TIMES * N * 4 * O, sizeof *all), *to = all;
    const float *obs;
    must(mf_vec_reset(v, NULL, &obs, &err));
    for (uint32_t k = 0; k < TIMES; k++) {
        struct mf_decision d;
        for (uint32_t i = 0; i < N * C; i++)
            act(i / C, k * C + i % C, actions + i * MF_HAND_ACTION);
        if (moves && k == 3) {
            struct mf_vec *w = make(lift(), N, 2, 2, MAX);
            void *bytes;
            size_t saved;
            bool exact = false;
            must(mf_vec_save(v, &bytes, &saved, &err) || mf_vec_load(w, bytes, saved, &obs, &exact, &err));
            ok(exact && !memcmp(obs, to - N * 4 * O, O * sizeof *obs), "a loaded vec observes what the saved one did");
            mf_vec_free(v);
            free(bytes);
            v = w;
        }
        must(mf_vec_step(v, actions, C, true, &d, &err));
        for (size_t n = 0; n < N; n++, to += 4 * O) {
            memcpy(to, d.obs + n * O, O * sizeof *to);
            memcpy(to + O, d.trail + n * 2 * O, (size_t)d.n_trail[n] * O * sizeof *to);
            if (d.truncated[n])
                memcpy(to + 3 * O, d.final_obs + n * O, O * sizeof *to);
        }
    }
    mf_vec_free(v);
    *size = TIMES * N * 4 * O * sizeof *all;
    return all;
}

static void threads(void)
{
    size_t size;
    float *one = decisions(1, false, &size), *two = decisions(2, false, &size), *four = decisions(4, false, &size),
          *moved = decisions(3, true, &size);
    ok(!memcmp(one, two, size) && !memcmp(one, four, size), "1, 2 and 4 threads draw the same bytes");
    ok(!memcmp(one, moved, size), "and so do decisions after a save and a load");
    free(one), free(two), free(four), free(moved);
}

/* A chunk's trail is what single steps observe: whole chunks, and one that the time limit cuts. */
static void trail(void)
{
    enum { TRAIL = 2, MAX = 10 };
    struct mf_vec *chunks = make(lift(), 1, 1, TRAIL, MAX), *steps = make(lift(), 1, 1, 0, MAX);
    const size_t O = (size_t)mf_vec_layout(chunks)->dim;
    float *seen = calloc(MAX * O, sizeof *seen), actions[C * MF_HAND_ACTION];
    const float *obs;
    bool equal = true, last = true;
    int t = 0;
    must(mf_vec_reset(chunks, NULL, &obs, &err));
    must(mf_vec_reset(steps, NULL, &obs, &err));
    for (struct mf_decision d = {0}; t < MAX;) {
        for (uint32_t c = 0; c < C; c++)
            act(0, (uint32_t)t + c, actions + c * MF_HAND_ACTION);
        for (int c = 0; c < C && t + c < MAX; c++) {
            must(mf_vec_step(steps, actions + c * MF_HAND_ACTION, 1, false, &d, &err));
            memcpy(seen + (size_t)(t + c) * O, d.obs, O * sizeof *seen);
        }
        must(mf_vec_step(chunks, actions, C, false, &d, &err));
        t += d.n_exec[0];
        const int n = d.n_trail[0];
        equal &= n == (d.n_exec[0] > TRAIL ? TRAIL : d.n_exec[0] - 1) &&
                 !memcmp(d.trail, seen + (size_t)(t - 1 - n) * O, (size_t)n * O * sizeof *seen);
        last &= !memcmp(d.obs, seen + (size_t)(t - 1) * O, O * sizeof *seen);
    }
    ok(equal, "the observations from within a decision are those of single steps");
    ok(last, "and to look back changes no step");
    mf_vec_free(chunks), mf_vec_free(steps);
    free(seen);
}

int main(void)
{
    layouts();
    geometry("lift", "cube");
    geometry("can", "can");
    same_bits();
    spy = *lift();
    spy.picture = count_picture;
    counts();
    threads();
    trail();
    return done();
}
