/* TensorBoard's event files. A record is TFRecord's: u64 length, u32 masked CRC-32C of it, an Event in protobuf's wire
 * format, u32 masked CRC-32C of that; all little-endian. Event: 1 wall_time, 2 step, 3 file_version, 5 summary;
 * Summary: 1 value; Value: 1 tag, 2 simple_value, 4 image; Image: 1 height, 2 width, 3 colorspace, 4 encoded. */
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "series/series_priv.h"

enum { RECORD_MAX = 1 << 24 };

static const char ending[] = ".maniflow"; /* suffix of maniflow's files: others in the folder are not truncated */

struct board {
    FILE *f;
    char path[MF_SERIES_PATH];
};

struct bytes {
    unsigned char *p;
    size_t n;
};

static void put(struct bytes *b, const void *p, size_t n)
{
    if (!n)
        return; /* of an iteration without values there is no summary */
    b->p = mf_xrealloc(b->p, b->n + n, 1);
    memcpy(b->p + b->n, p, n);
    b->n += n;
}

static void put_varint(struct bytes *b, uint64_t v)
{
    for (; v > 127; v >>= 7)
        put(b, &(unsigned char){(unsigned char)(v | 128)}, 1);
    put(b, &(unsigned char){(unsigned char)v}, 1);
}

static void put_bytes(struct bytes *b, unsigned char key, const void *p, size_t n)
{
    put(b, &key, 1);
    put_varint(b, n);
    put(b, p, n);
}

/* Castagnoli's polynomial, reflected; the mask keeps a CRC of data that holds CRCs from being a weak one. */
static uint32_t masked_crc(const unsigned char *p, size_t n)
{
    static uint32_t table[256];
    for (uint32_t i = 0; !table[255] && i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0x82f63b78 : c >> 1;
        table[i] = c;
    }
    uint32_t crc = 0xffffffff;
    while (n--)
        crc = table[(crc ^ *p++) & 255] ^ crc >> 8;
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8;
}

static void put_record(const struct bytes *event, FILE *f)
{
    const uint64_t n = event->n;
    const uint32_t head = masked_crc((const unsigned char *)&n, 8), body = masked_crc(event->p, event->n);
    fwrite(&n, 8, 1, f);
    fwrite(&head, 4, 1, f);
    fwrite(event->p, 1, event->n, f);
    fwrite(&body, 4, 1, f);
}

static struct bytes begin_event(void)
{
    struct bytes e = {0};
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    const double wall = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    put(&e, "\x09", 1);
    put(&e, &wall, 8);
    return e;
}

/* ---- resuming ---- */

/* The step of one of our own events, which stands behind the wall time; -1: it has none. */
static int64_t step_of(const unsigned char *e, size_t n)
{
    uint64_t v = 0;
    if (n < 11 || e[9] != 0x10)
        return -1;
    for (size_t i = 10, shift = 0; i < n && shift < 64; i++, shift += 7) {
        v |= (uint64_t)(e[i] & 127) << shift;
        if (e[i] < 128)
            return (int64_t)v;
    }
    return -1;
}

/* The length of the file's complete records before the step; -1: unreadable. */
static long whole_until(FILE *f, int64_t step)
{
    long keep = 0;
    uint64_t n;
    unsigned char crc[4];
    while (fread(&n, 8, 1, f) == 1 && n < RECORD_MAX && fread(crc, 4, 1, f) == 1) {
        unsigned char *event = mf_xcalloc(n + 1, 1);
        const bool whole = fread(event, 1, n, f) == n && fread(crc, 4, 1, f) == 1;
        const bool before = whole && step_of(event, n) < step;
        free(event);
        if (!before)
            break;
        keep = ftell(f);
    }
    return ferror(f) ? -1 : keep;
}

static bool is_ours(const char *name)
{
    return strstr(name, ".tfevents.") && mf_ends(name, ending);
}

static int cut_old(const char *dir, int64_t step, struct mf_err *err)
{
    DIR *d = opendir(dir);
    int rc = d ? 0 : mf_err_errno(err, "open %.300s", dir);
    for (struct dirent *e; rc == 0 && (e = readdir(d));) {
        char path[2 * MF_SERIES_PATH];
        if (!is_ours(e->d_name))
            continue;
        snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        FILE *f = mf_file_read(path, err);
        const long keep = f ? whole_until(f, step) : -1;
        if (f)
            fclose(f);
        else
            rc = err->code;
        if (rc == 0 && (keep < 0 || truncate(path, keep) < 0))
            rc = mf_err_errno(err, "cut %.300s", path);
    }
    if (d)
        closedir(d);
    return rc;
}

/* ---- the format ---- */

static int open_board(void **self, const char *dir, const char *run, int64_t step, struct mf_err *err)
{
    struct board *b = mf_xcalloc(1, sizeof *b);
    char folder[MF_SERIES_PATH - 150], host[64] = "host";
    (void)run;
    snprintf(folder, sizeof folder, "%.1000s/tensorboard", dir);
    gethostname(host, sizeof host - 1);
    mkdir(folder, 0777); /* cut_old reports a failure */
    int rc = cut_old(folder, step, err);
    snprintf(b->path, sizeof b->path, "%s/events.out.tfevents.%010lld.%s.%ld%s", folder, (long long)time(NULL), host,
             (long)getpid(), ending);
    if (rc == 0 && !(b->f = fopen(b->path, "we")))
        rc = mf_err_errno(err, "open %.300s", b->path);
    if (rc) {
        free(b);
        return rc;
    }
    struct bytes e = begin_event();
    put_bytes(&e, 0x1a, "brain.Event:2", 13);
    put_record(&e, b->f);
    free(e.p);
    *self = b;
    return mf_series_flush(b->f, b->path, err);
}

/* Writes the event of one summary, and empties it. */
static int put_summary(struct board *b, int64_t step, struct bytes *summary, struct mf_err *err)
{
    struct bytes e = begin_event();
    put(&e, "\x10", 1);
    put_varint(&e, (uint64_t)step);
    put_bytes(&e, 0x2a, summary->p, summary->n);
    put_record(&e, b->f);
    free(summary->p);
    free(e.p);
    return mf_series_flush(b->f, b->path, err);
}

static int put_board(void *self, const struct mf_point *p, struct mf_err *err)
{
    struct bytes summary = {0};
    for (int i = 0; i < p->n; i++) {
        struct bytes value = {0};
        const float v = (float)p->value[i];
        put_bytes(&value, 0x0a, p->name[i], strlen(p->name[i]));
        put(&value, "\x15", 1);
        put(&value, &v, 4);
        put_bytes(&summary, 0x0a, value.p, value.n);
        free(value.p);
    }
    return put_summary(self, p->step, &summary, err);
}

/* A GIF is an image to TensorBoard, and plays where images are shown. Its size stands behind "GIF89a". */
static int film_board(void *self, const char *tag, int64_t step, const char *path, struct mf_err *err)
{
    struct bytes gif = {.p = mf_xcalloc(RECORD_MAX, 1)}, image = {0}, value = {0}, summary = {0};
    FILE *f = mf_file_read(path, err);
    int rc = f ? 0 : err->code;
    gif.n = f ? fread(gif.p, 1, RECORD_MAX, f) : 0;
    if (f && (gif.n < 10 || gif.n > RECORD_MAX - 1000 || memcmp(gif.p, "GIF8", 4) != 0))
        rc = mf_err_set(err, MF_EFORMAT, "%.300s is not a GIF of less than 16 MiB", path);
    if (f)
        fclose(f);
    if (rc == 0) {
        put(&image, "\x08", 1);
        put_varint(&image, gif.p[8] | (unsigned)gif.p[9] << 8);
        put(&image, "\x10", 1);
        put_varint(&image, gif.p[6] | (unsigned)gif.p[7] << 8);
        put(&image, "\x18\x03", 2); /* RGB */
        put_bytes(&image, 0x22, gif.p, gif.n);
        put_bytes(&value, 0x0a, tag, strlen(tag));
        put_bytes(&value, 0x22, image.p, image.n);
        put_bytes(&summary, 0x0a, value.p, value.n);
        rc = put_summary(self, step, &summary, err);
    }
    free(gif.p);
    free(image.p);
    free(value.p);
    return rc;
}

static int close_board(void *self, struct mf_err *err)
{
    struct board *b = self;
    int rc = fclose(b->f) ? mf_err_errno(err, "write %.300s", b->path) : 0;
    free(b);
    return rc;
}

const struct mf_series_format mf_series_tensorboard = {"tensorboard", open_board, put_board, film_board, close_board};
