/* demo_writer.h - the robomimic side of a recording (recorder.h has the layout).
 *
 * The (T, N) of a rollout is cut, environment by environment, into spans of valid rows that end with the episode or the
 * rollout; each span is a demo.
 */
#ifndef MF_DEMOS_DEMO_WRITER_H
#define MF_DEMOS_DEMO_WRITER_H

#include "stream/frame.h"
#include "demos/h5.h"

struct mf_demo_writer {
    hid_t data; /* /data */
    int64_t n_demos, total, chunk;
    char *env_args, *tasks; /* from the first head; tasks: a line for each */
};

int mf_demo_writer_open(struct mf_demo_writer *w, hid_t file, struct mf_err *err);
/* Takes heads and rollouts that have actions; frame: its number in the file. MF_EFORMAT where shapes disagree. */
int mf_demo_writer_add(struct mf_demo_writer *w, const struct mf_frame *f, int64_t frame, struct mf_err *err);
int mf_demo_writer_close(struct mf_demo_writer *w, struct mf_err *err);

#endif
