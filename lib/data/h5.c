#include "data/h5.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

enum { TEXT_MAX = 1 << 24, REASON_MAX = 400 };

void mf_h5_quiet(void)
{
    H5dont_atexit(); /* after a full disk the handler would try, and complain, again */
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
}

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
    snprintf(text, REASON_MAX, "HDF5 gives no reason");
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_deepest, text);
    char *system = strstr(text, "error message = '"); /* among addresses and clocks: what errno said */
    if (system) {
        system += strlen("error message = '");
        size_t n = strcspn(system, "'");
        memmove(text, system, n);
        text[n] = '\0';
    }
    return text;
}

int mf_h5_fail(struct mf_err *err, const char *fmt, ...)
{
    char what[300], why[400];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    return mf_err_set(err, MF_EIO, "%s: %s", what, mf_h5_reason(why));
}

/* What a file that is not HDF5 is, as far as its first bytes tell. */
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

int mf_h5_open(hid_t *file, const char *path, struct mf_err *err)
{
    mf_h5_quiet();
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not hang us */
    if (fd < 0)
        return mf_err_errno(err, "cannot open '%s'", path);
    if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
        close(fd);
        return mf_err_set(err, MF_EIO, "'%s' is not a regular file: HDF5 needs one to seek in", path);
    }
    int rc = H5Fis_hdf5(path) > 0 ? 0 : refuse(path, fd, err);
    close(fd);
    if (rc)
        return rc;
    *file = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    if (*file >= 0)
        return 0;
    char why[400];
    mf_h5_reason(why);
    if (strstr(why, "truncated file"))
        return mf_err_set(err, MF_EFORMAT, "'%s' is truncated at %lld bytes: copy or download it again", path,
                          (long long)st.st_size);
    if (strstr(why, "unable to lock"))
        return mf_err_set(err, MF_EIO, "'%s' is held by a program that still writes it", path);
    return mf_err_set(err, MF_EFORMAT, "cannot open '%s' as HDF5: %s", path, why);
}

bool mf_h5_has(hid_t at, const char *path)
{
    char part[256];
    for (const char *p = path; *p; p++) {
        size_t n = (size_t)(p - path) + strcspn(p, "/");
        if (n >= sizeof part)
            return false;
        memcpy(part, path, n);
        part[n] = '\0';
        if (H5Lexists(at, part, H5P_DEFAULT) <= 0)
            return false;
        p = path + n;
        if (!*p)
            break;
    }
    return true;
}

static void keep_name(struct mf_h5_names *names, const char *s, size_t n)
{
    if ((names->n & (names->n - 1)) == 0) /* full at every power of two */
        names->name = mf_xrealloc(names->name, names->n ? 2 * names->n : 1, sizeof *names->name);
    char *copy = mf_xcalloc(n + 1, 1);
    memcpy(copy, s, n);
    names->name[names->n++] = copy;
}

int mf_h5_add_name(struct mf_h5_names *names, const char *name)
{
    keep_name(names, name, strlen(name));
    return 0;
}

static herr_t list_one(hid_t group, const char *name, const H5L_info_t *info, void *names)
{
    (void)group, (void)info;
    return mf_h5_add_name(names, name);
}

int mf_h5_list(hid_t at, const char *group, struct mf_h5_names *names, struct mf_err *err)
{
    *names = (struct mf_h5_names){0};
    if (H5Literate_by_name(at, group, H5_INDEX_NAME, H5_ITER_INC, NULL, list_one, names, H5P_DEFAULT) >= 0)
        return 0;
    char why[400];
    mf_h5_free_names(names);
    return mf_err_set(err, MF_EFORMAT, "cannot list '%s': %s", group, mf_h5_reason(why));
}

void mf_h5_free_names(struct mf_h5_names *names)
{
    for (size_t i = 0; i < names->n; i++)
        free(names->name[i]);
    free(names->name);
    *names = (struct mf_h5_names){0};
}

char *mf_h5_join(const struct mf_h5_names *names, char *text, size_t size)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < names->n && used < size; i++)
        used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "", names->name[i]);
    return text;
}

/* Strings of one type from `read`, a dataset's or an attribute's. */
static int take_strings(hid_t id, bool attribute, hid_t type, size_t n, struct mf_h5_names *names)
{
    bool variable = H5Tis_variable_str(type) > 0;
    size_t size = variable ? sizeof(char *) : H5Tget_size(type);
    if (n > TEXT_MAX / size)
        return -1;
    hid_t memory = H5Tcopy(type);
    char *raw = mf_xcalloc(n, size);
    herr_t rc = attribute ? H5Aread(id, memory, raw) : H5Dread(id, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, raw);
    for (size_t i = 0; rc >= 0 && i < n; i++) {
        const char *s = variable ? ((char **)raw)[i] : raw + i * size;
        keep_name(names, s ? s : "", variable ? (s ? strlen(s) : 0) : strnlen(s, size));
        if (variable)
            H5free_memory(((char **)raw)[i]);
    }
    free(raw);
    mf_h5_close(memory);
    return rc < 0 ? -1 : 0;
}

int mf_h5_read_strings(hid_t at, const char *path, struct mf_h5_names *names, struct mf_err *err)
{
    *names = (struct mf_h5_names){0};
    hid_t set = H5Dopen2(at, path, H5P_DEFAULT), space = H5Dget_space(set), type = H5Dget_type(set);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    int rc = -1;
    if (H5Tget_class(type) == H5T_STRING && n >= 0)
        rc = take_strings(set, false, type, (size_t)n, names);
    mf_h5_close(type);
    mf_h5_close(space);
    mf_h5_close(set);
    return rc ? mf_err_set(err, MF_EFORMAT, "'%s' cannot be read as a list of strings", path) : 0;
}

static int attr_open(hid_t at, const char *name, hid_t *attr, hid_t *type)
{
    *attr = *type = -1;
    if (H5Aexists(at, name) <= 0)
        return 0;
    *attr = H5Aopen(at, name, H5P_DEFAULT);
    *type = H5Aget_type(*attr);
    hid_t space = H5Aget_space(*attr);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    mf_h5_close(space);
    return n == 1 ? 1 : -1;
}

int mf_h5_attr_int(hid_t at, const char *name, int64_t *v, struct mf_err *err)
{
    hid_t attr, type;
    int rc = attr_open(at, name, &attr, &type);
    H5T_class_t class = rc == 1 ? H5Tget_class(type) : H5T_NO_CLASS;
    if (rc == 1 && ((class != H5T_INTEGER && class != H5T_FLOAT) || H5Aread(attr, H5T_NATIVE_INT64, v) < 0))
        rc = -1;
    mf_h5_close(type);
    mf_h5_close(attr);
    return rc < 0 ? mf_err_set(err, MF_EFORMAT, "attribute '%s' is not one number", name) : rc;
}

int mf_h5_attr_text(hid_t at, const char *name, char **s, struct mf_err *err)
{
    hid_t attr, type;
    struct mf_h5_names one = {0};
    int rc = attr_open(at, name, &attr, &type);
    if (rc == 1 && (H5Tget_class(type) != H5T_STRING || take_strings(attr, true, type, 1, &one)))
        rc = -1;
    if (rc == 1) {
        *s = one.name[0];
        free(one.name);
    }
    mf_h5_close(type);
    mf_h5_close(attr);
    return rc < 0 ? mf_err_set(err, MF_EFORMAT, "attribute '%s' is not one string", name) : rc;
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

int mf_h5_bound(hid_t file, hid_t set, uint64_t *sum, struct mf_err *err)
{
    enum { DEFLATE_BEST = 1032 };
    hid_t space = H5Dget_space(set), type = H5Dget_type(set), plist = H5Dget_create_plist(set);
    uint64_t n = (uint64_t)H5Sget_simple_extent_npoints(space), size = H5Tget_size(type);
    uint64_t allowed = 0;
    hsize_t bytes = 0;
    H5Fget_filesize(file, &bytes);
    allowed = bytes * (H5Pget_nfilters(plist) > 0 ? DEFLATE_BEST : 1);
    bool written = n == 0 || H5Pget_layout(plist) == H5D_VIRTUAL || H5Dget_storage_size(set) > 0;
    mf_h5_close(plist);
    mf_h5_close(type);
    mf_h5_close(space);
    if (!written)
        return mf_err_set(err, MF_EFORMAT, "it was never written");
    if (size && n > (allowed - (*sum < allowed ? *sum : allowed)) / size)
        return mf_err_set(err, MF_EFORMAT, "its %llu elements cannot lie in a file of %llu bytes",
                          (unsigned long long)n, (unsigned long long)bytes);
    *sum += n * size;
    return 0;
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

int mf_h5_readable(hid_t set, struct mf_err *err)
{
    hid_t plist = H5Dget_create_plist(set);
    unsigned flags, config;
    int rc = 0;
    for (int i = 0; i < H5Pget_nfilters(plist) && rc == 0; i++) {
        char name[64] = "";
        size_t n = 0;
        H5Z_filter_t id = H5Pget_filter2(plist, (unsigned)i, &flags, &n, NULL, sizeof name, name, &config);
        if (id >= 0 && H5Zfilter_avail(id) <= 0)
            rc = mf_err_set(err, MF_EFORMAT,
                            "it is compressed by filter %d (%.40s), which the HDF5 library here does not know: write "
                            "the file anew where it does, with gzip or without compression",
                            (int)id, *name ? name : "nameless");
    }
    mf_h5_close(plist);
    return rc;
}

/* ---- damaged headers that break the library itself ---- */

static const int deaths[] = {SIGSEGV, SIGBUS, SIGFPE, SIGABRT};
static struct sigaction before[sizeof deaths / sizeof *deaths];
static char epitaph[640];

static void died(int signal)
{
    (void)signal;
    ssize_t ignored = write(STDERR_FILENO, epitaph, strlen(epitaph));
    (void)ignored;
    _exit(3);
}

void mf_h5_guard(const char *path)
{
    struct sigaction to = {.sa_handler = died};
    if (path)
        snprintf(
            epitaph, sizeof epitaph,
            "%s: error: '%.400s' has damaged headers that the HDF5 library cannot read: copy or download it again\n",
            program_invocation_short_name, path);
    for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++)
        sigaction(deaths[i], path ? &to : &before[i], path ? &before[i] : NULL);
}
