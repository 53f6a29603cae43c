/* safetensors_priv.h - what the reader and the writer share, and the reader's JSON cursor. */
#ifndef MF_RUN_SAFETENSORS_PRIV_H
#define MF_RUN_SAFETENSORS_PRIV_H

#include "base/err.h"
#include "run/safetensors.h"

enum { MF_SAFETENSORS_HEADER_MAX = 100 * 1000 * 1000 };

const char *mf_safetensors_word(enum mf_dtype dtype); /* "F32" */

void mf_safetensors_sort(struct mf_array *tensors, int n, struct mf_meta *meta, int n_meta); /* by name, by key */

/* A cursor over the header that stops at the first thing that is not as it must be. */
struct mf_json {
    const char *at, *end;
    char *string; /* where the next decoded string goes: a buffer as long as the text is enough for all */
    const char *path;
    struct mf_err *err;
};

/* MF_EFORMAT: "PATH is not a valid safetensors file: .." */
int mf_json_wrong(struct mf_json *j, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char mf_json_peek(struct mf_json *j); /* the next character that is no space; 0 at the end */
bool mf_json_take(struct mf_json *j, char c);
int mf_json_expect(struct mf_json *j, char c, const char *where);
int mf_json_string(struct mf_json *j, const char **s, const char *where); /* NUL-ended UTF-8 */
/* [n, n, ..] of at most max non-negative integers. */
int mf_json_numbers(struct mf_json *j, const char *tensor, const char *field, uint64_t *v, int max, int *n);

#endif
