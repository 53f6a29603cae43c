/* What lies in other files: external links, the sources of virtual datasets, external raw storage. They are looked for
 * where HDF5 looks, so that what is not there can be named: of a virtual dataset HDF5 itself would read zeros. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "demos/h5_priv.h"

enum { DEEP = 8, BLOCKS_MAX = 1 << 20 }; /* views of views; files of one pattern "x_%b.h5" */

static char lost[PATH_MAX]; /* the missing file of an external link; "": none */

static bool is_file(const char *folder, int n, const char *name, char found[PATH_MAX])
{
    struct stat st;
    return snprintf(found, PATH_MAX, "%.*s%s", n, folder, name) < PATH_MAX && !stat(found, &st) && S_ISREG(st.st_mode);
}

/* Length of the folder of a path, its slash included; 0: none is named. */
static int folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (int)(slash + 1 - path) : 0;
}

/* The file that `from`, a file, calls `name`: as it stands where that is absolute, then in the folders of the
 * environment variable, beside `from`, here, and beside what `from` is a symbolic link to. */
static bool find_file(const char *from, const char *name, const char *variable, char found[PATH_MAX])
{
    char real[PATH_MAX], folder[PATH_MAX];
    const char *list = getenv(variable);
    if (*name == '/' && is_file("", 0, name, found))
        return true;
    name += *name == '/' ? folder_of(name) : 0;
    for (size_t n; list && *list; list += n + (list[n] == ':')) {
        n = strcspn(list, ":");
        if (snprintf(folder, sizeof folder, "%.*s/", (int)n, list) < PATH_MAX &&
            is_file(folder, (int)strlen(folder), name, found))
            return true;
    }
    return is_file(from, folder_of(from), name, found) || is_file("", 0, name, found) ||
           (realpath(from, real) && is_file(real, folder_of(real), name, found));
}

/* ---- links ---- */

static herr_t before_link(const char *from, const char *group, const char *name, const char *object, unsigned *flags,
                          hid_t access, void *unused)
{
    char found[PATH_MAX];
    (void)group, (void)object, (void)flags, (void)access, (void)unused;
    if (find_file(from, name, "HDF5_EXT_PREFIX", found))
        return 0;
    snprintf(lost, sizeof lost, "%s", name);
    return -1;
}

void mf_h5_follow(hid_t access)
{
    H5Pset_elink_cb(access, before_link, NULL);
    *lost = '\0';
}

static hid_t follow(void)
{
    hid_t access = H5Pcreate(H5P_LINK_ACCESS);
    mf_h5_follow(access);
    return access;
}

/* Why a path below `at` cannot be followed. */
static int no_way(hid_t at, const char *path, struct mf_err *err)
{
    char from[256] = "";
    H5Iget_name(at, from, sizeof from); /* of a file: its root, "/" */
    const char *slash = from[0] && !from[1] ? "" : "/";
    return *lost ? mf_err_set(err, MF_EFORMAT, "%s%s%s is linked to '%.200s', which is not there", from, slash, path,
                              lost)
                 : mf_h5_unread(err, "%s%s%s cannot be opened", from, slash, path);
}

int mf_h5_object(hid_t at, const char *path, hid_t *object, struct mf_err *err)
{
    hid_t access = follow();
    *object = H5Oopen(at, path, access);
    int rc = *object < 0 ? no_way(at, path, err) : 0;
    mf_h5_close(access);
    return rc;
}

int mf_h5_has(hid_t at, const char *path, struct mf_err *err)
{
    char part[512];
    hid_t access = follow();
    htri_t there = 1;
    for (const char *p = path; there > 0; p++) {
        p += strcspn(p, "/");
        if (snprintf(part, sizeof part, "%.*s", (int)(p - path), path) >= (int)sizeof part)
            there = 0;
        else if ((there = H5Lexists(at, part, access)) < 0)
            there = no_way(at, path, err);
        if (!*p)
            break;
    }
    mf_h5_close(access);
    return there;
}

/* ---- sources of virtual datasets ---- */

void mf_h5_let_go(struct mf_h5_held *held)
{
    while (held->n)
        mf_h5_close(held->id[--held->n]);
    free(held->id);
    *held = (struct mf_h5_held){0};
}

static hid_t hold(struct mf_h5_held *held, hid_t id)
{
    if (id >= 0) {
        held->id = mf_xrealloc(held->id, held->n + 1, sizeof *held->id);
        held->id[held->n++] = id;
    }
    return id;
}

struct mapping { /* of a virtual dataset */
    char *file, *set;
    hid_t to, from; /* selections of it and of the source */
};

/* Checks one source: it is there, large enough for its selection, and readable. */
static int check_source(hid_t view, const struct mapping *m, const char *file, const char *set, struct mf_h5_held *held,
                        int deep, struct mf_err *err)
{
    char from[PATH_MAX] = "", found[PATH_MAX];
    hsize_t dim[H5S_MAX_RANK], low[H5S_MAX_RANK], high[H5S_MAX_RANK];
    hid_t in, source;
    if (!strcmp(file, ".")) {
        in = hold(held, H5Iget_file_id(view));
    } else {
        H5Fget_name(view, from, sizeof from);
        if (!find_file(from, file, "HDF5_VDS_PREFIX", found))
            return mf_err_set(err, MF_EFORMAT, "its numbers lie in '%.200s', which is not there", file);
        if (mf_h5_open(&in, found, err))
            return err->code;
        hold(held, in);
    }
    if (mf_h5_object(in, set, &source, err))
        return mf_err_at(err, "its numbers lie in '%.200s'", file);
    hold(held, source);
    int rank, rc = mf_h5_shape(source, H5S_MAX_RANK, &rank, dim, err);
    if (rc == 0 && H5Sget_select_bounds(m->from, low, high) >= 0 && H5Sget_simple_extent_ndims(m->from) == rank)
        for (int i = 0; i < rank; i++)
            if (high[i] >= dim[i] && H5Sget_select_npoints(m->from) > 0)
                return mf_err_set(err, MF_EFORMAT, "its numbers lie in '%.200s', whose /%s has %llu rows and not %llu",
                                  file, set + (*set == '/'), (unsigned long long)dim[i],
                                  (unsigned long long)high[i] + 1);
    rc = rc ? rc : mf_h5_whole_at(source, held, deep + 1, err);
    return rc ? mf_err_at(err, "'%.200s', /%s", file, set + (*set == '/')) : 0;
}

/* How many files the pattern "x_%b.h5" stands for: a block of the view each. */
static hsize_t blocks(hid_t view, hid_t selection)
{
    hsize_t start[H5S_MAX_RANK], stride[H5S_MAX_RANK], count[H5S_MAX_RANK], block[H5S_MAX_RANK], dim[H5S_MAX_RANK];
    struct mf_err none;
    int rank;
    if (mf_h5_shape(view, H5S_MAX_RANK, &rank, dim, &none) ||
        H5Sget_regular_hyperslab(selection, start, stride, count, block) < 0)
        return 0;
    for (int i = 0; i < rank; i++)
        if (count[i] == H5S_UNLIMITED)
            return dim[i] > start[i] ? (dim[i] - start[i] + stride[i] - 1) / stride[i] : 0;
    return 1;
}

/* The pattern with its %b replaced; "%%" is a '%'. */
static void print_block(char *to, size_t size, const char *pattern, hsize_t block)
{
    size_t n = 0;
    for (const char *p = pattern; *p && n + 24 < size; p++) {
        const bool number = p[0] == '%' && p[1] == 'b';
        if (number)
            n += (size_t)snprintf(to + n, size - n, "%llu", (unsigned long long)block);
        else
            to[n++] = *p;
        p += number || (p[0] == '%' && p[1] == '%');
    }
    to[n] = '\0';
}

static int check_mapping(hid_t view, const struct mapping *m, uint64_t *mapped, struct mf_h5_held *held, int deep,
                         struct mf_err *err)
{
    char file[PATH_MAX], set[1024];
    const bool pattern = strstr(m->file, "%b") || strstr(m->set, "%b");
    const hssize_t points = H5Sget_select_npoints(m->to);
    hsize_t n = pattern ? blocks(view, m->to) : 1;
    int rc = 0;
    if (n > BLOCKS_MAX)
        return mf_err_set(err, MF_EFORMAT, "its numbers lie in %llu files", (unsigned long long)n);
    for (hsize_t i = 0; i < n && rc == 0; i++) {
        print_block(file, sizeof file, m->file, i);
        print_block(set, sizeof set, m->set, i);
        rc = check_source(view, m, file, set, held, deep, err);
    }
    *mapped = points < 0 || *mapped > UINT64_MAX - (uint64_t)points ? UINT64_MAX : *mapped + (uint64_t)points;
    return rc;
}

static char *text_of(hid_t plist, size_t i, ssize_t (*get)(hid_t, size_t, char *, size_t))
{
    ssize_t n = get(plist, i, NULL, 0);
    char *text = mf_xcalloc((size_t)(n > 0 ? n : 0) + 1, 1);
    if (n > 0)
        get(plist, i, text, (size_t)n + 1);
    return text;
}

int mf_h5_sources(hid_t set, hid_t plist, uint64_t *mapped, struct mf_h5_held *held, int deep, struct mf_err *err)
{
    size_t n = 0;
    int rc = deep > DEEP ? mf_err_set(err, MF_EFORMAT, "it is a view of a view of a view, and so on") : 0;
    *mapped = 0;
    if (H5Pget_virtual_count(plist, &n) < 0)
        return mf_h5_unread(err, "its sources cannot be listed");
    for (size_t i = 0; i < n && rc == 0; i++) {
        struct mapping m = {text_of(plist, i, H5Pget_virtual_filename), text_of(plist, i, H5Pget_virtual_dsetname),
                            H5Pget_virtual_vspace(plist, i), H5Pget_virtual_srcspace(plist, i)};
        rc = check_mapping(set, &m, mapped, held, deep, err);
        mf_h5_close(m.to);
        mf_h5_close(m.from);
        free(m.file);
        free(m.set);
    }
    return rc;
}

/* ---- raw storage in other files ---- */

int mf_h5_raw_files(hid_t plist, uint64_t need, struct mf_err *err)
{
    char name[PATH_MAX], found[PATH_MAX];
    const int n = H5Pget_external_count(plist);
    for (int i = 0; i < n && need; i++) {
        struct stat st;
        off_t offset;
        hsize_t size;
        *name = '\0';
        H5Pget_external(plist, (unsigned)i, sizeof name, name, &offset, &size);
        if (!find_file("", name, "HDF5_EXTFILE_PREFIX", found) || stat(found, &st))
            return mf_err_set(err, MF_EFORMAT, "its numbers lie in '%.200s', which is not there", name);
        const uint64_t part = size < need ? size : need;
        if (offset < 0 || st.st_size < offset || (uint64_t)(st.st_size - offset) < part)
            return mf_err_set(err, MF_EFORMAT, "its numbers lie in '%.200s', which is too short for them", name);
        need -= part;
    }
    return need ? mf_err_set(err, MF_EFORMAT, "the files that its numbers lie in are too short for them") : 0;
}
