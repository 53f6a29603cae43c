/* A run on a terminal: its lines, and a column of a screen in memory. */
#include <curses.h>
#include <stdlib.h>
#include <string.h>

#include "stream/frame.h"
#include "plot/pane.h"
#include "tap.h"

static struct mf_err err;

/* Two iterations; the second one has no return. */
static void fill(struct mf_pane *p)
{
    *p = (struct mf_pane){.h.fd = -1, .state = "running"};
    snprintf(p->h.run, sizeof p->h.run, "outputs/po\033int/run");
    for (int i = 0; i < 2; i++) {
        struct mf_frame *f = mf_frame_new(MF_METRICS);
        mf_frame_set_int(f, "iter", i);
        mf_frame_set_int(f, "step", 1000 * (i + 1));
        mf_frame_set_num(f, "time", 3700 * i);
        mf_frame_set_num(f, "values.rollout/success_once", .25 * (i + 1));
        mf_frame_set_num(f, "values.train/approx_kl", .01);
        mf_frame_set_num(f, "values.perf/fps", 100);
        mf_frame_set_num(f, "values.perf/rollout_time", 3);
        mf_frame_set_num(f, "values.perf/update_time", 1);
        mf_frame_set_num(f, "values.perf/idle_gae_in", .5);
        mf_frame_set_num(f, "values.perf/idle_gae_out", .25);
        if (i == 0)
            mf_frame_set_num(f, "values.rollout/ep_return", 7);
        if (mf_history_take(&p->h, f, &err))
            abort();
        mf_frame_free(f);
    }
}

static void lines(const struct mf_pane *p)
{
    char text[2000] = "", name[MF_PANE_NAME];
    memset(name, 'x', sizeof name); /* what lies behind the end must not be read */
    ok(!strcmp(mf_pane_name(p, 100, name), "outputs/po?int/run") && !strcmp(mf_pane_name(p, 3, name), "run") &&
           !*mf_pane_name(p, -2, name),
       "the end of the name, without control characters");
    ok(mf_history_last(&p->h, "rollout/ep_return") == 7 && isnan(mf_history_last(&p->h, "none")),
       "the newest value there is");
    FILE *to = fmemopen(text, sizeof text, "w");
    mf_pane_line(p, 1, to);
    mf_pane_last(p, to);
    fclose(to);
    ok(!strcmp(text,
               "outputs/po?int/run iteration=2 step=2000 time=3700.0 rollout/success_once=0.5 train/approx_kl=0.01 "
               "perf/fps=100 perf/rollout_time=3 perf/update_time=1 perf/idle_gae_in=0.5 perf/idle_gae_out=0.25\n"
               "outputs/po?int/run running: iteration 2, 2000 steps, success 50.0 %\n") ||
           (printf("# %s", text), false),
       "a line has the iteration's values; the last one has the progress of the run");
}

/* Does the row of the screen have the text? */
static bool reads(int row, const char *want)
{
    char text[200] = "";
    mvinnstr(row, 0, text, sizeof text - 1);
    return strstr(text, want) || (printf("# %d: '%s'\n", row, text), false);
}

static bool plain_dots(int row, int cols)
{
    bool any = false;
    for (int x = 0; x < cols; x++)
        any |= (mvinch(row, x) & A_CHARTEXT) == '*';
    return any;
}

static void column(struct mf_pane *p)
{
    FILE *nowhere = fopen("/dev/null", "r+");
    setenv("LINES", "24", 1);
    setenv("COLUMNS", "80", 1);
    SCREEN *screen = nowhere ? newterm("vt100", nowhere, nowhere) : NULL;
    if (!screen) {
        skip("a column of the screen", "the terminal vt100 is not known here");
        return;
    }
    mf_pane_draw(p, false, 0, 80, 24);
    ok(reads(0, "outputs/po?int/run running") && reads(1, "iter 2  2k  1:01:40"), "its name, state, how far it is");
    ok(reads(2, "success 50.0 %") && reads(3, "    1"), "success, of a scale up to 1");
    ok(plain_dots(8, 80) && !plain_dots(3, 80), "its curve goes up to a half");
    ok(reads(21, "rollout  75 %") && reads(21, "update  25 %") && reads(22, "waits  gae 75 %"), "where the time goes");
    ok(reads(18, "return            7"), "numbers, the newest that there are");
    p->limited = true, p->total = 4000, p->kl = .02;
    erase();
    mf_pane_draw(p, false, 0, 80, 24);
    ok(reads(1, "iter 2  2k of 4k steps  1:01:40  left 0:20"), "with known limits, the remaining time");
    ok(reads(12, "KL 0.01 of 0.02"), "and KL's limit");
    struct mf_frame *f = mf_frame_new(MF_METRICS);
    mf_frame_set_int(f, "iter", 2);
    mf_frame_set_int(f, "step", 3000);
    mf_frame_set_num(f, "time", 7400);
    mf_frame_set_num(f, "values.device/memory", 37.5);
    mf_frame_set_num(f, "values.device/utilisation", 81);
    if (mf_history_take(&p->h, f, &err))
        abort();
    mf_frame_free(f);
    erase();
    mf_pane_draw(p, false, 0, 80, 24);
    ok(reads(20, "device 37.50 GiB  81 %") && reads(21, "rollout  75 %") && reads(17, "return            7"),
       "a device with a memory of its own");
    endwin();
    delscreen(screen);
    fclose(nowhere);
}

int main(void)
{
    struct mf_pane p;
    fill(&p);
    lines(&p);
    column(&p);
    mf_history_close(&p.h);
    return done();
}
