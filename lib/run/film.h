/* film.h - pictures become a video: raw frames piped into ffmpeg, which makes an MP4 or a GIF of them. */
#ifndef MF_RUN_FILM_H
#define MF_RUN_FILM_H

#include <stdint.h>

#include "base/err.h"

struct mf_film;

/* Is there an ffmpeg that starts? Asked before there is anything to lose; MF_EIO where not. */
int mf_film_check(struct mf_err *err);

/* path ends in .mp4 or .gif (else MF_EUSAGE); it is there when the film was closed well. Even sizes. MF_EIO where
 * ffmpeg is missing. */
int mf_film_open(struct mf_film **f, const char *path, int width, int height, double fps, struct mf_err *err);
int mf_film_add(struct mf_film *f, const uint8_t *rgb, struct mf_err *err); /* (height, width, 3) */
int mf_film_close(struct mf_film *f, struct mf_err *err);                   /* waits for ffmpeg; gone in any case */
void mf_film_drop(struct mf_film *f);                                       /* after an error; NULL is fine */

#endif
