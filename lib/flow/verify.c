#include "flow/verify.h"

#include <math.h>
#include <string.h>

#include "flow/checkpoint.h"
#include "run/safetensors.h"

static float float_at(const struct mf_array *a, size_t i)
{
    float x;
    memcpy(&x, (const char *)a->data + i * sizeof x, sizeof x);
    return x;
}

static int check_numbers(const struct mf_safetensors *f, const char *path, struct mf_err *err)
{
    for (int i = 0; i < f->n; i++)
        for (size_t j = 0; f->tensors[i].dtype == MF_F32 && j < f->tensors[i].count; j++)
            if (!isfinite(float_at(&f->tensors[i], j)))
                return mf_err_set(err, MF_EFORMAT, "%s: number %zu of %s is %g", path, j, f->tensors[i].name,
                                  (double)float_at(&f->tensors[i], j));
    return 0;
}

int mf_checkpoint_verify(const char *path, struct mf_err *err)
{
    struct mf_loaded *l;
    struct mf_policy p;
    int rc = mf_checkpoint_open(&l, path, err);
    if (rc)
        return rc;
    rc = mf_loaded_outline(l, &p, mf_loaded_spec(l), ~0u, true, MF_WEIGHTS_RAW, err);
    if (rc == 0 && (rc = mf_params_alloc(&p.params, err)))
        mf_policy_release(&p);
    if (rc)
        mf_err_at(err, "%s", path);
    else {
        mf_policy_fresh(&p, 0);
        if (!(rc = mf_loaded_policy(l, &p, MF_WEIGHTS_RAW, err)))
            rc = check_numbers(mf_loaded_file(l), path, err);
        mf_policy_release(&p);
    }
    mf_checkpoint_close(l);
    return rc;
}
