/* A stream from anywhere: cut into frames as a port cuts it, read as stages read it, changed, and sent on. */
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

#include "stream/rollout.h"
#include "wire/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mf_err err;

static void must(int good)
{
    if (!good)
        abort();
}

/* What comes in pieces is cut as what comes whole; what is whole here is whole to msgpack-c. */
static size_t cut(const uint8_t *p, size_t n)
{
    struct mf_scan whole, pieces;
    mf_scan_start(&whole);
    mf_scan_start(&pieces);
    int want = mf_scan_more(&whole, p, n, MF_FRAME_MAX), got = 0;
    for (size_t have = 0; have < n && !got; got = mf_scan_more(&pieces, p, have, MF_FRAME_MAX))
        have += have % 7 + 1 < n - have ? have % 7 + 1 : n - have;
    must(got == want && (want != 1 || (pieces.at == whole.at && whole.at <= n)));
    if (want != 1)
        return 0;
    msgpack_unpacked u;
    size_t off = 0;
    msgpack_unpacked_init(&u);
    must(msgpack_unpack_next(&u, (const char *)p, n, &off) == MSGPACK_UNPACK_SUCCESS && off == whole.at);
    msgpack_unpacked_destroy(&u);
    return whole.at;
}

static void sent_is(const struct mf_frame *f, const void *want, size_t n)
{
    void *got;
    size_t len;
    must(!mf_frame_encode(f, &got, &len, &err) && len == n && !memcmp(got, want, n));
    free(got);
}

static unsigned read_all(const struct mf_frame *f)
{
    unsigned sum = 0;
    for (int i = 0; i < mf_frame_arrays(f); i++) {
        const struct mf_array *a = mf_frame_array(f, i);
        for (size_t j = 0; j < a->bytes; j++)
            sum += ((const uint8_t *)a->data)[j];
        sum += mf_frame_find(f, a->name) == a;
    }
    for (int i = 0; i < mf_frame_count(f, ""); i++) {
        const char *key = mf_frame_key(f, "", i), *s;
        int64_t v;
        double d;
        if (!key)
            continue;
        sum += mf_frame_get_int(f, key, &v, &err) == 0;
        sum += mf_frame_get_num(f, key, &d, &err) == 0;
        if (!mf_frame_get_str(f, key, &s, &err))
            sum += (unsigned)strlen(s);
        for (int j = 0; j < mf_frame_count(f, key) && j < 50; j++)
            sum += mf_frame_key(f, key, j) != NULL;
    }
    return sum;
}

static void change(struct mf_frame *f)
{
    void *data, *bytes;
    size_t len;
    struct mf_frame *again;
    char word[] = "word", *argv[] = {word};
    mf_frame_set_int(f, "iter", -1);
    mf_frame_set_num(f, "policy.version.deeper", .5);
    mf_frame_set_str(f, "slice.1", "x");
    mf_frame_add_chain(f, "mf-fuzz", "1", 1, argv);
    must(!mf_frame_add(f, "advantages", MF_F32, 2, (size_t[]){3, 2}, &data, &err));
    must(!mf_frame_encode(f, &bytes, &len, &err));
    must(!mf_frame_decode(&again, bytes, len, &err));
    sent_is(again, bytes, len);
    must(mf_frame_find(again, "advantages")->count == 6 && mf_frame_has(again, "policy.version.deeper"));
    mf_frame_free(again);
    free(bytes);
}

volatile unsigned sink; /* what was read is not to be left out */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t n; (n = cut(data, size)); data += n, size -= n) {
        struct mf_frame *f;
        struct mf_rollout r;
        if (mf_frame_decode(&f, data, n, &err))
            continue;
        sink += read_all(f);
        sent_is(f, data, n);
        mf_rollout_bind(&r, f, MF_NEED_VALUES | MF_NEED_CHAINS | MF_NEED_ADVANTAGES, &err);
        change(f);
        mf_frame_free(f);
    }
    return 0;
}
