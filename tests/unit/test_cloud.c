/* Point clouds: on the surfaces, in the workspace, the same bits for the same state, and any number of points. */
#include <stdlib.h>
#include <string.h>

#include "env/farthest.h"
#include "env/hand.h"
#include "env/vec.h"
#include "tap.h"

static struct mf_err err;

static void must(int rc)
{
    if (rc)
        printf("Bail out! %s\n", err.text), exit(1);
}

/* ---- the task's own ---- */

static const struct mf_env *env;
static struct mf_layout seen;

static void *begin(const void *scene, uint32_t episode)
{
    void *state;
    must(env->init(&state, scene, env->max_steps, &err));
    struct mf_rng rng = mf_rng_at(5, MF_RNG_TEST, 0, episode, 0);
    env->reset(state, &rng);
    return state;
}

static void surfaces(const void *scene)
{
    static float obs[19 + 6 * 1024];
    bool inside = true, on = true, round = true;
    int red = 0;
    void *state = begin(scene, 1);
    mf_env_observe(env, state, &seen, obs);
    for (int i = 0; i < 1024; i++) {
        const float *p = obs + 19 + 6 * i;
        inside &= fabsf(p[0]) <= .17f && fabsf(p[1]) <= .17f && p[2] >= .002f && p[2] <= .202f;
        if (p[3] != .8f)
            continue;
        red++;
        double yaw = mf_hand_yaw(obs + 3), x = p[0] - obs[0], y = p[1] - obs[1], z = p[2] - obs[2];
        double a = fabs(cos(yaw) * x + sin(yaw) * y), b = fabs(cos(yaw) * y - sin(yaw) * x), c = fabs(z);
        on &= fabs(fmax(fmax(a, b), c) - .02) < 2e-6;
        round &= p[4] == .2f && p[5] == .15f;
    }
    ok(inside, "all points are in the workspace, above the table");
    ok(on && red > 100 && red < 600, "%d red ones on the faces of the cube", red);
    ok(round, "with its colour");
    env->release(state);
}

static void same_bits(const void *scene)
{
    static float one[19 + 6 * 1024], two[19 + 6 * 1024];
    void *looked = begin(scene, 2), *blind = begin(scene, 2), *loaded = begin(scene, 3);
    size_t size = env->state_size(looked);
    char *a = malloc(size), *b = malloc(size);
    struct mf_rng rng = mf_rng_at(8, MF_RNG_TEST, 0, 0, 0);
    for (int t = 0; t < 30; t++) {
        float action[MF_HAND_ACTION];
        mf_rng_normal(&rng, action, MF_HAND_ACTION);
        mf_env_observe(env, looked, &seen, one);
        env->step(looked, action);
        env->step(blind, action);
    }
    env->save(looked, a);
    env->save(blind, b);
    ok(!memcmp(a, b, size), "looking changes no step");
    env->load(loaded, a);
    mf_env_observe(env, looked, &seen, one);
    mf_env_observe(env, loaded, &seen, two);
    ok(!memcmp(one, two, sizeof one), "a state that was loaded shows the same bits");
    memset(a, 0xff, size); /* NaN everywhere */
    env->load(loaded, a);
    env->step(loaded, (float[MF_HAND_ACTION]){0});
    mf_env_observe(env, loaded, &seen, two);
    ok(isnan(two[19]) && isnan(two[19 + 6 * 1024 - 1]), "a simulation that diverged shows NaN");
    free(a), free(b);
    env->release(looked), env->release(blind), env->release(loaded);
}

static int distinct(const float *p, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        bool again = false;
        for (int k = 0; k < i && !again; k++)
            again = !memcmp(p + 6 * i, p + 6 * k, 6 * sizeof *p);
        count += !again;
    }
    return count;
}

static void numbers(const struct mf_scene *scene)
{
    static float all[6 * MF_POINTS_MAX], some[6 * MF_POINTS_MAX];
    mjData *d = mj_makeData(scene->m);
    int hits = mf_cloud_see(scene->cloud, d, MF_PICK_EVEN, MF_POINTS_MAX, all);
    ok(hits > 300 && hits < 2000 && distinct(all, MF_POINTS_MAX) == hits, "%d hits: all of them are among 4096 points",
       hits);
    mf_cloud_see(scene->cloud, d, MF_PICK_EVEN, hits, some);
    bool in_turn = true;
    for (int i = 0; i < MF_POINTS_MAX; i++)
        in_turn &= !memcmp(all + 6 * i, some + 6 * (i * hits / MF_POINTS_MAX), 6 * sizeof *all);
    ok(in_turn, "each is repeated about as often");
    mf_cloud_see(scene->cloud, d, MF_PICK_EVEN, 100, all);
    ok(distinct(all, 100) == 100 && !memcmp(all + 6, some + 6 * (hits / 100), 6 * sizeof *all),
       "of more hits than points, each so many-th is one");
    mf_cloud_see(scene->cloud, d, MF_PICK_FARTHEST, 2 * hits, all);
    ok(!memcmp(all, all + 6 * hits, (size_t)hits * 6 * sizeof *all), "farthest, but too few: again from the first");
    mf_cloud_see(scene->cloud, d, MF_PICK_FARTHEST, 100, all);
    float least = 1;
    for (int i = 0; i < 100; i++)
        for (int k = 0; k < i; k++)
            least = fminf(least, hypotf(hypotf(all[6 * i] - all[6 * k], all[6 * i + 1] - all[6 * k + 1]),
                                        all[6 * i + 2] - all[6 * k + 2]));
    ok(least > .008f && least < .03f, "100 farthest ones keep %.1f mm apart", 1e3 * (double)least);
    d->qpos[11] = 2; /* of a quaternion, which kinematics normalise */
    mf_cloud_see(scene->cloud, d, MF_PICK_EVEN, 100, all);
    ok(d->qpos[11] == 2, "qpos stays as it is");
    for (int i = 0; i < 3; i++)
        d->qpos[i] = d->qpos[8 + i] = 9;
    ok(mf_cloud_see(scene->cloud, d, MF_PICK_EVEN, 100, all) == 0 && all[0] == 0 && all[599] == 0, "no hit: zeros");
    d->qpos[0] = d->qpos[8] = NAN;
    ok(mf_cloud_see(scene->cloud, d, MF_PICK_FARTHEST, 100, all) == 0 && all[0] == 0, "nor of things that are nowhere");
    mj_deleteData(d);
}

static void threads(void)
{
    struct mf_vec *v, *w;
    struct mf_decision a, b;
    static float actions[6 * MF_HAND_ACTION];
    struct mf_vec_opts o = {.env = env, .obs = seen, .N = 6, .threads = 1};
    must(mf_vec_new(&v, &o, &err));
    o.threads = 4;
    must(mf_vec_new(&w, &o, &err));
    bool same = true;
    for (int t = 0; t < 10; t++) {
        must(mf_vec_step(v, actions, 1, true, &a, &err) || mf_vec_step(w, actions, 1, true, &b, &err));
        same &= !memcmp(a.obs, b.obs, 6 * (size_t)seen.dim * sizeof *a.obs);
    }
    ok(same, "4 threads observe the same as 1");
    mf_vec_free(v);
    mf_vec_free(w);
}

/* ---- sampling ---- */

static bool as_plainly(size_t total, const float *x, const float *y, const float *z, size_t n)
{
    static uint16_t picked[4096];
    static float away[4096];
    bool same = true;
    mf_farthest(total, x, y, z, n, picked);
    for (size_t i = 0; i < total; i++)
        away[i] = INFINITY;
    for (size_t k = 0, last = 0; k < n; k++) {
        size_t best = 0;
        same &= picked[k] == last;
        for (size_t i = 0; i < total; i++) {
            float dx = x[i] - x[last], dy = y[i] - y[last], dz = z[i] - z[last];
            away[i] = fminf(dx * dx + dy * dy + dz * dz, away[i]);
            best = away[i] > away[best] ? i : best;
        }
        last = best;
    }
    return same;
}

static void farthest(void)
{
    static float p[3][4096];
    uint16_t picked[64];
    bool sane = true;
    struct mf_rng rng = mf_rng_at(1, MF_RNG_TEST, 0, 0, 0);
    for (int k = 0; k < 3; k++)
        mf_rng_normal(&rng, p[k], 4096);
    ok(as_plainly(4096, p[0], p[1], p[2], 1024) && as_plainly(33, p[0], p[1], p[2], 33) &&
           as_plainly(1000, p[0], p[1], p[2], 999) && as_plainly(1, p[0], p[1], p[2], 1),
       "farthest points as by the plain loops, whatever their number");
    for (int i = 0; i < 4096; i++)
        p[0][i] = (float)(i % 64), p[1][i] = (float)(i / 64), p[2][i] = 0;
    ok(as_plainly(4096, p[0], p[1], p[2], 1024), "also where many are equally far");
    for (int i = 0; i < 100; i++)
        p[0][i] = 3, p[1][i] = 4, p[2][i] = 5;
    mf_farthest(100, p[0], p[1], p[2], 64, picked);
    ok(picked[0] == 0 && picked[1] == 0 && picked[63] == 0, "of equal points the first, again and again");
    p[0][0] = p[1][50] = NAN;
    mf_farthest(100, p[0], p[1], p[2], 64, picked);
    for (int i = 0; i < 64; i++)
        sane &= picked[i] < 100;
    ok(sane, "NaN picks no point that is not there");
}

/* ---- models that show nothing ---- */

static void refuse(const char *mjcf, const char *why)
{
    mjModel *m;
    struct mf_cloud *c;
    must(mf_mujoco_load(&m, (const struct mf_mjcf[]){{"scene.xml", mjcf}, {NULL, NULL}}, &err));
    ok(mf_cloud_new(&c, m, &err) == MF_EUSAGE && strstr(err.text, why), "%s", err.text);
    mj_deleteModel(m);
}

static void models(void)
{
#define IN(x) "<mujoco><worldbody>" x "</worldbody></mujoco>"
#define SITE  "<site name='workspace' type='box' size='1 1 1'/>"
    refuse(IN(SITE "<geom size='.1'/>"), "1 to 4 cameras");
    refuse(IN("<camera/><geom size='.1'/>"), "box site 'workspace'");
    refuse(IN(SITE "<body><camera/><geom size='.1'/></body>"), "not 0");
    refuse(IN(SITE "<camera/><geom name='egg' type='ellipsoid' size='.1 .2 .3'/>"), "geom 0 ('egg')");
}

int main(void)
{
    static const char names[][64] = {"object", "robot0_eef_pos", "robot0_eef_quat", "robot0_gripper_qpos",
                                     "point_cloud"};
    void *scene = NULL;
    must(mf_env_find(&env, "lift", &err) || env->open(&scene, NULL, &err) ||
         mf_env_layout(env, 5, names, NULL, &seen, &err));
    surfaces(scene);
    same_bits(scene);
    numbers(scene);
    threads();
    farthest();
    models();
    env->close(scene);
    return done();
}
