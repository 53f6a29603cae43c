/* mf-top: watch runs from a terminal, as top watches processes: curves, numbers, where the time goes.
 *
 * Attached to runs from outside, or at the end of a pipe. Each run is a column of the screen. Where stdout is no
 * terminal, it prints a line for each iteration instead.
 */
#include <curses.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/plain.h"
#include "data/history.h"
#include "stage/rundir.h"
#include "stage/stage.h"

enum { COLUMN_LEAST = 38, MARGIN = 6, NUMBERS = 12 };
enum { PLAIN, GOOD, BAD, DIM };

struct pane {
    struct mf_history h;
    int64_t total; /* control steps, and */
    double kl;     /* the limit of KL, once `limited` */
    bool limited, hung_up;
    size_t told; /* iterations that were printed as lines */
};

struct top {
    double interval;
    struct pane *pane;
    int n, first; /* runs; the leftmost one on the screen */
    bool piped, utf8;
    SCREEN *screen; /* NULL: lines */
    FILE *keys;
};

static const struct mf_bind binds[] = {{"top.interval", offsetof(struct top, interval)}, {0}};

/* ---- what is known of a run ---- */

static double last(const struct mf_history *h, const char *series)
{
    const double *v = mf_history_find(h, series);
    for (size_t i = h->n; v && i-- > 0;)
        if (!isnan(v[i]))
            return v[i];
    return NAN;
}

/* A key of what a stage left in the run's folder; a saved stream elsewhere has none. */
static bool was_told(const struct pane *p, const char *stage, const char *key, void *value)
{
    const struct mf_bind wanted[] = {{key, 0}, {0}};
    char path[MF_PATH_MAX + 32];
    struct mf_err ignored;
    struct mf_conf *conf = mf_conf_new();
    snprintf(path, sizeof path, "%s/configs/%s.yaml", p->h.run, stage);
    bool found = mf_conf_file(conf, path, &ignored) == 0 && mf_conf_bind(conf, wanted, value, &ignored) == 0;
    mf_conf_free(conf);
    return found;
}

static void read_limits(struct pane *p)
{
    p->limited = was_told(p, "mf-collect", "training.total_timesteps", &p->total) &&
                 was_told(p, "mf-ppo", "training.target_kl", &p->kl);
}

static const char *state(const struct pane *p)
{
    return p->h.ended ? "ended" : mf_rundir_is_live(p->h.run) ? "running" : p->h.n || p->h.head ? "stopped" : "waiting";
}

/* The end of its name, of at most `width` bytes, fit for a terminal. */
static const char *name_of(const struct pane *p, int width, char to[MF_PATH_MAX])
{
    const char *s = *p->h.run ? p->h.run : p->h.path;
    const int n = (int)mf_plain_copy(to, s, strnlen(s, MF_PATH_MAX - 1));
    to[n] = '\0';
    return n > width ? to + n - width : to;
}

static void clock_text(double seconds, char text[32])
{
    long s = (long)seconds;
    if (s >= 3600)
        snprintf(text, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 32, "%ld:%02ld", s / 60, s % 60);
}

/* ---- drawing ---- */

/* Dots of one curve: two by four in a braille cell, or one in a plain one. */
struct canvas {
    int rows, cols, dx, dy; /* cells; dots in a cell */
    unsigned char *cell;
};

static void dot(struct canvas *c, int x, int y)
{
    static const unsigned char bit[4][2] = {{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}};
    if (x >= 0 && y >= 0 && x < c->cols * c->dx && y < c->rows * c->dy)
        c->cell[y / c->dy * c->cols + x / c->dx] |= bit[y % c->dy][x % c->dx];
}

static void line(struct canvas *c, int x0, int y0, int x1, int y1)
{
    int n = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= n; i++)
        dot(c, n ? x0 + (x1 - x0) * i / n : x0, n ? y0 + (y1 - y0) * i / n : y0);
}

static void show(const struct canvas *c, int row, int col, bool utf8)
{
    for (int y = 0; y < c->rows; y++)
        for (int x = 0; x < c->cols; x++) {
            unsigned char bits = c->cell[y * c->cols + x];
            const wchar_t braille[2] = {0x2800 + bits};
            if (bits && utf8)
                mvaddwstr(row + y, col + x, braille);
            else if (bits)
                mvaddch(row + y, col + x, '*');
        }
}

/* v over control steps, in rows x cols cells, low at the bottom; a dotted line at `limit` unless it is NaN. */
static void curve(const struct top *t, const struct mf_history *h, const double *v, int row, int col, int rows,
                  int cols, double low, double high, double limit)
{
    struct canvas c = {.rows = rows, .cols = cols - MARGIN, .dx = t->utf8 ? 2 : 1, .dy = t->utf8 ? 4 : 1};
    if (rows < 1 || c.cols < 1 || !h->n)
        return;
    c.cell = mf_xcalloc((size_t)(c.rows * c.cols), 1);
    const int w = c.cols * c.dx - 1, d = c.rows * c.dy - 1;
    const double from = h->step[0], span = h->step[h->n - 1] > from ? h->step[h->n - 1] - from : 1;
    for (int x = 0; !isnan(limit) && x <= w; x += 4)
        dot(&c, x, d - (int)lround(d * (limit - low) / (high - low)));
    for (size_t i = 0, before = 0, any = 0; v && i < h->n; i++) {
        if (isnan(v[i]))
            continue;
#define X(i) (int)lround(w *(h->step[i] - from) / span)
#define Y(i) (d - (int)lround(d * (fmin(fmax(v[i], low), high) - low) / (high - low)))
        before = any ? before : i;
        line(&c, X(before), Y(before), X(i), Y(i));
#undef X
#undef Y
        before = i, any = 1;
    }
    attron(COLOR_PAIR(DIM));
    mvprintw(row, col, "%5.3g", high);
    mvprintw(row + rows - 1, col, "%5.3g", low);
    attroff(COLOR_PAIR(DIM));
    show(&c, row, col + MARGIN, t->utf8);
    free(c.cell);
}

static void number_at(int row, int col, const char *label, const char *fmt, double v)
{
    char text[24] = "-";
    if (!isnan(v))
        snprintf(text, sizeof text, fmt, v);
    mvprintw(row, col, "%-10s %8s", label, text);
}

static void numbers(const struct mf_history *h, int row, int col, int rows, int cols)
{
    static const struct {
        const char *label, *series, *fmt;
    } all[NUMBERS] = {{"return", "rollout/ep_return", "%.4g"},
                      {"length", "rollout/ep_length", "%.1f"},
                      {"clip frac", "train/clip_fraction", "%.4f"},
                      {"expl. var", "train/explained_variance", "%.3f"},
                      {"pol. loss", "train/policy_loss", "%.2g"},
                      {"val. loss", "train/value_loss", "%.2g"},
                      {"grad norm", "train/grad_norm", "%.3g"},
                      {"ratio max", "train/ratio_max", "%.3f"},
                      {"entropy", "train/entropy", "%.3g"},
                      {"sigma", "train/noise", "%.3g"},
                      {"lr", "train/lr", "%.2e"},
                      {"steps/s", "perf/fps", "%.0f"}};
    const int side = cols >= 4 * 20 ? 4 : cols >= 3 * 20 ? 3 : cols >= 2 * 20 - 1 ? 2 : 1;
    for (int i = 0; i < NUMBERS && i / side < rows; i++)
        number_at(row + i / side, col + i % side * 20, all[i].label, all[i].fmt, last(h, all[i].series));
}

/* Who waits for whom: while environments run the learner waits, and the other way round. */
static void shares(const struct mf_history *h, int row, int col, int cols)
{
    double rollout = last(h, "perf/rollout_time"), update = last(h, "perf/update_time"), share;
    if (isnan(rollout + update) || rollout + update <= 0)
        return;
    share = rollout / (rollout + update);
    mvprintw(row, col, "%.*s", cols - 1, "");
    printw("rollout %3.0f %% ", 100 * share);
    for (int i = 0, n = cols - 28; i < n; i++)
        addch(i < lround(n * share) ? '=' : '-');
    printw(" update %3.0f %%", 100 * (1 - share));
}

/* The share of its time that each stage waited in the last round, for input or for room in its output. */
static void waits(const struct mf_history *h, int row, int col, int cols)
{
    char text[200] = "", other[64];
    size_t n = 0;
    for (int s = 0; s < h->n_series && n < sizeof text; s++) {
        const char *name = h->series[s].name, *end = strrchr(name, '_');
        if (strncmp(name, "perf/idle_", 10) != 0 || !end || strcmp(end, "_in") != 0)
            continue;
        snprintf(other, sizeof other, "%.*s_out", (int)(end - name), name);
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s %.0f %%  ", (int)(end - name - 10), name + 10,
                              100 * (last(h, name) + last(h, other)));
    }
    if (n < sizeof text && !isnan(last(h, "perf/idle")))
        n += (size_t)snprintf(text + n, sizeof text - n, "ppo %.0f %%", 100 * last(h, "perf/idle"));
    if (n)
        mvprintw(row, col, "waits  %.*s", cols - 8, text);
}

static void heading(const struct pane *p, int row, int col, int cols)
{
    const struct mf_history *h = &p->h;
    char spent[32], left[32] = "", name[MF_PATH_MAX];
    attron(A_BOLD);
    mvprintw(row, col, "%s", name_of(p, cols - 10, name));
    attroff(A_BOLD);
    printw(" %s", state(p));
    if (!h->n)
        return;
    const double step = h->step[h->n - 1], total = p->limited ? (double)p->total : NAN;
    clock_text(h->time[h->n - 1], spent);
    mvprintw(row + 1, col, "iter %.0f  %.4gk", h->iter[h->n - 1] + 1, step / 1000);
    if (total > 0)
        printw(" of %.4gk steps", total / 1000);
    printw("  %s", spent);
    if (total > step && !h->ended && last(h, "perf/fps") > 0) {
        clock_text((total - step) / last(h, "perf/fps"), left);
        printw("  left %s", left);
    }
}

static double most(const struct mf_history *h, const double *v)
{
    double m = 0;
    for (size_t i = 0; v && i < h->n; i++)
        m = v[i] > m ? v[i] : m;
    return m;
}

/* A run from top to bottom: what it is, success, KL, numbers, shares. */
static void column(const struct top *t, const struct pane *p, int col, int cols, int rows)
{
    const struct mf_history *h = &p->h;
    const double *success = mf_history_find(h, "rollout/success_once"), *kl = mf_history_find(h, "train/approx_kl");
    const double limit = p->limited && isfinite(p->kl) ? p->kl : NAN, now = last(h, "train/approx_kl");
    const double high = fmax(most(h, kl), 1e-6);
    const int table = cols >= 80 ? 3 : cols >= 60 ? 4 : rows >= 24 ? 6 : 4;
    const int room = rows - 7 - table, upper = (room * 3 + 4) / 5, lower = room - upper;
    heading(p, 0, col, cols);
    attron(COLOR_PAIR(GOOD));
    mvprintw(2, col, "success %.1f %%", 100 * last(h, "rollout/success_once"));
    attroff(COLOR_PAIR(GOOD));
    curve(t, h, success, 3, col, upper, cols - 1, 0, 1, NAN);
    attron(COLOR_PAIR(now > limit ? BAD : PLAIN));
    mvprintw(3 + upper, col, "KL %.4f", now);
    if (!isnan(limit))
        printw(" of %.4g", limit);
    attroff(COLOR_PAIR(now > limit ? BAD : PLAIN));
    curve(t, h, kl, 4 + upper, col, lower, cols - 1, 0, limit < 10 * high ? fmax(high, 1.2 * limit) : high, limit);
    numbers(h, 4 + upper + lower, col, table, cols);
    shares(h, rows - 3, col, cols);
    waits(h, rows - 2, col, cols);
}

static void draw(const struct top *t)
{
    int rows, cols;
    getmaxyx(stdscr, rows, cols);
    erase();
    int side = cols / COLUMN_LEAST < 1 ? 1 : cols / COLUMN_LEAST;
    side = side < t->n ? side : t->n;
    for (int i = 0; i < side; i++)
        column(t, &t->pane[(t->first + i) % t->n], cols / side * i, cols / side, rows);
    attron(A_REVERSE);
    mvprintw(rows - 1, 0, "%-*.*s", cols, cols, t->n > side ? " q quit   left, right: other runs" : " q quit");
    attroff(A_REVERSE);
    refresh();
}

static void print_line(const struct pane *p, size_t i)
{
    const struct mf_history *h = &p->h;
    char name[MF_PATH_MAX];
    printf("%s iter=%.0f step=%.0f time=%.1f", name_of(p, MF_PATH_MAX, name), h->iter[i], h->step[i], h->time[i]);
    for (int s = 0; s < h->n_series; s++)
        if (!isnan(h->series[s].value[i]))
            printf(" %s=%.6g", h->series[s].name, h->series[s].value[i]);
    putchar('\n');
}

static void print_last(const struct pane *p)
{
    const struct mf_history *h = &p->h;
    char name[MF_PATH_MAX];
    if (h->n)
        printf("%s %s: iteration %.0f, %.0f steps, success %.1f %%\n", name_of(p, MF_PATH_MAX, name), state(p),
               h->iter[h->n - 1] + 1, h->step[h->n - 1], 100 * last(h, "rollout/success_once"));
}

/* ---- the program ---- */

static int open_screen(struct top *t, struct mf_err *err)
{
    t->keys = t->piped ? fopen("/dev/tty", "re") : stdin;
    setlocale(LC_ALL, "");
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
    if (has_colors() && start_color() == OK && use_default_colors() == OK) {
        init_pair(GOOD, COLOR_GREEN, -1);
        init_pair(BAD, COLOR_RED, -1);
        init_pair(DIM, COLOR_CYAN, -1);
    }
    return 0;
}

static int open_top(struct mf_run *run, void *self, struct mf_err *err)
{
    struct top *t = self;
    const char *const *words = mf_run_operands(run, &t->n);
    t->piped = t->n == 0;
    if (t->piped && isatty(STDIN_FILENO))
        return mf_err_set(err, MF_EUSAGE, "name the runs to watch (mf-top outputs/*/latest), or pipe metrics in");
    t->n = t->piped ? 1 : t->n;
    t->pane = mf_xcalloc((size_t)t->n, sizeof *t->pane);
    for (int i = 0; i < t->n; i++) {
        int rc = mf_history_open(&t->pane[i].h, t->piped ? "-" : words[i], err);
        if (rc)
            return rc;
    }
    return isatty(STDOUT_FILENO) ? open_screen(t, err) : 0;
}

static int take(struct top *t, bool *any, bool *over, struct mf_err *err)
{
    *any = false, *over = true;
    for (int i = 0; i < t->n; i++) {
        struct pane *p = &t->pane[i];
        int rc = mf_history_more(&p->h, &p->hung_up, err);
        if (rc < 0)
            return rc;
        if (p->hung_up && !p->h.ended)
            return mf_err_set(err, MF_EFORMAT,
                              "<stdin> is truncated: it ends after %zu iterations without an end frame", p->h.n);
        if (!p->limited && *p->h.run)
            read_limits(p);
        *any |= rc > 0;
        *over &= p->hung_up || p->h.ended || (!t->piped && !rc && !mf_rundir_is_live(p->h.run));
    }
    return 0;
}

/* 1: go on, 0: the person has seen enough. */
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
    char name[MF_PATH_MAX];
    bool any, over;
    int rc = take(t, &any, &over, err);
    (void)run;
    if (rc < 0)
        return rc;
    if (t->screen)
        return over && t->piped ? 0 : look(t);
    for (int i = 0; i < t->n; i++)
        while (t->pane[i].told < t->pane[i].h.n)
            print_line(&t->pane[i], t->pane[i].told++);
    if (fflush(stdout))
        return mf_err_errno(err, "write <stdout>");
    for (int i = 0; over && i < t->n; i++)
        if (!t->pane[i].h.n && !t->pane[i].h.ended && !t->piped)
            return mf_err_set(err, MF_EIO, "%s: nobody works on it, and there is no round that it has learned from",
                              name_of(&t->pane[i], MF_PATH_MAX, name));
    if (!any && !over)
        usleep((useconds_t)(1e6 * t->interval < 1e5 ? 1e6 * t->interval : 1e5));
    return !over;
}

/* A pipe that has ended leaves its last line behind. */
static int close_top(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    struct top *t = self;
    (void)run, (void)rc, (void)err;
    if (t->screen) {
        endwin();
        delscreen(t->screen);
        for (int i = 0; i < t->n; i++)
            print_last(&t->pane[i]);
    }
    for (int i = 0; t->pane && i < t->n; i++)
        mf_history_close(&t->pane[i].h);
    free(t->pane);
    if (t->piped && t->keys)
        fclose(t->keys);
    return 0;
}

static const struct mf_stage stage = {
    .name = "top",
    .summary = "Watch runs in a terminal: curves, numbers, where the time goes. Elsewhere: a line for each iteration.",
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
