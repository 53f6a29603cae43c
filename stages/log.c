/* mf-log: writes metrics in the formats of other tools, and passes the stream on.
 *
 * A file that can no longer be written ends its own log, not the run: one warning, and the exit status.
 */
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/plain.h"
#include "base/text.h"
#include "series/folder.h"
#include "series/series.h"
#include "stage/stage.h"

struct log {
    struct mf_names formats;
    const char *dir;

    char asked[1024]; /* the requested folder */
    char *run;
    struct mf_series_folder folder; /* the folder in use */
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

/* Names from outside, for text formats: valid UTF-8, on one line. */
static char *plain(const char *text)
{
    size_t n = strlen(text);
    char *to = mf_xcalloc(n + 1, 1);
    n = mf_plain_copy(to, text, n);
    for (size_t i = 0; i < n;) {
        const size_t taken = mf_utf8(to + i, n - i);
        if (!taken)
            to[i] = '?';
        i += taken ? taken : 1;
    }
    return to;
}

static int take_head(struct log *l, const struct mf_frame *head, struct mf_err *err)
{
    const char *run = "";
    struct stat st;
    struct mf_err ignored;
    (void)mf_frame_get_str(head, "run", &run, &ignored);
    free(l->run);
    l->run = plain(run);
    if (l->dir)
        snprintf(l->asked, sizeof l->asked, "%.1000s", l->dir);
    else
        snprintf(l->asked, sizeof l->asked, "%.1000s/logs", run);
    if (stat(l->asked, &st) < 0 || !S_ISDIR(st.st_mode))
        return mf_err_set(err, MF_EUSAGE, "no folder %.300s to log in%s", l->asked, l->dir ? "" : "; give log.dir=DIR");
    return 0;
}

/* The run's journal, if any, must contain this frame: otherwise a stream that merely names the run would truncate the
 * run's logs. */
static int is_of_run(const struct log *l, const struct mf_point *p, struct mf_err *err)
{
    char path[1100];
    struct mf_port *in;
    struct mf_frame *f;
    struct mf_err ignored;
    snprintf(path, sizeof path, "%s/metrics.mf", l->asked);
    if (l->dir || access(path, F_OK) || mf_port_open(&in, path, MF_IN, NULL, &ignored))
        return 0;
    bool found = false;
    while (!found && mf_frame_recv(in, NULL, &f, &ignored) == 1) {
        int64_t iter;
        double time;
        found = mf_frame_kind(f) == MF_METRICS && mf_frame_get_int(f, "iter", &iter, &ignored) == 0 &&
                iter == p->iter && mf_frame_get_num(f, "time", &time, &ignored) == 0 && time == p->time;
        mf_frame_free(f);
    }
    mf_port_drop(in);
    return found ? 0
                 : mf_err_set(err, MF_EUSAGE,
                              "the stream names the run %.300s, but its %.300s has no such iteration %lld: its logs "
                              "stay unchanged; give log.dir=DIR",
                              l->run, path, (long long)p->iter);
}

static void drop_point(struct mf_point *p)
{
    for (int i = 0; i < p->n; i++)
        free((char *)p->name[i]);
    free(p->name);
    free(p->value);
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
        const char *name = mf_frame_key(f, "values", i); /* NULL: no text */
        struct mf_err ignored;
        if (!name || mf_frame_num_at(f, "values", i, &p->value[p->n], &ignored))
            continue;
        if (isnan(p->value[p->n]))
            p->value[p->n] = NAN; /* without a sign, which printf writes */
        p->name[p->n++] = plain(name);
    }
    return 0;
}

static void give_up(struct log *l, int i, const struct mf_err *why)
{
    struct mf_err ignored;
    mf_log(MF_LOG_WARN, "%s; %s is no longer written, the run continues", why->text, l->out[i].format->name);
    if (!l->broken.code)
        l->broken = *why;
    l->out[i].format->close(l->out[i].self, &ignored);
    l->out[i].self = NULL;
}

/* The folder of this run's logs, and the formats in it. */
static int begin(struct log *l, const struct mf_point *p, struct mf_err *err)
{
    char whole[PATH_MAX];
    const char *id = l->dir ? (*l->run && realpath(l->run, whole) ? whole : l->run) : NULL;
    int rc = is_of_run(l, p, err);
    if (rc || (rc = mf_series_folder_take(&l->folder, l->asked, id, l->run, err)))
        return rc;
    if (*l->folder.whose)
        mf_log(MF_LOG_WARN, "%s has the logs of %s; those of this run go to %s", l->asked, l->folder.whose,
               l->folder.path);
    for (int i = 0; i < l->formats.n && rc == 0; i++)
        rc = l->out[i].format->open(&l->out[i].self, l->folder.path, l->run, p->step, err);
    return rc;
}

static int take_metrics(struct log *l, const struct mf_frame *f, struct mf_err *err)
{
    struct mf_point p = {0};
    int rc = read_point(&p, f, err);
    if (rc == 0 && !l->begun)
        rc = begin(l, &p, err);
    l->begun = true;
    for (int i = 0; i < l->formats.n && rc == 0; i++) {
        struct mf_err why;
        if (l->out[i].self && l->out[i].format->put(l->out[i].self, &p, &why))
            give_up(l, i, &why);
    }
    drop_point(&p);
    return rc;
}

/* For formats that support videos; an unreadable video does not end a log. */
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
    mf_series_folder_leave(&l->folder);
    free(l->run);
    return l->broken.code;
}

static const struct mf_stage stage = {
    .name = "log",
    .summary = "Write metrics as TensorBoard events, JSON Lines, CSV or Prometheus text, and pass the stream on.",
    .examples = "  mf-collect | mf-gae | mf-ppo | mf-log > /dev/null\n"
                "  mf-log log.dir=. log.formats=[csv] < outputs/point/latest/logs/metrics.mf > /dev/null\n",
    .role = MF_FILTER,
    .watched = true,
    .metrics = true,
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
