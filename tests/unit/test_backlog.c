/* Frames that may be asked for again: kept until their iteration is done, oldest first. */
#include "stream/backlog.h"
#include "tap.h"

static int64_t iter_of(const struct mf_frame *f)
{
    struct mf_err err;
    int64_t iter = -1;
    (void)mf_frame_get_int(f, "iter", &iter, &err);
    return iter;
}

int main(void)
{
    struct mf_backlog b = {0};
    for (int i = 0; i < 6; i++) { /* two frames of each of the iterations 4, 5, 6 */
        struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
        mf_frame_set_int(f, "iter", 4 + i / 2);
        mf_backlog_keep(&b, f);
        mf_frame_free(f); /* the sender's */
    }
    ok(b.n == 6 && iter_of(b.frame[0]) == 4 && iter_of(b.frame[5]) == 6, "frames are kept in the order they were sent");
    int n;
    struct mf_frame *const *of = mf_backlog_find(&b, 5, &n);
    ok(n == 2 && of && iter_of(of[0]) == 5 && iter_of(of[1]) == 5, "those of one iteration");
    ok(!mf_backlog_find(&b, 3, &n) && n == 0 && !mf_backlog_find(&b, 7, &n) && n == 0, "others have none");
    mf_backlog_done(&b, 4);
    ok(b.n == 6, "an iteration that is due is not done");
    mf_backlog_done(&b, 6);
    ok(b.n == 2 && iter_of(b.frame[0]) == 6 && iter_of(b.frame[1]) == 6, "those before it are let go");
    mf_backlog_done(&b, 99);
    ok(b.n == 0, "up to the last one");
    struct mf_frame *f = mf_frame_new(MF_ROUND);
    mf_backlog_keep(&b, f);
    mf_frame_free(f);
    mf_backlog_release(&b);
    ok(b.n == 0 && !b.frame, "released, nothing is left");
    return done();
}
