/* mf-replay: replays the frames of a recording, byte for byte; or demonstrations of other origin as rollouts. */
#include "demos/demo_stream.h"
#include "demos/playback.h"
#include "stage/stage.h"

struct replay {
    const char *filter;
    struct mf_names obs_keys;
    int64_t cache_mib;
    struct mf_playback *from; /* NULL: */
    struct mf_demo_stream *demos;
};

static const struct mf_bind binds[] = {{"clone.filter_key", offsetof(struct replay, filter)},
                                       {"clone.cache_mib", offsetof(struct replay, cache_mib)},
                                       {"policy.obs_keys", offsetof(struct replay, obs_keys)},
                                       {0}};

static int open_demos(struct replay *r, const char *path, struct mf_err *err)
{
    const char *keys[MF_LIST_MAX];
    const struct mf_demos_opts o = {
        .filter = r->filter, .n_keys = r->obs_keys.n, .keys = keys, .cache = (size_t)r->cache_mib << 20};
    for (int i = 0; i < r->obs_keys.n; i++)
        keys[i] = r->obs_keys.v[i];
    return mf_demo_stream_open(&r->demos, path, &o, err);
}

static int begin(struct mf_run *run, void *self, struct mf_err *err)
{
    struct replay *r = self;
    int n;
    const char *const *file = mf_run_operands(run, &n);
    if (n != 1)
        return mf_err_set(err, MF_EUSAGE, "give one recording to replay, not %d", n);
    int rc = mf_playback_is_recording(file[0], err);
    if (rc <= 0)
        return rc ? rc : open_demos(r, file[0], err);
    rc = mf_playback_open(&r->from, file[0], err);
    if (rc == 0 && mf_playback_stopped(r->from))
        mf_log(MF_LOG_WARN, "%s is the recording of an unfinished stream; its end frame is marked as stopped", file[0]);
    return rc;
}

static int next_frame(struct mf_run *run, struct replay *r, struct mf_frame **f, struct mf_err *err)
{
    const void *data;
    size_t len;
    int rc = r->demos ? mf_demo_stream_next(r->demos, f, err) : mf_playback_next(r->from, &data, &len, err);
    if (rc > 0 && !r->demos && (rc = mf_frame_decode(f, data, len, err)) == 0)
        rc = 1;
    if (rc > 0 && r->demos && mf_frame_kind(*f) == MF_HEAD)
        mf_run_sign(run, *f);
    return rc;
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct mf_frame *f;
    int rc = next_frame(run, self, &f, err);
    if (rc <= 0)
        return rc;
    rc = mf_emit(run, f, err);
    mf_frame_free(f);
    return rc ? rc : 1;
}

static int finish(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    struct replay *r = self;
    (void)run, (void)rc, (void)err;
    mf_playback_close(r->from);
    mf_demo_stream_close(r->demos);
    return 0;
}

static const struct mf_stage stage = {
    .name = "replay",
    .summary = "Replay a recording of mf-record, byte for byte, or demonstrations of other origin as rollouts.",
    .operands = "FILE",
    .examples = "  mf-replay run.hdf5 | mf-gae advantage.gae_lambda=0.9 | mf-stat\n"
                "  mf-replay low_dim.hdf5 | mf-mc | mf-view\n",
    .role = MF_SOURCE,
    .replays = true,
    .binds = binds,
    .size = sizeof(struct replay),
    .open = begin,
    .work = work,
    .close = finish,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
