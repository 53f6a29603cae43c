/* mf-check: checks that a stream is complete and valid: one line and the exit code. For metrics, another line per
 * training problem. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "stream/rollout.h"
#include "rl/health.h"
#include "stage/stage.h"

struct check {
    long long frames, samples;
    int n_sources;
    struct sender {
        char src[64];
        long long slices; /* since its last round */
    } * source;
    int n;
    struct mf_array *first; /* arrays of the first rollout, without data */
    struct mf_history history;
};

static bool has(const struct mf_frame *f, const char *name)
{
    return mf_frame_find(f, name) != NULL;
}

static bool is_nan(const struct mf_array *a, size_t i)
{
    const float *f = a->data;
    const double *d = a->data;
    return (a->dtype == MF_F32 && f[i] != f[i]) || (a->dtype == MF_F64 && d[i] != d[i]);
}

/* Every array over (t, n), also unknown ones. The rollout has checked which final_values count. */
static int no_nan(const struct mf_rollout *r, const struct mf_array *a, struct mf_err *err)
{
    if (a->rank < 2 || a->dim[0] != r->T || a->dim[1] != r->N || !strcmp(a->name, "final_values"))
        return 0;
    const size_t inner = a->count / (r->T * r->N);
    for (size_t i = 0; i < a->count; i++) {
        const size_t row = i / inner;
        const bool masked = (r->valid && !r->valid[row]) || (r->loss_mask && !r->loss_mask[row]);
        if (!masked && is_nan(a, i))
            return mf_err_set(err, MF_EFORMAT, "'%s' is NaN at step %zu of environment %zu", a->name, row / r->N,
                              row % r->N);
    }
    return 0;
}

/* All rollouts have the same arrays, dtypes and shapes, except for the number of environments. */
static int alike(struct check *c, const struct mf_frame *f, struct mf_err *err)
{
    const int n = mf_frame_arrays(f);
    if (!c->first) {
        c->first = mf_xcalloc((size_t)n, sizeof *c->first);
        for (c->n = 0; c->n < n; c->n++)
            c->first[c->n] = *mf_frame_array(f, c->n);
        return 0;
    }
    for (int i = 0; i < c->n; i++) {
        const struct mf_array *was = &c->first[i], *is = mf_frame_find(f, was->name);
        if (!is || n != c->n)
            return mf_err_set(err, MF_EFORMAT,
                              "inconsistent: %d arrays where the first rollout has %d, among them '%s'", n, c->n,
                              was->name);
        bool same = is->dtype == was->dtype && is->rank == was->rank;
        for (int d = 0; same && d < is->rank; d++)
            same = is->dim[d] == was->dim[d] || d == (is->rank > 1);
        if (!same)
            return mf_err_set(err, MF_EFORMAT,
                              "inconsistent: '%s' has another shape or dtype than in the first rollout", is->name);
    }
    return 0;
}

/* Its slices are counted for each source, since several may share a stream. */
static int source_of(struct check *c, const struct mf_frame *f, struct sender **s, struct mf_err *err)
{
    const char *src = "";
    int i = 0, rc = mf_frame_has(f, "src") ? mf_frame_get_str(f, "src", &src, err) : 0;
    while (i < c->n_sources && strncmp(c->source[i].src, src, sizeof c->source[i].src - 1) != 0)
        i++;
    if (i == c->n_sources) {
        c->source = mf_xrealloc(c->source, (size_t)++c->n_sources, sizeof *c->source);
        c->source[i] = (struct sender){.slices = 0};
        snprintf(c->source[i].src, sizeof c->source[i].src, "%s", src);
    }
    *s = &c->source[i];
    return rc;
}

static int frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    struct check *c = self;
    struct sender *s;
    struct mf_rollout r;
    int64_t slices;
    int rc = 0;
    (void)run;
    c->frames++;
    if ((rc = source_of(c, f, &s, err)))
        return rc;
    if (mf_frame_kind(f) == MF_HEAD)
        s->slices = 0;
    if (mf_frame_kind(f) == MF_ROUND) {
        if ((rc = mf_frame_get_int(f, "slices", &slices, err)))
            return rc;
        if (slices != s->slices)
            return mf_err_set(err, MF_EFORMAT, "inconsistent: a round of %lld slices, but %lld came", (long long)slices,
                              s->slices);
        s->slices = 0;
    }
    if (mf_frame_kind(f) != MF_ROLLOUT)
        return mf_history_take(&c->history, f, err);
    unsigned need = (has(f, "prev_values") ? MF_NEED_VALUES : 0) | (has(f, "chains") ? MF_NEED_CHAINS : 0) |
                    (has(f, "samples") ? MF_NEED_SAMPLES : 0) | (has(f, "advantages") ? MF_NEED_ADVANTAGES : 0);
    if ((rc = mf_rollout_bind(&r, f, need, err)) || (rc = alike(c, f, err)))
        return rc;
    for (int i = 0; i < mf_frame_arrays(f) && rc == 0; i++)
        rc = no_nan(&r, mf_frame_array(f, i), err);
    c->samples += (long long)(r.T * r.N);
    s->slices++;
    return rc;
}

static int ended(struct mf_run *run, void *self, const struct mf_frame *end, struct mf_err *err)
{
    (void)run, (void)end, (void)err;
    ((struct check *)self)->frames++;
    return 0;
}

static int close_check(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    struct check *c = self;
    (void)run, (void)err;
    if (rc == 0 && c->samples)
        printf("whole: %lld frames, %lld samples\n", c->frames, c->samples);
    else if (rc == 0)
        printf("whole: %lld frames\n", c->frames);
    mf_diagnose(&c->history, stdout);
    mf_history_close(&c->history);
    free(c->first);
    free(c->source);
    return 0;
}

static const struct mf_stage stage = {
    .name = "check",
    .summary = "Check that a stream is complete and valid; exit 3 and name the frame if it is not.\n"
               "For a run's metrics, also report training problems and the keys to change.",
    .examples = "  mf-check rollouts.mf && mf-gae --in rollouts.mf | mf-ppo\n"
                "  mf-check outputs/lift/latest\n",
    .role = MF_SINK,
    .text_out = true,
    .size = sizeof(struct check),
    .frame = frame,
    .ended = ended,
    .close = close_check,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
