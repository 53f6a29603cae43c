/* awaits.c - which of several sources are still awaited, and for how long.
 *
 * Only time spent waiting for input counts: neither training nor a slow reader counts against a source.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stage/stage_priv.h"

static const double round_times = 10; /* the limit is at least the longest round so far times this */
static const double patiences = 2;    /* times wire.patience, so that a killed source can return */
static const double behind = 2;       /* s that the reader of a pipe waits longer: the stage before it decides first */

int mf_awaits_due(const struct mf_run *run)
{
    return atoi(mf_conf_text(run->opt.conf, "collect.sources"));
}

static int count_here(const struct mf_run *run, bool gave)
{
    int n = 0;
    for (int i = 0; i < run->sources.n; i++)
        n += !*run->sources.s[i]->why && (run->sources.s[i]->next > 0 || !gave);
    return n;
}

bool mf_awaits_more(const struct mf_run *run)
{
    const int due = mf_awaits_due(run), here = count_here(run, false);
    return due > 1 && !run->complete && here < due && here < run->sources.n;
}

static double limit(const struct mf_run *run)
{
    const double of[] = {run->wire.meeting, patiences * run->wire.patience, round_times * run->longest};
    double most = 0;
    for (int i = 0; i < 3; i++)
        most = of[i] > most ? of[i] : most;
    return most;
}

void mf_awaits_moved(struct mf_run *run)
{
    run->moved = mf_port_waited(run->in);
}

void mf_awaits_begun(struct mf_run *run, struct mf_sender *s, const struct mf_frame *f)
{
    int64_t iter;
    struct mf_err ignored;
    const double now = mf_port_waited(run->in);
    const bool round = mf_frame_kind(f) == MF_ROUND;
    if (!round && mf_frame_kind(f) != MF_HEAD)
        return;
    if (round && mf_frame_get_int(f, "iter", &iter, &ignored) == 0 && iter >= s->next && iter < INT64_MAX)
        s->next = iter + 1;
    if (round && now - run->moved > run->longest)
        run->longest = now - run->moved;
    s->named = false;
    s->moved = now;
    mf_awaits_moved(run);
}

void mf_awaits_taken(struct mf_run *run)
{
    run->complete |= count_here(run, true) >= mf_awaits_due(run);
}

void mf_awaits_say(const struct mf_run *run)
{
    if (mf_awaits_more(run))
        mf_log(MF_LOG_WARN, "%s: %d of collect.sources=%d are missing; waiting for up to %.0f s", mf_port_name(run->in),
               mf_awaits_due(run) - count_here(run, false), mf_awaits_due(run), limit(run));
}

/* How long others have waited for this source's round, s; negative: none wait. */
static double waited_for(const struct mf_run *run, const struct mf_sender *s)
{
    double since = -1;
    for (int i = 0; i < run->sources.n; i++) {
        const struct mf_sender *o = run->sources.s[i];
        if (!*o->why && o->next > s->next && (since < 0 || o->moved < since))
            since = o->moved;
    }
    return since >= 0 && s->moved > since ? s->moved : since;
}

int mf_awaits_check(struct mf_run *run, struct mf_err *err)
{
    const double now = mf_port_waited(run->in), most = limit(run),
                 end = most + (mf_port_is_socket(run->in) ? 0 : behind);
    for (int i = 0; i < run->sources.n; i++) {
        struct mf_sender *s = run->sources.s[i];
        const double since = s->active ? waited_for(run, s) : -1, waited = since < 0 ? 0 : now - since;
        if (waited > end) {
            run->blamed = s;
            return mf_err_set(err, MF_EFORMAT,
                              "the others have waited %.0f s for its round: is it stuck? If it is only slow, raise "
                              "collect.policy_timeout",
                              waited);
        }
        if (waited > most / 3 && !s->named && run->stage->role == MF_SINK) {
            s->named = true;
            mf_log_rarely(
                &run->waits_named, MF_LOG_WARN,
                "%s: all sources have waited %.0f s for the round of source '%s', which is rejected after %.0f s",
                mf_port_name(run->in), waited, s->src, most);
        }
    }
    if (mf_awaits_more(run) && now - run->moved > end)
        return mf_err_set(err, MF_EIO,
                          "%s: %d of collect.sources=%d are missing, and no other one connected within %.0f s after "
                          "one was rejected: fix that source and start again, or lower collect.sources",
                          mf_port_name(run->in), mf_awaits_due(run) - count_here(run, false), mf_awaits_due(run),
                          now - run->moved);
    return 0;
}
