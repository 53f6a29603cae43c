/* An iteration as a frame and as text: missing values are left out of the frame, and a dash in text. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "rl/report.h"
#include "tap.h"

static const struct mf_ppo_stats stats = {.explained_variance = NAN, .correction_max = NAN};
static const struct mf_health health = {NAN, NAN, NAN};

static struct mf_frame *round_of(int64_t ended, double success, int64_t counted, double counted_success)
{
    struct mf_frame *f = mf_frame_new(MF_ROUND);
    mf_frame_set_int(f, "episodes.n", ended);
    mf_frame_set_num(f, "episodes.success", success);
    mf_frame_set_num(f, "episodes.return", 1);
    mf_frame_set_num(f, "episodes.length", 2);
    if (counted < 0)
        return f;
    mf_frame_set_int(f, "counted.n", counted);
    mf_frame_set_num(f, "counted.success", counted_success);
    mf_frame_set_num(f, "counted.return", 3);
    mf_frame_set_num(f, "counted.length", 4);
    return f;
}

static struct mf_frame *report_of(struct mf_frame *a, struct mf_frame *b)
{
    const struct mf_round_part part[] = {{.src = "a", .round = a}, {.src = "b", .round = b}};
    struct mf_report r = {.steps = 10,
                          .round_time = 1,
                          .update_time = .5,
                          .parts = part,
                          .n_parts = b ? 2 : 1,
                          .stats = &stats,
                          .health = &health};
    struct mf_frame *m = mf_report_frame(&r);
    mf_frame_free(a);
    mf_frame_free(b);
    return m;
}

static double value(const struct mf_frame *m, const char *path)
{
    struct mf_err ignored;
    double v;
    return mf_frame_get_num(m, path, &v, &ignored) ? NAN : v;
}

static void words(const struct mf_frame *m, const char *has)
{
    char line[256], *table = NULL;
    size_t size;
    FILE *to = open_memstream(&table, &size);
    mf_report_row(m, to);
    fclose(to);
    mf_report_words(m, line, sizeof line);
    ok(strstr(table, has) && !strstr(table, "nan") && !strstr(line, "nan"), "'%s' in a table, nan nowhere: %s", has,
       line);
    free(table);
}

static void lines(void)
{
    struct mf_frame *m = report_of(round_of(0, NAN, 0, NAN), NULL);
    char *row;
    size_t n;
    FILE *to = open_memstream(&row, &n);
    mf_report_row(m, to);
    fclose(to);
    ok(strstr(row, "\n    1 ") != NULL, "the table counts iterations from 1: %s", row);
    free(row);
    mf_frame_free(m);
    double last = mf_now() - 11;
    const double before = last;
    ok(freopen("/dev/null", "w", stderr) != NULL, "stderr is no terminal");
    ok(mf_log_is_due(&last) && last > before && !mf_log_is_due(&last),
       "a line is due every 10 s where stderr is no terminal");
}

int main(void)
{
    lines();
    struct mf_frame *m = report_of(round_of(5, 1, 0, 0), NULL);
    ok(value(m, "values.rollout/episodes") == 5 && value(m, "values.rollout/episodes_counted") == 0 &&
           !mf_frame_has(m, "values.rollout/success_once") && !mf_frame_has(m, "values.rollout/ep_return") &&
           !mf_frame_has(m, "values.train/explained_variance"),
       "episodes that ended, of which none can be counted yet, say no success");
    words(m, "        -");
    mf_frame_free(m);
    m = report_of(round_of(5, 1, 30, .5), round_of(0, 0, 10, .9));
    ok(value(m, "values.rollout/success_once") == .6 && value(m, "values.rollout/episodes_counted") == 40 &&
           value(m, "values.rollout/ep_return") == 3 && value(m, "values.rollout/ep_length") == 4,
       "of two sources, by their episodes");
    words(m, "    60.0%");
    mf_frame_free(m);
    m = report_of(round_of(5, .2, -1, 0), round_of(0, 0, -1, 0));
    ok(value(m, "values.rollout/success_once") == .2 && value(m, "values.rollout/episodes_counted") == 5,
       "of a collector that does not count so, those that ended");
    mf_frame_free(m);
    m = report_of(round_of(4, NAN, -1, 0), round_of(4, .5, -1, 0));
    ok(value(m, "values.rollout/success_once") == .5 && value(m, "values.rollout/ep_length") == 2,
       "and of a task that has no success, none");
    mf_frame_free(m);
    return done();
}
