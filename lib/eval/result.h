/* result.h - the result of one evaluation, as JSON and as metrics.
 *
 *   {"checkpoint", "digest", "weights", "env", "server", "max_steps", "seed", "denoising_steps", "n", "engine": {..},
 *    "policy": {..}, "iter", "step", "success_once", "success_once_low", .., "trials": {"success_once": [..], ..}}
 *
 * and of an environment with language "suite", "tokenizer" (its digest), "tasks": [{"task", "n", "success_once", ..},
 * ..] and the task of each trial, an index into all tasks.
 *
 * digest: of weights, normaliser and noise. policy: its spec. engine: program, device, precision. The fields from
 * digest to policy determine the result: where they are equal, the trials are equal.
 */
#ifndef MF_EVAL_RESULT_H
#define MF_EVAL_RESULT_H

#include "base/err.h"
#include "eval/eval.h"
#include "flow/policy.h"
#include "stream/frame.h"
#include "stream/json.h"

struct mf_result {                    /* one policy on the trials of one seed */
    const char *checkpoint, *weights; /* the file; "raw" or "ema" */
    struct mf_policy *policy;
    const char *env, *server;      /* server: env.command or env.address; NULL: a built-in environment */
    const char *suite, *tokenizer; /* of an environment with language; NULL: without, or its server's */
    const char *const *tasks;      /* in words; ends with NULL. NULL: no language */
    const char *program, *device, *precision;
    int64_t seed;
    int max_steps, n;
    struct mf_trial *trial; /* (n) */
};

json_t *mf_result_json(const struct mf_result *r);               /* NULL: it cannot be JSON */
json_t *mf_result_made(const struct mf_result *r);               /* "digest" .. "policy" alone */
void mf_scores_json(json_t *to, const struct mf_score_sheet *s); /* "success_once", .. added */

/* values.eval/n, .. of the trials; time: seconds since the program began. The caller frees it. */
struct mf_frame *mf_result_metrics(const struct mf_result *r, double time);

#endif
