/* env_blocks.c - four colored blocks on a table and three bins behind them, seen from above: put the block that the
 * task names into the bin that it names. Plain arithmetic, with language and a picture.
 *
 *   gripper  x, y, 1 while it is closed, 1 while it holds a block
 *   blocks   x y of the red, green, blue and yellow block, within +-1
 *   goal     x y of the block that the task names, x y of the bin
 *   image    the table from above, bins at the top
 *   action   motion 2 (.1 a step at 1), gripper (> 0 closes)
 *
 * The gripper moves above the blocks; closed, it takes the nearest one within REACH. Reward 1 once the named
 * block lies in the named bin. 8 of the 12 tasks are for training; the others combine their words anew.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "env/env.h"

enum { X, Y, BLOCKS = 4, BINS = 3, TASKS = BLOCKS * BINS, TRAIN = 8 };

static const float STEP = .1f, REACH = .15f, APART = .36f; /* motion of a step; to a block; between blocks */
static const float BIN[BINS][2] = {{-.66f, .7f}, {0, .7f}, {.66f, .7f}}, INSIDE = .18f;
static const float BLOCK_HALF = .16f, BIN_HALF = .26f; /* as drawn */

static const char *const text[TASKS + 1] = {
    "put the red block into the left bin",     "put the red block into the right bin",
    "put the green block into the middle bin", "put the green block into the right bin",
    "put the blue block into the left bin",    "put the blue block into the middle bin",
    "put the yellow block into the left bin",  "put the yellow block into the right bin",
    "put the red block into the middle bin",   "put the green block into the left bin",
    "put the blue block into the right bin",   "put the yellow block into the middle bin"};
static const struct {
    int8_t block, bin;
} task_of[TASKS] = {{0, 0}, {0, 2}, {1, 1}, {1, 2}, {2, 0}, {2, 1}, {3, 0}, {3, 2}, {0, 1}, {1, 0}, {2, 2}, {3, 1}};

struct tabletop {
    float at[2], block[BLOCKS][2];
    int32_t closed, held; /* held: the block; -1: none */
    int32_t task, clock, max_steps;
};

enum { GRIPPER, POSITIONS, GOAL };

static float clip(float x, float most)
{
    return fmaxf(-most, fminf(most, x));
}

static void observe(void *state, int key, const struct mf_obs *as, float *to)
{
    const struct tabletop *b = state;
    (void)as;
    if (key == GRIPPER)
        memcpy(to, (const float[]){b->at[X], b->at[Y], (float)b->closed, (float)(b->held >= 0)}, 4 * sizeof *to);
    if (key == POSITIONS)
        memcpy(to, b->block, sizeof b->block);
    if (key == GOAL) {
        memcpy(to, b->block[task_of[b->task].block], 2 * sizeof *to);
        memcpy(to + 2, BIN[task_of[b->task].bin], 2 * sizeof *to);
    }
}

static int init(void **state, const void *model, int max_steps, struct mf_err *err)
{
    (void)model;
    int rc = mf_alloc(state, sizeof(struct tabletop), "a blocks environment", err);
    if (rc == 0)
        ((struct tabletop *)*state)->max_steps = max_steps;
    return rc;
}

static bool is_free(const struct tabletop *b, int n)
{
    for (int i = 0; i < n; i++)
        if (hypotf(b->block[i][X] - b->block[n][X], b->block[i][Y] - b->block[n][Y]) < APART)
            return false;
    return true;
}

static void assign(void *state, int i)
{
    ((struct tabletop *)state)->task = i;
}

static int task(const void *state)
{
    return ((const struct tabletop *)state)->task;
}

static void reset(void *state, struct mf_rng *rng)
{
    struct tabletop *b = state;
    b->at[X] = mf_rng_range(rng, -.2f, .2f);
    b->at[Y] = mf_rng_range(rng, -.95f, -.8f);
    for (int i = 0; i < BLOCKS; i++)
        do {
            b->block[i][X] = mf_rng_range(rng, -.8f, .8f);
            b->block[i][Y] = mf_rng_range(rng, -.6f, .28f);
        } while (!is_free(b, i));
    b->closed = 0;
    b->held = -1;
    b->clock = 0;
}

static int nearest(const struct tabletop *b)
{
    float least = REACH;
    int found = -1;
    for (int i = 0; i < BLOCKS; i++) {
        const float d = hypotf(b->block[i][X] - b->at[X], b->block[i][Y] - b->at[Y]);
        if (d < least)
            least = d, found = i;
    }
    return found;
}

static bool placed(const struct tabletop *b)
{
    const float *block = b->block[task_of[b->task].block], *bin = BIN[task_of[b->task].bin];
    return b->held != task_of[b->task].block && fabsf(block[X] - bin[X]) < INSIDE && fabsf(block[Y] - bin[Y]) < INSIDE;
}

static struct mf_env_step step(void *state, const float *action)
{
    struct tabletop *b = state;
    const bool closes = action[2] > 0;
    for (int i = 0; i < 2; i++)
        b->at[i] = clip(b->at[i] + STEP * clip(action[i], 1), 1);
    if (!closes)
        b->held = -1;
    else if (b->held < 0)
        b->held = nearest(b);
    b->closed = closes;
    if (b->held >= 0)
        memcpy(b->block[b->held], b->at, sizeof b->at);
    b->clock++;
    const bool done = placed(b);
    return (struct mf_env_step){
        .reward = done, .terminated = done, .truncated = !done && b->clock >= b->max_steps, .success = done};
}

/* ---- save and load ---- */

static size_t state_size(const void *state)
{
    (void)state;
    return sizeof(struct tabletop);
}

static void save(const void *state, void *bytes)
{
    memcpy(bytes, state, sizeof(struct tabletop));
}

static void load(void *state, const void *bytes)
{
    struct tabletop *b = state;
    const int32_t max_steps = b->max_steps;
    memcpy(b, bytes, sizeof *b);
    for (int i = 0; i < 2; i++) {
        b->at[i] = clip(b->at[i], 1);
        for (int k = 0; k < BLOCKS; k++)
            b->block[k][i] = clip(b->block[k][i], 1);
    }
    b->closed = b->closed != 0;
    b->held = b->held >= 0 && b->held < BLOCKS ? b->held : -1;
    b->task = b->task >= 0 && b->task < TASKS ? b->task : 0;
    b->clock = mf_env_count(b->clock);
    b->max_steps = max_steps;
}

/* ---- the scripted expert: go there, take it, bring it, let go; miscalibrated, and without correction ---- */

enum phase { START, TO_BLOCK, CLOSE, TO_BIN, OPEN };

struct expert {
    int32_t phase, waited;
    float aim[4]; /* error of this episode: of the block, of the bin */
};

static void begin(struct expert *e, float error, struct mf_rng *rng)
{
    static const float bias[4] = {.07f, .05f, .08f, .04f}, spread[4] = {.05f, .05f, .08f, .06f};
    mf_rng_normal(rng, e->aim, 4);
    for (int i = 0; i < 4; i++)
        e->aim[i] = error * (bias[i] + spread[i] * e->aim[i]);
    e->phase = TO_BLOCK;
}

static void expert(const void *state, void *memory, float error, struct mf_rng *rng, const float *obs, float *action)
{
    const struct tabletop *b = state;
    struct expert *e = memory;
    const float *bin = BIN[task_of[b->task].bin], *block = obs + 4 + 2 * task_of[b->task].block;
    float noise[3], way[2];
    if (e->phase == START)
        begin(e, error, rng);
    for (int i = 0; i < 2; i++)
        way[i] = e->phase == TO_BLOCK ? block[i] + e->aim[i] - obs[i] : bin[i] + e->aim[2 + i] - obs[i];
    const bool moves = e->phase == TO_BLOCK || e->phase == TO_BIN;
    const bool done = moves ? hypotf(way[X], way[Y]) < .05f : e->phase == CLOSE && ++e->waited == 2;
    e->phase += done;
    mf_rng_normal(rng, noise, 3);
    for (int i = 0; i < 2; i++)
        action[i] = clip((moves && !done ? .6f / STEP * way[i] : 0) + .1f * noise[i], 1);
    action[2] = clip((e->phase == CLOSE || e->phase == TO_BIN ? 1.f : -1.f) + .1f * noise[2], 1);
}

/* ---- pictures ---- */

struct canvas {
    uint8_t *rgb; /* (height, width, 3), rows from the top */
    int width, height;
};

/* How much of pixel i lies within [low, high]. */
static float cover(int i, float low, float high)
{
    return fmaxf(0, fminf((float)i + 1, high) - fmaxf((float)i, low));
}

/* A rectangle of the table (its middle, half its sides), mixed with what is there by the share that it covers of each
 * pixel: so a pixel tells where its edge is. */
static void fill(const struct canvas *c, float x, float y, float half_x, float half_y, const uint8_t color[3])
{
    const float w = (float)c->width / 2, h = (float)c->height / 2;
    const float left = (x - half_x + 1) * w, right = (x + half_x + 1) * w, top = (1 - y - half_y) * h,
                bottom = (1 - y + half_y) * h;
    for (int i = (int)fmaxf(top, 0); i < c->height && (float)i < bottom; i++)
        for (int j = (int)fmaxf(left, 0); j < c->width && (float)j < right; j++) {
            const float share = cover(i, top, bottom) * cover(j, left, right);
            uint8_t *pixel = c->rgb + 3 * (i * c->width + j);
            for (int k = 0; k < 3; k++)
                pixel[k] = (uint8_t)((float)pixel[k] + share * ((float)color[k] - (float)pixel[k]) + .5f);
        }
}

static void draw(const struct tabletop *b, const struct canvas *c)
{
    /* Around the middle of the range, so that to a network the bare table is near 0 and what lies on it is not. */
    static const uint8_t table[3] = {128, 128, 128}, inside[3] = {112, 112, 112}, wall[3] = {72, 72, 72},
                         finger[3] = {255, 255, 255},
                         color[BLOCKS][3] = {{255, 0, 0}, {0, 255, 0}, {0, 0, 255}, {255, 255, 0}};
    const float gap = b->closed ? .06f : .14f;
    for (int i = 0; i < c->width * c->height; i++)
        memcpy(c->rgb + 3 * i, table, 3);
    for (int i = 0; i < BINS; i++) {
        fill(c, BIN[i][X], BIN[i][Y], BIN_HALF, BIN_HALF, wall);
        fill(c, BIN[i][X], BIN[i][Y], BIN_HALF - .04f, BIN_HALF - .04f, inside);
    }
    for (int i = 0; i < BLOCKS; i++)
        fill(c, b->block[i][X], b->block[i][Y], BLOCK_HALF, BLOCK_HALF, color[i]);
    for (int side = -1; side <= 1; side += 2)
        fill(c, b->at[X] + (float)side * gap, b->at[Y], .04f, .12f, finger);
}

static int picture(void *state, void **painter, const struct mf_layout *l, float *obs, struct mf_err *err)
{
    (void)painter, (void)err;
    for (int i = 0; i < l->n; obs += mf_obs_size(&l->key[i++])) {
        if (!mf_obs_is_picture(&l->key[i]))
            continue;
        obs[mf_obs_size(&l->key[i]) - 1] = 0; /* the bytes behind a packed picture */
        draw(state, &(struct canvas){(uint8_t *)obs, l->key[i].dim[1], l->key[i].dim[0]});
    }
    return 0;
}

static int paint(void *state, void **painter, int width, int height, uint8_t *rgb, struct mf_err *err)
{
    (void)painter, (void)err;
    draw(state, &(struct canvas){rgb, width, height});
    return 0;
}

static void end_paint(void *painter)
{
    (void)painter;
}

const struct mf_env mf_env_blocks = {
    .name = "blocks",
    .obs = {{.name = "gripper", .dim = {4}},
            {.name = "blocks", .dim = {2 * BLOCKS}},
            {.name = "goal", .dim = {4}},
            {.name = "image", .dim = {64, 64, 3}, .u8 = true}},
    .action_dim = 3,
    .max_steps = 60,
    .control_hz = 10,
    .robomimic_name = "Blocks",
    .language = {.suite = {{"train", 0, TRAIN}, {"unseen", TRAIN, TASKS - TRAIN}, {"all", 0, TASKS}},
                 .text = text,
                 .assign = assign,
                 .task = task},
    .init = init,
    .release = free,
    .reset = reset,
    .step = step,
    .observe = observe,
    .picture = picture,
    .state_size = state_size,
    .save = save,
    .load = load,
    .paint = paint,
    .end_paint = end_paint,
    .expert_size = sizeof(struct expert),
    .expert = expert,
};
