/* words.h - the tasks of an environment with language, as ids: the observation "tokens". */
#ifndef MF_ENV_WORDS_H
#define MF_ENV_WORDS_H

#include "env/env.h"

/* The environment with the suite and the tokenizer of o: *env itself where o has neither, else a copy, which
 * mf_env_close frees. Its last observation is "tokens" (o->prompt_length), the ids of the task by lang/prompt.h,
 * without a state. MF_EUSAGE: no such suite, no language, or a task that does not fit. */
int mf_words_open(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err);
void mf_words_put(const struct mf_words *w, int task, float *tokens);
char *mf_words_lines(const struct mf_env *env); /* its tasks, a line for each, malloc'ed; NULL: it has no language */
const char *mf_words_digest(const struct mf_words *w); /* of the tokenizer; NULL: w is NULL */
void mf_words_free(struct mf_words *w);                /* NULL is fine */

#endif
