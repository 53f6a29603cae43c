#include "demos/h5.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "demos/h5_priv.h"

enum { REASON_MAX = 400, KERNEL_ENOTSUPP = 524 /* of the kernel's NFS; no errno.h has it */ };

void mf_h5_close(hid_t id)
{
    if (id >= 0)
        H5Idec_ref(id);
}

static herr_t keep_deepest(unsigned n, const H5E_error2_t *e, void *text)
{
    (void)n;
    if (e->desc && *e->desc)
        snprintf(text, REASON_MAX, "%s", e->desc);
    return 0;
}

const char *mf_h5_reason(char text[400])
{
    snprintf(text, REASON_MAX, "(HDF5 gives no reason)");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_deepest, text);
    char *system = strstr(text, "error message = '"); /* errno's text, among addresses and times */
    if (system) {
        system += strlen("error message = '");
        size_t n = strcspn(system, "'");
        memmove(text, system, n);
        text[n] = '\0';
    }
    return text;
}

/* "what: why": the system's reason, else HDF5's. */
static int fail(struct mf_err *err, enum mf_code code, const char *fmt, va_list ap)
{
    char what[300], why[REASON_MAX];
    struct mf_err system;
    vsnprintf(what, sizeof what, fmt, ap);
    mf_h5_reason(why);
    if (mf_h5_failed(&system))
        return mf_err_set(err, MF_EIO, "%s: %.400s", what, system.text);
    return *why == '(' ? mf_err_set(err, code, "%s", what) : mf_err_set(err, code, "%s: %s", what, why);
}

int mf_h5_fail(struct mf_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = fail(err, MF_EIO, fmt, ap);
    va_end(ap);
    return rc;
}

int mf_h5_unread(struct mf_err *err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int rc = fail(err, MF_EFORMAT, fmt, ap);
    va_end(ap);
    return rc;
}

/* What a file that is not HDF5 is, by its first bytes. */
static int refuse(const char *path, int fd, struct mf_err *err)
{
    char head[64];
    ssize_t n = pread(fd, head, sizeof head, 0);
    if (n < 0)
        return mf_err_errno(err, "cannot read '%s'", path);
    if (n == 0)
        return mf_err_set(err, MF_EFORMAT, "'%s' is empty: download or record it again", path);
    if (n > 20 && !memcmp(head, "version https://git-", 20))
        return mf_err_set(err, MF_EFORMAT, "'%s' is a Git LFS pointer, not the file itself: fetch it with git lfs pull",
                          path);
    return mf_err_set(err, MF_EFORMAT, "'%s' is not an HDF5 file; mf-record makes one of a stream", path);
}

int mf_h5_locks(hid_t access, int fd, bool writes, const char *path, struct mf_err *err)
{
    if (flock(fd, (writes ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) {
        flock(fd, LOCK_UN);
    } else if (errno == EWOULDBLOCK) {
        return mf_err_set(err, MF_EIO, "'%s' is held by a program that %s it", path,
                          writes ? "writes" : "still writes");
    } else if (errno != ENOLCK && errno != ENOSYS && errno != EOPNOTSUPP && errno != KERNEL_ENOTSUPP) {
        return mf_err_errno(err, "cannot lock '%s'", path);
    } else {
        H5Pset_file_locking(access, false, true); /* no process can lock it there */
    }
    return 0;
}

static int open_hdf5(hid_t *file, const char *path, int fd, long long size, struct mf_err *err)
{
    char why[REASON_MAX];
    const htri_t is = H5Fis_hdf5(path);
    if (is <= 0)
        return is < 0 && mf_h5_failed(err) ? mf_err_at(err, "cannot read '%s'", path) : refuse(path, fd, err);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS);
    int rc = mf_h5_locks(access, fd, false, path, err);
    *file = rc ? -1 : H5Fopen(path, H5F_ACC_RDONLY, access);
    if (rc == 0 && *file < 0) {
        mf_h5_reason(why);
        rc = strstr(why, "truncated file")
                 ? mf_err_set(err, MF_EFORMAT, "'%s' is truncated at %lld bytes: copy or download it again", path, size)
                 : mf_h5_unread(err, "cannot open '%s' as HDF5", path);
    }
    mf_h5_close(access);
    return rc;
}

int mf_h5_open(hid_t *file, const char *path, struct mf_err *err)
{
    mf_h5_quiet();
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
    if (fd < 0)
        return mf_err_errno(err, "cannot open '%s'", path);
    int rc = fstat(fd, &st) || !S_ISREG(st.st_mode)
                 ? mf_err_set(err, MF_EFORMAT, "'%s' is not a regular file: HDF5 needs one to seek in", path)
                 : open_hdf5(file, path, fd, (long long)st.st_size, err);
    close(fd);
    return rc;
}

int mf_h5_shape(hid_t set, int max, int *rank, hsize_t *dim, struct mf_err *err)
{
    hid_t space = H5Iget_type(set) == H5I_DATASET ? H5Dget_space(set) : -1;
    *rank = H5Sget_simple_extent_ndims(space);
    if (*rank >= 0 && *rank <= max)
        H5Sget_simple_extent_dims(space, dim, NULL);
    mf_h5_close(space);
    if (*rank < 0)
        return mf_err_set(err, MF_EFORMAT, "it is not a dataset");
    return *rank > max ? mf_err_set(err, MF_EFORMAT, "it has %d dimensions and at most %d make sense", *rank, max) : 0;
}

int mf_h5_numbers(hid_t set, enum mf_dtype *dtype, struct mf_err *err)
{
    static const enum mf_dtype whole[2][9] = {{[1] = MF_U8, [2] = MF_U16, [4] = MF_U32, [8] = MF_U64},
                                              {[1] = MF_I8, [2] = MF_I16, [4] = MF_I32, [8] = MF_I64}};
    static const enum mf_dtype real[9] = {[2] = MF_F16, [4] = MF_F32, [8] = MF_F64};
    hid_t type = H5Dget_type(set);
    H5T_class_t class = H5Tget_class(type);
    size_t size = H5Tget_size(type);
    bool sized = size == 1 || size == 2 || size == 4 || size == 8, is_signed = H5Tget_sign(type) == H5T_SGN_2;
    mf_h5_close(type);
    if (class == H5T_ENUM && size == 1)
        *dtype = MF_B1; /* h5py's bool */
    else if (class == H5T_FLOAT && sized && size > 1)
        *dtype = real[size];
    else if (class == H5T_INTEGER && sized)
        *dtype = whole[is_signed][size];
    else
        return mf_err_set(err, MF_EFORMAT, "it holds %s", class == H5T_STRING ? "texts, not numbers" : "no numbers");
    return 0;
}

static int known_filters(hid_t plist, struct mf_err *err)
{
    unsigned flags, config;
    for (int i = 0; i < H5Pget_nfilters(plist); i++) {
        char name[64] = "";
        size_t n = 0;
        H5Z_filter_t id = H5Pget_filter2(plist, (unsigned)i, &flags, &n, NULL, sizeof name, name, &config);
        if (id >= 0 && H5Zfilter_avail(id) <= 0)
            return mf_err_set(err, MF_EFORMAT,
                              "it is compressed by filter %d (%.40s), which the HDF5 library here does not know: write "
                              "the file anew where it does, with gzip or without compression",
                              (int)id, *name ? name : "nameless");
    }
    return 0;
}

/* Contiguous numbers in the dataset's own file: does it have room for them? */
static int own_storage(hid_t set, hid_t plist, uint64_t n, uint64_t size, struct mf_err *err)
{
    enum { DEFLATE_BEST = 1032 };
    hid_t file = H5Iget_file_id(set);
    hsize_t bytes = 0;
    const bool sized = H5Fget_filesize(file, &bytes) >= 0, written = H5Dget_storage_size(set) > 0;
    mf_h5_close(file);
    if (mf_h5_failed(err))
        return err->code;
    if (!sized || !written)
        return mf_err_set(err, MF_EFORMAT, "it was never written");
    if (n > bytes * (H5Pget_nfilters(plist) > 0 ? DEFLATE_BEST : 1) / size)
        return mf_err_set(err, MF_EFORMAT, "its %llu elements cannot lie in a file of %llu bytes",
                          (unsigned long long)n, (unsigned long long)bytes);
    return 0;
}

int mf_h5_count(hid_t set, uint64_t *n, uint64_t *size, struct mf_err *err)
{
    hid_t space = H5Dget_space(set), type = H5Dget_type(set);
    const hssize_t points = H5Sget_simple_extent_npoints(space);
    *size = H5Tget_size(type);
    *n = points > 0 ? (uint64_t)points : 0;
    mf_h5_close(type);
    mf_h5_close(space);
    return points < 0 || !*size || *n > UINT64_MAX / *size ? mf_err_set(err, MF_EFORMAT, "its size cannot be read") : 0;
}

int mf_h5_whole_at(hid_t set, struct mf_h5_held *held, int deep, struct mf_err *err)
{
    uint64_t n, size, mapped;
    int rc = mf_h5_count(set, &n, &size, err);
    if (rc || n == 0)
        return rc;
    hid_t plist = H5Dget_create_plist(set);
    const H5D_layout_t layout = H5Pget_layout(plist);
    if (layout < 0)
        rc = mf_h5_unread(err, "its layout cannot be read");
    else if (layout == H5D_VIRTUAL && (rc = mf_h5_sources(set, plist, &mapped, held, deep, err)) == 0 && mapped < n)
        rc = mf_err_set(err, MF_EFORMAT, "%llu of its %llu elements lie in no file", (unsigned long long)(n - mapped),
                        (unsigned long long)n);
    else if (layout == H5D_CONTIGUOUS && H5Pget_external_count(plist) > 0)
        rc = mf_h5_raw_files(plist, n * size, err);
    else if (layout != H5D_VIRTUAL && (rc = own_storage(set, plist, n, size, err)) == 0)
        rc = known_filters(plist, err);
    mf_h5_close(plist);
    return rc;
}

int mf_h5_hold(hid_t set, struct mf_h5_held *held, struct mf_err *err)
{
    hid_t plist = H5Dget_create_plist(set);
    const bool view = H5Pget_layout(plist) == H5D_VIRTUAL;
    mf_h5_close(plist);
    return view ? mf_h5_whole_at(set, held, 0, err) : 0;
}

int mf_h5_whole(hid_t set, struct mf_h5_held *held, struct mf_err *err)
{
    struct mf_h5_held own = {0};
    int rc = mf_h5_whole_at(set, held ? held : &own, 0, err);
    mf_h5_let_go(&own);
    return rc;
}
