#include "import/import_in.h"

#include <stdio.h>

#include "base/resize.h"
#include "env/words.h"
#include "flow/policy.h"
#include "flow/spec_keys.h"

/* The observations that the file names, where the environment has all of them; else all low-dimensional ones. */
static int observe(const struct mf_import *im, const struct mf_import_in *in, const struct mf_env *env,
                   struct mf_layout *obs, struct mf_err *err)
{
    struct mf_names keys = *in->keys;
    struct mf_err none;
    if (keys.n == 0) {
        mf_import_seen(im, &keys);
        if (keys.n && mf_env_layout(env, keys.n, keys.v, NULL, obs, &none) == 0)
            return 0;
        keys.n = 0;
    }
    return mf_env_layout(env, keys.n, keys.v, NULL, obs, err);
}

static int into(struct mf_import *im, const struct mf_import_in *in, const struct mf_import_world *w, const char *env,
                const char *to, struct mf_policy_spec *spec, struct mf_err *err)
{
    struct mf_policy p;
    int rc = mf_import_spec(im, spec, w, err);
    if (rc || (rc = mf_policy_spec_tokenizer(spec, to, w->tokenizer, w->pieces, err)) ||
        (rc = mf_policy_outline(&p, spec, err)))
        return rc;
    snprintf(p.spec.env, sizeof p.spec.env, "%s", env);
    if (!(rc = mf_import_normalizer(im, &p, in->normalizer, err)))
        rc = mf_import_save(im, &p, to, err);
    mf_policy_release(&p);
    return rc;
}

int mf_import_in(struct mf_import *im, const struct mf_import_in *in, const char *to, struct mf_policy_spec *spec,
                 struct mf_err *err)
{
    struct mf_import_world w = {.conf = in->conf, .keys = in->keys, .A = 1};
    const struct mf_env *env = NULL;
    struct mf_layout obs;
    im->keep_bf16 = in->keep_bf16;
    int rc = in->env ? mf_env_open(&env, in->env, err) : 0;
    if (rc)
        return rc;
    if (env) {
        rc = observe(im, in, env, &obs, err);
        if (!rc)
            mf_env_side(env, &obs, (int)in->env->image_size), mf_layout_side(&obs, (int)in->env->policy_side);
        w.A = env->action_dim;
        w.tokenizer = mf_words_digest(env->words);
        w.pieces = mf_words_pieces(env->words);
    } else if (w.keys->n && mf_import_is_demos(in->normalizer)) {
        rc = mf_import_demos(in->normalizer, w.keys, &obs, &w.A, err);
    }
    if (env || (w.keys->n && mf_import_is_demos(in->normalizer)))
        w.obs = &obs;
    if (!rc)
        rc = into(im, in, &w, env ? env->name : "", to, spec, err);
    mf_env_close(env);
    return rc;
}
