#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "stage/stage_priv.h"

/* Only keys of training and exploration: a stream must not choose paths, addresses or devices. */
static bool may_come_with_a_head(const char *word)
{
    return !strncmp(word, "training.", 9) || !strncmp(word, "policy.min_noise_std=", 21) ||
           !strncmp(word, "policy.max_noise_std=", 21);
}

/* Applies one of the words; a resumed run keeps its recorded value. */
static int follow(struct mf_run *run, void *self, const char *word, const struct mf_conf *was, struct mf_err *err)
{
    char key[64], then[128];
    const int n = (int)strcspn(word, "=");
    snprintf(key, sizeof key, "%.*s", n, word);
    if (!may_come_with_a_head(word) || !mf_conf_has(key))
        return mf_err_set(err, MF_EFORMAT, "the head's defaults may not set '%.100s'", word);
    snprintf(then, sizeof then, "%s=%s", key, was ? mf_conf_text(was, key) : word + n + 1);
    int rc = mf_conf_prefer(run->opt.conf, then, err);
    for (const struct mf_bind *b = run->opt.binds; rc == 0 && b->key; b++)
        if (!strcmp(b->key, key))
            rc = mf_conf_bind(run->opt.conf, (struct mf_bind[]){*b, {0}}, self, err);
    return rc ? mf_err_set(err, MF_EFORMAT, "the head's default '%.100s' is no value of that key", word) : 0;
}

int mf_run_follow(struct mf_run *run, void *self, const struct mf_frame *head, struct mf_err *err)
{
    const char *words, *dir = "";
    char *rest, *all;
    struct mf_err ignored;
    int rc = 0;
    if (!mf_frame_has(head, "defaults") || mf_conf_text(run->opt.conf, "policy.checkpoint"))
        return 0;
    if (mf_frame_get_str(head, "defaults", &words, err))
        return err->code;
    struct mf_conf *was = mf_conf_new();
    (void)mf_frame_get_str(head, "run", &dir, &ignored);
    const bool goes_on = mf_frame_has(head, "iter") && mf_conf_recorded(was, dir, run->opt.program, &ignored) == 0;
    all = mf_xstrdup(words);
    for (char *w = strtok_r(all, " ", &rest); w && rc == 0; w = strtok_r(NULL, " ", &rest))
        rc = follow(run, self, w, goes_on ? was : NULL, err);
    free(all);
    mf_conf_free(was);
    return rc;
}
