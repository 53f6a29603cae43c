/* mf-view: prints a stream as JSON, one line per frame, as samtools view prints alignments. */
#include "stream/frame_json.h"
#include "stage/stage.h"

struct view {
    int arrays;
};

static const struct mf_bind binds[] = {{"view.arrays", offsetof(struct view, arrays)}, {0}};

static int frame(struct mf_run *run, void *self, struct mf_frame *f, struct mf_err *err)
{
    (void)run, (void)err;
    mf_frame_json(f, (enum mf_arrays_as)((struct view *)self)->arrays, stdout);
    return 0;
}

static int ended(struct mf_run *run, void *self, const struct mf_frame *end, struct mf_err *err)
{
    (void)run, (void)self, (void)err;
    mf_frame_json(end, MF_ARRAYS_NONE, stdout);
    return 0;
}

static const struct mf_stage stage = {
    .name = "view",
    .summary = "Print a stream as JSON, one line per frame.",
    .examples = "  mf-view rollouts.mf | jq 'select(.mf == \"round\").episodes'\n"
                "  mf-view view.arrays=whole rollouts.mf | jq '.arrays.rewards.data'\n",
    .role = MF_SINK,
    .text_out = true,
    .binds = binds,
    .size = sizeof(struct view),
    .frame = frame,
    .ended = ended,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
