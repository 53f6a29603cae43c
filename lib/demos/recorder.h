/* recorder.h - writes a stream into an HDF5 file, frame by frame; playback.h reads it back.
 *
 *   /data/demo_i        one part of an episode, in robomimic's layout: actions (n, C*A),
 *                       obs/KEY (n, ...) the newest of the To frames, rewards (n) summed over the chunk,
 *                       dones (n), terminated (n): dones has time limits, too; rows where valid = 0 are left out
 *       attributes      num_samples, mf_iter, mf_env; its rows are [mf_t0:, mf_n] of the arrays of frame mf_frame;
 *                       of each dataset mf_crc32, of its bytes in C order
 *                       language: the task in words, where the environment has any
 *   /data attributes    total, env_args, mf_action_chunk (C)
 *   /mf/arrays/F/NAME   the arrays of frame F as received, (T, N, ...); attribute mf_at: its place in
 *   /mf/bytes           the frames without the bytes of these arrays, one after another
 *   /mf/lengths         (frames) how many of these bytes each frame has
 *   /mf/crc32           (frames) of each frame's bytes as received: zlib.crc32
 *   /mf attributes      format (1), stopped (1: no `end` was recorded), frames; written last
 *
 * The file is written as PATH.part and renamed when it is closed, so that PATH is always whole. Memory: one frame.
 */
#ifndef MF_DEMOS_RECORDER_H
#define MF_DEMOS_RECORDER_H

#include "base/err.h"
#include "stream/frame.h"

struct mf_recorder;

int mf_recorder_open(struct mf_recorder **r, const char *path, struct mf_err *err);
int mf_recorder_add(struct mf_recorder *r, const struct mf_frame *f, struct mf_err *err); /* also `end` */
int mf_recorder_close(struct mf_recorder *r, struct mf_err *err); /* totals, fsync, rename; frees r, also on failure */
void mf_recorder_drop(struct mf_recorder *r);                     /* PATH.part is removed; NULL is fine */

#endif
