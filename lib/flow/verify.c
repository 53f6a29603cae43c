#include "flow/verify.h"

#include <math.h>
#include <string.h>

#include "base/number.h"
#include "flow/base.h"
#include "flow/checkpoint.h"
#include "run/safetensors.h"

static float float_at(const struct mf_array *a, size_t i)
{
    float x;
    uint16_t half;
    if (a->dtype == MF_F32)
        memcpy(&x, (const char *)a->data + i * sizeof x, sizeof x);
    else
        memcpy(&half, (const char *)a->data + i * sizeof half, sizeof half);
    return a->dtype == MF_F32 ? x : mf_bfloat(half);
}

static bool is_float(const struct mf_array *a)
{
    return a->dtype == MF_F32 || a->dtype == MF_BFLOAT;
}

static int check_numbers(const struct mf_safetensors *f, const char *path, struct mf_err *err)
{
    for (int i = 0; i < f->n; i++)
        for (size_t j = 0; is_float(&f->tensors[i]) && j < f->tensors[i].count; j++)
            if (!isfinite(float_at(&f->tensors[i], j)))
                return mf_err_set(err, MF_EFORMAT, "%s: number %zu of %s is %g", path, j, f->tensors[i].name,
                                  (double)float_at(&f->tensors[i], j));
    return 0;
}

/* All of the base, also what this checkpoint has its own of. */
static int check_base(const struct mf_safetensors *f, const char *path, struct mf_err *err)
{
    struct mf_safetensors base;
    char beside[4096];
    if (!mf_safetensors_meta(f, MF_BASE))
        return 0;
    mf_base_path(path, beside, sizeof beside);
    int rc = mf_safetensors_open(&base, beside, err);
    if (rc)
        return rc;
    rc = check_numbers(&base, beside, err);
    mf_safetensors_close(&base);
    return rc;
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
        rc = rc ? rc : check_base(mf_loaded_file(l), path, err);
        mf_policy_release(&p);
    }
    mf_checkpoint_close(l);
    return rc;
}
