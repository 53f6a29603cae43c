/* results.h - what evaluations found, as JSON, and a file that keeps it: a line for each result.
 *
 *   {"checkpoint", "digest", "weights", "env", "server", "max_steps", "seed", "denoising_steps", "n", "engine": {..},
 *    "policy": {..}, "iter", "step", "success_once", "success_once_low", .., "trials": {"success_once": [..], ..}}
 *
 * digest is of weights, normaliser and noise; policy is the spec that acted; engine is program, device, precision.
 * What stands from digest to policy made the result: where all of it is the same, so are the trials.
 */
#ifndef MF_RL_RESULTS_H
#define MF_RL_RESULTS_H

#include <jansson.h>

#include "rl/eval.h"

struct mf_result {                    /* one policy on the trials of one seed */
    const char *checkpoint, *weights; /* the file; "raw" or "ema" */
    struct mf_policy *policy;
    const char *env, *server; /* server: env.command or env.address; NULL: the environment is built in */
    const char *program, *device, *precision;
    int64_t seed;
    int max_steps, n;
    struct mf_trial *trial; /* (n) */
};

json_t *mf_result_json(const struct mf_result *r);               /* NULL: it cannot be JSON */
void mf_scores_json(json_t *to, const struct mf_score_sheet *s); /* "success_once", .. added */
json_t *mf_json_word(const char *s); /* whatever bytes a path has: what is no UTF-8 becomes U+FFFD; NULL is null */
int mf_json_write(const json_t *j, const char *end, FILE *to, struct mf_err *err); /* on one line, then end */

/* Several programs may add to one file at the same time. A last line that is half-written, as a kill leaves it, is
 * dropped. MF_EFORMAT where a line is no result. */
struct mf_results;
int mf_results_open(struct mf_results **f, const char *path, struct mf_err *err);
void mf_results_close(struct mf_results *f);
int mf_results_count(const struct mf_results *f);
bool mf_results_find(const struct mf_results *f, struct mf_result *r);                   /* fills r->trial */
int mf_results_add(struct mf_results *f, const struct mf_result *r, struct mf_err *err); /* whole, on the disk */

#endif
