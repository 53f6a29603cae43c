#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "series/series_priv.h"

static const struct mf_series_format *const all[] = {&mf_series_tensorboard, &mf_series_jsonl, &mf_series_csv,
                                                     &mf_series_prometheus};

int mf_series_find(const struct mf_series_format **f, const char *name, struct mf_err *err)
{
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i]->name, name)) {
            *f = all[i];
            return 0;
        }
    return mf_err_set(err, MF_EUSAGE,
                      "log.formats: unknown format '%.63s'; available: tensorboard, jsonl, csv, prometheus", name);
}

int mf_series_continue(FILE **f, const char *path, const char *format, int64_t step, struct mf_err *err)
{
    char *line = NULL;
    size_t room = 0;
    long keep = 0;
    struct stat st;
    if (!(*f = fopen(path, "a+e")))
        return mf_err_errno(err, "open %.300s", path);
    if (fstat(fileno(*f), &st) < 0 || !S_ISREG(st.st_mode)) { /* a pipe would never end */
        fclose(*f);
        return mf_err_set(err, MF_EFORMAT, "%.300s is a device or a pipe, not a regular file", path);
    }
    rewind(*f);
    for (ssize_t n; (n = getline(&line, &room, *f)) > 0 && line[n - 1] == '\n'; keep += n) {
        long long at;
        if (sscanf(line, format, &at) == 1 && at >= step)
            break;
    }
    free(line);
    const bool unread = ferror(*f); /* a read error is not the end: do not truncate */
    if (unread || ftruncate(fileno(*f), keep) < 0 || fseek(*f, 0, SEEK_END) < 0) {
        mf_err_errno(err, "%s %.300s", unread ? "read" : "cut", path);
        fclose(*f);
        return err->code;
    }
    return 0;
}

int mf_series_flush(FILE *f, const char *path, struct mf_err *err)
{
    return fflush(f) || ferror(f) ? mf_err_errno(err, "write %.300s", path) : 0;
}
