#include "data/rollout.h"
#include "tap.h"

int main(void)
{
    struct mf_err err;
    struct mf_rollout r;
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    mf_frame_set_int(f, "iter", 3);
    ok(mf_rollout_bind(&r, f, 0, &err) == MF_EFORMAT, "a rollout without rewards is refused: %s", err.text);
    void *d;
    mf_frame_add(f, "rewards", MF_F32, 3, (size_t[]){4, 2, 1}, &d, &err);
    ((float *)d)[7] = NAN;
    mf_frame_add(f, "terminated", MF_U8, 2, (size_t[]){4, 2}, &d, &err);
    ok(mf_rollout_bind(&r, f, 0, &err) == MF_EFORMAT, "a rollout without rewards is refused: %s", err.text);
    mf_frame_add(f, "truncated", MF_U8, 2, (size_t[]){4, 3}, &d, &err);
    ok(mf_rollout_bind(&r, f, 0, &err) == MF_EFORMAT, "a rollout without rewards is refused: %s", err.text);
    mf_frame_add(f, "truncated", MF_U8, 2, (size_t[]){4, 2}, &d, &err);
    ok(mf_rollout_bind(&r, f, 0, &err) == MF_EFORMAT, "a rollout without rewards is refused: %s", err.text);
    mf_frame_free(f);
    return done();
}
