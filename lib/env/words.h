/* words.h - the tasks of an environment with language, as ids: the observation "tokens". */
#ifndef MF_ENV_WORDS_H
#define MF_ENV_WORDS_H

#include "env/env.h"

/* The environment with the suite and the tokenizer of o: *env itself where o has neither, else a copy, which
 * mf_env_close frees. Its last observation is "tokens" (o->prompt_length): the prompt of the task, by lang/prompter.h.
 * MF_EUSAGE: no such suite, no language, or a task that is too large. */
int mf_words_open(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err);
/* Makes the suite the first one, whose tasks the next episodes take. MF_EUSAGE: no such suite, named by
 * `key`. */
int mf_words_suite(const struct mf_env **env, const char *key, const char *name, struct mf_err *err);
bool mf_words_any_length(const struct mf_words *w); /* does no key say how many tokens there are? */
/* Tells o->warn of a tokenizer whose tokens are not in l. */
void mf_words_unread(const struct mf_env_opts *o, const struct mf_layout *l);
/* Writes the tokens of its task into an observation of l, where the other numbers are. norm: of the state in the
 * prompt; scale NULL: it holds none. */
int mf_words_put(const struct mf_env *env, int task, const struct mf_layout *l, const struct mf_affine *norm,
                 float *obs, struct mf_err *err);
char *mf_words_lines(const struct mf_env *env); /* its tasks, a line for each, malloc'ed; NULL: it has no language */
const char *mf_words_digest(const struct mf_words *w); /* of the tokenizer; NULL: w is NULL */
int mf_words_pieces(const struct mf_words *w);         /* tokens that it knows; 0: w is NULL */
void mf_words_free(struct mf_words *w);                /* NULL is fine */

#endif
