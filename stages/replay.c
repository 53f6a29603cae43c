/* mf-replay: replays the frames of a recording, byte for byte. */
#include "demos/playback.h"
#include "stage/stage.h"

struct replay {
    struct mf_playback *from;
};

static int begin(struct mf_run *run, void *self, struct mf_err *err)
{
    struct replay *r = self;
    int n;
    const char *const *file = mf_run_operands(run, &n);
    if (n != 1)
        return mf_err_set(err, MF_EUSAGE, "give one recording to replay, not %d", n);
    int rc = mf_playback_open(&r->from, file[0], err);
    if (rc == 0 && mf_playback_stopped(r->from))
        mf_log(MF_LOG_WARN, "%s is the recording of an unfinished stream; its end frame is marked as stopped", file[0]);
    return rc;
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct replay *r = self;
    const void *data;
    size_t len;
    struct mf_frame *f;
    int rc = mf_playback_next(r->from, &data, &len, err);
    if (rc <= 0 || (rc = mf_frame_decode(&f, data, len, err)))
        return rc;
    rc = mf_emit(run, f, err);
    mf_frame_free(f);
    return rc ? rc : 1;
}

static int finish(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    (void)run, (void)rc, (void)err;
    mf_playback_close(((struct replay *)self)->from);
    return 0;
}

static const struct mf_stage stage = {
    .name = "replay",
    .summary = "Replay a recording of mf-record, byte for byte.",
    .operands = "FILE",
    .examples = "  mf-replay run.hdf5 | mf-gae advantage.gae_lambda=0.9 | mf-stat\n",
    .role = MF_SOURCE,
    .replays = true,
    .size = sizeof(struct replay),
    .open = begin,
    .work = work,
    .close = finish,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
