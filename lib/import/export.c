#include "import/export.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "flow/base.h"
#include "import/conv2d.h"
#include "import/export_pi05.h"
#include "import/torch.h"

static bool of_torch(const char *path)
{
    return mf_ends(path, ".pt") || mf_ends(path, ".pth") || mf_ends(path, ".ckpt");
}

/* Sigma's bounds are scalars in the published files, and one number in ours. */
static void make_scalars(struct mf_array *t, int n)
{
    for (int i = 0; i < n; i++)
        if (mf_starts(t[i].name, "explore_noise_net.logvar_"))
            t[i].rank = 0;
}

static int add_prefix(struct mf_array *t, int n, const char *prefix, struct mf_err *err)
{
    const size_t more = strlen(prefix);
    for (int i = 0; i < n; i++) {
        if (strlen(t[i].name) + more >= sizeof t[i].name)
            return mf_err_set(err, MF_EUSAGE, "ckpt.prefix=%.60s makes the name %s longer than %zu bytes", prefix,
                              t[i].name, sizeof t[i].name - 1);
        memmove(t[i].name + more, t[i].name, strlen(t[i].name) + 1);
        memcpy(t[i].name, prefix, more);
    }
    return 0;
}

/* Its tensors without those of training, for the caller to free; NULL: averaged ones are asked for, and there are
 * none. */
static struct mf_array *choose(const struct mf_safetensors *f, enum mf_weights which, int *n)
{
    const char *kind = mf_safetensors_meta(f, "kind");
    const bool clone = kind && !strcmp(kind, "clone");
    const bool averaged = which == MF_WEIGHTS_EMA || (which == MF_WEIGHTS_AUTO && clone);
    struct mf_array *t = averaged ? mf_weights_alone(f, true, n) : NULL;
    return t || which == MF_WEIGHTS_EMA ? t : mf_weights_alone(f, false, n);
}

/* t: tensors of f, a list that may move. */
static int write_out(const struct mf_safetensors *f, struct mf_array *t, int n, const char *prefix, const char *to,
                     struct mf_err *err)
{
    struct mf_meta meta[MF_PI05_META] = {{"format", "pt"}};
    int n_meta = 1;
    float *convolutions = NULL, *resnet = NULL;
    t = mf_resnet_export(t, &n, &resnet);
    make_scalars(t, n);
    int rc = mf_conv2d_export(t, n, &convolutions, err);
    if (!rc) {
        const int special = mf_pi05_export(f, t, &n, meta);
        n_meta = special ? special : n_meta;
        rc = prefix ? add_prefix(t, n, prefix, err) : 0;
    }
    if (!rc)
        rc = of_torch(to) ? mf_torch_write(to, t, n, err) : mf_safetensors_write(to, t, n, meta, n_meta, err);
    free(convolutions);
    free(resnet);
    free(t);
    return rc;
}

/* With the tensors of its base. */
static int open_whole(struct mf_safetensors *f, struct mf_safetensors *base, const char *path, struct mf_err *err)
{
    int rc = mf_safetensors_open(f, path, err);
    if (rc == 0 && (rc = mf_base_join(f, base, path, err)))
        mf_safetensors_close(f);
    return rc;
}

int mf_export(const char *from, enum mf_weights which, const char *prefix, const char *to, struct mf_err *err)
{
    struct mf_safetensors f, base;
    if (!of_torch(to) && !mf_ends(to, ".safetensors"))
        return mf_err_set(err, MF_EUSAGE, "'%s' must end in .pt or .safetensors, which selects the format", to);
    int n, rc = open_whole(&f, &base, from, err);
    if (rc)
        return rc;
    struct mf_array *t = choose(&f, which, &n);
    rc = t ? write_out(&f, t, n, prefix, to, err) : mf_err_set(err, MF_EUSAGE, "%s holds no EMA weights", from);
    mf_safetensors_close(&f);
    mf_safetensors_close(&base);
    return rc;
}

int mf_export_average(const char *from, const char *to, struct mf_err *err)
{
    struct mf_safetensors f, base;
    int rc = open_whole(&f, &base, from, err), n, n_meta = 0;
    if (rc)
        return rc;
    struct mf_array *t = mf_weights_alone(&f, true, &n);
    for (int i = 0; i < f.n_meta; i++)
        if (!mf_starts(f.meta[i].key, "adam.") && strcmp(f.meta[i].key, MF_BASE) != 0)
            f.meta[n_meta++] = f.meta[i];
    rc = t ? mf_safetensors_write(to, t, n, f.meta, n_meta, err)
           : mf_err_set(err, MF_EUSAGE, "%s holds no EMA weights", from);
    free(t);
    mf_safetensors_close(&f);
    mf_safetensors_close(&base);
    return rc;
}
