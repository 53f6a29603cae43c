/* results.h - a file of evaluation results: a line of JSON for each result (result.h).
 *
 * Several programs may append to one file at the same time; equal results are kept once. An incomplete last line, as a
 * kill leaves it, is dropped. MF_EFORMAT where a line is not a result.
 */
#ifndef MF_EVAL_RESULTS_H
#define MF_EVAL_RESULTS_H

#include "base/err.h"
#include "eval/result.h"

struct mf_results;
int mf_results_open(struct mf_results **f, const char *path, struct mf_err *err);
void mf_results_close(struct mf_results *f);
int mf_results_count(const struct mf_results *f);
bool mf_results_find(const struct mf_results *f, struct mf_result *r); /* fills r->trial */
int mf_results_add(struct mf_results *f, const struct mf_result *r,
                   struct mf_err *err); /* the whole line, synced to disk */

#endif
