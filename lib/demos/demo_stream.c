#include "demos/demo_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "demos/outcomes.h"

struct mf_demo_stream {
    struct mf_demos demos;
    struct mf_outcomes outcomes;
    char env[64];
    size_t next, at, longest; /* the next frame; the first step of its demonstration; T */
    struct {
        int64_t n, length, success;
        double ret;
    } episodes;
};

int mf_demo_stream_open(struct mf_demo_stream **out, const char *path, const struct mf_demos_opts *opts,
                        struct mf_err *err)
{
    struct mf_demo_stream *s = mf_xcalloc(1, sizeof *s);
    int rc = mf_demos_open(&s->demos, path, opts, err);
    rc = rc ? rc : mf_outcomes_read(&s->outcomes, &s->demos, err);
    rc = rc ? rc : mf_demos_env(path, s->env, err);
    for (size_t i = 0; i < s->demos.n_demos; i++)
        s->longest = s->demos.demo[i].n > s->longest ? s->demos.demo[i].n : s->longest;
    if (rc)
        mf_demo_stream_close(s);
    else
        *out = s;
    return rc;
}

void mf_demo_stream_close(struct mf_demo_stream *s)
{
    if (!s)
        return;
    mf_outcomes_release(&s->outcomes);
    mf_demos_close(&s->demos);
    free(s);
}

/* A column of a demonstration: obs/KEY (T, 1, 1, ..), or the actions (T, 1, 1, A). */
static int add_column(struct mf_demo_stream *s, struct mf_frame *f, int column, size_t demo, struct mf_err *err)
{
    const struct mf_demo_column *k = &s->demos.column[column];
    size_t dim[3 + MF_OBS_RANK] = {s->longest, 1, 1}, n;
    const void *rows;
    char name[MF_NAME_MAX];
    void *to;
    for (int i = 0; i < mf_obs_rank(&k->is); i++)
        dim[3 + i] = (size_t)k->is.dim[i];
    snprintf(name, sizeof name, "%s%s", column == MF_DEMO_ACTIONS ? "" : "obs/", k->is.name);
    int rc = mf_frame_add(f, name, k->is.u8 ? MF_U8 : MF_F32, 3 + mf_obs_rank(&k->is), dim, &to, err);
    for (size_t t = 0; rc == 0 && t < s->demos.demo[demo].n; t += n)
        if ((rc = mf_demos_rows(&s->demos, column, demo, t, &rows, &n, err)) == 0)
            memcpy((char *)to + t * k->bytes, rows, n * k->bytes);
    return rc;
}

static int add_outcomes(struct mf_demo_stream *s, struct mf_frame *f, size_t steps, struct mf_err *err)
{
    const size_t dim[] = {s->longest, 1, 1};
    void *rewards, *terminated, *truncated, *valid, *success, *n_exec;
    int rc;
    if ((rc = mf_frame_add(f, "rewards", MF_F32, 3, dim, &rewards, err)) ||
        (rc = mf_frame_add(f, "terminated", MF_U8, 2, dim, &terminated, err)) ||
        (rc = mf_frame_add(f, "truncated", MF_U8, 2, dim, &truncated, err)) ||
        (rc = mf_frame_add(f, "valid", MF_U8, 2, dim, &valid, err)) ||
        (rc = mf_frame_add(f, "success", MF_U8, 2, dim, &success, err)) ||
        (rc = mf_frame_add(f, "n_exec", MF_I32, 2, dim, &n_exec, err)))
        return rc;
    memcpy(rewards, s->outcomes.rewards + s->at, steps * sizeof(float));
    for (size_t t = 0; t < steps; t++) {
        const uint8_t end = s->outcomes.end[s->at + t];
        ((uint8_t *)terminated)[t] = end == MF_DEMO_TERMINATED;
        ((uint8_t *)truncated)[t] = end == MF_DEMO_CUT;
        ((uint8_t *)valid)[t] = 1;
        ((int32_t *)n_exec)[t] = 1;
        ((uint8_t *)success)[t] = end != MF_DEMO_GOES_ON && s->outcomes.success[s->at + t];
        s->episodes.ret += (double)s->outcomes.rewards[s->at + t];
        s->episodes.n += end != MF_DEMO_GOES_ON;
        s->episodes.success += ((uint8_t *)success)[t];
    }
    s->episodes.length += (int64_t)steps;
    return 0;
}

static int rollout(struct mf_demo_stream *s, size_t demo, struct mf_frame *f, struct mf_err *err)
{
    const size_t steps = s->demos.demo[demo].n;
    int rc = 0;
    mf_frame_set_int(f, "iter", 0);
    mf_frame_set_str(f, "src", "");
    mf_frame_set_ints(f, "slice", (int64_t[]){(int64_t)demo, (int64_t)s->demos.n_demos}, 2);
    mf_frame_set_ints(f, "envs", (int64_t[]){(int64_t)demo, 1}, 2);
    for (int k = 1; rc == 0 && k < s->demos.n_columns; k++)
        rc = add_column(s, f, k, demo, err);
    rc = rc ? rc : add_column(s, f, MF_DEMO_ACTIONS, demo, err);
    rc = rc ? rc : add_outcomes(s, f, steps, err);
    s->at += steps;
    return rc;
}

static void round_of(const struct mf_demo_stream *s, struct mf_frame *f)
{
    const double n = (double)s->episodes.n; /* every demonstration ends one */
    mf_frame_set_int(f, "iter", 0);
    mf_frame_set_str(f, "src", "");
    mf_frame_set_int(f, "slices", (int64_t)s->demos.n_demos);
    mf_frame_set_int(f, "episodes.n", s->episodes.n);
    mf_frame_set_num(f, "episodes.return", s->episodes.ret / n);
    mf_frame_set_num(f, "episodes.length", (double)s->episodes.length / n);
    mf_frame_set_num(f, "episodes.success", (double)s->episodes.success / n);
}

static void end_of(const struct mf_demo_stream *s, struct mf_frame *f)
{
    mf_frame_set_str(f, "src", "");
    mf_frame_set_int(f, "frames", (int64_t)s->demos.n_demos + 2);
    mf_frame_set_int(f, "samples", (int64_t)(s->demos.n_demos * s->longest));
    mf_frame_set_bool(f, "stopped", false);
}

int mf_demo_stream_next(struct mf_demo_stream *s, struct mf_frame **f, struct mf_err *err)
{
    const size_t n = s->demos.n_demos, i = s->next++;
    int rc = 0;
    if (i > n + 2)
        return 0;
    *f = i == 0 ? mf_frame_head("", "", 0) : mf_frame_new(i <= n ? MF_ROLLOUT : i == n + 1 ? MF_ROUND : MF_END);
    if (i == 0)
        mf_frame_set_str(*f, "spec.robomimic_name", s->env);
    else if (i <= n)
        rc = rollout(s, i - 1, *f, err);
    else if (i == n + 1)
        round_of(s, *f);
    else
        end_of(s, *f);
    if (rc)
        mf_frame_free(*f);
    return rc ? rc : 1;
}
