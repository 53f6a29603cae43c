#include "learn/saves.h"

#include <stdio.h>

#include "base/log.h"
#include "flow/policy.h"
#include "run/runs.h"

enum { NEWEST = 3 };
static const double SMALL = 64 << 20; /* bytes */

static void size_text(double bytes, char text[32])
{
    const bool giga = bytes >= 1e3 * (1 << 20);
    snprintf(text, 32, giga ? "%.1f GiB" : "%.0f MiB", bytes / (giga ? 1 << 30 : 1 << 20));
}

void mf_saves_say(const struct mf_saves *s, const struct mf_trainer *t)
{
    const double bytes = mf_trainer_checkpoint_bytes(t);
    char one[32], all[32], rate[40] = "each iteration";
    if (bytes < SMALL)
        return;
    size_text(bytes, one);
    size_text(bytes * (double)(s->keep + NEWEST), all);
    if (s->every > 1)
        snprintf(rate, sizeof rate, "every %lld iterations", (long long)s->every);
    mf_log(MF_LOG_INFO, "a checkpoint takes %s and is saved %s (training.save_every); the folder will hold %s%s", one,
           rate, s->keep ? "up to " : "all permanent ones (training.keep_checkpoints=0)", s->keep ? all : "");
}

/* No other save follows this error. */
static int lose(struct mf_trainer *t, struct mf_err *err)
{
    t->torn = true;
    const long long first = t->policy.saved, last = t->policy.version - 1;
    return first == last ? mf_err_at(err, "iteration %lld is lost, as it cannot be saved", first)
                         : mf_err_at(err, "iterations %lld to %lld are lost, as they cannot be saved", first, last);
}

static int save(const struct mf_saves *s, struct mf_trainer *t, struct mf_workdir *w, struct mf_err *err)
{
    const struct mf_rundir_kept kept = {.newest = NEWEST, .every = s->every, .interval = s->interval, .most = s->keep};
    char path[MF_PATH_MAX];
    mf_runs_version(w->path, t->policy.version, path);
    if (mf_trainer_save(t, path, err))
        return lose(t, err);
    if (!s->leads)
        return 0;
    mf_rundir_begun(w->own ? &w->mine : &w->stream);
    mf_rundir_prune(w->path, t->policy.version, &kept);
    return 0;
}

int mf_saves_next(const struct mf_saves *s, struct mf_trainer *t, struct mf_workdir *w, struct mf_err *err)
{
    char path[MF_PATH_MAX];
    if (t->policy.version % s->every == 0)
        return save(s, t, w, err);
    mf_runs_version(w->path, t->policy.version, path);
    return s->leads && mf_trainer_keep(t, path, err) ? lose(t, err) : 0;
}

int mf_saves_last(const struct mf_saves *s, struct mf_trainer *t, struct mf_workdir *w, const struct mf_frame *metrics,
                  const struct mf_frame *head, struct mf_err *err)
{
    const struct mf_policy *p = &t->policy;
    if (t->torn || p->saved == p->version)
        return 0;
    int rc = save(s, t, w, err);
    if (rc == 0 && metrics && s->leads)
        mf_rundir_note(w->path, p->version, metrics, head);
    return rc;
}
