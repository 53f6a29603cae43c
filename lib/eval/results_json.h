/* results_json.h - evaluation results as one JSON document, published once it is complete.
 *
 *   {"env": "lift", "seed": 0, "results": [..]}     result.h; of several seeds "seeds": [..]
 */
#ifndef MF_EVAL_RESULTS_JSON_H
#define MF_EVAL_RESULTS_JSON_H

#include <stdio.h>

#include "base/err.h"
#include "eval/result.h"

struct mf_results_json { /* zeroed: no document; then add and close do nothing */
    const char *path;    /* borrowed until close */
    char *part;
    FILE *to;
    int n; /* results so far */
};

/* MF_EUSAGE where a file must not replace `path` (base/publish.h). */
int mf_results_json_open(struct mf_results_json *j, const char *path, const char *env, int n_seeds, const int64_t *seed,
                         struct mf_err *err);
int mf_results_json_add(struct mf_results_json *j, const struct mf_result *r, struct mf_err *err);
/* keep: the document appears at its path; otherwise an older file stays. */
int mf_results_json_close(struct mf_results_json *j, bool keep, struct mf_err *err);

#endif
