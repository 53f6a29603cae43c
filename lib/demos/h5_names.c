/* Names, texts and attributes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/mem.h"
#include "demos/h5.h"

enum { TEXT_MAX = 1 << 24 };

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
    hid_t object;
    *names = (struct mf_h5_names){0};
    if (mf_h5_object(at, group, &object, err))
        return err->code;
    int rc = H5Literate(object, H5_INDEX_NAME, H5_ITER_INC, NULL, list_one, names) < 0
                 ? mf_h5_unread(err, "cannot list '%s'", group)
                 : 0;
    mf_h5_close(object);
    if (rc)
        mf_h5_free_names(names);
    return rc;
}

static int add_datasets(hid_t group, const char *prefix, int deep, struct mf_h5_names *names, struct mf_err *err)
{
    enum { GROUPS_DEEP = 8 };
    struct mf_h5_names list;
    char path[512];
    int rc = mf_h5_list(group, ".", &list, err);
    for (size_t i = 0; i < list.n && rc == 0; i++) {
        hid_t object;
        if (snprintf(path, sizeof path, "%s%s", prefix, list.name[i]) >= (int)sizeof path - 1)
            continue;
        if ((rc = mf_h5_object(group, list.name[i], &object, err)))
            break;
        if (H5Iget_type(object) == H5I_DATASET)
            mf_h5_add_name(names, path);
        else if (H5Iget_type(object) == H5I_GROUP && deep < GROUPS_DEEP)
            rc = add_datasets(object, strcat(path, "/"), deep + 1, names, err);
        mf_h5_close(object);
    }
    mf_h5_free_names(&list);
    return rc;
}

int mf_h5_datasets(hid_t group, struct mf_h5_names *names, struct mf_err *err)
{
    *names = (struct mf_h5_names){0};
    return add_datasets(group, "", 0, names, err);
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
    hid_t set;
    if (mf_h5_object(at, path, &set, err))
        return err->code;
    hid_t space = H5Dget_space(set), type = H5Dget_type(set);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    int rc = -1;
    if (H5Tget_class(type) == H5T_STRING && n >= 0)
        rc = take_strings(set, false, type, (size_t)n, names);
    mf_h5_close(type);
    mf_h5_close(space);
    mf_h5_close(set);
    return rc ? mf_h5_unread(err, "'%s' cannot be read as a list of strings", path) : 0;
}

static int attr_open(hid_t at, const char *name, hid_t *attr, hid_t *type)
{
    *attr = *type = -1;
    const htri_t there = H5Aexists(at, name);
    if (there <= 0)
        return there;
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
    return rc < 0 ? mf_h5_unread(err, "attribute '%s' is not one number", name) : rc;
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
    return rc < 0 ? mf_h5_unread(err, "attribute '%s' is not one string", name) : rc;
}

uint32_t mf_h5_crc(const void *bytes, size_t n)
{
    return (uint32_t)crc32_z(0, bytes, n);
}

int mf_h5_check_crc(hid_t set, const void *bytes, size_t n, struct mf_err *err)
{
    int64_t crc;
    int rc = mf_h5_attr_int(set, "mf_crc32", &crc, err);
    return rc <= 0 || crc == mf_h5_crc(bytes, n)
               ? (rc < 0 ? rc : 0)
               : mf_err_set(err, MF_EFORMAT, "it is not what mf-record wrote (mf_crc32 differs): the file is damaged");
}
