#include "base/resize.h"

#include <math.h>
#include <string.h>

enum { BITS = 22, C = 3 }; /* of a weight; channels */

/* ---- weights ---- */

static int most_taps(int from, int to)
{
    return 2 * (int)ceil(fmax((double)from / to, 1)) + 1;
}

/* Pixel i covers [low, high) of the others: a triangle around its center. */
static void weigh(struct mf_taps *t, int i, int from)
{
    const double scale = (double)from / t->to, support = fmax(scale, 1), center = (i + .5) * scale;
    const int low = (int)fmax(center - support + .5, 0), high = (int)fmin(center + support + .5, from);
    int32_t *weight = t->weight + (size_t)i * (size_t)t->most;
    double sum = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int j = low; j < high; j++) {
            const double x = fmax(1 - fabs((j - center + .5) / support), 0);
            if (pass == 0)
                sum += x;
            else
                weight[j - low] = (int32_t)(x / sum * (1 << BITS) + .5);
        }
    t->first[i] = low;
    t->count[i] = high - low;
}

static void place_taps(struct mf_taps *t, struct mf_arena *a)
{
    t->first = mf_arena_take(a, (size_t)t->to, sizeof *t->first);
    t->count = mf_arena_take(a, (size_t)t->to, sizeof *t->count);
    t->weight = mf_arena_take(a, (size_t)t->to * (size_t)t->most, sizeof *t->weight);
}

static void place(struct mf_resize *r, struct mf_arena *a)
{
    place_taps(&r->across, a);
    place_taps(&r->down, a);
    r->turned = r->turn ? mf_arena_take(a, (size_t)(r->h * r->w * C), 1) : NULL;
    r->between = mf_arena_take(a, (size_t)(r->h * r->cols * C), 1);
}

int mf_resize_init(struct mf_resize *r, int h, int w, int H, int W, bool turn, struct mf_err *err)
{
    const double ratio = fmax((double)w / W, (double)h / H);
    *r = (struct mf_resize){.h = h, .w = w, .H = H, .W = W, .turn = turn};
    r->rows = (int)(h / ratio);
    r->cols = (int)(w / ratio);
    if (r->rows < 1 || r->cols < 1)
        return mf_err_set(err, MF_EUSAGE, "a picture of %d x %d pixels is too narrow to be resized to %d x %d", w, h, W,
                          H);
    r->top = (H - r->rows) / 2;
    r->left = (W - r->cols) / 2;
    r->across = (struct mf_taps){.to = r->cols, .most = most_taps(w, r->cols)};
    r->down = (struct mf_taps){.to = r->rows, .most = most_taps(h, r->rows)};
    place(r, &r->arena);
    int rc = mf_arena_alloc(&r->arena, "the weights of resized pictures", err);
    if (rc)
        return rc;
    place(r, &r->arena);
    for (int i = 0; i < r->cols; i++)
        weigh(&r->across, i, w);
    for (int i = 0; i < r->rows; i++)
        weigh(&r->down, i, h);
    return 0;
}

void mf_resize_release(struct mf_resize *r)
{
    mf_arena_release(&r->arena);
    *r = (struct mf_resize){0};
}

/* ---- bytes ---- */

/* Pixels `stride` bytes apart to pixels `stride_to` apart, `n` bytes of each. */
static void resample(const struct mf_taps *t, const uint8_t *from, size_t stride, uint8_t *to, size_t stride_to,
                     size_t n)
{
    for (int i = 0; i < t->to; i++) {
        const int32_t *weight = t->weight + (size_t)i * (size_t)t->most;
        const uint8_t *first = from + (size_t)t->first[i] * stride;
        for (size_t k = 0; k < n; k++) {
            int32_t sum = 1 << (BITS - 1);
            for (int j = 0; j < t->count[i]; j++)
                sum += weight[j] * first[(size_t)j * stride + k];
            sum >>= BITS;
            to[(size_t)i * stride_to + k] = (uint8_t)(sum > 255 ? 255 : sum);
        }
    }
}

static const uint8_t *turned(const struct mf_resize *r, const uint8_t *from)
{
    const int n = r->h * r->w;
    if (!r->turn)
        return from;
    for (int i = 0; i < n; i++)
        memcpy(r->turned + i * C, from + (n - 1 - i) * C, C);
    return r->turned;
}

void mf_resize_bytes(struct mf_resize *r, const uint8_t *from, uint8_t *to)
{
    const size_t row = (size_t)(r->w * C), row_between = (size_t)(r->cols * C), row_to = (size_t)(r->W * C);
    const uint8_t *rows = turned(r, from);
    size_t stride = row;
    if (r->cols != r->w) {
        for (size_t y = 0; y < (size_t)r->h; y++)
            resample(&r->across, rows + y * row, C, r->between + y * row_between, C, C);
        rows = r->between;
        stride = row_between;
    }
    memset(to, 0, (size_t)r->H * row_to);
    to += (size_t)r->top * row_to + (size_t)(r->left * C);
    if (r->rows != r->h)
        resample(&r->down, rows, stride, to, row_to, row_between);
    else
        for (size_t y = 0; y < (size_t)r->h; y++)
            memcpy(to + y * row_to, rows + y * stride, row_between);
}

/* ---- numbers ---- */

struct between { /* two pixels, and how far it is to the second */
    int low, high;
    float way;
};

static struct between neighbours(int i, int from, int to)
{
    const float x = fmaxf(((float)i + .5f) * ((float)from / (float)to) - .5f, 0);
    const int low = (int)x < from ? (int)x : from - 1;
    return (struct between){low, low + 1 < from ? low + 1 : low, x - (float)low};
}

void mf_resize_floats(const struct mf_resize *r, const float *from, float *to)
{
    const int last = r->h * r->w - 1;
    for (int i = 0; i < r->H * r->W * C; i++)
        to[i] = -1;
    for (int y = 0; y < r->rows; y++)
        for (int x = 0; x < r->cols; x++) {
            const struct between v = neighbours(y, r->h, r->rows), u = neighbours(x, r->w, r->cols);
            const int at[] = {v.low * r->w + u.low, v.low * r->w + u.high, v.high * r->w + u.low,
                              v.high * r->w + u.high};
            const float *p[4];
            for (int k = 0; k < 4; k++)
                p[k] = from + C * (r->turn ? last - at[k] : at[k]);
            float *pixel = to + ((r->top + y) * r->W + r->left + x) * C;
            for (int c = 0; c < C; c++) {
                const float above = p[0][c] * (1 - u.way) + p[1][c] * u.way;
                const float below = p[2][c] * (1 - u.way) + p[3][c] * u.way;
                pixel[c] = fmaxf(-1, fminf(1, above * (1 - v.way) + below * v.way));
            }
        }
}
