#include "flow/cloning_report.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum { HEADING = 20 }; /* rows of the table between two headings */

static double loss_of(const struct mf_cloning_report *r)
{
    return r->stats->loss / (double)r->taken;
}

struct mf_frame *mf_cloning_report_frame(const struct mf_cloning_report *r)
{
    struct mf_frame *m = mf_frame_new(MF_METRICS);
    mf_frame_set_int(m, "iter", r->iter);
    mf_frame_set_int(m, "step", r->step);
    mf_frame_set_num(m, "time", r->time);
    mf_frame_set_num(m, "values.train/loss", loss_of(r));
    mf_frame_set_num(m, "values.train/lr", r->stats->lr);
    mf_frame_set_num(m, "values.train/grad_norm", r->stats->grad_norm / (double)r->taken);
    return m;
}

/* At most one row or line per second, as frames come faster. */
void mf_cloning_report_show(const struct mf_cloning_report *r, struct mf_cloning_progress *p)
{
    const long long step = r->step, steps = r->steps;
    if (!p->all) {
        mf_log_live("minibatch %lld of %lld, loss %.4f, %.0f samples/s", step, steps, loss_of(r), r->speed);
        if (!mf_log_is_due(&p->shown_at))
            return;
    } else if (mf_now() - p->shown_at < 1 && step < steps) {
        return;
    }
    p->shown_at = mf_now();
    if (!isatty(STDERR_FILENO)) {
        mf_log(MF_LOG_INFO, "minibatch %lld of %lld in %.0f s, loss %.4f, %.0f samples/s", step, steps, r->time,
               loss_of(r), r->speed);
        return;
    }
    if (p->rows++ % HEADING == 0)
        fprintf(stderr, "%9s %9s %8s %9s %9s %10s\n", "step", "of", "time", "loss", "lr", "samples/s");
    fprintf(stderr, "%9lld %9lld %7.1fs %9.4f %9.2e %10.0f\n", step, steps, r->time, loss_of(r), r->stats->lr,
            r->speed);
}
