#include "plot/picture.h"

#include <errno.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/plain.h"
#include "base/status.h"
#include "base/text.h"

extern char **environ;

/* ---- the script ---- */

/* Prints a gnuplot string. Bytes that are not valid characters become '?'. '>' becomes a similar character, since
 * gnuplot does not escape it and "]]>" is invalid in an SVG. */
static void put_quoted(const char *s, FILE *to)
{
    putc('\'', to);
    for (size_t left = strlen(s), n; left; s += n, left -= n) {
        const size_t whole = mf_utf8(s, left);
        n = whole ? whole : 1;
        if (!whole || mf_control(s, left))
            putc('?', to);
        else if (*s == '\'')
            fputs("''", to);
        else if (*s == '>')
            fputs("\u203a", to);
        else
            fwrite(s, 1, n, to);
    }
    putc('\'', to);
}

static void put_terminal(const struct mf_picture *p, FILE *to)
{
    if (p->form == MF_FORM_TEXT)
        fprintf(to, "set terminal dumb size %d,%d noenhanced\n", p->width, p->height);
    else if (p->form == MF_FORM_PNG)
        fprintf(to, "set terminal pngcairo size %d,%d font 'sans,10' noenhanced\n", p->width, p->height);
    else
        fprintf(to,
                "set terminal svg size %d,%d dynamic font 'sans-serif,11' name 'p%d' noenhanced background 'white'\n",
                p->width, p->height, p->id);
}

/* gnuplot treats values near the end of a double's range as undefined, and then draws nothing. */
static double within(double v)
{
    return fmin(fmax(v, -1e300), 1e300);
}

static void put_data(const struct mf_curve *c, int number, FILE *to)
{
    fprintf(to, "$d%d << EOD\n", number);
    for (size_t i = 0; i < c->n; i++)
        fprintf(to, "%.9g %.9g %.9g %.9g\n", c->x[i], within(c->mean[i]), within(c->low[i]), within(c->high[i]));
    fputs("EOD\n", to);
}

static void put_curve(const struct mf_picture *p, const struct mf_curve *c, int g, FILE *to)
{
    static const char *const colour[] = {"#2060c0", "#d05010", "#208040", "#9040a0",
                                         "#b09000", "#00909a", "#c02060", "#606060"};
    const int n = sizeof colour / sizeof *colour;
    char label[300];
    snprintf(label, sizeof label, c->runs > 1 ? "%s (%d seeds)" : "%s", p->group[g].label, c->runs);
    if (p->form != MF_FORM_TEXT && c->runs > 1)
        fprintf(to,
                "$d%d using 1:3:4 with filledcurves fillcolor '%s' fillstyle transparent solid 0.15 noborder notitle, ",
                g, colour[g % n]);
    fprintf(to, "$d%d using 1:2 with ", g);
    if (p->form == MF_FORM_TEXT)
        fputs(c->n > 1 ? "lines" : "points", to);
    else
        fprintf(to, c->n > 1 ? "lines linewidth 2 linecolor '%s' dashtype %d" : "points pointtype 7 linecolor '%s'",
                colour[g % n], g / n % 5 + 1);
    fputs(" title ", to);
    put_quoted(label, to);
}

static int put_panel(const struct mf_picture *p, const char *series, FILE *to)
{
    struct mf_curve *c = mf_xcalloc((size_t)p->n_groups + 1, sizeof *c);
    int n = 0;
    for (int g = 0; g < p->n_groups; g++) {
        mf_curve_of(&c[g], &p->group[g], series, p->axis);
        if (c[g].n)
            put_data(&c[g], g, to);
    }
    fputs("set title ", to);
    put_quoted(series, to);
    fputs(strstr(series, "success") ? "\nset yrange [0:1]\n" : "\nset yrange [*:*]\n", to);
    for (int g = 0; g < p->n_groups; g++) {
        if (!c[g].n)
            continue;
        fputs(n++ ? ", " : "plot ", to);
        put_curve(p, &c[g], g, to);
    }
    fputs(n ? "\n" : "set multiplot next\n", to);
    for (int g = 0; g < p->n_groups; g++)
        mf_curve_release(&c[g]);
    free(c);
    return n;
}

static const char *axis_of(const struct mf_picture *p)
{
    const char *unit = p->n_groups ? mf_cohort_unit(p->group) : "";
    for (int g = 1; g < p->n_groups; g++)
        unit = strcmp(mf_cohort_unit(&p->group[g]), unit) ? "steps" : unit;
    return p->axis == MF_AXIS_TIME          ? "seconds"
           : p->axis == MF_AXIS_ITER        ? "iterations"
           : !strcmp(unit, "control steps") ? "control steps, thousands"
           : !strcmp(unit, "minibatches")   ? "minibatches, thousands"
                                            : "steps, thousands";
}

int mf_picture_script(const struct mf_picture *p, FILE *to)
{
    const int cols = p->n_series > 1 && p->form != MF_FORM_TEXT ? 2 : 1, rows = (p->n_series + cols - 1) / cols;
    int n = 0;
    fputs("reset\n", to);
    put_terminal(p, to);
    fprintf(to,
            "set xlabel '%s'\nset grid linecolor '#d0d0d0'\nset border 3\nset tics nomirror\n"
            "set format y '%%.4g'\n",
            axis_of(p));
    fputs(p->n_groups == 1 && p->group->n == 1 ? "unset key\n" : "set key outside below Left reverse height 1\n", to);
    fprintf(to, "set multiplot layout %d,%d\n", rows, cols);
    for (int s = 0; s < p->n_series; s++)
        n += put_panel(p, p->series[s], to);
    fputs("unset multiplot\n", to);
    return n;
}

/* ---- gnuplot ---- */

/* Input and output are files in memory, to avoid a deadlock. Warnings (a flat curve) are shown only if gnuplot fails.
 * It does not report failed writes, so it draws everything twice, to two files that must be equal. */
enum { SCRIPT, FIRST, SAID, SECOND, ENDS };

/* -d: ignores the user's ~/.gnuplot. */
static int start(const int fd[ENDS], pid_t *pid)
{
    const char *argv[] = {"gnuplot", "-d", "-", NULL};
    posix_spawn_file_actions_t act;
    posix_spawn_file_actions_init(&act);
    for (int i = 0; i < ENDS; i++)
        posix_spawn_file_actions_adddup2(&act, fd[i], i);
    int rc = posix_spawnp(pid, "gnuplot", &act, NULL, (char **)argv, environ);
    posix_spawn_file_actions_destroy(&act);
    return rc;
}

static int run(const int fd[ENDS], struct mf_err *err)
{
    char said[300] = "";
    pid_t pid;
    int status;
    if ((errno = start(fd, &pid)))
        return mf_err_errno(err, "cannot start gnuplot, which draws the pictures (is it installed?)");
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return mf_err_errno(err, "wait for gnuplot");
    if (WIFSIGNALED(status))
        return mf_err_set(err, MF_EIO, "gnuplot %s before the picture was made",
                          mf_status_text((char[MF_STATUS_TEXT]){0}, status));
    if (status && pread(fd[SAID], said, sizeof said - 1, 0) > 0)
        for (char *c = said; *c; c++)
            *c = (char)(*c == '\n' ? ' ' : *c);
    return status ? mf_err_set(err, MF_EIO, "gnuplot could not draw the picture: %s", said) : 0;
}

/* *out ends with a 0, and is for free() also on failure. */
static int read_all(int fd, char **out, size_t *n, struct mf_err *err)
{
    struct stat st;
    if (fstat(fd, &st) < 0)
        return mf_err_errno(err, "read gnuplot's output");
    *out = mf_xcalloc((size_t)st.st_size + 1, 1);
    for (*n = 0; *n < (size_t)st.st_size;) {
        const ssize_t got = pread(fd, *out + *n, (size_t)st.st_size - *n, (off_t)*n);
        if (got < 0)
            return mf_err_errno(err, "read gnuplot's output");
        if (got == 0)
            return mf_err_set(err, MF_EIO, "read gnuplot's output: it ends after %zu of %lld bytes", *n,
                              (long long)st.st_size);
        *n += (size_t)got;
    }
    return 0;
}

static int read_both(const int fd[ENDS], char **out, size_t *n, struct mf_err *err)
{
    char *again = NULL;
    size_t n_again;
    int rc = read_all(fd[FIRST], out, n, err);
    rc = rc ? rc : read_all(fd[SECOND], &again, &n_again, err);
    if (rc == 0 && (*n == 0 || *n != n_again || memcmp(*out, again, *n) != 0))
        rc = mf_err_set(err, MF_EIO, "gnuplot could not write the whole picture: is memory exhausted?");
    free(again);
    return rc;
}

static int write_all(int fd, const char *bytes, size_t n, struct mf_err *err)
{
    while (n) {
        const ssize_t put = write(fd, bytes, n);
        if (put < 0)
            return mf_err_errno(err, "memory for a picture");
        bytes += put;
        n -= (size_t)put;
    }
    return 0;
}

static int write_script(int fd, const char *script, size_t length, struct mf_err *err)
{
    static const char *const output[] = {"set output '/dev/fd/1'\n", "unset output\nset output '/dev/fd/3'\n"};
    int rc = 0;
    for (int copy = 0; copy < 2 && rc == 0; copy++) {
        rc = write_all(fd, output[copy], strlen(output[copy]), err);
        rc = rc ? rc : write_all(fd, script, length, err);
    }
    return rc == 0 && lseek(fd, 0, SEEK_SET) < 0 ? mf_err_errno(err, "memory for a picture") : rc;
}

int mf_picture_make(const char *script, size_t length, char **out, size_t *n, struct mf_err *err)
{
    int fd[ENDS], rc = 0;
    *out = NULL;
    for (int i = 0; i < ENDS; i++)
        if ((fd[i] = memfd_create("picture", MFD_CLOEXEC)) < 0)
            rc = mf_err_errno(err, "memory for a picture");
    if (rc == 0 && (rc = write_script(fd[SCRIPT], script, length, err)) == 0 && (rc = run(fd, err)) == 0)
        rc = read_both(fd, out, n, err);
    for (int i = 0; i < ENDS; i++)
        if (fd[i] >= 0)
            close(fd[i]);
    if (rc) {
        free(*out);
        *out = NULL;
    }
    return rc;
}
