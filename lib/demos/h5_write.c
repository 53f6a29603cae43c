#include "demos/h5.h"

static int set_attr(hid_t at, const char *name, hid_t type, const void *value, struct mf_err *err)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attr = H5Acreate2(at, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    herr_t rc = attr < 0 ? -1 : H5Awrite(attr, type, value);
    mf_h5_close(attr);
    mf_h5_close(space);
    char why[400];
    return rc < 0 ? mf_err_set(err, MF_EIO, "cannot write attribute '%s': %s", name, mf_h5_reason(why)) : 0;
}

int mf_h5_set_int(hid_t at, const char *name, int64_t v, struct mf_err *err)
{
    return set_attr(at, name, H5T_NATIVE_INT64, &v, err);
}

int mf_h5_set_text(hid_t at, const char *name, const char *s, struct mf_err *err)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    H5Tset_size(type, H5T_VARIABLE); /* h5py reads this as str, the fixed ones as bytes */
    H5Tset_cset(type, H5T_CSET_UTF8);
    int rc = set_attr(at, name, type, &s, err);
    mf_h5_close(type);
    return rc;
}

static hid_t file_type(enum mf_dtype dtype)
{
    switch (dtype) {
    case MF_F32:
        return H5Tcopy(H5T_IEEE_F32LE);
    case MF_F64:
        return H5Tcopy(H5T_IEEE_F64LE);
    case MF_I8:
        return H5Tcopy(H5T_STD_I8LE);
    case MF_I16:
        return H5Tcopy(H5T_STD_I16LE);
    case MF_I32:
        return H5Tcopy(H5T_STD_I32LE);
    case MF_I64:
        return H5Tcopy(H5T_STD_I64LE);
    case MF_U16:
        return H5Tcopy(H5T_STD_U16LE);
    case MF_U32:
        return H5Tcopy(H5T_STD_U32LE);
    case MF_U64:
        return H5Tcopy(H5T_STD_U64LE);
    case MF_F16: {
        hid_t half = H5Tcopy(H5T_IEEE_F32LE);
        H5Tset_fields(half, 15, 10, 5, 0, 10);
        H5Tset_size(half, 2);
        H5Tset_ebias(half, 15);
        return half;
    }
    case MF_U8:
    case MF_B1:
    case MF_BFLOAT: /* no recording has any */
        break;
    }
    return H5Tcopy(H5T_STD_U8LE);
}

int mf_h5_try(hid_t at, const char *name, enum mf_dtype dtype, int rank, const hsize_t *dim, const void *data,
              hid_t *set, struct mf_err *err)
{
    hid_t links = H5Pcreate(H5P_LINK_CREATE), type = file_type(dtype), space = H5Screate_simple(rank, dim, NULL);
    H5Pset_create_intermediate_group(links, 1);
    *set = H5Dcreate2(at, name, type, space, links, H5P_DEFAULT, H5P_DEFAULT);
    int rc = *set < 0 ? 1 : 0;
    if (rc == 0 && H5Dwrite(*set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0) {
        rc = mf_h5_fail(err, "cannot write %s", name);
        mf_h5_close(*set);
    }
    mf_h5_close(space);
    mf_h5_close(type);
    mf_h5_close(links);
    return rc;
}

int mf_h5_put(hid_t at, const char *name, enum mf_dtype dtype, int rank, const hsize_t *dim, const void *data,
              struct mf_err *err)
{
    hid_t set;
    int rc = mf_h5_try(at, name, dtype, rank, dim, data, &set, err);
    if (rc > 0)
        return mf_h5_fail(err, "cannot create %s", name);
    if (rc == 0)
        mf_h5_close(set);
    return rc;
}
