#include "plot/pane.h"

#include <curses.h>
#include <math.h>
#include <string.h>

#include "base/number.h"
#include "base/plain.h"
#include "plot/canvas.h"

enum { MARGIN = 6, NUMBERS = 14 };
enum { PLAIN, GOOD, BAD, DIM };

const char *mf_pane_name(const struct mf_pane *p, int width, char to[MF_PANE_NAME])
{
    const char *s = *p->h.run ? p->h.run : p->h.path;
    const int n = (int)mf_plain_copy(to, s, strnlen(s, MF_PANE_NAME - 1));
    to[n] = '\0';
    return n > width ? to + n - (width > 0 ? width : 0) : to;
}

/* ---- lines ---- */

void mf_pane_line(const struct mf_pane *p, size_t i, FILE *to)
{
    const struct mf_history *h = &p->h;
    char name[MF_PANE_NAME];
    fprintf(to, "%s iteration=%.0f step=%.0f time=%.1f", mf_pane_name(p, MF_PANE_NAME, name), h->iter[i] + 1,
            h->step[i], h->time[i]);
    for (int s = 0; s < h->n_series; s++)
        if (!isnan(h->series[s].value[i]))
            fprintf(to, " %s=%.6g", h->series[s].name, h->series[s].value[i]);
    putc('\n', to);
}

void mf_pane_last(const struct mf_pane *p, FILE *to)
{
    const struct mf_history *h = &p->h;
    char name[MF_PANE_NAME];
    if (!h->n)
        return;
    fprintf(to, "%s %s: iteration %.0f, %.0f steps", mf_pane_name(p, MF_PANE_NAME, name), p->state,
            h->iter[h->n - 1] + 1, h->step[h->n - 1]);
    const double success = mf_history_last(h, "rollout/success_once"), loss = mf_history_last(h, "train/loss");
    if (!isnan(success))
        fprintf(to, ", success %.1f %%", 100 * success);
    else if (!isnan(loss))
        fprintf(to, ", loss %.4g", loss);
    putc('\n', to);
}

/* ---- the column ---- */

void mf_pane_colours(void)
{
    init_pair(GOOD, COLOR_GREEN, -1);
    init_pair(BAD, COLOR_RED, -1);
    init_pair(DIM, COLOR_CYAN, -1);
}

static void clock_text(double seconds, char text[32])
{
    long s = seconds < 1e12 ? (long)seconds : 0;
    if (!(seconds >= 0 && seconds < 1e12))
        snprintf(text, 32, "-");
    else if (s >= 3600)
        snprintf(text, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(text, 32, "%ld:%02ld", s / 60, s % 60);
}

/* v over control steps, in rows x cols cells, low at the bottom; a dotted line at `limit` unless it is NaN. */
static void curve(const struct mf_history *h, bool braille, const double *v, int row, int col, int rows, int cols,
                  double low, double high, double limit)
{
    struct mf_canvas c;
    if (rows < 1 || cols <= MARGIN || !h->n)
        return;
    mf_canvas_init(&c, rows, cols - MARGIN, braille, low, high);
    if (!isnan(limit))
        mf_canvas_level(&c, limit);
    if (v)
        mf_canvas_curve(&c, h->n, h->step, v);
    attron(COLOR_PAIR(DIM));
    mvprintw(row, col, "%5.3g", high);
    mvprintw(row + rows - 1, col, "%5.3g", low);
    attroff(COLOR_PAIR(DIM));
    for (int y = 0; y < c.rows; y++)
        for (int x = 0; x < c.cols; x++) {
            const wchar_t text[2] = {mf_canvas_at(&c, y, x)};
            if (*text)
                mvaddwstr(row + y, col + MARGIN + x, text);
        }
    mf_canvas_release(&c);
}

static void number_at(int row, int col, const char *label, const char *fmt, double v)
{
    char text[MF_NUMBER];
    mvprintw(row, col, "%-10s %8s", label, mf_number(text, fmt, v));
}

static void numbers(const struct mf_history *h, int row, int col, int rows, int cols)
{
    static const struct {
        const char *label, *series, *fmt;
    } all[NUMBERS] = {{"return", "rollout/ep_return", "%.4g"},
                      {"length", "rollout/ep_length", "%.1f"},
                      {"clip frac", "train/clip_fraction", "%.3g"},
                      {"expl. var", "train/explained_variance", "%.3f"},
                      {"pol. loss", "train/policy_loss", "%.2g"},
                      {"val. loss", "train/value_loss", "%.2g"},
                      {"grad norm", "train/grad_norm", "%.3g"},
                      {"ratio max", "train/ratio_max", "%.3f"},
                      {"entropy", "train/entropy", "%.3g"},
                      {"rfc loss", "train/rfc_loss", "%.3g"},
                      {"sigma", "train/noise", "%.3g"},
                      {"lr", "train/lr", "%.2e"},
                      {"steps/s", "perf/fps", "%.0f"},
                      {"samples/s", "perf/samples_per_s", "%.4g"}};
    const int side = cols >= 4 * 20 ? 4 : cols >= 3 * 20 ? 3 : cols >= 2 * 20 - 1 ? 2 : 1;
    for (int i = 0, at = 0; i < NUMBERS && at / side < rows; i++) {
        if (h->n && !mf_history_find(h, all[i].series))
            continue;
        number_at(row + at / side, col + at % side * 20, all[i].label, all[i].fmt, mf_history_last(h, all[i].series));
        at++;
    }
}

/* Shares of rollout and update: the learner waits while environments run, and vice versa. */
static void shares(const struct mf_history *h, int row, int col, int cols)
{
    double rollout = mf_history_last(h, "perf/rollout_time"), update = mf_history_last(h, "perf/update_time"), share;
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
                              100 * (mf_history_last(h, name) + mf_history_last(h, other)));
    }
    if (n < sizeof text && !isnan(mf_history_last(h, "perf/idle")))
        n += (size_t)snprintf(text + n, sizeof text - n, "ppo %.0f %%", 100 * mf_history_last(h, "perf/idle"));
    if (n)
        mvprintw(row, col, "waits  %.*s", cols - 8, text);
}

/* Of the device that the learner computes on, where that is not the host's processor. */
static void device(double memory, double utilisation, int row, int col)
{
    mvprintw(row, col, "device %.2f GiB", memory);
    if (!isnan(utilisation))
        printw("  %.0f %%", utilisation);
}

static void heading(const struct mf_pane *p, int row, int col, int cols)
{
    const struct mf_history *h = &p->h;
    char spent[32], left[32] = "", name[MF_PANE_NAME];
    attron(A_BOLD);
    mvprintw(row, col, "%s", mf_pane_name(p, cols - 10, name));
    attroff(A_BOLD);
    printw(" %s", p->state);
    if (!h->n)
        return;
    const double step = h->step[h->n - 1], total = p->limited ? (double)p->total : NAN;
    clock_text(h->time[h->n - 1], spent);
    mvprintw(row + 1, col, "iter %.0f  %.4gk", h->iter[h->n - 1] + 1, step / 1000);
    if (total > 0)
        printw(" of %.4gk steps", total / 1000);
    printw("  %s", spent);
    if (total > step && !h->ended && mf_history_last(h, "perf/fps") > 0) {
        clock_text((total - step) / mf_history_last(h, "perf/fps"), left);
        printw("  left %s", left);
    }
}

static double most(const double *v, size_t n)
{
    double m = 0;
    for (size_t i = 0; v && i < n; i++)
        m = isfinite(v[i]) && v[i] > m ? v[i] : m;
    return m;
}

/* One of the two pictures of a column: a run that learns by PPO has success and KL, a clone its loss and its gradient.
 */
struct plotted {
    const char *label, *series, *format;
    double unit; /* factor for the newest value */
    double high; /* minimum of the scale's upper end; 0: the largest value */
};

static const struct plotted upper_of[] = {{"success", "rollout/success_once", "%.1f %%", 100, 1},
                                          {"loss", "train/loss", "%.4g", 1, 0}},
                            lower_of[] = {{"KL", "train/approx_kl", "%.3g", 1, 0},
                                          {"gradient norm", "train/grad_norm", "%.3g", 1, 0}};

/* The first of the two that the run has; the first where it has none. */
static const struct plotted *choose(const struct mf_history *h, const struct plotted of[2])
{
    return !mf_history_find(h, of[0].series) && mf_history_find(h, of[1].series) ? &of[1] : &of[0];
}

/* A line, then `rows` of the curve with a level at `limit` unless it is NaN. */
static void put_part(const struct mf_history *h, bool braille, const struct plotted *p, int row, int col, int rows,
                     int cols, int colour, double limit)
{
    const double *v = mf_history_find(h, p->series), now = mf_history_last(h, p->series);
    const double high = fmax(fmax(most(v, h->n), p->high), 1e-12);
    char text[MF_NUMBER];
    colour = now > limit ? BAD : colour;
    attron(COLOR_PAIR(colour));
    mvprintw(row, col, "%s %s", p->label, mf_number(text, p->format, p->unit * now));
    if (!isnan(limit))
        printw(" of %.4g", limit);
    attroff(COLOR_PAIR(colour));
    curve(h, braille, v, row + 1, col, rows, cols - 1, 0, limit < 10 * high ? fmax(high, 1.2 * limit) : high, limit);
}

void mf_pane_draw(const struct mf_pane *p, bool braille, int col, int cols, int rows)
{
    const struct mf_history *h = &p->h;
    const struct plotted *upper = choose(h, upper_of), *lower = choose(h, lower_of);
    const double limit = p->limited && isfinite(p->kl) && lower == lower_of ? p->kl : NAN;
    const int table = cols >= 80 ? 3 : cols >= 60 ? 4 : rows >= 24 ? 6 : 4;
    const double memory = mf_history_last(h, "device/memory");
    const int room = rows - 7 - table - !isnan(memory), first = (room * 3 + 4) / 5, second = room - first;
    heading(p, 0, col, cols);
    put_part(h, braille, upper, 2, col, first, cols, GOOD, NAN);
    put_part(h, braille, lower, 3 + first, col, second, cols, PLAIN, limit);
    numbers(h, 4 + first + second, col, table, cols);
    if (!isnan(memory))
        device(memory, mf_history_last(h, "device/utilisation"), rows - 4, col);
    shares(h, rows - 3, col, cols);
    waits(h, rows - 2, col, cols);
}
