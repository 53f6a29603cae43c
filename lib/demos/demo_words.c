#include "demos/demo_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "lang/prompter.h"
#include "stream/json.h"

struct mf_demo_words {
    struct mf_prompter prompter;
    int length;
    char *common; /* the task of demos without their own; NULL: none */
    char **task;  /* (n) */
    float *ids;   /* (n, length) */
    size_t n;
};

/* *text stays NULL where the object has no such attribute. */
static int attribute(hid_t file, const char *object, const char *name, char **text, struct mf_err *err)
{
    hid_t at;
    int rc = mf_h5_object(file, object, &at, err);
    if (rc)
        return rc;
    rc = mf_h5_attr_text(at, name, text, err);
    mf_h5_close(at);
    return rc < 0 ? rc : 0;
}

static char *instruction(const char *problem)
{
    json_t *all = NULL;
    struct mf_err none;
    if (problem)
        mf_json_parse(&all, problem, strlen(problem), &none);
    const char *text = json_string_value(json_object_get(all, "language_instruction"));
    char *copy = text ? mf_xstrdup(text) : NULL;
    json_decref(all);
    return copy;
}

int mf_demo_words_new(struct mf_demo_words **out, hid_t file, const char *tokenizer, int length, struct mf_err *err)
{
    struct mf_demo_words *w = *out = mf_xcalloc(1, sizeof *w);
    char *problem = NULL;
    w->length = length;
    int rc = mf_prompter_open(&w->prompter, tokenizer, err);
    if (rc || (rc = attribute(file, "data", "problem_info", &problem, err)))
        return rc;
    w->common = instruction(problem);
    free(problem);
    return 0;
}

void mf_demo_words_free(struct mf_demo_words *w)
{
    if (!w)
        return;
    mf_prompter_close(&w->prompter);
    for (size_t i = 0; i < w->n; i++)
        free(w->task[i]);
    free(w->task);
    free(w->common);
    free(w->ids);
    free(w);
}

static int encode(struct mf_demo_words *w, const char *task, struct mf_err *err)
{
    const size_t L = (size_t)w->length, room = w->n ? 2 * w->n : 1;
    if ((w->n & (w->n - 1)) == 0) { /* full at every power of two */
        w->ids = mf_xrealloc(w->ids, room * L, sizeof *w->ids);
        w->task = mf_xrealloc(w->task, room, sizeof *w->task);
    }
    int rc = mf_prompter_put(&w->prompter, task, 0, NULL, w->length, w->ids + w->n * L, err);
    if (rc == 0)
        w->task[w->n++] = mf_xstrdup(task);
    return rc;
}

int mf_demo_words_add(struct mf_demo_words *w, hid_t file, const char *demo, struct mf_err *err)
{
    char path[64], *own = NULL;
    snprintf(path, sizeof path, "data/%s", demo);
    int rc = attribute(file, path, "language", &own, err);
    const char *task = own ? own : w->common;
    if (!rc)
        rc = task ? encode(w, task, err)
                  : mf_err_set(
                        err, MF_EFORMAT,
                        "/%s has no attribute 'language', of which policy.tokenizer makes obs/tokens: without that "
                        "key they are read from the file, if it has them",
                        path);
    free(own);
    return rc;
}

const float *mf_demo_words_ids(const struct mf_demo_words *w, size_t demo)
{
    return w->ids + demo * (size_t)w->length;
}

const char *mf_demos_tokenizer(const struct mf_demos *d)
{
    return d->words ? d->words->prompter.tokenizer.digest : NULL;
}

int mf_demos_pieces(const struct mf_demos *d)
{
    return d->words ? d->words->prompter.tokenizer.n : 0;
}

int mf_demos_prompt(const struct mf_demos *d, size_t demo, const struct mf_layout *l, const struct mf_affine *norm,
                    float *obs, struct mf_err *err)
{
    return mf_prompter_fill(&d->words->prompter, d->words->task[demo], l, norm, obs, err);
}
