#include "rl/results.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "data/json.h"

/* ---- a result as JSON ---- */

json_t *mf_json_word(const char *s)
{
    char *quoted;
    size_t n;
    if (!s)
        return json_null();
    FILE *f = open_memstream(&quoted, &n);
    mf_json_text(s, strlen(s), f);
    fclose(f);
    json_t *j = json_loadb(quoted, n, JSON_DECODE_ANY, NULL);
    free(quoted);
    return j;
}

/* As a head says it: its words and numbers, but where it was made, on which no result depends. */
static json_t *spec_json(const struct mf_policy_spec *spec)
{
    struct mf_policy_spec acted = *spec;
    acted.env[0] = 0;
    char *line;
    size_t n;
    struct mf_frame *head = mf_frame_new(MF_HEAD);
    mf_policy_spec_to_head(&acted, head);
    FILE *f = open_memstream(&line, &n);
    mf_frame_json(head, MF_ARRAYS_NONE, f);
    fclose(f);
    mf_frame_free(head);
    json_t *all = json_loadb(line, n, 0, NULL), *j = json_incref(json_object_get(all, "spec"));
    json_decref(all);
    free(line);
    return j;
}

static json_t *made_by(const struct mf_result *r)
{
    char digest[17];
    mf_policy_digest(r->policy, digest);
    return json_pack("{s:s, s:s, s:o, s:o, s:i, s:I, s:i, s:i, s:{s:s, s:o, s:s}, s:o}", "digest", digest, "weights",
                     r->weights, "env", mf_json_word(r->env), "server", mf_json_word(r->server), "max_steps",
                     r->max_steps, "seed", (json_int_t)r->seed, "denoising_steps", r->policy->spec.K, "n", r->n,
                     "engine", "program", r->program, "device", mf_json_word(r->device), "precision", r->precision,
                     "policy", spec_json(&r->policy->spec));
}

static void add_rate(json_t *to, const char *name, struct mf_rate r)
{
    char low[40], high[40];
    snprintf(low, sizeof low, "%s_low", name);
    snprintf(high, sizeof high, "%s_high", name);
    json_object_set_new(to, name, json_real(r.rate));
    json_object_set_new(to, low, json_real(r.low));
    json_object_set_new(to, high, json_real(r.high));
}

void mf_scores_json(json_t *to, const struct mf_score_sheet *s)
{
    add_rate(to, "success_once", s->success_once);
    add_rate(to, "success_at_end", s->success_at_end);
    json_object_set_new(to, "return", json_real(s->ret));
    json_object_set_new(to, "return_std", json_real(s->ret_std));
    json_object_set_new(to, "length", json_real(s->length));
}

static json_t *trials_json(const struct mf_trial *t, int n)
{
    json_t *once = json_array(), *at_end = json_array(), *ret = json_array(), *length = json_array();
    for (int i = 0; i < n; i++) {
        json_array_append_new(once, json_integer(t[i].success_once));
        json_array_append_new(at_end, json_integer(t[i].success_at_end));
        json_array_append_new(ret, json_real((double)t[i].ret));
        json_array_append_new(length, json_integer(t[i].length));
    }
    return json_pack("{s:o, s:o, s:o, s:o}", "success_once", once, "success_at_end", at_end, "return", ret, "length",
                     length);
}

json_t *mf_result_json(const struct mf_result *r)
{
    struct mf_score_sheet s = mf_eval_sum(r->trial, r->n);
    json_t *j = json_pack("{s:o}", "checkpoint", mf_json_word(r->checkpoint)), *made = made_by(r);
    json_object_update(j, made);
    json_decref(made);
    json_object_set_new(j, "iter", json_integer(r->policy->iter));
    json_object_set_new(j, "step", json_integer(r->policy->global_step));
    mf_scores_json(j, &s);
    json_object_set_new(j, "trials", trials_json(r->trial, r->n));
    return j;
}

enum { JSON_AS = JSON_REAL_PRECISION(9) }; /* a float's digits */

int mf_json_write(const json_t *j, const char *end, FILE *to, struct mf_err *err)
{
    if (json_dumpf(j, to, JSON_AS) || fputs(end, to) < 0)
        return mf_err_errno(err, "cannot write a result");
    return 0;
}

/* ---- the file ---- */

struct mf_results {
    char *path;
    int fd;
    json_t *known; /* the lines */
};

static const char opening[] = "{\"checkpoint\": "; /* what every line begins with, also a half-written one */

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

/* The file's length without a line that has no end. */
static off_t whole_lines(int fd)
{
    char c;
    off_t size = lseek(fd, 0, SEEK_END);
    while (size > 0 && pread(fd, &c, 1, size - 1) == 1 && c != '\n')
        size--;
    return size;
}

static int take_lines(struct mf_results *f, FILE *from, struct mf_err *err)
{
    char *line = NULL;
    size_t room = 0;
    int rc = 0;
    for (ssize_t n; rc == 0 && (n = getline(&line, &room, from)) > 0;)
        if (line[n - 1] == '\n')
            rc = take_line(f, line, (size_t)n, err);
        else if (strncmp(line, opening, (size_t)n < sizeof opening - 1 ? (size_t)n : sizeof opening - 1))
            rc = mf_err_set(err, MF_EFORMAT, "'%s' holds no results, and is left as it is", f->path);
        else if (ftruncate(f->fd, whole_lines(f->fd)))
            rc = mf_err_errno(err, "cannot drop the half-written last line of '%s'", f->path);
    if (rc == 0 && ferror(from))
        rc = mf_err_errno(err, "cannot read '%s'", f->path);
    free(line);
    return rc;
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
    FILE *from = fdopen(dup(f->fd), "r");
    if (!from || flock(f->fd, LOCK_EX) < 0) {
        if (from)
            fclose(from);
        return mf_err_errno(err, "cannot read '%s'", path);
    }
    int rc = take_lines(f, from, err);
    fclose(from);
    flock(f->fd, LOCK_UN);
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

static bool take_trials(const json_t *line, struct mf_result *r)
{
    static const char *const names[] = {"success_once", "success_at_end", "return", "length"};
    const json_t *column[4];
    for (int k = 0; k < 4; k++) {
        column[k] = json_object_get(json_object_get(line, "trials"), names[k]);
        if (json_array_size(column[k]) != (size_t)r->n)
            return false;
    }
    for (int i = 0; i < r->n; i++)
        r->trial[i] = (struct mf_trial){
            .success_once = json_integer_value(json_array_get(column[0], (size_t)i)) != 0,
            .success_at_end = json_integer_value(json_array_get(column[1], (size_t)i)) != 0,
            .ret = (float)json_number_value(json_array_get(column[2], (size_t)i)),
            .length = (int32_t)json_integer_value(json_array_get(column[3], (size_t)i)),
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
    json_t *made = made_by(r), *line;
    char *as_written = json_dumps(made, JSON_AS); /* numbers as a file has them */
    size_t i;
    bool found = false;
    json_decref(made);
    made = json_loads(as_written, 0, NULL);
    json_array_foreach(f->known, i, line) if (!found && has_all(line, made)) found = take_trials(line, r);
    json_decref(made);
    free(as_written);
    return found;
}

/* All of the line, or nothing of it. */
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
    json_t *j = mf_result_json(r);
    FILE *to = open_memstream(&line, &n);
    int rc = mf_json_write(j, "\n", to, err);
    fclose(to);
    json_decref(j);
    if (rc == 0 && flock(f->fd, LOCK_EX) < 0)
        rc = mf_err_errno(err, "cannot lock '%s'", f->path);
    if (rc == 0) {
        rc = append(f, line, n, err) ? err->code : take_line(f, line, n, err);
        flock(f->fd, LOCK_UN);
    }
    free(line);
    return rc;
}
