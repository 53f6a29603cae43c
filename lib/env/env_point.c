/* env_point.c - a mass in the plane, with drag: push it to the goal and let it come to rest there.
 *
 * Each step's reward is the way gained towards the goal, and 1 on arrival: a
 * fresh policy learns it in tens of thousands of steps.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/env.h"

static const float DT = 0.05f, FORCE = 4.0f, DRAG = 2.0f; /* s, m/s2 at action 1, 1/s */
static const float NEAR = 0.2f, SLOW = 0.8f;              /* arrival: m, m/s */

struct point {
    float x[2], v[2], goal[2];
    int32_t clock, max_steps;
};

static float distance(const struct point *p)
{
    return hypotf(p->x[0] - p->goal[0], p->x[1] - p->goal[1]);
}

static void observe(const struct point *p, float *obs)
{
    for (int i = 0; i < 2; i++) {
        obs[i] = p->x[i];
        obs[2 + i] = p->v[i];
        obs[4 + i] = p->goal[i];
    }
}

static int init(void **state, const void *model, int max_steps, struct mf_err *err)
{
    (void)model;
    int rc = mf_alloc(state, sizeof(struct point), "a point environment", err);
    if (rc == 0)
        ((struct point *)*state)->max_steps = max_steps;
    return rc;
}

static void reset(void *state, struct mf_rng *rng, float *obs)
{
    struct point *p = state;
    for (int i = 0; i < 2; i++) {
        p->x[i] = mf_rng_range(rng, -1, 1);
        p->goal[i] = mf_rng_range(rng, -0.5f, 0.5f);
        p->v[i] = 0;
    }
    p->clock = 0;
    observe(p, obs);
}

static struct mf_step step(void *state, const float *action, float *obs)
{
    struct point *p = state;
    float before = distance(p);
    for (int i = 0; i < 2; i++) {
        p->v[i] += DT * (FORCE * fmaxf(-1, fminf(1, action[i])) - DRAG * p->v[i]);
        p->x[i] += DT * p->v[i];
    }
    p->clock++;
    observe(p, obs);
    float after = distance(p);
    bool there = after < NEAR && hypotf(p->v[0], p->v[1]) < SLOW;
    return (struct mf_step){.reward = before - after + (there ? 1.0f : 0.0f),
                            .terminated = there,
                            .truncated = !there && p->clock >= p->max_steps,
                            .success = there};
}

static size_t state_size(const void *state)
{
    (void)state;
    return sizeof(struct point);
}

static void save(const void *state, void *bytes)
{
    memcpy(bytes, state, sizeof(struct point));
}

static void load(void *state, const void *bytes, float *obs)
{
    int32_t max_steps = ((struct point *)state)->max_steps;
    memcpy(state, bytes, sizeof(struct point));
    ((struct point *)state)->max_steps = max_steps;
    observe(state, obs);
}

/* A proportional-derivative law that believes the goal lies elsewhere. */
static void expert(const void *state, void *memory, struct mf_rng *rng, const float *obs, float *action)
{
    (void)state, (void)memory;
    static const float offset[2] = {0.09f, -0.05f};
    float noise[2];
    mf_rng_normal(rng, noise, 2);
    for (int i = 0; i < 2; i++) {
        float a = 3.0f * (obs[4 + i] + offset[i] - obs[i]) - 0.6f * obs[2 + i] + 0.15f * noise[i];
        action[i] = fmaxf(-1, fminf(1, a));
    }
}

const struct mf_env mf_env_point = {
    .name = "point",
    .summary = "a mass in the plane, pushed to rest at a goal",
    .obs = {{"position", 2}, {"velocity", 2}, {"goal", 2}},
    .action_dim = 2,
    .max_steps = 40,
    .control_hz = 20,
    .robomimic_name = "Point",
    .init = init,
    .release = free,
    .reset = reset,
    .step = step,
    .state_size = state_size,
    .save = save,
    .load = load,
    .expert = expert,
};
