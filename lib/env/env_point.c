/* env_point.c - a mass on a line, with drag: push it to the goal and let it come to rest there.
 *
 * Each step's reward is the way gained towards the goal, and 1 on arrival: a
 * fresh policy learns it in tens of thousands of steps.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/env.h"

static const float DT = 0.05f, FORCE = 12.0f, DRAG = 16.0f; /* s, m/s2 at action 1, 1/s */
static const float NEAR = 0.1f, SLOW = 0.3f;                /* arrival: m, m/s */

struct point {
    float x, v, goal;
    int32_t clock, max_steps;
};

static void observe(void *state, int key, const struct mf_obs *as, float *to)
{
    const struct point *p = state;
    (void)as;
    *to = (const float[]){p->x, p->v, p->goal}[key];
}

static int init(void **state, const void *model, int max_steps, struct mf_err *err)
{
    (void)model;
    int rc = mf_alloc(state, sizeof(struct point), "a point environment", err);
    if (rc == 0)
        ((struct point *)*state)->max_steps = max_steps;
    return rc;
}

static void reset(void *state, struct mf_rng *rng)
{
    struct point *p = state;
    float way = mf_rng_range(rng, 0.3f, 0.8f);
    p->x = mf_rng_range(rng, -0.5f, 0.5f);
    p->goal = p->x + (mf_rng_u32(rng) & 1 ? way : -way);
    p->v = 0;
    p->clock = 0;
}

static struct mf_env_step step(void *state, const float *action)
{
    struct point *p = state;
    float before = fabsf(p->x - p->goal);
    p->v += DT * (FORCE * fmaxf(-1, fminf(1, action[0])) - DRAG * p->v);
    p->x += DT * p->v;
    p->clock++;
    float after = fabsf(p->x - p->goal);
    bool there = after < NEAR && fabsf(p->v) < SLOW;
    return (struct mf_env_step){.reward = before - after + (there ? 1.0f : 0.0f),
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

static void load(void *state, const void *bytes)
{
    struct point *p = state;
    int32_t max_steps = p->max_steps;
    memcpy(p, bytes, sizeof *p);
    p->clock = mf_env_count(p->clock);
    p->max_steps = max_steps;
}

/* A proportional-derivative controller with a wrong goal position. */
static void expert(const void *state, void *memory, float error, struct mf_rng *rng, const float *obs, float *action)
{
    static const float offset = 0.11f;
    float noise;
    (void)state, (void)memory;
    mf_rng_normal(rng, &noise, 1);
    float a = 3.0f * (obs[2] + error * offset - obs[0]) - 0.6f * obs[1] + 0.15f * noise;
    action[0] = fmaxf(-1, fminf(1, a));
}

/* A disc of radius r at column x on the picture's middle row. */
static void disc(uint8_t *rgb, int width, int height, float x, float r, const uint8_t colour[3])
{
    for (int i = 0; i < width * height; i++)
        if (hypotf((float)(i % width) - x, (float)(i / width - height / 2)) < r)
            memcpy(rgb + 3 * i, colour, 3);
}

static int paint(void *state, void **painter, int width, int height, uint8_t *rgb, struct mf_err *err)
{
    static const uint8_t goal[3] = {90, 190, 110}, mass[3] = {40, 90, 190};
    const struct point *p = state;
    const float scale = (float)width / 3; /* pixels in a metre: the way is within +-1.3 */
    (void)painter, (void)err;
    memset(rgb, 235, 3 * (size_t)(width * height));
    memset(rgb + 3 * (size_t)(height / 2 * width), 150, 3 * (size_t)width);
    disc(rgb, width, height, (float)width / 2 + p->goal * scale, 2 * NEAR * scale, goal);
    disc(rgb, width, height, (float)width / 2 + p->x * scale, NEAR * scale, mass);
    return 0;
}

static void end_paint(void *painter)
{
    (void)painter;
}

const struct mf_env mf_env_point = {
    .name = "point",
    .obs = {{.name = "position", .dim = {1}}, {.name = "velocity", .dim = {1}}, {.name = "goal", .dim = {1}}},
    .action_dim = 1,
    .max_steps = 40,
    .control_hz = 20,
    .robomimic_name = "Point",
    .likes = "training.learning_rate=1e-3 training.clip_range=.03 training.clip=global training.critic_warmup_steps=0 "
             "policy.min_noise_std=.3 policy.max_noise_std=.3",
    .init = init,
    .release = free,
    .reset = reset,
    .step = step,
    .observe = observe,
    .state_size = state_size,
    .save = save,
    .load = load,
    .paint = paint,
    .end_paint = end_paint,
    .expert = expert,
};
