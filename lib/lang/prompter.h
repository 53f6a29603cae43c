/* prompter.h - the observation "tokens" of a task: the ids of its prompt (prompt.h), made by one tokenizer, as numbers.
 */
#ifndef MF_LANG_PROMPTER_H
#define MF_LANG_PROMPTER_H

#include <stdatomic.h>

#include "base/layout.h"
#include "lang/tokenizer.h"

enum { MF_PROMPT_MAX = 4096, MF_PROMPT_LENGTH = 32 }; /* tokens at most, and where no key says how many */

struct mf_prompter {
    struct mf_tokenizer tokenizer;
    atomic_bool cut; /* a prompt was, and the log has it */
};

int mf_prompter_open(struct mf_prompter *p, const char *path, struct mf_err *err); /* as mf_tokenizer_open */
void mf_prompter_close(struct mf_prompter *p);                                     /* a zeroed one is fine */

/* tokens (length) of a task, with n numbers of a state (0: without it), 0 behind its end. A prompt that does not fit is
 * cut, as openpi does it; the log has the first one. Several threads may call it. MF_EUSAGE: as mf_prompt; more tokens
 * than MF_PROMPT_MAX. */
int mf_prompter_put(struct mf_prompter *p, const char *task, int n, const float *state, int length, float *tokens,
                    struct mf_err *err);
/* Writes the tokens of a task into an observation of l, which has them, where the other numbers are. norm: of the state
 * in the prompt; scale NULL: it holds none. */
int mf_prompter_fill(struct mf_prompter *p, const char *task, const struct mf_layout *l, const struct mf_affine *norm,
                     float *obs, struct mf_err *err);

#endif
