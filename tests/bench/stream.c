/* stream - a stream of made-up rollouts on stdout: stream SLICES N
 *
 * One round of SLICES slices of N environments, T = 256 decisions each, as mf-gae wants them, with chains of Hopper's
 * size so that a decision has about 480 bytes. 0 slices: a head and an end.
 */
#include <stdio.h>
#include <stdlib.h>

#include "stream/frame.h"

static const size_t T = 256;

static void must(int rc, const struct mf_err *err)
{
    if (rc < 0) {
        fprintf(stderr, "stream: error: %s\n", err->text);
        exit(1);
    }
}

static void add(struct mf_frame *f, const char *name, enum mf_dtype dtype, int rank, size_t a, size_t b, size_t c,
                size_t d, size_t e)
{
    struct mf_err err;
    void *data;
    const size_t dim[] = {a, b, c, d, e};
    must(mf_frame_add(f, name, dtype, rank, dim, &data, &err), &err);
}

static struct mf_frame *rollout(int64_t slices, size_t N)
{
    struct mf_frame *f = mf_frame_new(MF_ROLLOUT);
    mf_frame_set_int(f, "iter", 0);
    mf_frame_set_str(f, "src", "");
    mf_frame_set_ints(f, "slice", (const int64_t[]){0, slices}, 2);
    mf_frame_set_ints(f, "envs", (const int64_t[]){0, (int64_t)N}, 2);
    add(f, "obs/state", MF_F32, 4, T, N, 1, 11, 0);
    add(f, "actions", MF_F32, 4, T, N, 4, 3, 0);
    add(f, "rewards", MF_F32, 3, T, N, 4, 0, 0);
    add(f, "terminated", MF_U8, 2, T, N, 0, 0, 0);
    add(f, "truncated", MF_U8, 2, T, N, 0, 0, 0);
    add(f, "prev_values", MF_F32, 2, T, N, 0, 0, 0);
    add(f, "last_values", MF_F32, 1, N, 0, 0, 0, 0);
    add(f, "chains", MF_F32, 5, T, N, 5, 4, 3);
    add(f, "denoise_inds", MF_I32, 3, T, N, 4, 0, 0);
    add(f, "prev_logprobs", MF_F32, 2, T, N, 0, 0, 0);
    return f;
}

static void simple(struct mf_port *out, enum mf_kind kind, int64_t slices, size_t N)
{
    struct mf_err err;
    struct mf_frame *f = mf_frame_new(kind);
    if (kind == MF_HEAD) {
        mf_frame_set_int(f, "v", 1);
        mf_frame_set_str(f, "run", "");
        mf_frame_set_int(f, "seed", 0);
    }
    mf_frame_set_str(f, "src", "");
    if (kind == MF_ROUND) {
        mf_frame_set_int(f, "iter", 0);
        mf_frame_set_int(f, "slices", slices);
    }
    if (kind == MF_END) {
        mf_frame_set_int(f, "frames", slices ? slices + 2 : 1);
        mf_frame_set_int(f, "samples", slices * (int64_t)(T * N));
        mf_frame_set_bool(f, "stopped", false);
    }
    must(mf_frame_send(out, f, &err), &err);
    mf_frame_free(f);
}

int main(int argc, char **argv)
{
    struct mf_err err;
    struct mf_port *out;
    int64_t slices = argc > 2 ? atoll(argv[1]) : -1;
    size_t N = argc > 2 ? (size_t)atoll(argv[2]) : 0;
    if (slices < 0 || N < 1)
        return 2;
    must(mf_port_open(&out, "-", MF_OUT, NULL, &err), &err);
    simple(out, MF_HEAD, slices, N);
    struct mf_frame *f = rollout(slices, N);
    for (int64_t i = 0; i < slices; i++) {
        mf_frame_set_ints(f, "slice", (const int64_t[]){i, slices}, 2);
        mf_frame_set_ints(f, "envs", (const int64_t[]){i * (int64_t)N, (int64_t)N}, 2);
        must(mf_frame_send(out, f, &err), &err);
    }
    mf_frame_free(f);
    if (slices)
        simple(out, MF_ROUND, slices, N);
    simple(out, MF_END, slices, N);
    must(mf_port_close(out, &err), &err);
    return 0;
}
