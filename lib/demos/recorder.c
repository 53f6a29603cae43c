#include "demos/recorder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/publish.h"
#include "demos/demo_writer.h"
#include "demos/h5.h"

enum { BYTES_CHUNK = 1 << 16 }; /* /mf/bytes is small: the payloads of arrays lie elsewhere */

struct mf_recorder {
    char *path, *part; /* part: NULL before the file is locked */
    hid_t file, bytes;
    uint64_t n_bytes, n_frames;
    uint64_t *lengths; /* (n_frames) */
    uint32_t *crc;     /* (n_frames) */
    struct mf_demo_writer demos;
    bool ended;
};

static int create(struct mf_recorder *r, struct mf_err *err)
{
    /* Opened first, since HDF5 does not report why a file cannot be created. */
    int fd = open(r->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return mf_err_errno(err, "cannot create '%s'", r->part);
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), plist = H5Pcreate(H5P_DATASET_CREATE);
    int rc = mf_h5_locks(access, fd, true, r->part, err);
    close(fd);
    hid_t links = H5Pcreate(H5P_LINK_CREATE), space = H5Screate_simple(1, (hsize_t[]){0}, (hsize_t[]){H5S_UNLIMITED});
    H5Pset_libver_bounds(access, H5F_LIBVER_V18, H5F_LIBVER_V18); /* small groups; read by every h5py */
    H5Pset_meta_block_size(access, 1 << 18);
    H5Pset_create_intermediate_group(links, 1);
    H5Pset_chunk(plist, 1, (hsize_t[]){BYTES_CHUNK});
    r->file = rc ? -1 : H5Fcreate(r->part, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    r->bytes = H5Dcreate2(r->file, "mf/bytes", H5T_STD_U8LE, space, links, plist, H5P_DEFAULT);
    if (rc == 0 && r->file < 0)
        unlink(r->part); /* empty and unused: the lock was free */
    if (rc == 0 && r->bytes < 0)
        rc = mf_h5_fail(err, "cannot create '%s'", r->part);
    mf_h5_close(links);
    mf_h5_close(space);
    mf_h5_close(plist);
    mf_h5_close(access);
    return rc;
}

int mf_recorder_open(struct mf_recorder **out, const char *path, struct mf_err *err)
{
    mf_h5_quiet();
    struct mf_recorder *r = mf_xcalloc(1, sizeof *r);
    r->file = r->bytes = r->demos.data = -1;
    r->path = mf_xstrdup(path);
    r->part = mf_publish_part(path, err);
    int rc = r->part ? create(r, err) : err->code;
    rc = rc ? rc : mf_demo_writer_open(&r->demos, r->file, err);
    if (rc) {
        if (r->file < 0) {
            free(r->part);
            r->part = NULL;
        }
        mf_recorder_drop(r);
        return rc;
    }
    *out = r;
    return 0;
}

static int put_bytes(struct mf_recorder *r, const void *p, size_t n, struct mf_err *err)
{
    hsize_t start = r->n_bytes, count = n, end = start + n;
    if (n == 0)
        return 0;
    hid_t memory = H5Screate_simple(1, &count, NULL), space = -1;
    herr_t rc = H5Dset_extent(r->bytes, &end);
    if (rc >= 0) {
        space = H5Dget_space(r->bytes);
        H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
        rc = H5Dwrite(r->bytes, H5T_STD_U8LE, memory, space, H5P_DEFAULT, p);
    }
    if (rc < 0)
        mf_h5_fail(err, "cannot write frames");
    mf_h5_close(space);
    mf_h5_close(memory);
    r->n_bytes += n;
    r->lengths[r->n_frames] += n;
    return rc < 0 ? MF_EIO : 0;
}

/* Where [at, end) holds this array's data: behind a msgpack bin header of its size. NULL: nowhere (no bytes, or
 * another byte order on the wire), and it stays among the frame's bytes. */
static const char *payload(const char *at, const char *end, const struct mf_array *a)
{
    size_t n = a->bytes, skip = n < 1 << 8 ? 3 : n < 1 << 16 ? 2 : 0, width = n < 1 << 8 ? 1 : n < 1 << 16 ? 2 : 4;
    unsigned char head[5] = {(unsigned char)(n >> 24), (unsigned char)(n >> 16), (unsigned char)(n >> 8),
                             (unsigned char)n};
    while (n && (at = memmem(at, (size_t)(end - at), head + skip, width))) {
        const char *p = at + width;
        if ((size_t)(end - p) >= n && !memcmp(p, a->data, n))
            return p;
        at++;
    }
    return NULL;
}

static int put_array(struct mf_recorder *r, const struct mf_array *a, struct mf_err *err)
{
    char name[MF_NAME_MAX + 40];
    hsize_t dim[MF_RANK_MAX];
    hid_t set;
    for (int i = 0; i < a->rank; i++)
        dim[i] = a->dim[i];
    snprintf(name, sizeof name, "mf/arrays/%llu/%s", (unsigned long long)r->n_frames, a->name);
    int rc = mf_h5_try(r->file, name, a->dtype, a->rank, dim, a->data, &set, err);
    if (rc)
        return rc;
    rc = mf_h5_set_int(set, "mf_at", (int64_t)r->lengths[r->n_frames], err);
    mf_h5_close(set);
    return rc;
}

static int put_frame(struct mf_recorder *r, const struct mf_frame *f, const char *at, const char *end,
                     struct mf_err *err)
{
    int rc = 0;
    if ((r->n_frames & (r->n_frames - 1)) == 0) { /* full at every power of two */
        const size_t room = r->n_frames ? 2 * r->n_frames : 1;
        r->lengths = mf_xrealloc(r->lengths, room, sizeof *r->lengths);
        r->crc = mf_xrealloc(r->crc, room, sizeof *r->crc);
    }
    r->lengths[r->n_frames] = 0;
    r->crc[r->n_frames] = mf_h5_crc(at, (size_t)(end - at));
    for (int i = 0; i < mf_frame_arrays(f); i++) {
        const struct mf_array *a = mf_frame_array(f, i);
        const char *p = payload(at, end, a);
        if (!p)
            continue;
        if ((rc = put_bytes(r, at, (size_t)(p - at), err)) || (rc = put_array(r, a, err)) < 0)
            return rc;
        at = rc == 0 ? p + a->bytes : p; /* 1: no dataset can have its name */
    }
    return put_bytes(r, at, (size_t)(end - at), err);
}

int mf_recorder_add(struct mf_recorder *r, const struct mf_frame *f, struct mf_err *err)
{
    void *data;
    size_t len;
    int rc = mf_frame_encode(f, &data, &len, err);
    if (rc)
        return rc;
    rc = put_frame(r, f, data, (const char *)data + len, err);
    free(data);
    rc = rc ? rc : mf_demo_writer_add(&r->demos, f, (int64_t)r->n_frames, err);
    r->n_frames++;
    r->ended = r->ended || mf_frame_kind(f) == MF_END;
    rc = rc ? rc : mf_h5_failed(err);
    return rc == MF_EIO ? mf_err_at(err, "'%s'", r->part) : rc;
}

static int finish(struct mf_recorder *r, struct mf_err *err)
{
    hid_t mf = H5Gopen2(r->file, "mf", H5P_DEFAULT);
    int rc = mf_h5_put(mf, "lengths", MF_U64, 1, (hsize_t[]){r->n_frames}, r->lengths, err);
    rc = rc ? rc : mf_h5_put(mf, "crc32", MF_U32, 1, (hsize_t[]){r->n_frames}, r->crc, err);
    rc = rc ? rc : mf_h5_set_int(mf, "format", 1, err);
    rc = rc ? rc : mf_h5_set_int(mf, "stopped", !r->ended, err);
    rc = rc ? rc : mf_h5_set_int(mf, "frames", (int64_t)r->n_frames, err);
    mf_h5_close(mf);
    int rc2 = mf_demo_writer_close(&r->demos, rc ? &(struct mf_err){0} : err);
    mf_h5_close(r->bytes);
    r->bytes = -1;
    if (rc || (rc = rc2))
        return rc;
    if (H5Fflush(r->file, H5F_SCOPE_GLOBAL) < 0)
        return mf_h5_fail(err, "cannot flush");
    herr_t closed = H5Fclose(r->file);
    r->file = -1;
    return closed < 0 ? mf_h5_fail(err, "cannot close") : mf_h5_failed(err);
}

int mf_recorder_close(struct mf_recorder *r, struct mf_err *err)
{
    int rc = finish(r, err);
    if (rc)
        mf_err_at(err, "'%s'", r->part);
    if (rc == 0) {
        rc = mf_publish(r->part, r->path, err);
        free(r->part);
        r->part = NULL;
    }
    mf_recorder_drop(r);
    return rc;
}

void mf_recorder_drop(struct mf_recorder *r)
{
    if (!r)
        return;
    mf_h5_close(r->demos.data);
    mf_h5_close(r->bytes);
    mf_h5_close(r->file);
    if (r->part)
        unlink(r->part);
    free(r->demos.env_args);
    free(r->demos.tasks);
    free(r->lengths);
    free(r->crc);
    free(r->part);
    free(r->path);
    free(r);
}
