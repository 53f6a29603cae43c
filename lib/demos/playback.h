/* playback.h - the frames of a recording, byte for byte as they were recorded (recorder.h has the layout). */
#ifndef MF_DEMOS_PLAYBACK_H
#define MF_DEMOS_PLAYBACK_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

struct mf_playback;

/* 1, or 0 of an HDF5 file that is no recording: demonstrations of other origin. */
int mf_playback_is_recording(const char *path, struct mf_err *err);
/* MF_EFORMAT where the file is no recording, with advice as mf_h5_open. */
int mf_playback_open(struct mf_playback **p, const char *path, struct mf_err *err);
bool mf_playback_stopped(const struct mf_playback *p); /* the recording has no `end` */
/* 1 and a frame, owned by p until the next call; 0 after the last. Memory: one frame. */
int mf_playback_next(struct mf_playback *p, const void **data, size_t *len, struct mf_err *err);
void mf_playback_close(struct mf_playback *p); /* NULL is fine */

#endif
