/* demo_file.h - HDF5 files of demonstrations, good and bad ones, written by HDF5 itself. */
#ifndef MF_DEMO_FILE_H
#define MF_DEMO_FILE_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "demos/demos.h"
#include "demos/h5.h"

static inline hid_t create(const char *path)
{
    return H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
}

/* rows x dim doubles of base + 0.5*i, stored as `type`, gzipped in chunks when `gzip`. dim 0: 1-D. */
static inline void put(hid_t file, const char *name, hid_t type, hsize_t rows, hsize_t dim, double base, int gzip)
{
    hsize_t shape[2] = {rows, dim}, chunk[2] = {2, dim};
    size_t n = rows * (dim ? dim : 1);
    double *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = base + 0.5 * (double)i;
    hid_t links = H5Pcreate(H5P_LINK_CREATE), plist = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    if (gzip) {
        H5Pset_chunk(plist, 2, chunk);
        H5Pset_deflate(plist, 4);
    }
    hid_t space = H5Screate_simple(dim ? 2 : 1, shape, NULL);
    hid_t set = H5Dcreate2(file, name, type, space, links, plist, H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, x);
    mf_h5_close(set), mf_h5_close(space), mf_h5_close(plist), mf_h5_close(links);
    free(x);
}

/* uint8 (rows, side, side, 3): 240, 241, .. with wrap, gzipped in chunks of `chunk` rows; 0: contiguous. */
static inline void put_image(hid_t file, const char *name, hsize_t rows, hsize_t side, hsize_t chunk)
{
    size_t n = rows * side * side * 3;
    uint8_t *x = calloc(n + 16, 1);
    for (size_t i = 0; i < n; i++)
        x[i] = (uint8_t)(240 + i + i / 1000);
    hid_t plist = H5Pcreate(H5P_DATASET_CREATE);
    hid_t set, space = H5Screate_simple(4, (hsize_t[]){rows, side, side, 3}, NULL);
    if (chunk) {
        H5Pset_chunk(plist, 4, (hsize_t[]){chunk, side, side, 3});
        H5Pset_deflate(plist, 1);
    }
    set = H5Dcreate2(file, name, H5T_STD_U8LE, space, H5P_DEFAULT, plist, H5P_DEFAULT);
    H5Dwrite(set, H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT, x);
    mf_h5_close(set), mf_h5_close(space), mf_h5_close(plist);
    free(x);
}

static inline void put_mask(hid_t file, const char *name, int variable, hsize_t n, const char *const *names)
{
    char fixed[8][16] = {{0}};
    hid_t type = H5Tcopy(H5T_C_S1), links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    H5Tset_size(type, variable ? H5T_VARIABLE : sizeof fixed[0]);
    for (hsize_t i = 0; i < n; i++)
        strcpy(fixed[i], names[i]);
    hid_t space = H5Screate_simple(1, &n, NULL);
    hid_t set = H5Dcreate2(file, name, type, space, links, H5P_DEFAULT, H5P_DEFAULT);
    H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, variable ? (const void *)names : fixed);
    mf_h5_close(set), mf_h5_close(space), mf_h5_close(type), mf_h5_close(links);
}

/* Number j of step t of a column; NaN and the error where it cannot be read. */
static inline double number(struct mf_demos *d, int column, size_t demo, size_t t, size_t j)
{
    const void *rows;
    struct mf_err err;
    size_t n;
    if (mf_demos_rows(d, column, demo, t, &rows, &n, &err)) {
        printf("# %s\n", err.text);
        return (double)NAN;
    }
    return d->column[column].is.u8 ? (double)((const uint8_t *)rows)[j] : (double)((const float *)rows)[j];
}

#endif
