#include "lang/prompter.h"

#include <string.h>

#include "base/log.h"
#include "lang/prompt.h"

int mf_prompter_open(struct mf_prompter *p, const char *path, struct mf_err *err)
{
    *p = (struct mf_prompter){.cut = false};
    return mf_tokenizer_open(&p->tokenizer, path, err);
}

void mf_prompter_close(struct mf_prompter *p)
{
    mf_tokenizer_close(&p->tokenizer);
}

static void warn(const char *task, int ids, int length)
{
    mf_log(MF_LOG_WARN,
           "the prompt of the task '%.60s%s' has %d tokens and is cut to %d, as others may be: policy.prompt_length is "
           "the "
           "number of a fresh policy, and a checkpoint keeps its own",
           task, strlen(task) > 60 ? ".." : "", ids, length);
}

int mf_prompter_put(struct mf_prompter *p, const char *task, int n, const float *state, int length, float *tokens,
                    struct mf_err *err)
{
    int32_t ids[MF_PROMPT_MAX];
    if (length < 1 || length > MF_PROMPT_MAX) /* a checkpoint says so */
        return mf_err_set(err, MF_EUSAGE, "the policy reads %d tokens of a prompt, and they may be 1 to %d", length,
                          MF_PROMPT_MAX);
    const int count = mf_prompt(&p->tokenizer, task, n, state, length, ids, err);
    if (count < 0)
        return count;
    if (count > length && !atomic_exchange(&p->cut, true))
        warn(task, count, length);
    for (int i = 0; i < length; i++)
        tokens[i] = (float)ids[i];
    return 0;
}

int mf_prompter_fill(struct mf_prompter *p, const char *task, const struct mf_layout *l, const struct mf_affine *norm,
                     float *obs, struct mf_err *err)
{
    const struct mf_obs *tokens = mf_layout_find(l, MF_OBS_TOKENS);
    const int n = norm->scale ? mf_layout_state(l, norm, NULL, NULL) : 0;
    float state[MF_PROMPT_STATE_MAX];
    if (n <= MF_PROMPT_STATE_MAX && n > 0)
        mf_layout_state(l, norm, obs, state);
    return mf_prompter_put(p, task, n, state, tokens->dim[0], obs + mf_layout_column(l, MF_OBS_TOKENS), err);
}
