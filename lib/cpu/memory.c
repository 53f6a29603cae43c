/* memory.c - memory in huge pages, and estimates of the memory that runs touch. */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/mem.h"
#include "base/smaller.h"
#include "cpu/program.h"
#include "ranks/ranks.h"

enum {
    TILE_MAX = 64,
    TILE_FLOATS = 5 << 18, /* of a worker: in large tiles more samples share the traffic of weights and lanes */
};

float *mf_big_alloc(size_t floats, const char *what, struct mf_err *err)
{
    size_t size = floats ? floats * sizeof(float) : 1;
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        mf_err_set(err, MF_ENOMEM, "cannot allocate %zu bytes for %s", size, what);
        return NULL;
    }
    madvise(p, size, MADV_HUGEPAGE);
    return p;
}

void mf_big_free(float *p, size_t floats)
{
    if (p)
        munmap(p, floats ? floats * sizeof(float) : 1);
}

int mf_cpu_samples(const struct mf_dev *d, size_t floats)
{
    size_t fit = TILE_FLOATS / (floats ? floats : 1);
    (void)d;
    return fit < 1 ? 1 : fit > TILE_MAX ? TILE_MAX : (int)fit;
}

/* By shapes alone, since an outline has no arena. */
size_t mf_program_work(const struct mf_program *p, int tile)
{
    size_t most = 0;
    for (int i = 0; i < p->l->n_calls; i++) {
        struct mf_cpu_call c = mf_program_shapes(p, i);
        size_t size = mf_cpu_work(&c, tile, p->l->call[i].back);
        most = size > most ? size : most;
        free(c.call.x);
    }
    return most;
}

struct pages {
    size_t size; /* floats in one */
    bool *touched;
};

static void touch(struct pages *q, struct mf_site s, size_t floats)
{
    for (size_t i = s.at / q->size; s.space == MF_IN_TILE && floats && i * q->size < s.at + floats; i++)
        q->touched[i] = true;
}

static void touch_operand(struct pages *q, const struct mf_operand *o, size_t samples)
{
    size_t floats = (size_t)o->rows * (size_t)o->cols * (o->shared ? 1 : samples);
    touch(q, o->data, floats);
    touch(q, o->grad, floats);
}

/* Bytes of a worker's tile space that a tile of so many samples touches, in whole pages. */
static size_t touched(const struct mf_listing *l, size_t samples)
{
    const size_t huge = 1 << 19, small = 1 << 10; /* 2 MiB, 4 KiB */
    struct pages q = {.size = l->tile < huge ? small : huge};
    size_t n = l->tile / q.size + 1, count = 0;
    q.touched = mf_xcalloc(n, sizeof *q.touched);
    for (int v = 1; v < l->n_values; v++)
        touch(&q, l->value[v].data, (size_t)l->value[v].rows * (size_t)l->value[v].cols * samples);
    for (int i = 0; i < l->n_calls; i++) {
        touch_operand(&q, &l->call[i].y, samples);
        for (int k = 0; k < l->call[i].n_x; k++)
            touch_operand(&q, &l->call[i].x[k], samples);
        touch(&q, l->call[i].aux, l->call[i].aux_floats * samples);
    }
    for (size_t i = 0; i < n; i++)
        count += q.touched[i];
    free(q.touched);
    return (count * q.size < l->tile ? count * q.size : l->tile) * sizeof(float);
}

/* Of the lanes, those with a tile; of several ranks the own ones, and the columns that others send. Sums: the own. */
static double gradients(const struct mf_program *p, size_t tiles)
{
    const int n = mf_ranks_count(p->l->ranks), me = mf_ranks_me(p->l->ranks);
    const size_t first = mf_cpu_first_column(p, me), end = me + 1 < n ? mf_cpu_first_column(p, me + 1) : p->lane;
    const size_t lanes =
        mf_smaller((size_t)mf_cpu_first_lane(p, me + 1), tiles) - mf_smaller((size_t)mf_cpu_first_lane(p, me), tiles);
    struct mf_subtrees s;
    double floats = (double)(end - first);
    mf_cpu_divide(p, tiles, &s);
    const size_t others = s.row[n] - (s.row[me + 1] - s.row[me]);
    for (size_t at = 0, to; at < p->lane; at = to) {
        to = mf_smaller(at + MF_SLICE, p->lane);
        if (p->written[at / MF_SLICE])
            floats += (double)(lanes * (to - at) + others * (mf_between(end, at, to) - mf_between(first, at, to)));
    }
    free(s.row);
    return floats * sizeof(float);
}

/* Pages that are never touched take no memory: in a small run, most of a tile's, and the lanes without a tile. */
void mf_cpu_memory(const struct mf_program *p, size_t n, struct mf_memory *to)
{
    const struct mf_listing *l = p->l;
    size_t T = (size_t)mf_workers_count(p->dev->workers), tile = mf_program_tile(p, n), tiles = (n + tile - 1) / tile,
           work = mf_program_work(p, (int)tile) * sizeof(float);
    to->of[MF_MEMORY_ACTIVATIONS] +=
        (double)((tiles < T ? tiles : T) * (touched(l, tile) + work) + l->shared * sizeof(float));
    size_t helpers = mf_program_together(p, n) ? T - 1 : l->backward && tiles < T ? T - tiles : 0; /* their scratch */
    to->of[MF_MEMORY_ACTIVATIONS] += (double)(helpers * work);
    to->of[MF_MEMORY_GRADIENTS] += l->backward ? gradients(p, tiles) : 0;
    to->of[MF_MEMORY_WEIGHTS] += (double)((p->pack_size + p->copy_size) * sizeof(float));
}
