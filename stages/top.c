/* mf-top: watches runs in a terminal, as top watches processes: curves, numbers, time per stage.
 *
 * It reads runs from their folders, or metrics at the end of a pipe. Each run is a column of the screen. If stdout is
 * not a terminal, it prints a line per iteration instead.
 */
#include <curses.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "plot/pane.h"
#include "stage/rundir.h"
#include "stage/stage.h"

enum { COLUMN_LEAST = 38 };

struct watched {
    struct mf_pane pane;
    bool hung_up;
    size_t printed; /* number of iterations printed as lines */
};

struct top {
    double interval;
    struct watched *run;
    int n, first; /* runs; the leftmost one on the screen */
    bool piped, utf8;
    SCREEN *screen; /* NULL: lines */
    FILE *keys;
};

static const struct mf_bind binds[] = {{"top.interval", offsetof(struct top, interval)}, {0}};

/* ---- data of a run ---- */

/* A key of the configuration that a stage recorded in the run's folder; a saved stream has none. */
static bool recorded_key(const struct mf_pane *p, const char *stage, const char *key, void *value)
{
    const struct mf_bind wanted[] = {{key, 0}, {0}};
    struct mf_err ignored;
    struct mf_conf *conf = mf_conf_new();
    bool found =
        mf_conf_recorded(conf, p->h.run, stage, &ignored) == 0 && mf_conf_bind(conf, wanted, value, &ignored) == 0;
    mf_conf_free(conf);
    return found;
}

static void read_limits(struct mf_pane *p)
{
    p->limited = recorded_key(p, "mf-collect", "training.total_timesteps", &p->total) &&
                 recorded_key(p, "mf-ppo", "training.target_kl", &p->kl);
}

static const char *state(const struct mf_pane *p)
{
    return p->h.ended ? "ended" : mf_rundir_is_live(p->h.run) ? "running" : p->h.n || p->h.head ? "stopped" : "waiting";
}

/* ---- the screen ---- */

static void draw(struct top *t)
{
    int rows, cols;
    getmaxyx(stdscr, rows, cols);
    erase();
    int side = cols / COLUMN_LEAST < 1 ? 1 : cols / COLUMN_LEAST;
    side = side < t->n ? side : t->n;
    for (int i = 0; i < side; i++) {
        struct mf_pane *p = &t->run[(t->first + i) % t->n].pane;
        p->state = state(p);
        mf_pane_draw(p, t->utf8, cols / side * i, cols / side, rows);
    }
    attron(A_REVERSE);
    mvprintw(rows - 1, 0, "%-*.*s", cols, cols, t->n > side ? " q quit   left, right: other runs" : " q quit");
    attroff(A_REVERSE);
    refresh();
}

static int open_screen(struct top *t, struct mf_err *err)
{
    t->keys = t->piped ? fopen("/dev/tty", "re") : stdin;
    setlocale(LC_CTYPE, ""); /* characters only: numbers keep the decimal point in any locale */
    t->utf8 = MB_CUR_MAX > 1;
    t->screen = newterm(NULL, stdout, t->keys ? t->keys : stdin);
    if (!t->screen)
        return mf_err_set(err, MF_EUSAGE, "the terminal '%s' cannot be drawn on; mf-top | cat prints lines",
                          getenv("TERM") ? getenv("TERM") : "");
    cbreak();
    noecho();
    curs_set(0);
    keypad(stdscr, true);
    timeout((int)(1000 * t->interval));
    if (has_colors() && start_color() == OK && use_default_colors() == OK)
        mf_pane_colours();
    return 0;
}

/* ---- the program ---- */

static int open_top(struct mf_run *run, void *self, struct mf_err *err)
{
    struct top *t = self;
    const char *const *words = mf_run_operands(run, &t->n);
    t->piped = t->n == 0;
    if (t->piped && isatty(STDIN_FILENO))
        return mf_err_set(err, MF_EUSAGE, "give the runs to watch (mf-top outputs/*/latest), or pipe metrics in");
    t->n = t->piped ? 1 : t->n;
    t->run = mf_xcalloc((size_t)t->n, sizeof *t->run);
    for (int i = 0; i < t->n; i++) {
        int rc = mf_history_open(&t->run[i].pane.h, t->piped ? "-" : words[i], err);
        if (rc)
            return rc;
    }
    return isatty(STDOUT_FILENO) ? open_screen(t, err) : 0;
}

static int take(struct top *t, bool *any, bool *over, struct mf_err *err)
{
    *any = false, *over = true;
    for (int i = 0; i < t->n; i++) {
        struct watched *w = &t->run[i];
        struct mf_pane *p = &w->pane;
        int rc = mf_history_more(&p->h, &w->hung_up, err);
        if (rc < 0)
            return rc;
        if (w->hung_up && p->h.failed)
            return mf_err_set(err, MF_EFORMAT, "%s", "");
        if (w->hung_up && !p->h.ended)
            return mf_err_set(err, MF_EFORMAT,
                              "<stdin> is truncated: it ends after %zu iterations without an end frame", p->h.n);
        if (!p->limited && *p->h.run)
            read_limits(p);
        *any |= rc > 0;
        *over &= w->hung_up || p->h.ended || (!t->piped && !rc && !mf_rundir_is_live(p->h.run));
    }
    return 0;
}

/* 1: continue, 0: the user quits. */
static int look(struct top *t)
{
    draw(t);
    switch (getch()) {
    case 'q':
        return 0;
    case KEY_LEFT:
        t->first = (t->first + t->n - 1) % t->n;
        break;
    case KEY_RIGHT:
        t->first = (t->first + 1) % t->n;
    }
    return 1;
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct top *t = self;
    char name[MF_PANE_NAME];
    bool any, over;
    int rc = take(t, &any, &over, err);
    (void)run;
    if (rc < 0)
        return rc;
    if (t->screen)
        return over && t->piped ? 0 : look(t);
    for (int i = 0; i < t->n; i++)
        while (t->run[i].printed < t->run[i].pane.h.n)
            mf_pane_line(&t->run[i].pane, t->run[i].printed++, stdout);
    if ((rc = mf_flush_text(err)))
        return rc;
    for (int i = 0; over && i < t->n; i++)
        if (!t->run[i].pane.h.n && !t->run[i].pane.h.ended && !t->piped)
            return mf_err_set(err, MF_EIO, "%s: no process is running, and no round was completed",
                              mf_pane_name(&t->run[i].pane, MF_PANE_NAME, name));
    if (!any && !over)
        usleep((useconds_t)(1e6 * t->interval < 1e5 ? 1e6 * t->interval : 1e5));
    return !over;
}

/* After the end of a pipe its last line stays visible. */
static int close_top(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    struct top *t = self;
    (void)run, (void)rc, (void)err;
    if (t->screen) {
        endwin();
        delscreen(t->screen);
        for (int i = 0; i < t->n; i++) {
            t->run[i].pane.state = state(&t->run[i].pane);
            mf_pane_last(&t->run[i].pane, stdout);
        }
    }
    for (int i = 0; t->run && i < t->n; i++)
        mf_history_close(&t->run[i].pane.h);
    free(t->run);
    if (t->piped && t->keys)
        fclose(t->keys);
    return 0;
}

static const struct mf_stage stage = {
    .name = "top",
    .summary = "Watch runs in a terminal: curves, numbers, time per stage. Without a terminal: a line per iteration.",
    .operands = "[RUN]...",
    .examples = "  mf-top outputs/lift/latest\n"
                "  mf-top outputs/sweep/*\n"
                "  mf-collect | mf-gae | mf-ppo | mf-top\n",
    .role = MF_TOOL,
    .text_out = true,
    .binds = binds,
    .size = sizeof(struct top),
    .open = open_top,
    .work = work,
    .close = close_top,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
