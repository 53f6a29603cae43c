#include "learn/source.h"

#include <signal.h>

#include "base/clock.h"
#include "flow/frames.h"
#include "rl/slices.h"

int64_t mf_source_due(const struct mf_source *s)
{
    const int64_t first = s->iter < s->made ? s->again : s->first, due = s->iter - s->max_lag;
    return !s->met ? MF_EDGE_NEWEST : due > first ? due : first;
}

/* Continues where the learner does, as the previous source of this name if there was one. */
static int join(struct mf_source *s, const struct mf_edge_policy *got, struct mf_err *err)
{
    bool exact = true;
    int rc = got->state ? mf_actor_load(s->actor, got->state, got->state_size, &exact, err) : 0;
    if (rc)
        return rc;
    if (!exact)
        mf_log(MF_LOG_WARN, "this resume is not exact: the environments of %s cannot be saved and start new episodes",
               s->actor->opts.vec.env->name);
    mf_backlog_release(&s->sent);
    s->iter = s->made = s->first = got->version;
    s->begun = true;
    return 0;
}

/* The new reader continues at a version; it gets the rounds from there on. */
static int join_again(struct mf_source *s, const struct mf_edge_policy *got, struct mf_err *err)
{
    int n;
    if (got->version == s->made || mf_backlog_find(&s->sent, got->version, &n)) {
        mf_log(MF_LOG_INFO, "a new reader connected: sending the %lld rounds that it lacks",
               (long long)(s->made - got->version));
        s->iter = got->version;
        return 0;
    }
    if (got->version < s->made && !got->state)
        return mf_err_set(err, MF_EIO,
                          "the learner restarted at iteration %lld, where this source was not there yet: it joined at "
                          "%lld; start it again",
                          (long long)got->version, (long long)s->first);
    mf_log(MF_LOG_INFO, "a new reader connected: collecting anew from iteration %lld on, whose rounds are not kept",
           (long long)got->version);
    return join(s, got, err);
}

int mf_source_fetch(struct mf_run *run, struct mf_source *s, int64_t version, struct mf_err *err)
{
    struct mf_edge_policy got;
    const double since = mf_now();
    int rc = mf_edge_want(s->edge, s->src, version, mf_run_out(run), s->timeout, &got, err);
    mf_run_waited(run, mf_now() - since);
    if (rc == 1) {
        s->met = false;
        return MF_SOURCE_HEAD;
    }
    if (rc == MF_STOPPED && mf_stop_signal() == SIGINT)
        return 1;
    rc = rc ? rc : mf_policy_decode(s->policy, got.parts, got.sizes, got.n, err);
    if (rc == 0 && !s->met)
        rc = s->begun ? join_again(s, &got, err) : join(s, &got, err);
    if (rc)
        return rc;
    s->again = s->met ? s->again : got.version;
    s->met = true;
    mf_backlog_done(&s->sent, s->policy->saved);
    return 0;
}

int mf_source_send(struct mf_run *run, struct mf_source *s, int64_t slices, struct mf_err *err)
{
    const struct mf_slices cut = mf_slices_cut(s->actor, slices, s->made++, s->src);
    const bool keeps = s->edge && mf_port_is_socket(mf_run_out(run));
    int rc = 0;
    for (int k = 0; rc == 0 && k <= cut.of; k++) { /* the round frame is the last one */
        struct mf_frame *f;
        rc = k < cut.of ? mf_slices_frame(&cut, k, &f, err) : mf_slices_round(&cut, &f, err);
        if (rc == 0 && keeps)
            mf_backlog_keep(&s->sent, f);
        rc = rc ? rc : mf_emit(run, f, err);
        mf_frame_free(f);
    }
    s->iter = s->made;
    return rc;
}

int mf_source_send_again(struct mf_run *run, struct mf_source *s, struct mf_err *err)
{
    int n = 0, rc = 0;
    struct mf_frame *const *f = mf_backlog_find(&s->sent, s->iter++, &n);
    for (int i = 0; rc == 0 && i < n; i++)
        rc = mf_emit(run, f[i], err);
    return rc;
}

void mf_source_release(struct mf_source *s)
{
    mf_backlog_release(&s->sent);
}
