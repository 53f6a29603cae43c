/* mf-stat: what is in a stream, as samtools flagstat counts reads. One that breaks off is counted as far as it goes. */
#include <math.h>

#include "stage/stage.h"

struct stat {
    long long frames[MF_OTHER + 1], bytes, samples;
    int64_t episodes;
    double returned, length, succeeded; /* sums over episodes */
    struct {
        int64_t iter, step;
        double time, success;
    } last; /* of mf-ppo's metrics */
};

static int add_episodes(struct stat *s, const struct mf_frame *f, struct mf_err *err)
{
    int64_t n;
    double returned, length, success;
    int rc;
    if (!mf_frame_has(f, "episodes"))
        return 0;
    if ((rc = mf_frame_get_int(f, "episodes.n", &n, err)) || n == 0)
        return rc;
    if ((rc = mf_frame_get_num(f, "episodes.return", &returned, err)) ||
        (rc = mf_frame_get_num(f, "episodes.length", &length, err)) ||
        (rc = mf_frame_get_num(f, "episodes.success", &success, err)))
        return rc;
    s->episodes += n;
    s->returned += (double)n * returned;
    s->length += (double)n * length;
    s->succeeded += (double)n * success;
    return 0;
}

static void take_metrics(struct stat *s, const struct mf_frame *f)
{
    struct mf_err ignored;
    if (mf_frame_get_num(f, "values.rollout/success_once", &s->last.success, &ignored))
        s->last.success = NAN; /* no episode ended in that round */
    (void)mf_frame_get_int(f, "iter", &s->last.iter, &ignored);
    (void)mf_frame_get_int(f, "step", &s->last.step, &ignored);
    (void)mf_frame_get_num(f, "time", &s->last.time, &ignored);
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
    printf("%-10s %lld\n%-10s %lld\n%-10s %lld\n", "samples", s->samples, "bytes", s->bytes, "episodes",
           (long long)s->episodes);
    if (s->frames[MF_METRICS])
        printf("%-10s iter %lld, %lld steps, %.1f s, success %.3f\n", "last", (long long)s->last.iter,
               (long long)s->last.step, s->last.time, s->last.success);
    if (s->episodes)
        printf("%-10s %.6g\n%-10s %.6g\n%-10s %.6g\n", "return", s->returned / (double)s->episodes, "length",
               s->length / (double)s->episodes, "success", s->succeeded / (double)s->episodes);
    if (rc)
        fflush(stdout); /* after an error nobody else does */
    return 0;
}

static const struct mf_stage stage = {
    .name = "stat",
    .summary = "Count a stream's frames, samples, bytes and episodes; of metrics, show the last.",
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
