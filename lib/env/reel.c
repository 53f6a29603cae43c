#include "env/reel.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/film.h"

enum { WIDTH = 320, HEIGHT = 240, FRAME = 5 }; /* pixels of a tile, and of what is drawn around it */

struct track { /* an environment's states, one after the other */
    char *bytes;
    size_t n, room;
};

struct mf_reel {
    const struct mf_env *env;
    int n;
    struct track *track;
};

int mf_reel_new(struct mf_reel **out, const struct mf_env *env, int n, struct mf_err *err)
{
    if (!env->paint)
        return mf_err_set(err, MF_EUSAGE, "there are no pictures of env=%s%s, so no video of it", env->name,
                          env->served ? " in another process" : "");
    struct mf_reel *r = mf_xcalloc(1, sizeof *r);
    *r = (struct mf_reel){.env = env, .n = n, .track = mf_xcalloc((size_t)n, sizeof *r->track)};
    *out = r;
    return 0;
}

void mf_reel_free(struct mf_reel *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n; i++)
        free(r->track[i].bytes);
    free(r->track);
    free(r);
}

void mf_reel_watch(void *reel, int env, void *state)
{
    struct mf_reel *r = reel;
    if (env >= r->n)
        return;
    struct track *t = &r->track[env];
    const size_t size = r->env->state_size(state);
    if (t->n == t->room)
        t->bytes = mf_xrealloc(t->bytes, t->room = 2 * t->room + 64, size);
    r->env->save(state, t->bytes + t->n++ * size);
}

static void put_tile(uint8_t *rgb, int columns, int i, const uint8_t *tile)
{
    const size_t row = (size_t)columns * WIDTH * 3;
    uint8_t *to = rgb + (size_t)(i / columns) * HEIGHT * row + (size_t)(i % columns) * WIDTH * 3;
    for (int y = 0; y < HEIGHT; y++, to += row)
        memcpy(to, tile + y * WIDTH * 3, WIDTH * 3);
}

static void frame(uint8_t *tile, bool good)
{
    static const uint8_t colour[2][3] = {{200, 40, 30}, {40, 170, 70}};
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < WIDTH; x++)
            if (x < FRAME || y < FRAME || x >= WIDTH - FRAME || y >= HEIGHT - FRAME)
                memcpy(tile + 3 * (y * WIDTH + x), colour[good], 3);
}

/* All tiles at time t; one whose episode is over stays as it ended. */
static int draw(const struct mf_reel *r, size_t t, void *state, void **painter, const bool *good, int columns,
                uint8_t *tile, uint8_t *rgb, struct mf_err *err)
{
    const size_t size = r->env->state_size(state);
    for (int i = 0; i < r->n; i++) {
        const struct track *k = &r->track[i];
        if (t >= k->n)
            continue;
        r->env->load(state, k->bytes + t * size);
        int rc = r->env->paint(state, painter, WIDTH, HEIGHT, tile, err);
        if (rc)
            return rc;
        if (t + 1 == k->n)
            frame(tile, good[i]);
        put_tile(rgb, columns, i, tile);
    }
    return 0;
}

int mf_reel_play(struct mf_reel *r, const char *path, const bool *good, struct mf_err *err)
{
    const int columns = (int)ceil(sqrt(r->n)), rows = (r->n + columns - 1) / columns;
    const size_t hold = (size_t)r->env->control_hz; /* a second on the last picture */
    size_t steps = 0;
    void *model = NULL, *state = NULL, *painter = NULL;
    struct mf_film *film = NULL;
    uint8_t *tile = mf_xcalloc(WIDTH * HEIGHT, 3), *rgb = mf_xcalloc((size_t)(columns * rows), WIDTH * HEIGHT * 3);
    for (int i = 0; i < r->n; i++)
        steps = r->track[i].n > steps ? r->track[i].n : steps;
    int rc = r->env->open ? r->env->open(&model, err) : 0;
    if (rc == 0 && (rc = r->env->init(&state, model, r->env->max_steps, err)) == 0)
        rc = mf_film_open(&film, path, columns * WIDTH, rows * HEIGHT, r->env->control_hz, err);
    for (size_t t = 0; rc == 0 && t < steps + hold; t++)
        if ((rc = draw(r, t, state, &painter, good, columns, tile, rgb, err)) == 0)
            rc = mf_film_add(film, rgb, err);
    if (rc == 0)
        rc = mf_film_close(film, err);
    else
        mf_film_drop(film);
    if (painter)
        r->env->end_paint(painter);
    if (state)
        r->env->release(state);
    if (model)
        r->env->close(model);
    for (int i = 0; i < r->n; i++)
        r->track[i].n = 0;
    free(tile);
    free(rgb);
    return rc;
}
