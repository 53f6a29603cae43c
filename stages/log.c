/* mf-log: write metrics where other tools look for them, and pass the stream on.
 *
 * A file that cannot be written any more ends its own log, not the run: it is
 * told once, and by the exit status.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "series/series.h"
#include "stage/stage.h"

struct log {
    struct mf_names formats;
    const char *dir;

    char folder[1024];
    char run[1024];
    bool begun;
    struct {
        const struct mf_series_format *format;
        void *self;
    } out[MF_LIST_MAX];
    struct mf_err broken; /* the first that failed */
};

static const struct mf_bind binds[] = {
    {"log.formats", offsetof(struct log, formats)},
    {"log.dir", offsetof(struct log, dir)},
    {0},
};

static int open_log(struct mf_run *run, void *self, struct mf_err *err)
{
    struct log *l = self;
    int rc = 0;
    (void)run;
    for (int i = 0; i < l->formats.n && rc == 0; i++)
        rc = mf_series_find(&l->out[i].format, l->formats.v[i], err);
    return rc;
}

static int take_head(struct log *l, const struct mf_frame *head, struct mf_err *err)
{
    const char *run = "";
    struct stat st;
    struct mf_err ignored;
    (void)mf_frame_get_str(head, "run", &run, &ignored);
    snprintf(l->run, sizeof l->run, "%.1000s", run);
    if (l->dir)
        snprintf(l->folder, sizeof l->folder, "%.1000s", l->dir);
    else
        snprintf(l->folder, sizeof l->folder, "%.1000s/logs", run);
    if (stat(l->folder, &st) < 0 || !S_ISDIR(st.st_mode))
        return mf_err_set(err, MF_EUSAGE, "no folder %.300s to log in%s", l->folder,
                          l->dir ? "" : "; give log.dir=DIR");
    return 0;
}

static int read_point(struct mf_point *p, const struct mf_frame *f, struct mf_err *err)
{
    const int n = mf_frame_count(f, "values");
    int rc;
    if ((rc = mf_frame_get_int(f, "iter", &p->iter, err)) || (rc = mf_frame_get_int(f, "step", &p->step, err)) ||
        (rc = mf_frame_get_num(f, "time", &p->time, err)))
        return rc;
    p->name = mf_xcalloc((size_t)(n > 0 ? n : 0) + 1, sizeof *p->name);
    p->value = mf_xcalloc((size_t)(n > 0 ? n : 0) + 1, sizeof *p->value);
    for (int i = 0; i < n; i++) {
        char path[300];
        struct mf_err ignored;
        p->name[p->n] = mf_frame_key(f, "values", i);
        snprintf(path, sizeof path, "values.%.200s", p->name[p->n]);
        if (mf_frame_get_num(f, path, &p->value[p->n], &ignored) == 0)
            p->n++;
    }
    return 0;
}

static void give_up(struct log *l, int i, const struct mf_err *why)
{
    struct mf_err ignored;
    mf_log(MF_LOG_WARN, "%s; %s is not written any more, the run goes on", why->text, l->out[i].format->name);
    if (!l->broken.code)
        l->broken = *why;
    l->out[i].format->close(l->out[i].self, &ignored);
    l->out[i].self = NULL;
}

static int take_metrics(struct log *l, const struct mf_frame *f, struct mf_err *err)
{
    struct mf_point p = {0};
    int rc = read_point(&p, f, err);
    for (int i = 0; i < l->formats.n && rc == 0 && !l->begun; i++)
        rc = l->out[i].format->open(&l->out[i].self, l->folder, l->run, p.step, err);
    l->begun = true;
    for (int i = 0; i < l->formats.n && rc == 0; i++) {
        struct mf_err why;
        if (l->out[i].self && l->out[i].format->put(l->out[i].self, &p, &why))
            give_up(l, i, &why);
    }
    free(p.name);
    free(p.value);
    return rc;
}

/* Where a format has a place for it; one that cannot be read is no reason to end a log. */
static int take_video(struct log *l, const struct mf_frame *f, struct mf_err *err)
{
    const char *path;
    int64_t step;
    int rc;
    if ((rc = mf_frame_get_int(f, "step", &step, err)) || (rc = mf_frame_get_str(f, "path", &path, err)))
        return rc;
    for (int i = 0; i < l->formats.n; i++) {
        struct mf_err why;
        if (l->out[i].self && l->out[i].format->film &&
            l->out[i].format->film(l->out[i].self, "eval/video", step, path, &why))
            mf_log(MF_LOG_WARN, "%s; it is not in %s", why.text, l->out[i].format->name);
    }
    return 0;
}

static int frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    int rc = mf_frame_kind(f) == MF_HEAD      ? take_head(self, f, err)
             : mf_frame_kind(f) == MF_METRICS ? take_metrics(self, f, err)
             : mf_frame_kind(f) == MF_VIDEO   ? take_video(self, f, err)
                                              : 0;
    return rc ? rc : mf_emit(run, f, err);
}

static int close_log(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    struct log *l = self;
    (void)run, (void)rc;
    if (l->broken.code)
        *err = l->broken;
    for (int i = 0; i < l->formats.n; i++)
        if (l->out[i].self && l->out[i].format->close(l->out[i].self, err))
            l->broken = *err;
    return l->broken.code;
}

static const struct mf_stage stage = {
    .name = "log",
    .summary = "Write metrics as TensorBoard's events, JSON lines, CSV, Prometheus' text, and pass the stream on.",
    .examples = "  mf-collect | mf-gae | mf-ppo | mf-log > /dev/null\n"
                "  mf-log log.dir=. log.formats=[csv] < outputs/point/latest/logs/metrics.mf > /dev/null\n",
    .role = MF_FILTER,
    .watched = true,
    .binds = binds,
    .size = sizeof(struct log),
    .open = open_log,
    .frame = frame,
    .close = close_log,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
