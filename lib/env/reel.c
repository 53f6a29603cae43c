#include "env/reel.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "run/film.h"
#include "env/served.h"

enum {
    WIDTH = 320,
    HEIGHT = 240,
    FRAME = 5,
    TILE = 3 * WIDTH * HEIGHT
}; /* a tile and the frame around it, pixels; bytes */

struct track { /* of one environment: its states, or the positions of its images in the store */
    char *bytes;
    size_t n, room;
};

struct mf_reel {
    const struct mf_env *env;
    int n;
    struct track *track;
    FILE *store; /* tiles, of an environment that renders itself */
    off_t end;
};

int mf_reel_new(struct mf_reel **out, const struct mf_env *env, int n, struct mf_err *err)
{
    if (env->served && !mf_served_renders(env->served))
        return mf_err_set(err, MF_EUSAGE, "no video of env=%s: its server renders no images", env->name);
    if (!env->served && !env->paint)
        return mf_err_set(err, MF_EUSAGE, "no video of env=%s: it renders no images", env->name);
    FILE *store = env->served ? tmpfile() : NULL;
    if (env->served && !store)
        return mf_err_errno(err, "a temporary file for the video's images");
    struct mf_reel *r = mf_xcalloc(1, sizeof *r);
    *r = (struct mf_reel){.env = env, .n = n, .track = mf_xcalloc((size_t)n, sizeof *r->track), .store = store};
    *out = r;
    return 0;
}

void mf_reel_free(struct mf_reel *r)
{
    if (!r)
        return;
    for (int i = 0; i < r->n; i++)
        free(r->track[i].bytes);
    if (r->store)
        fclose(r->store);
    free(r->track);
    free(r);
}

/* ---- recording ---- */

static void *record(struct track *t, size_t size)
{
    if (t->n == t->room)
        t->bytes = mf_xrealloc(t->bytes, t->room = 2 * t->room + 64, size);
    return t->bytes + t->n++ * size;
}

static void see_state(void *reel, int env, void *state)
{
    struct mf_reel *r = reel;
    r->env->save(state, record(&r->track[env], r->env->state_size(state)));
}

/* The mean colour of the rectangle [x0, x1) x [y0, y1). */
static void mean(const uint8_t *rgb, int width, int x0, int x1, int y0, int y1, uint8_t to[3])
{
    unsigned sum[3] = {0}, n = (unsigned)((x1 - x0) * (y1 - y0));
    for (int y = y0; y < y1; y++)
        for (int x = x0; x < x1; x++)
            for (int c = 0; c < 3; c++)
                sum[c] += rgb[3 * (y * width + x) + c];
    for (int c = 0; c < 3; c++)
        to[c] = (uint8_t)(sum[c] / n);
}

/* The picture in the middle of a tile, its proportions kept: a pixel is the mean of those that it covers. */
static void scale(const uint8_t *rgb, int width, int height, uint8_t *tile)
{
    const double by = fmax((double)width / WIDTH, (double)height / HEIGHT);
    const int w = (int)fmax(1, round(width / by)), h = (int)fmax(1, round(height / by));
    uint8_t *to = tile + 3 * ((HEIGHT - h) / 2 * WIDTH + (WIDTH - w) / 2);
    memset(tile, 0, TILE);
    for (int y = 0; y < h; y++, to += 3 * WIDTH)
        for (int x = 0; x < w; x++) {
            const int x0 = x * width / w, x1 = (x + 1) * width / w, y0 = y * height / h, y1 = (y + 1) * height / h;
            mean(rgb, width, x0, x1 > x0 ? x1 : x0 + 1, y0, y1 > y0 ? y1 : y0 + 1, to + 3 * x);
        }
}

static int see_picture(void *reel, int env, int width, int height, const uint8_t *rgb, struct mf_err *err)
{
    struct mf_reel *r = reel;
    uint8_t tile[TILE];
    scale(rgb, width, height, tile);
    if (pwrite(fileno(r->store), tile, TILE, r->end) != TILE)
        return mf_err_errno(err, "write an image to the video's temporary file");
    memcpy(record(&r->track[env], sizeof r->end), &r->end, sizeof r->end);
    r->end += TILE;
    return 0;
}

struct mf_watch mf_reel_watch(struct mf_reel *r)
{
    return r ? (struct mf_watch){.n = r->n, .self = r, .state = see_state, .picture = see_picture}
             : (struct mf_watch){.n = 0};
}

/* ---- playing ---- */

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

struct brush { /* renders the states of a built-in environment; all NULL for one that renders itself */
    void *model, *state, *painter;
};

static int open_brush(const struct mf_env *e, struct brush *b, struct mf_err *err)
{
    if (e->served)
        return 0;
    int rc = e->open ? e->open(&b->model, e->file, err) : 0;
    return rc ? rc : e->init(&b->state, b->model, e->max_steps, err);
}

static void close_brush(const struct mf_env *e, struct brush *b)
{
    if (b->painter)
        e->end_paint(b->painter);
    if (b->state)
        e->release(b->state);
    if (b->model)
        e->close(b->model);
}

/* Environment i at time t. */
static int draw(const struct mf_reel *r, int i, size_t t, struct brush *b, uint8_t *tile, struct mf_err *err)
{
    const char *bytes = r->track[i].bytes;
    off_t at;
    if (!r->store) {
        r->env->load(b->state, bytes + t * r->env->state_size(b->state));
        return r->env->paint(b->state, &b->painter, WIDTH, HEIGHT, tile, err);
    }
    memcpy(&at, bytes + t * sizeof at, sizeof at);
    return pread(fileno(r->store), tile, TILE, at) == TILE
               ? 0
               : mf_err_errno(err, "read an image from the video's temporary file");
}

/* All tiles at time t; after the end of an episode its last image stays. */
static int draw_all(const struct mf_reel *r, size_t t, struct brush *b, const bool *good, int columns, uint8_t *tile,
                    uint8_t *rgb, struct mf_err *err)
{
    for (int i = 0; i < r->n; i++) {
        if (t >= r->track[i].n)
            continue;
        int rc = draw(r, i, t, b, tile, err);
        if (rc)
            return rc;
        if (t + 1 == r->track[i].n)
            frame(tile, good[i]);
        put_tile(rgb, columns, i, tile);
    }
    return 0;
}

int mf_reel_play(struct mf_reel *r, const char *path, const bool *good, struct mf_err *err)
{
    const int columns = (int)ceil(sqrt(r->n)), rows = (r->n + columns - 1) / columns;
    const double fps = r->env->control_hz > 0 ? r->env->control_hz : 20;
    const size_t hold = (size_t)fps; /* a second on the last picture */
    size_t steps = 0;
    struct brush brush = {0};
    struct mf_film *film = NULL;
    uint8_t tile[TILE], *rgb;
    int rc = mf_alloc((void **)&rgb, (size_t)(columns * rows) * TILE, "the video's pictures", err);
    if (rc)
        return rc;
    for (int i = 0; i < r->n; i++)
        steps = r->track[i].n > steps ? r->track[i].n : steps;
    if ((rc = open_brush(r->env, &brush, err)) == 0)
        rc = mf_film_open(&film, path, columns * WIDTH, rows * HEIGHT, fps, err);
    for (size_t t = 0; rc == 0 && t < steps + hold; t++)
        if ((rc = draw_all(r, t, &brush, good, columns, tile, rgb, err)) == 0)
            rc = mf_film_add(film, rgb, err);
    if (rc == 0)
        rc = mf_film_close(film, err);
    else
        mf_film_drop(film);
    close_brush(r->env, &brush);
    for (int i = 0; i < r->n; i++)
        r->track[i].n = 0;
    r->end = 0;
    free(rgb);
    return rc;
}
