#include "demos/playback.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "demos/h5.h"
#include "wire/port.h"

struct piece { /* an array's payload and its place among the frame's other bytes */
    hid_t set;
    size_t at, bytes;
};

struct mf_playback {
    char *path;
    hid_t file, bytes;
    uint64_t n_bytes, at; /* of /mf/bytes: in total, and already read */
    uint64_t n_frames, next;
    uint64_t *lengths;
    uint32_t *crc; /* of each frame; NULL: an older recording without checksums */
    bool stopped;
    char *frame;
    size_t size; /* allocated there */
};

/* A list of integers, one for each frame. */
static int read_list(struct mf_playback *p, const char *path, hid_t type, size_t size, void **to, hsize_t *n,
                     struct mf_err *err)
{
    hid_t set;
    int rank, rc = mf_h5_object(p->file, path, &set, err);
    if (rc)
        return rc;
    rc = mf_h5_shape(set, 1, &rank, n, err);
    rc = rc ? rc : mf_h5_whole(set, NULL, err);
    rc = rc ? rc : mf_alloc(to, (size_t)*n * size, path, err);
    if (rc == 0 && H5Dread(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, *to) < 0)
        rc = mf_h5_unread(err, "it cannot be read");
    mf_h5_close(set);
    return rc ? mf_err_at(err, "/%s", path) : 0;
}

static int read_lengths(struct mf_playback *p, struct mf_err *err)
{
    hsize_t n = 0;
    uint64_t sum = 0;
    int rc = read_list(p, "mf/lengths", H5T_NATIVE_UINT64, sizeof *p->lengths, (void **)&p->lengths, &n, err);
    for (p->n_frames = 0; rc == 0 && p->n_frames < n; p->n_frames++) {
        sum += p->lengths[p->n_frames];
        if (p->lengths[p->n_frames] > MF_FRAME_MAX || sum > p->n_bytes)
            rc = mf_err_set(err, MF_EFORMAT, "/mf/lengths do not add up to /mf/bytes");
    }
    return rc;
}

static int read_sums(struct mf_playback *p, int64_t frames, struct mf_err *err)
{
    hsize_t n = 0;
    int rc = read_list(p, "mf/crc32", H5T_NATIVE_UINT32, sizeof *p->crc, (void **)&p->crc, &n, err);
    return rc || (n == p->n_frames && n == (uint64_t)frames)
               ? rc
               : mf_err_set(err, MF_EFORMAT, "/mf has %llu of %lld frames", (unsigned long long)p->n_frames,
                            (long long)frames);
}

static int has_frames(hid_t file, struct mf_err *err)
{
    const int bytes = mf_h5_has(file, "mf/bytes", err);
    return bytes > 0 ? mf_h5_has(file, "mf/lengths", err) : bytes;
}

static int is_recording(struct mf_playback *p, struct mf_err *err)
{
    const int found = has_frames(p->file, err);
    return found < 0 ? found
           : found   ? 0
                     : mf_err_set(err, MF_EFORMAT, "it has no /mf, so it is not a recording of mf-record");
}

int mf_playback_is_recording(const char *path, struct mf_err *err)
{
    hid_t file = -1;
    mf_h5_guard(path);
    int rc = mf_h5_open(&file, path, err);
    if (rc == 0 && (rc = has_frames(file, err)) < 0)
        mf_err_at(err, "'%s'", path);
    mf_h5_close(file);
    return mf_h5_unguard(rc, path, err);
}

/* *frames: how many it has; -1: an older recording without that attribute. */
static int read_facts(struct mf_playback *p, int64_t *frames, struct mf_err *err)
{
    int64_t format = 0, stopped = 0;
    *frames = -1;
    hid_t mf;
    int rc = mf_h5_object(p->file, "mf", &mf, err);
    if (rc)
        return rc;
    if ((rc = mf_h5_attr_int(mf, "format", &format, err)) >= 0)
        rc = mf_h5_attr_int(mf, "stopped", &stopped, err);
    rc = rc < 0 ? rc : mf_h5_attr_int(mf, "frames", frames, err);
    mf_h5_close(mf);
    p->stopped = stopped != 0;
    return rc < 0 ? rc
           : format != 1
               ? mf_err_set(err, MF_EFORMAT, "its /mf has format %lld, and this program reads 1", (long long)format)
               : 0;
}

static int open_all(struct mf_playback *p, struct mf_err *err)
{
    hsize_t dim = 0;
    int64_t frames;
    int rank, rc;
    if (is_recording(p, err) || read_facts(p, &frames, err))
        return err->code;
    if ((rc = mf_h5_object(p->file, "mf/bytes", &p->bytes, err)))
        return rc;
    if ((rc = mf_h5_shape(p->bytes, 1, &rank, &dim, err)))
        return mf_err_at(err, "/mf/bytes");
    p->n_bytes = dim;
    rc = read_lengths(p, err);
    return rc || frames < 0 ? rc : read_sums(p, frames, err);
}

int mf_playback_open(struct mf_playback **out, const char *path, struct mf_err *err)
{
    struct mf_playback *p = mf_xcalloc(1, sizeof *p);
    p->path = mf_xstrdup(path);
    p->file = p->bytes = -1;
    mf_h5_guard(path);
    int rc = mf_h5_open(&p->file, path, err);
    if (rc == 0 && (rc = open_all(p, err)))
        mf_err_at(err, "'%s'", path);
    if ((rc = mf_h5_unguard(rc, path, err)))
        mf_playback_close(p);
    else
        *out = p;
    return rc;
}

bool mf_playback_stopped(const struct mf_playback *p)
{
    return p->stopped;
}

/* The names of datasets in a group and its groups ("obs/x"). */
static herr_t visit(hid_t group, const char *name, const H5O_info_t *info, void *names)
{
    (void)group;
    return info->type == H5O_TYPE_DATASET ? mf_h5_add_name(names, name) : 0;
}

static int by_place(const void *a, const void *b)
{
    size_t x = ((const struct piece *)a)->at, y = ((const struct piece *)b)->at;
    return (x > y) - (x < y);
}

/* An array of frame p->next. *sum: bytes of those before it too. */
static int open_piece(struct mf_playback *p, hid_t group, const char *name, struct piece *piece, uint64_t *sum,
                      struct mf_err *err)
{
    int64_t place = -1;
    uint64_t n, size;
    int rc = mf_h5_object(group, name, &piece->set, err);
    if (rc == 0 && (rc = mf_h5_attr_int(piece->set, "mf_at", &place, err)) >= 0)
        rc = mf_h5_whole(piece->set, NULL, err);
    if (rc || (rc = mf_h5_count(piece->set, &n, &size, err)))
        return rc;
    if (place < 0 || (uint64_t)place > p->lengths[p->next] || n * size > MF_FRAME_MAX ||
        (*sum += n * size) + p->lengths[p->next] > MF_FRAME_MAX)
        return mf_err_set(err, MF_EFORMAT, "it has no place in its frame");
    piece->at = (size_t)place;
    piece->bytes = (size_t)(n * size);
    return 0;
}

static int open_pieces(struct mf_playback *p, struct piece **pieces, size_t *n, struct mf_err *err)
{
    char group[48];
    struct mf_h5_names names = {0};
    uint64_t sum = 0;
    hid_t at;
    *n = 0;
    *pieces = NULL;
    snprintf(group, sizeof group, "mf/arrays/%llu", (unsigned long long)p->next);
    int rc = mf_h5_has(p->file, group, err);
    if (rc <= 0 || (rc = mf_h5_object(p->file, group, &at, err)))
        return rc;
    if (H5Ovisit2(at, H5_INDEX_NAME, H5_ITER_INC, visit, &names, H5O_INFO_BASIC) < 0)
        rc = mf_h5_unread(err, "cannot list /%s", group);
    *pieces = mf_xcalloc(names.n, sizeof **pieces);
    for (size_t i = 0; i < names.n && rc == 0; i++)
        if ((rc = open_piece(p, at, names.name[i], &(*pieces)[(*n)++], &sum, err)))
            mf_err_at(err, "/%s/%s", group, names.name[i]);
    qsort(*pieces, *n, sizeof **pieces, by_place);
    mf_h5_free_names(&names);
    mf_h5_close(at);
    return rc;
}

static int read_bytes(struct mf_playback *p, char *to, size_t n, struct mf_err *err)
{
    hsize_t start = p->at, count = n;
    if (n == 0)
        return 0;
    hid_t memory = H5Screate_simple(1, &count, NULL), space = H5Dget_space(p->bytes);
    H5Sselect_hyperslab(space, H5S_SELECT_SET, &start, NULL, &count, NULL);
    int rc = H5Dread(p->bytes, H5T_STD_U8LE, memory, space, H5P_DEFAULT, to) < 0
                 ? mf_h5_unread(err, "cannot read /mf/bytes")
                 : 0;
    mf_h5_close(space);
    mf_h5_close(memory);
    p->at += n;
    return rc;
}

static int read_piece(const struct piece *piece, char *to, struct mf_err *err)
{
    hid_t type = H5Dget_type(piece->set); /* as stored: no conversion */
    bool plain = H5Tget_class(type) == H5T_FLOAT || H5Tget_class(type) == H5T_INTEGER;
    herr_t rc = plain ? H5Dread(piece->set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, to) : -1;
    mf_h5_close(type);
    return rc < 0 ? mf_h5_unread(err, "cannot read an array of a frame") : 0;
}

/* The frame's bytes with each payload put back at its place. */
static int join(struct mf_playback *p, const struct piece *pieces, size_t n, size_t *len, struct mf_err *err)
{
    size_t total = (size_t)p->lengths[p->next], from = 0, to = 0;
    for (size_t i = 0; i < n; i++)
        total += pieces[i].bytes;
    if (total > p->size) {
        free(p->frame);
        p->size = 0;
        p->frame = NULL;
        int rc = mf_alloc((void **)&p->frame, total, "a frame", err);
        if (rc)
            return rc;
        p->size = total;
    }
    *len = total;
    for (size_t i = 0; i <= n; i++) {
        size_t end = i < n ? pieces[i].at : (size_t)p->lengths[p->next];
        int rc = read_bytes(p, p->frame + to, end - from, err);
        to += end - from, from = end;
        if (rc || (i < n && (rc = read_piece(&pieces[i], p->frame + to, err))))
            return rc;
        to += i < n ? pieces[i].bytes : 0;
    }
    return 0;
}

int mf_playback_next(struct mf_playback *p, const void **data, size_t *len, struct mf_err *err)
{
    struct piece *pieces;
    size_t n;
    if (p->next == p->n_frames)
        return 0;
    mf_h5_guard(p->path);
    int rc = open_pieces(p, &pieces, &n, err);
    rc = rc ? rc : join(p, pieces, n, len, err);
    for (size_t i = 0; i < n; i++)
        mf_h5_close(pieces[i].set);
    free(pieces);
    rc = mf_h5_unguard(rc, p->path, err);
    if (rc == 0 && p->crc && p->crc[p->next] != mf_h5_crc(p->frame, *len))
        rc = mf_err_set(err, MF_EFORMAT, "it is not what mf-record wrote (/mf/crc32 differs): the file is damaged");
    if (rc)
        return mf_err_at(err, "'%s', frame %llu", p->path, (unsigned long long)p->next);
    *data = p->frame;
    p->next++;
    return 1;
}

void mf_playback_close(struct mf_playback *p)
{
    if (!p)
        return;
    mf_h5_close(p->bytes);
    mf_h5_close(p->file);
    free(p->lengths);
    free(p->crc);
    free(p->frame);
    free(p->path);
    free(p);
}
