#include "env/words.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "lang/prompt.h"

struct mf_words {
    int length;
    char digest[17]; /* of the tokenizer */
    float *ids;      /* (tasks, length) */
};

/* ---- suites ---- */

static int find_suite(const struct mf_env *e, const char *name, struct mf_suite *suite, struct mf_err *err)
{
    char names[256] = "";
    for (int i = 0; i < MF_SUITES && e->language.suite[i].name; i++) {
        *suite = e->language.suite[i];
        if (!strcmp(suite->name, name))
            return 0;
        mf_list_add(names, sizeof names, ", ", suite->name);
    }
    return mf_err_set(err, MF_EUSAGE,
                      *names ? "env=%s has no suite '%s' of tasks; its suites are: %s"
                             : "env=%s has no suites of tasks: leave env.suite=%s out, or give it to its server",
                      e->name, name, names);
}

/* ---- tokens ---- */

static int encode(struct mf_words *w, const struct mf_env *e, const struct mf_tokenizer *t, struct mf_err *err)
{
    const int L = w->length;
    int32_t *ids;
    int n = 0;
    while (e->language.text[n])
        n++;
    int rc = mf_alloc((void **)&w->ids, (size_t)n * (size_t)L * sizeof *w->ids, "the tokens of tasks", err);
    if (rc || (rc = mf_alloc((void **)&ids, (size_t)L * sizeof *ids, "the tokens of a task", err)))
        return rc;
    for (int i = 0; i < n && rc == 0; i++) {
        const char *text = e->language.text[i];
        const int count = mf_prompt(t, text, 0, NULL, L, ids, err);
        rc = count < 0 ? count : count > L ? mf_prompt_long(text, count, L, err) : 0;
        for (int k = 0; k < L && rc == 0; k++)
            w->ids[i * L + k] = (float)ids[k];
    }
    free(ids);
    return rc;
}

static int add_tokens(struct mf_env *e, const struct mf_env_opts *o, struct mf_err *err)
{
    struct mf_tokenizer t;
    int at = 0;
    while (at < MF_OBS_KEYS && e->obs[at].name[0])
        at++;
    if (!e->language.text || at == MF_OBS_KEYS)
        return mf_err_set(err, MF_EUSAGE, "env=%s has no language: leave policy.tokenizer out", e->name);
    int rc = mf_tokenizer_open(&t, o->tokenizer, err);
    if (rc)
        return rc;
    e->obs[at] = (struct mf_obs){.name = MF_OBS_TOKENS, .dim = {(int)o->prompt_length}};
    e->words = mf_xcalloc(1, sizeof *e->words);
    e->words->length = (int)o->prompt_length;
    strcpy(e->words->digest, t.digest);
    rc = encode(e->words, e, &t, err);
    mf_tokenizer_close(&t);
    return rc;
}

int mf_words_open(const struct mf_env **env, const struct mf_env_opts *o, struct mf_err *err)
{
    const bool named = o->suite && *o->suite;
    struct mf_suite suite;
    int rc = named ? find_suite(*env, o->suite, &suite, err) : 0;
    if (rc || (!named && !o->tokenizer))
        return rc;
    struct mf_env *e = mf_env_own(env);
    if (named)
        e->language.suite[0] = suite;
    return o->tokenizer ? add_tokens(e, o, err) : 0;
}

void mf_words_put(const struct mf_words *w, int task, float *tokens)
{
    memcpy(tokens, w->ids + task * w->length, (size_t)w->length * sizeof *tokens);
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
    return w ? w->digest : NULL;
}

void mf_words_free(struct mf_words *w)
{
    if (w)
        free(w->ids);
    free(w);
}
