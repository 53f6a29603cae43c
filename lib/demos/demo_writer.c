#include "demos/demo_writer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "stream/json.h"

/* The parts of a rollout frame that demonstrations need. */
struct steps {
    const struct mf_frame *f;
    const struct mf_array *actions, *rewards, *n_exec, *valid, *terminated, *truncated, *task;
    size_t T, N, C;
    int64_t frame, iter, first_env;
};

int mf_demo_writer_open(struct mf_demo_writer *w, hid_t file, struct mf_err *err)
{
    w->data = H5Gcreate2(file, "data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    return w->data < 0 ? mf_h5_fail(err, "cannot create /data") : 0;
}

/* env_args as robomimic's EnvUtils reads them: type 1 is robosuite, 2 gym. NULL: no memory, and the file says {}. */
static char *env_args(const struct mf_frame *head)
{
    struct mf_err ignored;
    const char *name = "";
    bool robosuite = mf_frame_get_str(head, "spec.robomimic_name", &name, &ignored) == 0 && *name;
    if (!robosuite && mf_frame_get_str(head, "spec.env", &name, &ignored))
        name = "";
    json_t *args =
        json_pack("{s:o, s:i, s:{}}", "env_name", mf_json_text(name), "type", robosuite ? 1 : 2, "env_kwargs");
    char *text = json_dumps(args, 0);
    json_decref(args);
    return text;
}

/* An array over (T, N), checked against the actions' T and N. Missing: NULL. */
static int find(const struct steps *p, const char *name, int rank, enum mf_dtype dtype, const struct mf_array **a,
                struct mf_err *err)
{
    *a = mf_frame_find(p->f, name);
    if (*a && (*a)->dtype != dtype && !(dtype == MF_U8 && (*a)->dtype == MF_B1))
        return mf_err_set(err, MF_EFORMAT, "array '%s' has dtype %s, expected %s: numpy's .astype('%s') makes it so",
                          name, mf_dtype_name((*a)->dtype), mf_dtype_name(dtype), mf_dtype_name(dtype));
    if (*a && ((*a)->rank != rank || (*a)->dim[0] != p->T || (*a)->dim[1] != p->N))
        return mf_err_set(err, MF_EFORMAT, "array '%s' has not the shape (%zu, %zu%s) that the actions have", name,
                          p->T, p->N, rank > 2 ? ", ..." : "");
    return 0;
}

static bool flag(const struct mf_array *a, size_t i, bool otherwise)
{
    return a ? ((const uint8_t *)a->data)[i] != 0 : otherwise;
}

/* A dataset with its checksum; 1: no dataset can have that name. */
static int put_set(hid_t demo, const char *name, enum mf_dtype dtype, int rank, const hsize_t *dim, const void *data,
                   size_t bytes, struct mf_err *err)
{
    hid_t set;
    int rc = mf_h5_try(demo, name, dtype, rank, dim, data, &set, err);
    if (rc)
        return rc;
    rc = mf_h5_set_int(set, "mf_crc32", mf_h5_crc(data, bytes), err);
    mf_h5_close(set);
    return rc;
}

/* Rows [t0, t1) of environment n into demo/name: `bytes` of each row of the array from its byte `skip` on. */
static int put_rows(hid_t demo, const struct steps *p, const struct mf_array *a, const char *name, int rank,
                    const hsize_t *dim, size_t skip, size_t n, size_t t0, struct mf_err *err)
{
    size_t rows = (size_t)dim[0], bytes = mf_dtype_size(a->dtype), row = a->bytes / p->T / p->N;
    for (int i = 1; i < rank; i++)
        bytes *= (size_t)dim[i];
    char *to;
    int rc = mf_alloc((void **)&to, rows * bytes, "a demonstration", err);
    if (rc)
        return rc;
    for (size_t t = 0; t < rows; t++)
        memcpy(to + t * bytes, (const char *)a->data + ((t0 + t) * p->N + n) * row + skip, bytes);
    rc = put_set(demo, name, a->dtype, rank, dim, to, rows * bytes, err);
    free(to);
    return rc;
}

/* obs/KEY (T, N, To, ...): the newest of the To frames. */
static int put_obs(hid_t demo, const struct steps *p, const struct mf_array *a, size_t n, size_t t0, size_t rows,
                   struct mf_err *err)
{
    hsize_t dim[MF_RANK_MAX] = {rows};
    size_t To = a->rank > 2 ? a->dim[2] : 1, row = a->bytes / p->T / p->N;
    int rank = 1;
    for (int i = 3; i < a->rank; i++)
        dim[rank++] = a->dim[i];
    if (To == 0 || row == 0)
        return 0;
    int rc = put_rows(demo, p, a, a->name, rank, dim, row - row / To, n, t0, err);
    return rc > 0 ? 0 : rc; /* the array lies in /mf in any case */
}

/* Executed actions of a chunk: rewards behind them may hold anything. */
static size_t executed(const struct steps *p, size_t i)
{
    const int32_t n = p->n_exec ? ((const int32_t *)p->n_exec->data)[i] : (int32_t)p->C;
    return n < 0 ? 0 : (size_t)n < p->C ? (size_t)n : p->C;
}

/* Rewards summed over the executed part of the chunk, and the ends of episodes: `dones` has those by a time limit, too.
 */
static int put_scalars(hid_t demo, const struct steps *p, size_t n, size_t t0, size_t rows, struct mf_err *err)
{
    hsize_t dim = rows;
    float *rewards = mf_xcalloc(rows, sizeof *rewards);
    uint8_t *dones = mf_xcalloc(rows, 1), *terminated = mf_xcalloc(rows, 1);
    for (size_t t = 0; t < rows; t++) {
        size_t i = (t0 + t) * p->N + n;
        terminated[t] = flag(p->terminated, i, false);
        dones[t] = terminated[t] || flag(p->truncated, i, false);
        for (size_t c = 0; p->rewards && c < executed(p, i); c++)
            rewards[t] += ((const float *)p->rewards->data)[i * p->C + c];
    }
    int rc = p->rewards ? put_set(demo, "rewards", MF_F32, 1, &dim, rewards, rows * sizeof *rewards, err) : 0;
    rc = rc ? rc : put_set(demo, "dones", MF_U8, 1, &dim, dones, rows, err);
    rc = rc ? rc : put_set(demo, "terminated", MF_U8, 1, &dim, terminated, rows, err);
    free(dones);
    free(terminated);
    free(rewards);
    return rc;
}

/* The task of step i in words. */
static int put_language(const struct mf_demo_writer *w, const struct steps *p, size_t i, hid_t demo, struct mf_err *err)
{
    int32_t k = p->task ? ((const int32_t *)p->task->data)[i] : -1;
    const char *line = k < 0 ? NULL : w->tasks;
    for (; line && k > 0; k--)
        line = (line = strchr(line, '\n')) ? line + 1 : NULL;
    if (!line)
        return 0;
    char *text = strndup(line, strcspn(line, "\n"));
    int rc = mf_h5_set_text(demo, "language", text, err);
    free(text);
    return rc;
}

static int put_demo(struct mf_demo_writer *w, const struct steps *p, size_t n, size_t t0, size_t rows,
                    struct mf_err *err)
{
    char name[32];
    snprintf(name, sizeof name, "demo_%lld", (long long)w->n_demos++);
    w->total += (int64_t)rows;
    hid_t demo = H5Gcreate2(w->data, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (demo < 0)
        return mf_h5_fail(err, "cannot create /data/%s", name);
    const struct mf_array *a = p->actions;
    size_t row = a->count / p->T / p->N;
    int rc = put_rows(demo, p, a, "actions", 2, (hsize_t[]){rows, row}, 0, n, t0, err);
    rc = rc ? rc : put_scalars(demo, p, n, t0, rows, err);
    for (int i = 0; i < mf_frame_arrays(p->f) && rc == 0; i++) {
        a = mf_frame_array(p->f, i);
        if (!strncmp(a->name, "obs/", 4))
            rc = put_obs(demo, p, a, n, t0, rows, err);
    }
    rc = rc ? rc : put_language(w, p, t0 * p->N + n, demo, err);
    rc = rc ? rc : mf_h5_set_int(demo, "num_samples", (int64_t)rows, err);
    rc = rc ? rc : mf_h5_set_int(demo, "mf_iter", p->iter, err);
    rc = rc ? rc : mf_h5_set_int(demo, "mf_env", p->first_env + (int64_t)n, err);
    rc = rc ? rc : mf_h5_set_int(demo, "mf_frame", p->frame, err);
    rc = rc ? rc : mf_h5_set_int(demo, "mf_t0", (int64_t)t0, err);
    rc = rc ? rc : mf_h5_set_int(demo, "mf_n", (int64_t)n, err);
    mf_h5_close(demo);
    return rc;
}

static int bind(struct steps *p, const struct mf_frame *f, int64_t frame, struct mf_err *err)
{
    struct mf_err ignored;
    *p = (struct steps){.f = f, .frame = frame, .actions = mf_frame_find(f, "actions")};
    if (!p->actions || p->actions->count == 0)
        return 1;
    if (p->actions->rank != 4)
        return mf_err_set(err, MF_EFORMAT, "array 'actions' has %d dimensions, not (T, N, C, A)", p->actions->rank);
    p->T = p->actions->dim[0], p->N = p->actions->dim[1], p->C = p->actions->dim[2];
    int rc = find(p, "rewards", 3, MF_F32, &p->rewards, err);
    rc = rc ? rc : find(p, "n_exec", 2, MF_I32, &p->n_exec, err);
    rc = rc ? rc : find(p, "valid", 2, MF_U8, &p->valid, err);
    rc = rc ? rc : find(p, "terminated", 2, MF_U8, &p->terminated, err);
    rc = rc ? rc : find(p, "truncated", 2, MF_U8, &p->truncated, err);
    rc = rc ? rc : find(p, "task", 2, MF_I32, &p->task, err);
    if (rc == 0 && p->rewards && p->rewards->dim[2] != p->C)
        rc = mf_err_set(err, MF_EFORMAT, "array 'rewards' has %zu a step where the actions are %zu", p->rewards->dim[2],
                        p->C);
    for (int i = 0; i < mf_frame_arrays(f) && rc == 0; i++) {
        const struct mf_array *a = mf_frame_array(f, i);
        if (!strncmp(a->name, "obs/", 4) && (a->rank < 2 || a->dim[0] != p->T || a->dim[1] != p->N))
            rc = mf_err_set(err, MF_EFORMAT, "array '%s' does not begin with the actions' (%zu, %zu)", a->name, p->T,
                            p->N);
    }
    if (mf_frame_get_int(f, "iter", &p->iter, &ignored))
        p->iter = -1;
    if (mf_frame_get_int(f, "envs.0", &p->first_env, &ignored) || p->first_env < 0 || p->first_env > INT32_MAX)
        p->first_env = 0;
    return rc;
}

int mf_demo_writer_add(struct mf_demo_writer *w, const struct mf_frame *f, int64_t frame, struct mf_err *err)
{
    struct steps p;
    if (mf_frame_kind(f) == MF_HEAD && !w->env_args) {
        struct mf_err none;
        const char *tasks;
        w->env_args = env_args(f);
        if (mf_frame_has(f, "tasks") && mf_frame_get_str(f, "tasks", &tasks, &none) == 0)
            w->tasks = mf_xstrdup(tasks);
    }
    int rc = mf_frame_kind(f) == MF_ROLLOUT ? bind(&p, f, frame, err) : 1;
    if (rc)
        return rc < 0 ? rc : 0;
    if (!w->chunk)
        w->chunk = (int64_t)p.C;
    for (size_t n = 0; n < p.N; n++)
        for (size_t t = 0, t0 = 0; t < p.T; t++) {
            size_t i = t * p.N + n;
            bool valid = flag(p.valid, i, true);
            bool over = flag(p.terminated, i, false) || flag(p.truncated, i, false);
            if (!valid)
                t0 = t + 1;
            else if ((over || t + 1 == p.T || !flag(p.valid, i + p.N, true)) &&
                     (rc = put_demo(w, &p, n, t0, t + 1 - t0, err)) < 0)
                return rc;
            if (over)
                t0 = t + 1;
        }
    return 0;
}

int mf_demo_writer_close(struct mf_demo_writer *w, struct mf_err *err)
{
    int rc = mf_h5_set_int(w->data, "total", w->total, err);
    rc = rc ? rc : mf_h5_set_int(w->data, "mf_action_chunk", w->chunk ? w->chunk : 1, err);
    rc = rc ? rc : mf_h5_set_text(w->data, "env_args", w->env_args ? w->env_args : "{}", err);
    mf_h5_close(w->data);
    w->data = -1;
    return rc;
}
