#include "eval/results.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/log.h"
#include "base/mem.h"

struct mf_results {
    char *path;
    int fd;
    json_t *known; /* the lines */
    off_t read;    /* bytes of them */
    bool warned;
};

enum { PATIENCE = 60 }; /* s to wait for the lock of another process */

static const char opening[] = "{\"checkpoint\": "; /* of every line, also of an incomplete one */

static int take_line(struct mf_results *f, const char *line, size_t n, struct mf_err *err)
{
    json_error_t why;
    json_t *j = json_loadb(line, n, 0, &why);
    int number = (int)json_array_size(f->known) + 1;
    if (!j)
        return mf_err_set(err, MF_EFORMAT, "'%s', line %d, is no result: %s", f->path, number, why.text);
    bool good = json_is_string(json_object_get(j, "digest")) && json_is_object(json_object_get(j, "trials"));
    json_array_append_new(f->known, j);
    return good ? 0 : mf_err_set(err, MF_EFORMAT, "'%s', line %d, is no result of an evaluation", f->path, number);
}

/* The file's length without an incomplete last line. */
static off_t whole_lines(int fd)
{
    char c;
    off_t size = lseek(fd, 0, SEEK_END);
    while (size > 0 && pread(fd, &c, 1, size - 1) == 1 && c != '\n')
        size--;
    return size;
}

/* Reads the lines that any process has appended since. */
static int take_lines(struct mf_results *f, struct mf_err *err)
{
    char *line = NULL;
    size_t room = 0;
    int rc = 0, fd = dup(f->fd);
    FILE *from = fd < 0 ? NULL : fdopen(fd, "r");
    if (!from || fseeko(from, f->read, SEEK_SET))
        rc = mf_err_errno(err, "cannot read '%s'", f->path);
    for (ssize_t n; rc == 0 && (n = getline(&line, &room, from)) > 0; f->read += n)
        if (line[n - 1] == '\n')
            rc = take_line(f, line, (size_t)n, err);
        else if (strncmp(line, opening, (size_t)n < sizeof opening - 1 ? (size_t)n : sizeof opening - 1))
            rc = mf_err_set(err, MF_EFORMAT, "'%s' holds no results, and is left as it is", f->path);
        else if (ftruncate(f->fd, whole_lines(f->fd)))
            rc = mf_err_errno(err, "cannot drop the half-written last line of '%s'", f->path);
        else
            n = 0;
    if (rc == 0 && ferror(from))
        rc = mf_err_errno(err, "cannot read '%s'", f->path);
    if (from)
        fclose(from);
    free(line);
    return rc;
}

/* Locks the file for one line: several evaluations append to it. */
static int hold(struct mf_results *f, struct mf_err *err)
{
    enum mf_lock got;
    int rc = mf_lock_wait(f->fd, PATIENCE, &got, err);
    if (rc || got == MF_LOCK_OURS)
        return rc;
    if (got == MF_LOCK_THEIRS)
        return mf_err_set(err, MF_EIO, "another process has held '%s' for %d s", f->path, PATIENCE);
    if (!f->warned)
        mf_log(MF_LOG_WARN,
               "'%s' cannot be locked (%s): two evaluations that write it at the same time may lose results", f->path,
               strerror(errno));
    f->warned = true;
    return 0;
}

int mf_results_open(struct mf_results **to, const char *path, struct mf_err *err)
{
    struct stat st;
    struct mf_results *f = *to = mf_xcalloc(1, sizeof *f);
    f->path = mf_xstrdup(path);
    f->known = json_array();
    f->fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (f->fd < 0 || fstat(f->fd, &st) < 0)
        return mf_err_errno(err, "cannot keep results in '%s'", path);
    if (!S_ISREG(st.st_mode))
        return mf_err_set(err, MF_EUSAGE, "results cannot be kept in '%s', which is a device or a pipe", path);
    int rc = hold(f, err);
    rc = rc ? rc : take_lines(f, err);
    mf_lock_leave(f->fd);
    return rc;
}

void mf_results_close(struct mf_results *f)
{
    if (!f)
        return;
    if (f->fd >= 0)
        close(f->fd);
    json_decref(f->known);
    free(f->path);
    free(f);
}

int mf_results_count(const struct mf_results *f)
{
    return (int)json_array_size(f->known);
}

/* The n entries of a column; NULL unless they are n integers or, with `real`, n numbers or null (not finite). */
static const json_t *column(const json_t *line, const char *name, bool real, int n)
{
    const json_t *list = json_object_get(json_object_get(line, "trials"), name), *v;
    size_t i;
    if (json_array_size(list) != (size_t)n)
        return NULL;
    json_array_foreach(list, i, v)
    {
        if (!json_is_integer(v) && !(real && (json_is_real(v) || json_is_null(v))))
            return NULL;
    }
    return list;
}

static bool take_trials(const json_t *line, struct mf_result *r)
{
    const json_t *once = column(line, "success_once", false, r->n), *end = column(line, "success_at_end", false, r->n),
                 *ret = column(line, "return", true, r->n), *length = column(line, "length", false, r->n),
                 *straightness = column(line, "straightness", true, r->n), /* older files have none */
                     *task = r->tasks ? column(line, "task", false, r->n) : NULL;
    if (!once || !end || !ret || !length || (r->tasks && !task))
        return false;
    for (size_t i = 0; i < (size_t)r->n; i++)
        r->trial[i] = (struct mf_trial){
            .success_once = json_integer_value(json_array_get(once, i)) != 0,
            .success_at_end = json_integer_value(json_array_get(end, i)) != 0,
            .ret = (float)mf_json_number_of(json_array_get(ret, i)),
            .length = (int32_t)json_integer_value(json_array_get(length, i)),
            .straightness = straightness ? (float)mf_json_number_of(json_array_get(straightness, i)) : NAN,
            .task = (int32_t)json_integer_value(json_array_get(task, i)),
        };
    return true;
}

static bool has_all(const json_t *line, json_t *made)
{
    const char *key;
    json_t *value;
    json_object_foreach(made, key, value) if (!json_equal(json_object_get(line, key), value)) return false;
    return true;
}

bool mf_results_find(const struct mf_results *f, struct mf_result *r)
{
    json_t *made = mf_result_made(r), *line;
    char *as_written = json_dumps(made, MF_JSON_AS); /* rounds numbers as the file does */
    size_t i;
    bool found = false;
    json_decref(made);
    made = json_loads(as_written, 0, NULL);
    json_array_foreach(f->known, i, line) if (!found && has_all(line, made)) found = take_trials(line, r);
    json_decref(made);
    free(as_written);
    return found;
}

/* Has another evaluation appended this result meanwhile? */
static bool is_there(const struct mf_results *f, const struct mf_result *r)
{
    struct mf_result asked = *r;
    asked.trial = mf_xcalloc((size_t)r->n, sizeof *asked.trial);
    const bool found = mf_results_find(f, &asked);
    free(asked.trial);
    return found;
}

/* Appends the whole line, or nothing. */
static int append(const struct mf_results *f, const char *line, size_t n, struct mf_err *err)
{
    off_t before = whole_lines(f->fd);
    int rc = ftruncate(f->fd, before) ? -1 : 0;
    for (ssize_t done; rc == 0 && n; line += done, n -= (size_t)done)
        if ((done = write(f->fd, line, n)) < 0)
            rc = -1, done = 0;
    if (rc == 0 && fsync(f->fd) == 0)
        return 0;
    rc = mf_err_errno(err, "cannot add a result to '%s'", f->path);
    (void)!ftruncate(f->fd, before);
    return rc;
}

int mf_results_add(struct mf_results *f, const struct mf_result *r, struct mf_err *err)
{
    char *line;
    size_t n;
    FILE *to = open_memstream(&line, &n);
    int rc = mf_json_write(mf_result_json(r), "\n", to, err);
    fclose(to);
    if (rc == 0 && (rc = hold(f, err)) == 0) {
        if ((rc = take_lines(f, err)) == 0 && !is_there(f, r))
            rc = append(f, line, n, err) || take_lines(f, err) ? err->code : 0;
        mf_lock_leave(f->fd);
    }
    free(line);
    return rc;
}
