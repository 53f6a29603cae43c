/* import_obs.c - the observations of a policy without an environment: policy.obs_keys, or those that the file's
 * normaliser names; its vectors give their widths.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "import/import_families.h"

static const char before[] = "normalizer.params_dict.", after[] = ".scale";

/* Length of the normaliser's vector for this observation; 0: none. */
static size_t width_of(const struct mf_import *im, const char *name)
{
    char rest[100];
    snprintf(rest, sizeof rest, "%.80s%s", name, after);
    const struct mf_torch_tensor *t = mf_import_tensor(im, im->layout.weights, before, rest);
    return t && t->count <= 1 << 20 ? t->count : 0;
}

void mf_import_seen(const struct mf_import *im, struct mf_names *seen)
{
    seen->n = 0;
    for (int i = 0; i < im->file.n && seen->n < MF_LIST_MAX; i++) {
        const char *key = im->key[i], *name = key + sizeof before - 1;
        const size_t n = strlen(key);
        if (!mf_torch_within(&im->file.tensor[i], im->layout.weights) || !mf_starts(key, before) ||
            !mf_ends(key, after) || n < sizeof before + sizeof after - 1)
            continue;
        const int length = (int)(n - (sizeof before - 1) - (sizeof after - 1));
        const bool other =
            !strncmp(name, "action.", 7) || !strncmp(name, "obs.", 4); /* of the action, or of all observations */
        if (!other && length < (int)sizeof seen->v[0])
            snprintf(seen->v[seen->n++], sizeof seen->v[0], "%.*s", length, name);
    }
}

/* Their widths, which add up to `state`. One observation may lack a vector or have a single number for all its numbers:
 * its width is what the others leave. */
static bool divide(const struct mf_import *im, const struct mf_names *names, int state, int width[MF_LIST_MAX])
{
    int sum = 0, open = -1, n_open = 0;
    for (int i = 0; i < names->n; i++)
        sum += width[i] = (int)width_of(im, names->v[i]);
    if (sum == state)
        return true;
    for (int i = 0; i < names->n; i++)
        if (width[i] <= 1)
            open = i, n_open++;
    if (n_open != 1 || state - sum + width[open] < 1)
        return false;
    width[open] += state - sum;
    return true;
}

static int not_those(const struct mf_import *im, const struct mf_names *names, int state, struct mf_err *err)
{
    char list[200] = "";
    for (int i = 0; i < names->n; i++) {
        const size_t used = strlen(list);
        snprintf(list + used, sizeof list - used, "%s%.40s", i ? ", " : "", names->v[i]);
    }
    return mf_err_set(err, MF_EUSAGE,
                      "the network of %.120s reads %d low-dimensional numbers of a step, and the file does not say how "
                      "they are those of %s: give env=NAME, or the names in their order as policy.obs_keys=[..]",
                      im->file.zip.path, state, list);
}

int mf_import_add(const struct mf_import *im, struct mf_layout *l, const struct mf_obs *o, struct mf_err *err)
{
    char shape[64];
    if (mf_layout_add(l, o))
        return 0;
    if (!mf_obs_fits(o))
        return mf_err_set(err, MF_EFORMAT,
                          "by its sizes, %s reads the observation %s as %s; at most %d numbers are possible",
                          im->file.zip.path, o->name, mf_obs_shape(o, shape), MF_OBS_MAX);
    return mf_err_set(err, MF_EUSAGE, "a policy reads at most %d observations", MF_OBS_KEYS);
}

int mf_import_observe(const struct mf_import *im, const struct mf_import_world *w, int state, const char *otherwise,
                      const struct mf_obs *cloud, struct mf_layout *l, struct mf_err *err)
{
    struct mf_names all = *w->keys, low = {0};
    int width[MF_LIST_MAX], cloud_at = 0;
    if (all.n == 0)
        mf_import_seen(im, &all);
    for (int i = 0; i < all.n; i++)
        if (cloud && !strcmp(all.v[i], cloud->name))
            cloud_at = w->keys->n ? low.n : 0;
        else if (mf_layout_column(l, all.v[i]) < 0)
            memcpy(low.v[low.n++], all.v[i], sizeof *low.v);
    if (low.n == 0)
        snprintf(low.v[low.n++], sizeof *low.v, "%s", otherwise);
    if (!divide(im, &low, state, width))
        return not_those(im, &low, state, err);
    for (int i = 0; i <= low.n; i++) {
        struct mf_obs o = {.dim = {i < low.n ? width[i] : 0}};
        if (cloud && i == cloud_at && mf_import_add(im, l, cloud, err))
            return err->code;
        if (i < low.n)
            memcpy(o.name, low.v[i], sizeof o.name);
        if (i < low.n && mf_import_add(im, l, &o, err))
            return err->code;
    }
    return 0;
}
