/* Curves in cells: dots where the numbers say, in braille and in plain characters. */
#include <string.h>

#include "plot/canvas.h"
#include "tap.h"

/* Are the cells of a plain canvas these, row by row from the top? */
static bool shows(const struct mf_canvas *c, const char *want)
{
    bool same = (int)strlen(want) == c->rows * c->cols;
    for (int i = 0; same && i < c->rows * c->cols; i++)
        same = mf_canvas_at(c, i / c->cols, i % c->cols) == (want[i] == ' ' ? 0 : (wchar_t)want[i]);
    return same;
}

static void plain(void)
{
    const double x[] = {10, 20, 30, 40, 50}, up[] = {0, 1, 2, 3, 4}, gap[] = {NAN, 2, NAN, 2, NAN},
                 far[] = {9, 9, 9, -9, -9};
    struct mf_canvas c;
    mf_canvas_init(&c, 5, 5, false, 0, 4);
    ok(shows(&c, "                         "), "it begins empty");
    mf_canvas_curve(&c, 5, x, up);
    ok(shows(&c, "    *"
                 "   * "
                 "  *  "
                 " *   "
                 "*    "),
       "from low at the bottom to high on top, from the first x to the last");
    mf_canvas_release(&c);
    mf_canvas_init(&c, 3, 5, false, 0, 4);
    mf_canvas_curve(&c, 5, x, gap);
    ok(shows(&c, "     "
                 " *** "
                 "     "),
       "points without a value are skipped, and a line joins the others");
    mf_canvas_release(&c);
    mf_canvas_init(&c, 3, 5, false, 0, 4);
    mf_canvas_curve(&c, 5, x, far);
    ok(mf_canvas_at(&c, 0, 0) == '*' && mf_canvas_at(&c, 2, 4) == '*' && !mf_canvas_at(&c, 2, 0),
       "points beyond the range lie on the edge");
    mf_canvas_release(&c);
    mf_canvas_init(&c, 3, 9, false, 0, 4);
    mf_canvas_level(&c, 4);
    mf_canvas_level(&c, 100);
    ok(shows(&c, "*   *   *"
                 "         "
                 "         "),
       "a level is dotted, and none where it is beyond");
    mf_canvas_curve(&c, 1, x, up);
    ok(mf_canvas_at(&c, 2, 0) == '*', "a single point is at the left");
    mf_canvas_release(&c);
}

/* Unicode's dots: 1 2 3 7 down the left, 4 5 6 8 down the right. */
static void braille(void)
{
    const double x[] = {0, 1}, up[] = {0, 3}, flat[] = {3, 3};
    struct mf_canvas c;
    static const wchar_t left[] = {0x2840, 0x2804, 0x2802, 0x2801};
    for (int v = 0; v < 4; v++) {
        mf_canvas_init(&c, 1, 1, true, 0, 3);
        mf_canvas_level(&c, v);
        ok(mf_canvas_at(&c, 0, 0) == left[v], "dot %d from below on the left", v + 1);
        mf_canvas_release(&c);
    }
    mf_canvas_init(&c, 1, 1, true, 0, 3);
    mf_canvas_curve(&c, 2, x, flat);
    ok(mf_canvas_at(&c, 0, 0) == 0x2809, "the first and the fourth on top");
    mf_canvas_release(&c);
    mf_canvas_init(&c, 1, 1, true, 0, 3);
    mf_canvas_curve(&c, 2, x, up);
    ok((mf_canvas_at(&c, 0, 0) & 0x48) == 0x48 && mf_canvas_at(&c, 0, 0) >> 8 == 0x28, "the seventh is at the bottom");
    mf_canvas_release(&c);
    mf_canvas_init(&c, 2, 3, true, 0, 3);
    mf_canvas_curve(&c, 2, x, flat);
    ok(mf_canvas_at(&c, 0, 0) == 0x2809 && mf_canvas_at(&c, 0, 2) == 0x2809 && mf_canvas_at(&c, 1, 1) == 0,
       "a line at the top fills the upper cells");
    mf_canvas_release(&c);
}

int main(void)
{
    plain();
    braille();
    return done();
}
