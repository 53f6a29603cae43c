/* mf-record: writes the stream to an HDF5 file and passes it on unchanged. */
#include <malloc.h>

#include "demos/recorder.h"
#include "stage/stage.h"

struct record {
    struct mf_recorder *to;
    const char *path;
    unsigned long frames;
    bool failed; /* the file could not be written: it is useless */
};

static int begin(struct mf_run *run, void *self, struct mf_err *err)
{
    struct record *r = self;
    int n;
    const char *const *file = mf_run_operands(run, &n);
    if (n != 1)
        return mf_err_set(err, MF_EUSAGE, "give one file to record into, not %d", n);
    r->path = file[0];
    /* Frames are short-lived between HDF5's small long-lived allocations: on the heap they would cause
     * fragmentation. */
    mallopt(M_MMAP_THRESHOLD, 1 << 18);
    return mf_recorder_open(&r->to, r->path, err);
}

static int take(struct record *r, const struct mf_frame *f, struct mf_err *err)
{
    int rc = mf_recorder_add(r->to, f, err);
    r->failed = rc < 0;
    r->frames++;
    return rc;
}

static int frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    int rc = take(self, f, err);
    return rc ? rc : mf_emit(run, f, err);
}

static int ended(struct mf_run *run, void *self, const struct mf_frame *end, struct mf_err *err)
{
    (void)run;
    return take(self, end, err);
}

static int finish(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    (void)run;
    struct record *r = self;
    if (!r->to)
        return 0;
    if (r->failed || r->frames == 0) {
        mf_recorder_drop(r->to);
        return 0;
    }
    int rc2 = mf_recorder_close(r->to, err);
    if (rc2 == 0 && rc)
        mf_log(MF_LOG_WARN, "%s holds the %lu frames received, without an end frame", r->path, r->frames);
    return rc2;
}

static const struct mf_stage stage = {
    .name = "record",
    .summary = "Save a stream as HDF5 for robomimic, h5py and mf-replay, and pass it on.",
    .operands = "FILE",
    .examples = "  mf-collect env=lift | mf-record run.hdf5 | mf-gae | mf-ppo\n"
                "  mf-collect env=lift collect.actor=expert policy.n_action_steps=1 | mf-record demos.hdf5\n",
    .role = MF_FILTER,
    .watched = true,
    .size = sizeof(struct record),
    .open = begin,
    .frame = frame,
    .ended = ended,
    .close = finish,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
