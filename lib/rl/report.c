#include "rl/report.h"

#include <math.h>
#include <sys/resource.h>

#include "base/log.h"
#include "base/number.h"

static double number(const struct mf_frame *f, const char *path)
{
    struct mf_err ignored;
    double v = NAN;
    return mf_frame_get_num(f, path, &v, &ignored) ? NAN : v;
}

/* The map of a round's episodes: those counted by their starts (episodes.h); of a collector that does not count so,
 * those that ended. */
static const char *counted(const struct mf_frame *round)
{
    return mf_frame_has(round, "counted") ? "counted" : "episodes";
}

static double of_episodes(const struct mf_frame *round, const char *field)
{
    char path[40];
    snprintf(path, sizeof path, "%s.%s", counted(round), field);
    return number(round, path);
}

/* The mean over the episodes of all sources that report it; *n: their number. NaN: none. */
static double mean(const struct mf_report *r, const char *field, double *n)
{
    double sum = 0;
    *n = 0;
    for (int i = 0; i < r->n_parts; i++) {
        const double of = of_episodes(r->parts[i].round, "n"), x = of_episodes(r->parts[i].round, field);
        if (!(of > 0) || !isfinite(x))
            continue;
        sum += of * x;
        *n += of;
    }
    return sum / *n;
}

/* The count that mf-grpo adds to every slice, over all slices of the round. NaN: a slice lacks it. */
static double of_groups(const struct mf_report *r, const char *field)
{
    char path[40];
    double sum = 0;
    snprintf(path, sizeof path, "groups.%s", field);
    for (int i = 0; i < r->n_parts; i++)
        for (int k = 0; k < r->parts[i].n; k++)
            sum += number(r->parts[i].slices[k], path);
    return sum;
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
    double ended = 0, of, length = mean(r, "length", &of), ret = mean(r, "return", &of),
           success = mean(r, "success", &of);
    const double whole = of_groups(r, "whole"), cut = of_groups(r, "cut");
    for (int i = 0; i < r->n_parts; i++)
        ended += fmax(0, number(r->parts[i].round, "episodes.n"));
    const struct {
        const char *name;
        double value;
    } row[] = {{"values.rollout/episodes", ended},
               {"values.rollout/episodes_counted", of},
               {"values.rollout/success_once", success},
               {"values.rollout/ep_return", ret},
               {"values.rollout/ep_length", length},
               {"values.rollout/groups", whole + cut},
               {"values.rollout/groups_cut", cut / (whole + cut)},
               {"values.rollout/groups_equal", of_groups(r, "equal") / whole},
               {"values.rollout/groups_single", of_groups(r, "single") / whole},
               {"values.rollout/action_saturation", r->health->action_saturation},
               {"values.rollout/obs_outside", r->health->obs_outside},
               {"values.train/policy_loss", s->policy_loss},
               {"values.train/value_loss", s->value_loss},
               {"values.train/entropy", s->entropy},
               {"values.train/rfc_loss", s->rfc_loss},
               {"values.train/reflow_mask_ratio", s->reflow_mask_ratio},
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
    static const struct {
        const char *head, *path, *fmt;
        int width;
        double unit, from;
    } column[] = {{"iter", "iter", "%.0f", 5, 1, 1},
                  {"steps", "step", "%.0f", 9, 1, 0},
                  {"time", "time", "%.1fs", 8, 1, 0},
                  {"success", "values.rollout/success_once", "%.1f%%", 9, 100, 0},
                  {"return", "values.rollout/ep_return", "%.3f", 9, 1, 0},
                  {"kl", "values.train/approx_kl", "%.3g", 9, 1, 0},
                  {"clip", "values.train/clip_fraction", "%.3f", 7, 1, 0},
                  {"ev", "values.train/explained_variance", "%.3f", 7, 1, 0},
                  {"steps/s", "values.perf/fps", "%.0f", 8, 1, 0}};
    const size_t n = sizeof column / sizeof *column;
    char text[MF_NUMBER];
    for (size_t i = 0; fmod(number(m, "iter"), 20) == 0 && i < n; i++) /* no iter: NaN */
        fprintf(to, "%*s%s", column[i].width, column[i].head, i + 1 < n ? " " : "\n");
    for (size_t i = 0; i < n; i++)
        fprintf(to, "%*s%s", column[i].width,
                mf_number(text, column[i].fmt, column[i].unit * number(m, column[i].path) + column[i].from),
                i + 1 < n ? " " : "\n");
}

void mf_report_words(const struct mf_frame *m, char *words, size_t size)
{
    char speed[MF_NUMBER], success[MF_NUMBER], gain[MF_NUMBER], kl[MF_NUMBER];
    snprintf(words, size, "iteration %.0f, %.0f steps in %.0f s (%s/s), success %s with noise, return %s, kl %s",
             number(m, "iter") + 1, number(m, "step"), number(m, "time"),
             mf_number(speed, "%.0f", number(m, "values.perf/fps")),
             mf_number(success, "%.1f %%", 100 * number(m, "values.rollout/success_once")),
             mf_number(gain, "%.3f", number(m, "values.rollout/ep_return")),
             mf_number(kl, "%.0e", number(m, "values.train/approx_kl")));
}

void mf_report_show(const struct mf_frame *m, FILE *table, bool all, double *logged_at)
{
    char words[200];
    if (table) {
        mf_report_row(m, table);
        fflush(table);
        return;
    }
    mf_report_words(m, words, sizeof words);
    mf_log_live("%s", words);
    if (all || mf_log_is_due(logged_at))
        mf_log(MF_LOG_INFO, "%s", words);
}
