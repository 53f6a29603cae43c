/* film.h - writes a video, MP4 or GIF: raw frames are piped into ffmpeg. */
#ifndef MF_RUN_FILM_H
#define MF_RUN_FILM_H

#include <stdint.h>

#include "base/err.h"

struct mf_film;

/* Does ffmpeg start? Checked before any work is done; MF_EIO where it does not. */
int mf_film_check(struct mf_err *err);

/* path ends in .mp4 or .gif (else MF_EUSAGE), and exists once close has succeeded. Even sizes. MF_EIO where ffmpeg is
 * missing. */
int mf_film_open(struct mf_film **f, const char *path, int width, int height, double fps, struct mf_err *err);
int mf_film_add(struct mf_film *f, const uint8_t *rgb, struct mf_err *err); /* (height, width, 3) */
int mf_film_close(struct mf_film *f, struct mf_err *err); /* waits for ffmpeg; frees f, also on failure */
void mf_film_drop(struct mf_film *f);                     /* after an error; NULL is fine */

#endif
