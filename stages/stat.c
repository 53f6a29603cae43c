/* mf-stat: counts the contents of a stream, as samtools flagstat counts reads. A truncated stream is counted up to its
 * end. */
#include <math.h>

#include "run/history.h"
#include "stage/stage.h"

static const long long EPISODES_MOST = 1ll << 40; /* of a round */

struct stat {
    long long frames[MF_OTHER + 1], bytes, samples;
    int64_t episodes;
    struct sum {
        int64_t n;
        double total;
    } returned, length, succeeded; /* over the episodes that have a value */
    struct {
        int64_t iter, step;
        double time, success, loss;
        struct mf_elapsed elapsed;
    } last; /* of the metrics */
};

/* A task without success has no value to count. */
static void add(struct sum *s, const struct mf_frame *f, const char *path, int64_t n)
{
    struct mf_err ignored;
    double mean;
    if (!mf_frame_has(f, path) || mf_frame_get_num(f, path, &mean, &ignored) || isnan(mean))
        return;
    s->n += n;
    s->total += (double)n * mean;
}

static int add_episodes(struct stat *s, const struct mf_frame *f, struct mf_err *err)
{
    int64_t n;
    int rc;
    if (!mf_frame_has(f, "episodes"))
        return 0;
    if ((rc = mf_frame_get_int(f, "episodes.n", &n, err)) || n == 0)
        return rc;
    if (n < 0 || n > EPISODES_MOST)
        return mf_err_set(err, MF_EFORMAT, "'episodes.n' is %lld, not within 0..%lld", (long long)n, EPISODES_MOST);
    s->episodes += n;
    add(&s->returned, f, "episodes.return", n);
    add(&s->length, f, "episodes.length", n);
    add(&s->succeeded, f, "episodes.success", n);
    return 0;
}

static void take_metrics(struct stat *s, const struct mf_frame *f)
{
    struct mf_err ignored;
    double time = 0;
    s->last.success = s->last.loss = NAN; /* no episode ended in that round; nothing was cloned */
    (void)mf_frame_get_num(f, "values.rollout/success_once", &s->last.success, &ignored);
    (void)mf_frame_get_num(f, "values.train/loss", &s->last.loss, &ignored);
    (void)mf_frame_get_int(f, "iter", &s->last.iter, &ignored);
    (void)mf_frame_get_int(f, "step", &s->last.step, &ignored);
    (void)mf_frame_get_num(f, "time", &time, &ignored);
    s->last.time = mf_elapsed_at(&s->last.elapsed, time);
}

static void print_last(const struct stat *s)
{
    printf("%-10s iteration %lld, %lld steps, %.1f s", "last", (long long)s->last.iter + 1, (long long)s->last.step,
           s->last.time);
    if (!isnan(s->last.success))
        printf(", success %.3f", s->last.success);
    else if (!isnan(s->last.loss))
        printf(", loss %.4g", s->last.loss);
    putchar('\n');
}

static void print_mean(const char *name, const struct sum *s)
{
    if (s->n)
        printf("%-10s %.6g\n", name, s->total / (double)s->n);
}

static int frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    struct stat *s = self;
    (void)run;
    s->frames[mf_frame_kind(f)]++;
    s->bytes += (long long)mf_frame_bytes(f);
    if (mf_frame_kind(f) == MF_METRICS)
        take_metrics(s, f);
    return mf_frame_kind(f) == MF_ROUND ? add_episodes(s, f, err) : 0;
}

static int ended(struct mf_run *run, void *self, const struct mf_frame *end, struct mf_err *err)
{
    struct stat *s = self;
    int64_t samples;
    int rc = mf_frame_get_int(end, "samples", &samples, err);
    (void)run;
    s->frames[MF_END]++;
    s->bytes += (long long)mf_frame_bytes(end);
    s->samples += samples;
    return rc;
}

static int close_stat(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    const struct stat *s = self;
    (void)run, (void)err;
    if (rc && s->frames[MF_HEAD] == 0)
        return 0;
    for (int kind = 0; kind <= MF_OTHER; kind++)
        if (s->frames[kind])
            printf("%-10s %lld\n", mf_kind_name((enum mf_kind)kind), s->frames[kind]);
    printf("%-10s %lld\n", "bytes", s->bytes);
    if (s->frames[MF_METRICS])
        print_last(s);
    else /* metrics have neither */
        printf("%-10s %lld\n%-10s %lld\n", "samples", s->samples, "episodes", (long long)s->episodes);
    print_mean("return", &s->returned);
    print_mean("length", &s->length);
    print_mean("success", &s->succeeded);
    if (rc)
        fflush(stdout); /* not flushed elsewhere after an error */
    return 0;
}

static const struct mf_stage stage = {
    .name = "stat",
    .summary = "Count the frames, samples, bytes and episodes of a stream; for metrics, show the newest values.",
    .examples = "  mf-collect | tee rollouts.mf | mf-gae | mf-ppo; mf-stat rollouts.mf\n"
                "  mf-stat outputs/lift/latest/logs/metrics.mf\n",
    .role = MF_SINK,
    .text_out = true,
    .size = sizeof(struct stat),
    .frame = frame,
    .ended = ended,
    .close = close_stat,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
