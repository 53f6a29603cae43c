#include "env/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "lang/prompter.h"

struct mf_words {
    struct mf_prompter prompter;
    bool any_length;
};

/* ---- suites ---- */

int mf_words_suite(const struct mf_env **env, const char *key, const char *name, struct mf_err *err)
{
    const struct mf_env *e = *env;
    char names[256] = "";
    for (int i = 0; i < MF_SUITES && e->language.suite[i].name; i++) {
        const struct mf_suite suite = e->language.suite[i];
        if (!strcmp(suite.name, name)) {
            struct mf_suite *own = mf_env_own(env)->language.suite;
            own[i] = own[0];
            own[0] = suite;
            return 0;
        }
        mf_list_add(names, sizeof names, ", ", suite.name);
    }
    if (!*names)
        return mf_err_set(err, MF_EUSAGE, "env=%s has no suites of tasks: leave %s out, or give '%s' to its server",
                          e->name, key, name);
    return mf_err_set(err, MF_EUSAGE, "env=%s has no suite '%s' of tasks, which %s names; its suites are: %s", e->name,
                      name, key, names);
}

/* ---- tokens ---- */

/* Tasks that cannot be encoded are refused before an episode has them. */
static int try_tasks(const struct mf_env *e, struct mf_err *err)
{
    float tokens[MF_PROMPT_MAX];
    int rc = 0;
    for (int i = 0; e->language.text[i] && !rc; i++)
        rc = mf_prompter_put(&e->words->prompter, e->language.text[i], 0, NULL, MF_PROMPT_MAX, tokens, err);
    return rc;
}

static int add_tokens(struct mf_env *e, const struct mf_env_opts *o, struct mf_err *err)
{
    const int length = o->prompt_length ? (int)o->prompt_length : MF_PROMPT_LENGTH;
    int at = 0;
    while (at < MF_OBS_KEYS && e->obs[at].name[0])
        at++;
    if (!e->language.text)
        return mf_err_set(err, MF_EUSAGE, "env=%s has no language: leave policy.tokenizer out", e->name);
    if (at == MF_OBS_KEYS)
        return mf_err_set(
            err, MF_EUSAGE,
            "env=%s has %d observations, and tokens would be one too many: leave policy.tokenizer out, or "
            "let its server send fewer",
            e->name, MF_OBS_KEYS);
    e->obs[at] = (struct mf_obs){.name = MF_OBS_TOKENS, .dim = {length}};
    e->words = mf_xcalloc(1, sizeof *e->words);
    e->words->any_length = !o->prompt_length;
    int rc = mf_prompter_open(&e->words->prompter, o->tokenizer, err);
    return rc ? rc : try_tasks(e, err);
}

int mf_words_open(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err)
{
    int rc = o->suite && *o->suite ? mf_words_suite(env, "env.suite", o->suite, err) : 0;
    return rc || !o->tokenizer ? rc : add_tokens(mf_env_own(env), o, err);
}

bool mf_words_any_length(const struct mf_words *w)
{
    return w->any_length;
}

void mf_words_unread(const struct mf_env_opts *o, const struct mf_layout *l)
{
    if (o->tokenizer && o->warn && mf_layout_column(l, MF_OBS_TOKENS) < 0)
        o->warn("policy.tokenizer has no effect: the policy reads tokens where policy.obs_keys names them");
}

int mf_words_put(const struct mf_env *e, int task, const struct mf_layout *l, const struct mf_affine *norm, float *obs,
                 struct mf_err *err)
{
    return mf_prompter_fill(&e->words->prompter, e->language.text[task], l, norm, obs, err);
}

char *mf_words_lines(const struct mf_env *e)
{
    char *lines = NULL;
    size_t size = 0;
    if (!e->language.text)
        return NULL;
    for (int i = 0; e->language.text[i]; i++)
        size += strlen(e->language.text[i]) + 1;
    lines = mf_xcalloc(size + 1, 1);
    for (int i = 0; e->language.text[i]; i++)
        strcat(strcat(lines, i ? "\n" : ""), e->language.text[i]);
    return lines;
}

const char *mf_words_digest(const struct mf_words *w)
{
    return w ? w->prompter.tokenizer.digest : NULL;
}

int mf_words_pieces(const struct mf_words *w)
{
    return w ? w->prompter.tokenizer.n : 0;
}

void mf_words_free(struct mf_words *w)
{
    if (w)
        mf_prompter_close(&w->prompter);
    free(w);
}
