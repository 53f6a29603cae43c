#include "stage/waits.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "stage/rundir.h"

void mf_waits_open(struct mf_waits *w, const char *dir, const char *program, double in, double out)
{
    mf_waits_close(w);
    *w = (struct mf_waits){.since = mf_now(), .in = in, .out = out};
    snprintf(w->path, sizeof w->path, "%.900s/logs/%s.idle", dir, program);
}

void mf_waits_close(struct mf_waits *w)
{
    if (w->fd > 0)
        close(w->fd);
    w->fd = 0;
}

void mf_waits_round(struct mf_waits *w, double in, double out)
{
    const double now = mf_now(), spent = now - w->since;
    char line[64];
    if (!w->fd && *w->path)
        w->fd = open(w->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NONBLOCK, 0666);
    if (w->fd <= 0 || spent <= 0)
        return;
    const int n = snprintf(line, sizeof line, "%.6f %.6f\n", (in - w->in) / spent, (out - w->out) / spent);
    (void)!pwrite(w->fd, line, (size_t)n, 0); /* fixed length: a reader never sees a partial line */
    w->since = now, w->in = in, w->out = out;
}

void mf_waits_report(const struct mf_frame *head, struct mf_frame *metrics)
{
    const char *dir, *stage;
    struct mf_err ignored;
    if (mf_frame_get_str(head, "run", &dir, &ignored))
        return;
    for (int i = 0, n = mf_frame_count(head, "chain"); i < n; i++) {
        char path[MF_PATH_MAX + 128];
        double in, out;
        snprintf(path, sizeof path, "chain.%d.stage", i);
        if (mf_frame_get_str(head, path, &stage, &ignored) || strncmp(stage, "mf-", 3) != 0 || strchr(stage, '/'))
            continue;
        snprintf(path, sizeof path, "%.900s/logs/%.60s.idle", dir, stage);
        FILE *f = mf_file_read(path, &ignored);
        const bool told = f && fscanf(f, "%lf %lf", &in, &out) == 2;
        if (f)
            fclose(f);
        snprintf(path, sizeof path, "values.perf/idle_%.60s_in", stage + 3);
        if (told)
            mf_frame_set_num(metrics, path, in);
        snprintf(path, sizeof path, "values.perf/idle_%.60s_out", stage + 3);
        if (told)
            mf_frame_set_num(metrics, path, out);
    }
}
