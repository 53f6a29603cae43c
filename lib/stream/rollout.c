#include "stream/rollout.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/learnable.h"

/* One array: its dims as letters of mf_rollout (P is K+1; a letter met first is defined by it), where its
 * pointer goes, and what needs it. */
struct array_rule {
    const char *name, *dims;
    enum mf_dtype dtype;
    enum { ALWAYS, OPTIONAL, VALUES, TRUNCATED, ACTIONS, CHAINS, SAMPLES, GROUPS, SUCCESSES, ADVANTAGES } when;
    size_t at;
};

#define AT(field) offsetof(struct mf_rollout, field)
static const struct array_rule rows[] = {
    {"rewards", "TNC", MF_F32, ALWAYS, AT(rewards)},
    {"terminated", "TN", MF_U8, ALWAYS, AT(terminated)},
    {"truncated", "TN", MF_U8, ALWAYS, AT(truncated)},
    {"valid", "TN", MF_U8, OPTIONAL, AT(valid)},
    {"loss_mask", "TN", MF_U8, OPTIONAL, AT(loss_mask)},
    {"n_exec", "TN", MF_I32, OPTIONAL, AT(n_exec)},
    {"rewards_scaled", "TN", MF_F32, OPTIONAL, AT(rewards_scaled)},
    {"prev_values", "TN", MF_F32, VALUES, AT(prev_values)},
    {"last_values", "N", MF_F32, VALUES, AT(last_values)},
    {"final_values", "TN", MF_F32, TRUNCATED, AT(final_values)},
    {"actions", "TNCA", MF_F32, ACTIONS, AT(actions)},
    {"denoise_inds", "TNK", MF_I32, CHAINS, AT(denoise_inds)},
    {"chains", "TNPHW", MF_F32, CHAINS, AT(chains)},
    {"samples", "TNHW", MF_F32, SAMPLES, AT(samples)},
    {"draws", "TN", MF_U64, OPTIONAL, AT(draws)},
    {"begins", "N", MF_U64, OPTIONAL, AT(begins)},
    {"ends", "N", MF_U64, OPTIONAL, AT(ends)},
    {"group", "TN", MF_I32, GROUPS, AT(group)},
    {"success", "TN", MF_U8, SUCCESSES, AT(success)},
    {"advantages", "TN", MF_F32, ADVANTAGES, AT(advantages)},
    {"returns", "TN", MF_F32, ADVANTAGES, AT(returns)},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* The size that a letter stands for; 0 until it is known. */
static size_t *dim_of(struct mf_rollout *r, char letter, size_t *plus)
{
    *plus = letter == 'P';
    switch (letter) {
    case 'T':
        return &r->T;
    case 'N':
        return &r->N;
    case 'C':
        return &r->C;
    case 'A':
        return &r->A;
    case 'H':
        return &r->H;
    case 'W':
        return &r->W;
    default:
        return &r->K;
    }
}

struct sentence {
    char text[160];
    size_t used;
};

static void say(struct sentence *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct sentence *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(w->text + w->used, sizeof w->text - w->used, fmt, ap);
    va_end(ap);
    w->used += n > 0 && (size_t)n < sizeof w->text - w->used ? (size_t)n : 0;
}

/* "(64, 8, 4)" */
static struct sentence shape_of(const struct mf_array *a)
{
    struct sentence w = {.used = 0};
    say(&w, "(");
    for (int i = 0; i < a->rank; i++)
        say(&w, "%s%zu", i ? ", " : "", a->dim[i]);
    say(&w, ")");
    return w;
}

/* "(T=64, N=8, K+1)" */
static struct sentence wanted(struct mf_rollout *r, const char *dims)
{
    struct sentence w = {.used = 0};
    for (const char *d = dims; *d; d++) {
        size_t plus, *dim = dim_of(r, *d, &plus);
        say(&w, d == dims ? "(" : ", ");
        if (plus)
            say(&w, "K+1");
        else
            say(&w, "%c", *d);
        if (*dim)
            say(&w, "=%zu", *dim + plus);
    }
    say(&w, ")");
    return w;
}

static int check_shape(struct mf_rollout *r, const struct array_rule *row, const struct mf_array *a, struct mf_err *err)
{
    bool fits = a->rank == (int)strlen(row->dims);
    struct sentence want = wanted(r, row->dims);
    for (int i = 0; fits && i < a->rank; i++) {
        size_t plus, *dim = dim_of(r, row->dims[i], &plus);
        if (!*dim && a->dim[i] > plus)
            *dim = a->dim[i] - plus;
        fits = *dim && a->dim[i] == *dim + plus && (row->dims[i] != 'W' || *dim >= r->A);
    }
    if (!fits)
        return mf_err_set(err, MF_EFORMAT, "'%s' has shape %s, expected %s", row->name, shape_of(a).text, want.text);
    /* A flag from Python may well be a bool; its bytes are the same. */
    if (a->dtype != row->dtype && !(row->dtype == MF_U8 && a->dtype == MF_B1))
        return mf_err_set(err, MF_EFORMAT, "'%s' has dtype %s, expected %s: numpy's .astype('%s') makes it so",
                          row->name, mf_dtype_name(a->dtype), mf_dtype_name(row->dtype), mf_dtype_name(row->dtype));
    return 0;
}

static bool masked(const struct mf_rollout *r, size_t i)
{
    return (r->valid && !r->valid[i]) || (r->loss_mask && !r->loss_mask[i]);
}

/* Final values are read only there: where both flags are set, terminated wins. */
static bool cut_off(const struct mf_rollout *r, size_t i)
{
    return r->truncated[i] && !r->terminated[i];
}

static bool any_cut_off(const struct mf_rollout *r)
{
    for (size_t i = 0; i < r->T * r->N; i++)
        if (cut_off(r, i) && !masked(r, i))
            return true;
    return false;
}

static bool wants(const struct array_rule *row, unsigned need)
{
    switch (row->when) {
    case ALWAYS:
    case OPTIONAL:
        return true;
    case VALUES:
    case TRUNCATED:
        return need & MF_NEED_VALUES;
    case ACTIONS:
        return need & (MF_NEED_CHAINS | MF_NEED_SAMPLES);
    case CHAINS:
        return need & MF_NEED_CHAINS;
    case SAMPLES:
        return need & MF_NEED_SAMPLES;
    case GROUPS:
        return need & MF_NEED_GROUPS;
    case SUCCESSES:
        return need & MF_NEED_SUCCESS;
    default:
        return need & MF_NEED_ADVANTAGES;
    }
}

/* Which program adds the missing array. */
static const char *maker(const struct array_rule *row)
{
    switch (row->when) {
    case VALUES:
        return ": a collector that acts by a policy with a critic sends it, a scripted expert does not";
    case ACTIONS:
    case CHAINS:
    case SAMPLES:
        return ": a collector that acts by a policy sends it, a scripted expert does not";
    case SUCCESSES:
        return ": mf-collect sends it";
    case GROUPS:
        return ": mf-collect collect.group=8 sends it, for groups of 8 environments";
    case TRUNCATED:
        return ", since an episode was truncated: V of its true last observation";
    case ADVANTAGES:
        return ": mf-gae, mf-mc, mf-nstep or mf-grpo, before this, adds it";
    default:
        return "";
    }
}

static int bind_row(struct mf_rollout *r, const struct array_rule *row, const struct mf_frame *f, struct mf_err *err)
{
    const struct mf_array *a = mf_frame_find(f, row->name);
    char path[MF_NAME_MAX];
    snprintf(path, sizeof path, "arrays.%s", row->name);
    if (!a && mf_frame_has(f, path))
        return mf_err_set(err, MF_EFORMAT, "'%s' is not an array of a known type, expected %s", row->name,
                          mf_dtype_name(row->dtype));
    if (!a && (row->when == OPTIONAL || (row->when == TRUNCATED && !any_cut_off(r))))
        return 0;
    if (!a)
        return mf_err_set(err, MF_EFORMAT, "there is no array '%s', expected %s%s", row->name,
                          wanted(r, row->dims).text, maker(row));
    int rc = check_shape(r, row, a, err);
    if (!rc)
        memcpy((char *)r + row->at, &a->data, sizeof a->data);
    return rc;
}

/* ---- NaN, infinity and ranges of numbers that are read ---- */

/* The first of [from, from + n) that nothing can be learned from; n: none. */
static size_t bad_at(const struct mf_array *a, size_t from, size_t n)
{
    const double *d = a->data;
    size_t i = 0;
    if (a->dtype == MF_F32)
        return mf_unlearnable_at((const float *)a->data + from, n);
    while (i < n && (a->dtype != MF_F64 || mf_learnable(d[from + i])))
        i++;
    return i;
}

static int bad_element(const struct mf_array *a, size_t i, const char *what, struct mf_err *err)
{
    size_t index[MF_RANK_MAX];
    struct sentence w = {.used = 0};
    for (int d = a->rank - 1; d >= 0; i /= a->dim[d], d--)
        index[d] = i % a->dim[d];
    for (int d = 0; d < a->rank; d++)
        say(&w, "%s%zu", d ? "," : "", index[d]);
    return mf_err_set(err, MF_EFORMAT, "%s[%s] is %s", a->name, w.text, what);
}

/* Element i, which is element `at` of those that are here. */
static int bad_number(const struct mf_array *a, size_t i, size_t at, const char *where, struct mf_err *err)
{
    char what[160], finite[32];
    double x = a->dtype == MF_F32 ? (double)((const float *)a->data)[at] : ((const double *)a->data)[at];
    snprintf(finite, sizeof finite, "%g", x);
    snprintf(what, sizeof what, "%s%s, %s",
             isnan(x)   ? "NaN"
             : isinf(x) ? "infinite"
                        : finite,
             mf_unlearnable_why(x), where);
    return bad_element(a, i, what, err);
}

/* An array of rows (t, n), of which those from first to before end are here; final: it is read only where an episode
 * was truncated. */
static int check_rows(const struct mf_rollout *r, const struct mf_array *a, size_t first, size_t end, bool final,
                      struct mf_err *err)
{
    const size_t inner = a->count / (r->T * r->N), here = (end - first) * inner;
    if (bad_at(a, 0, here) == here)
        return 0; /* the usual case */
    for (size_t i = first; i < end; i++) {
        if (masked(r, i) || (final && !cut_off(r, i)))
            continue;
        size_t at = (i - first) * inner, bad = bad_at(a, at, inner);
        if (bad < inner)
            return bad_number(a, i * inner + bad, at + bad, "and neither valid nor loss_mask masks it", err);
    }
    return 0;
}

/* V after the last step is read where the episode continues. */
static int check_last(const struct mf_rollout *r, const struct mf_array *a, struct mf_err *err)
{
    for (size_t n = 0, i = (r->T - 1) * r->N; n < r->N; n++, i++)
        if (!masked(r, i) && !r->terminated[i] && !r->truncated[i] && bad_at(a, n, 1) == 0)
            return bad_number(a, n, n, "and its episode goes on", err);
    return 0;
}

/* What masks rows is read in all of them. */
static int check_range(const struct mf_rollout *r, const struct mf_array *a, int32_t low, int32_t high,
                       struct mf_err *err)
{
    size_t inner = a->count / (r->T * r->N);
    const uint8_t *flag = mf_dtype_size(a->dtype) == 1 ? a->data : NULL;
    const bool masks = flag && (flag == r->valid || flag == r->loss_mask);
    char what[80];
    for (size_t i = 0; i < a->count; i++) {
        const int32_t v = flag ? flag[i] : ((const int32_t *)a->data)[i];
        if ((v < low || v > high) && (masks || !masked(r, i / inner))) {
            snprintf(what, sizeof what, "%d, not within %d..%d", v, low, high);
            return bad_element(a, i, what, err);
        }
    }
    return 0;
}

static int check_values(const struct mf_rollout *r, const struct mf_frame *f, unsigned need, struct mf_err *err)
{
    int rc = 0;
    for (int i = 0; i < ROWS && !rc; i++) {
        const struct mf_array *a = wants(&rows[i], need) ? mf_frame_find(f, rows[i].name) : NULL;
        if (!a)
            continue;
        if (rows[i].at == AT(last_values))
            rc = check_last(r, a, err);
        else if (rows[i].at == AT(n_exec))
            rc = check_range(r, a, 1, (int32_t)r->C, err);
        else if (rows[i].at == AT(denoise_inds))
            rc = check_range(r, a, -1, (int32_t)r->K - 1, err);
        else if (rows[i].dtype == MF_U8)
            rc = check_range(r, a, 0, 1, err);
        else
            rc = check_rows(r, a, 0, r->T * r->N, rows[i].when == TRUNCATED, err);
    }
    return rc;
}

/* An observation as if all of it were here. */
static struct mf_array whole(const struct mf_rollout *r, const struct mf_array *a)
{
    struct mf_array all = *a;
    if (r->shares == 1 || a->rank < 2 || a->dim[0] != 1 || a->dim[1] != r->end - r->first)
        return all;
    all.dim[0] = r->T;
    all.dim[1] = r->N;
    all.count = a->count / a->dim[1] * r->T * r->N;
    return all;
}

/* The observations, of any names, and the log-probs, whose shape depends on the objective. */
static int bind_open_shapes(struct mf_rollout *r, const struct mf_frame *f, unsigned need, struct mf_err *err)
{
    int observations = 0;
    r->prev_logprobs = mf_frame_find(f, "prev_logprobs");
    if (!r->prev_logprobs && need & (MF_NEED_CHAINS | MF_NEED_ADVANTAGES))
        return mf_err_set(err, MF_EFORMAT, "there is no array 'prev_logprobs'");
    for (int i = 0; i < mf_frame_arrays(f); i++) {
        const struct mf_array *here = mf_frame_array(f, i);
        const bool obs = mf_is_observation(here);
        const struct mf_array a = obs ? whole(r, here) : *here;
        observations += obs;
        if (!obs && here != r->prev_logprobs)
            continue;
        if (a.rank < 2 || a.dim[0] != r->T || a.dim[1] != r->N)
            return mf_err_set(err, MF_EFORMAT, "'%s' has shape %s, expected %s first", a.name, shape_of(&a).text,
                              wanted(r, "TN").text);
        if (!obs && a.dtype != MF_F32)
            return mf_err_set(err, MF_EFORMAT, "'%s' has dtype %s, expected <f4", a.name, mf_dtype_name(a.dtype));
        int rc = check_rows(r, &a, obs ? r->first : 0, obs ? r->end : r->T * r->N, false, err);
        if (rc)
            return rc;
    }
    return observations ? 0 : mf_err_set(err, MF_EFORMAT, "there is no array 'obs/..'");
}

/* Its iteration, slice and environments. Slices are optional: a hand-made rollout may be whole. */
static int bind_fields(struct mf_rollout *r, const struct mf_frame *f, struct mf_err *err)
{
    int64_t envs = (int64_t)r->N;
    int rc = 0;
    r->share = mf_frame_share(f, &r->shares);
    r->first = mf_share_first(r->T * r->N, r->share, r->shares);
    r->end = mf_share_first(r->T * r->N, r->share + 1, r->shares);
    r->slices = 1;
    if (mf_frame_has(f, "slice"))
        (void)((rc = mf_frame_get_int(f, "slice.0", &r->slice, err)) ||
               (rc = mf_frame_get_int(f, "slice.1", &r->slices, err)));
    if (!rc && mf_frame_has(f, "envs"))
        (void)((rc = mf_frame_get_int(f, "envs.0", &r->first_env, err)) ||
               (rc = mf_frame_get_int(f, "envs.1", &envs, err)));
    if (!rc && mf_frame_has(f, "normalized"))
        rc = mf_frame_get_bool(f, "normalized", &r->normalized, err);
    if (!rc && (r->slice < 0 || r->slice >= r->slices || r->first_env < 0 || r->first_env > INT32_MAX ||
                envs != (int64_t)r->N))
        rc = mf_err_set(err, MF_EFORMAT, "slice [%lld, %lld] or envs [%lld, %lld] does not fit N=%zu",
                        (long long)r->slice, (long long)r->slices, (long long)r->first_env, (long long)envs, r->N);
    return rc;
}

int mf_rollout_bind(struct mf_rollout *r, const struct mf_frame *f, unsigned need, struct mf_err *err)
{
    *r = (struct mf_rollout){.iter = 0};
    int rc = mf_frame_get_int(f, "iter", &r->iter, err);
    if (rc)
        return rc;
    for (int i = 0; i < ROWS && !rc; i++)
        if (wants(&rows[i], need))
            rc = bind_row(r, &rows[i], f, err);
    if (!rc)
        rc = bind_fields(r, f, err);
    if (!rc)
        rc = check_values(r, f, need, err);
    if (!rc && need & (MF_NEED_CHAINS | MF_NEED_SAMPLES))
        rc = bind_open_shapes(r, f, need, err);
    return rc ? mf_err_at(err, "the rollout of iteration %lld", (long long)r->iter) : 0;
}
