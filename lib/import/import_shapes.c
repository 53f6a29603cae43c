/* import_shapes.c - sizes from shapes and from the file's configuration, for several families. */
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "flow/spec.h"
#include "import/import_families.h"

int mf_import_rows(const struct mf_import *im, const char *prefix, int first, const char *suffix, int *rows)
{
    char name[192];
    int n = 0;
    for (; n < MF_DIMS_MAX; n++) {
        snprintf(name, sizeof name, "%s%d%s", prefix, first + n, suffix);
        if (!(rows[n] = mf_import_dim(im, name, 0)))
            break;
    }
    return n;
}

int mf_import_residual(const struct mf_import *im, const char *prefix, int *n, int hidden[MF_DIMS_MAX])
{
    char name[128];
    int h, blocks, rows[MF_DIMS_MAX];
    snprintf(name, sizeof name, "%s.layers.0.weight", prefix);
    h = mf_import_dim(im, name, 0);
    snprintf(name, sizeof name, "%s.layers.", prefix);
    blocks = mf_import_rows(im, name, 1, ".l1.weight", rows);
    *n = h == 0 ? 0 : 2 * blocks + 1 < MF_DIMS_MAX ? 2 * blocks + 1 : MF_DIMS_MAX;
    for (int i = 0; i < *n; i++)
        hidden[i] = h;
    snprintf(name, sizeof name, "%s.layers.%d.weight", prefix, blocks + 1);
    return mf_import_dim(im, name, 0);
}

void mf_import_heads(const struct mf_import *im, struct mf_policy_spec *s)
{
    mf_import_residual(im, "critic.Q1", &s->n_critic, s->critic);
    s->n_noise = mf_import_rows(im, "explore_noise_net.mlp_logvar.moduleList.", 0, ".linear_1.weight", s->noise);
    s->learned_noise = s->n_noise > 0;
    s->n_noise -= s->n_noise > 0; /* the last is the output */
}

/* The configuration is `cfg` in ManiFlow's workspace, `config` in the RL fork, where `horizon` may lie in `policy`. */
const char *mf_import_configured(const struct mf_import *im, const char *name)
{
    static const char *const root[] = {"cfg", "config"};
    char below[100];
    const char *text = NULL;
    snprintf(below, sizeof below, "policy.%s", name);
    for (int i = 0; i < 4 && !text; i++)
        text = mf_torch_value(&im->file, root[i / 2], i % 2 ? below : name);
    return text;
}

void mf_import_assume(struct mf_import *im, const char *fmt, ...)
{
    const size_t used = strlen(im->assumed);
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    snprintf(im->assumed + used, sizeof im->assumed - used, "%s%s",
             used ? ", " : "neither the file nor a key says these, which are assumed: ", text);
}

bool mf_import_known(const struct mf_import *im, const struct mf_import_world *w, const char *key, const char *cfg,
                     int *v)
{
    const char *text = mf_import_configured(im, cfg);
    if (mf_conf_was_set(w->conf, key))
        return true;
    char *end;
    const long number = text ? strtol(text, &end, 10) : 0;
    if (number < 1 || number > INT_MAX || *end)
        return false;
    *v = (int)number;
    return true;
}

void mf_import_expect(struct mf_import *im, const struct mf_import_world *w, const char *key, const char *cfg, int *v)
{
    if (!mf_import_known(im, w, key, cfg, v))
        mf_import_assume(im, "%s=%d", key, *v);
}

void mf_import_chunk(struct mf_import *im, const struct mf_import_world *w, struct mf_policy_spec *s)
{
    if (!mf_conf_was_set(w->conf, "policy.action_offset"))
        s->action_offset = s->n_obs_steps - 1;
    if (!mf_conf_was_set(w->conf, "policy.n_action_steps"))
        s->n_action_steps = s->horizon - s->action_offset;
    mf_import_expect(im, w, "policy.n_action_steps", "n_action_steps", &s->n_action_steps);
    mf_import_expect(im, w, "policy.num_inference_steps", "policy.num_inference_steps", &s->K);
}
