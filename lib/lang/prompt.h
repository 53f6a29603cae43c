/* prompt.h - a task as the ids that a policy reads: pi0.5 (arXiv 2504.16054), as openpi writes its prompts.
 *
 * The task loses the white space at its ends; `_` and newlines become spaces. With the state:
 *   "Task: TASK, State: B B ..;\nAction: ",  B = floor((x + 1) 128) within -1..255 of each number x of the state,
 *   normalised to [-1, 1]
 * Without: TASK, and "\n" encoded on its own. The first id of both is the one that begins a text; id 0 pads the end.
 */
#ifndef MF_LANG_PROMPT_H
#define MF_LANG_PROMPT_H

#include "lang/tokenizer.h"

enum { MF_TASK_MAX = 1024, MF_PROMPT_STATE_MAX = 256 }; /* bytes of a task; numbers of a state */

/* ids (length) of a task, with n numbers of a state (0: without it). Returns how many ids the prompt has: where that is
 * more than `length`, ids are its first ones. MF_EUSAGE: the task or the state is too large. */
int mf_prompt(const struct mf_tokenizer *t, const char *task, int n, const float *state, int length, int32_t *ids,
              struct mf_err *err);

#endif
