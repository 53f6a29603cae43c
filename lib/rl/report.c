#include "rl/report.h"

#include <math.h>
#include <sys/resource.h>

static double number(const struct mf_frame *f, const char *path)
{
    struct mf_err ignored;
    double v = NAN;
    return mf_frame_get_num(f, path, &v, &ignored) ? NAN : v;
}

/* Over the episodes of all sources; NaN where none ended. */
static double mean(const struct mf_report *r, const char *path)
{
    double sum = 0, n = 0;
    for (int i = 0; i < r->n_parts; i++) {
        double of = number(r->parts[i].round, "episodes.n");
        if (!(of > 0))
            continue;
        sum += of * number(r->parts[i].round, path);
        n += of;
    }
    return sum / n;
}

static double peak_mib(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_maxrss / 1024;
}

struct mf_frame *mf_report_frame(const struct mf_report *r)
{
    const struct mf_ppo_stats *s = r->stats;
    double n = 0;
    for (int i = 0; i < r->n_parts; i++)
        n += number(r->parts[i].round, "episodes.n");
    const struct {
        const char *name;
        double value;
    } row[] = {{"values.rollout/episodes", n},
               {"values.rollout/success_once", mean(r, "episodes.success")},
               {"values.rollout/ep_return", mean(r, "episodes.return")},
               {"values.rollout/ep_length", mean(r, "episodes.length")},
               {"values.rollout/action_saturation", r->health->action_saturation},
               {"values.rollout/obs_outside", r->health->obs_outside},
               {"values.train/policy_loss", s->policy_loss},
               {"values.train/value_loss", s->value_loss},
               {"values.train/entropy", s->entropy},
               {"values.train/approx_kl", s->kl_k3},
               {"values.train/approx_kl_k1", s->kl_k1},
               {"values.train/clip_fraction", s->clip_fraction},
               {"values.train/clamped_fraction", s->clamped_fraction},
               {"values.train/ratio_mean", s->ratio_mean},
               {"values.train/ratio_max", s->ratio_max},
               {"values.train/logratio_gap", s->lagged ? NAN : s->logratio_gap},
               {"values.train/lag_gap", s->lagged ? s->logratio_gap : NAN},
               {"values.train/correction_max", s->correction_max},
               {"values.train/explained_variance", s->explained_variance},
               {"values.train/grad_norm", s->grad_norm},
               {"values.train/critic_grad_norm", s->critic_grad_norm},
               {"values.train/lr", s->learning_rate},
               {"values.train/noise", r->noise},
               {"values.train/sigma_place", r->health->sigma_place},
               {"values.train/minibatches", (double)s->minibatches},
               {"values.train/skipped", (double)s->skipped},
               {"values.train/kl_stop", s->kl_stop},
               {"values.train/dropped_rounds", (double)r->dropped},
               {"values.perf/update_time", r->update_time},
               {"values.perf/rollout_time", r->round_time - r->update_time},
               {"values.perf/idle", 1 - r->update_time / r->round_time},
               {"values.perf/cpu", r->cpu_time / r->round_time},
               {"values.perf/memory_mib", peak_mib()},
               {"values.perf/fps", (double)r->steps / r->round_time}};
    struct mf_frame *m = mf_frame_new(MF_METRICS);
    mf_frame_set_int(m, "iter", r->iter);
    mf_frame_set_int(m, "step", r->step);
    mf_frame_set_num(m, "time", r->time);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (isfinite(row[i].value))
            mf_frame_set_num(m, row[i].name, row[i].value);
    return m;
}

void mf_report_row(const struct mf_frame *m, FILE *to)
{
    if ((long)number(m, "iter") % 20 == 0)
        fprintf(to, "%5s %9s %8s %9s %9s %9s %7s %7s %8s\n", "iter", "steps", "time", "success", "return", "kl", "clip",
                "ev", "steps/s");
    fprintf(to, "%5.0f %9.0f %7.1fs %8.1f%% %9.3f %9.5f %7.3f %7.3f %8.0f\n", number(m, "iter"), number(m, "step"),
            number(m, "time"), 100 * number(m, "values.rollout/success_once"), number(m, "values.rollout/ep_return"),
            number(m, "values.train/approx_kl"), number(m, "values.train/clip_fraction"),
            number(m, "values.train/explained_variance"), number(m, "values.perf/fps"));
}

void mf_report_words(const struct mf_frame *m, char *words, size_t size)
{
    snprintf(words, size, "iteration %.0f, %.0f steps in %.0f s (%.0f/s), success %.1f %% with noise, kl %.0e",
             number(m, "iter") + 1, number(m, "step"), number(m, "time"), number(m, "values.perf/fps"),
             100 * number(m, "values.rollout/success_once"), number(m, "values.train/approx_kl"));
}
