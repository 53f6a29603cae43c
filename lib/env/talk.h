/* talk.h - messages of the environments' protocol, for both sides. Inside lib/env; examples/envs/README.md describes
 * them.
 *
 * A message is a map {mf: "env", say, seq, ..} with its arrays in `arrays`. Observations have an array per key,
 * `PREFIX/KEY`, float32 or uint8 as in the layout; here they are converted to flat rows of floats. Tokens are not sent,
 * and are left to the caller.
 */
#ifndef MF_ENV_TALK_H
#define MF_ENV_TALK_H

#include "base/layout.h"
#include "base/resize.h"
#include "stream/frame.h"
#include "wire/rpc.h"

enum { MF_TALK_VERSION = 1 };

struct mf_frame *mf_talk_new(const char *say, int64_t seq);
int mf_talk_send(struct mf_rpc *c, struct mf_frame *f, double timeout_s, struct mf_err *err); /* f is freed */
/* The next message, its `say` and its `seq`. MF_EFORMAT if it has none. */
int mf_talk_recv(struct mf_rpc *c, double timeout_s, struct mf_frame **f, const char **say, int64_t *seq,
                 struct mf_err *err);

int mf_talk_put(struct mf_frame *f, const char *name, enum mf_dtype dtype, int rank, const size_t *dim,
                const void *from, struct mf_err *err);
/* The array's data. MF_EFORMAT: it is missing, or has another type or shape. */
int mf_talk_get(const struct mf_frame *f, const char *name, enum mf_dtype dtype, int rank, const size_t *dim,
                const void **data, struct mf_err *err);

/* n rows of l->dim floats. n < 0: one row without the leading dimension. */
int mf_talk_put_obs(struct mf_frame *f, const char *prefix, const struct mf_layout *l, int n, const float *rows,
                    struct mf_err *err);
/* Pictures arrive as in r->from, and are resized. */
int mf_talk_get_obs(const struct mf_frame *f, const char *prefix, const struct mf_layout *l, struct mf_resizer *r,
                    int n, float *rows, struct mf_err *err);
enum { MF_PICTURE_MAX = 4096 }; /* pixels of a side */
/* The array `image`: uint8 (n, C, height, width, 3). */
int mf_talk_get_pictures(const struct mf_frame *f, int n, int C, int *width, int *height, const uint8_t **rgb,
                         struct mf_err *err);
bool mf_talk_has_obs(const struct mf_frame *f, const char *prefix, const struct mf_layout *l);
/* The layout of the arrays PREFIX/KEY, one observation each. */
int mf_talk_layout(const struct mf_frame *f, const char *prefix, struct mf_layout *l, struct mf_err *err);

#endif
