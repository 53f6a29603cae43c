#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/map.h"
#include "base/text.h"
#include "lang/tokenizer.h"

/* ---- protobuf ---- */

struct message {
    const uint8_t *at, *end;
};

struct field {
    uint64_t number, value; /* value: of a varint or a fixed number; the count of `bytes` */
    const uint8_t *bytes;   /* NULL: it is a number */
};

static bool varint(struct message *m, uint64_t *v)
{
    *v = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        *v |= (uint64_t)(*m->at & 127) << shift;
        if (*m->at++ < 128)
            return true;
    }
    return false;
}

static bool fixed(struct message *m, size_t n, uint64_t *v)
{
    *v = 0;
    if ((size_t)(m->end - m->at) < n)
        return false;
    memcpy(v, m->at, n);
    m->at += n;
    return true;
}

static bool whole(struct message *m, struct field *f)
{
    uint64_t key;
    f->bytes = NULL;
    if (!varint(m, &key))
        return false;
    f->number = key >> 3;
    switch (key & 7) {
    case 0:
        return varint(m, &f->value);
    case 1:
        return fixed(m, 8, &f->value);
    case 5:
        return fixed(m, 4, &f->value);
    case 2:
        if (!varint(m, &f->value) || f->value > (uint64_t)(m->end - m->at))
            return false;
        f->bytes = m->at;
        m->at += f->value;
        return true;
    }
    return false;
}

/* 1: a field; 0: the end; or an error. */
static int next(struct message *m, struct field *f, struct mf_err *err)
{
    if (m->at == m->end)
        return 0;
    return whole(m, f) ? 1 : mf_err_set(err, MF_EFORMAT, "it is damaged or cut, or no SentencePiece model");
}

static struct message message(const struct field *f)
{
    return (struct message){f->bytes, f->bytes + f->value};
}

/* ---- ModelProto ---- */

enum { PIECES = 1, TRAINER, NORMALIZER };             /* its fields */
enum { PIECE_TEXT = 1, PIECE_SCORE, PIECE_TYPE };     /* of a piece */
enum { MODEL_TYPE = 3, BOS_ID = 41, BPE = 2 };        /* of trainer_spec */
enum { CHARSMAP = 2, PREFIX, REMOVE_SPACES, ESCAPE }; /* of normalizer_spec */
enum { PROBES_MAX = 1 << 10, SLOTS_EACH = 4 };        /* of the hash table; a file that collides more is made to */

static int read_piece(struct message m, struct mf_lang_piece *p, struct mf_err *err)
{
    struct field f;
    int rc;
    *p = (struct mf_lang_piece){.type = MF_PIECE_NORMAL};
    while ((rc = next(&m, &f, err)) > 0) {
        if (f.number == PIECE_TEXT && f.bytes)
            p->text = (const char *)f.bytes, p->n = (uint32_t)f.value;
        if (f.number == PIECE_SCORE && !f.bytes)
            memcpy(&p->score, &f.value, sizeof p->score);
        if (f.number == PIECE_TYPE && !f.bytes)
            p->type = f.value > MF_PIECE_BYTE ? 0 : (uint32_t)f.value;
    }
    if (rc)
        return rc;
    if (p->n == 0 || !isfinite(p->score))
        return mf_err_set(err, MF_EFORMAT, "it has no text or no finite score");
    if (!mf_is_utf8(p->text, p->n)) /* a text is cut at pieces, and the rest of it must be whole characters */
        return mf_err_set(err, MF_EFORMAT, "its text is not UTF-8");
    if (p->type == 0 || p->type == MF_PIECE_BYTE - 1)
        return mf_err_set(err, MF_EFORMAT, "its type is not read here (normal, unknown, control, user-defined, byte)");
    return 0;
}

static int read_settings(struct message m, struct mf_tokenizer *t, struct mf_err *err)
{
    uint64_t model = 1, bos = 1; /* unigram, unless the file says otherwise */
    struct field f;
    int rc;
    while ((rc = next(&m, &f, err)) > 0)
        if (!f.bytes && f.number == MODEL_TYPE)
            model = f.value;
        else if (!f.bytes && f.number == BOS_ID)
            bos = f.value;
    if (rc)
        return rc;
    if (model != BPE)
        return mf_err_set(err, MF_EFORMAT, "it is a model of another kind than BPE: model_type is %llu",
                          (unsigned long long)model);
    t->bos = bos < MF_PIECES_MAX ? (int)bos : -1;
    return 0;
}

static int read_normalizer(struct message m, struct mf_err *err)
{
    uint64_t is[ESCAPE + 1] = {[PREFIX] = 1, [REMOVE_SPACES] = 1, [ESCAPE] = 1};
    struct field f;
    int rc;
    while ((rc = next(&m, &f, err)) > 0)
        if (f.number >= CHARSMAP && f.number <= ESCAPE)
            is[f.number] = f.value;
    if (rc)
        return rc;
    if (is[CHARSMAP] || is[PREFIX] || is[REMOVE_SPACES] || !is[ESCAPE])
        return mf_err_set(
            err, MF_EFORMAT,
            "it changes the text (a character map, a dummy prefix, removed spaces, or spaces that are not "
            "escaped); PaliGemma's keeps it");
    return 0;
}

/* One pass over the file: counts pieces where t has no room for them yet, else fills it. */
static int read_model(struct mf_tokenizer *t, struct message m, bool fill, struct mf_err *err)
{
    bool normalizer = false, trainer = false;
    struct field f;
    int rc;
    t->n = 0;
    while ((rc = next(&m, &f, err)) > 0) {
        if (f.number == PIECES && f.bytes) {
            if (t->n == MF_PIECES_MAX)
                return mf_err_set(err, MF_EFORMAT, "it has more than %d pieces", MF_PIECES_MAX);
            if (fill && read_piece(message(&f), &t->piece[t->n], err))
                return mf_err_at(err, "piece %d", t->n);
            t->n++;
        } else if (f.bytes && f.number == TRAINER) {
            trainer = true;
            rc = read_settings(message(&f), t, err);
        } else if (f.bytes && f.number == NORMALIZER) {
            normalizer = true;
            rc = read_normalizer(message(&f), err);
        }
        if (rc < 0)
            return rc;
    }
    if (rc == 0 && !(t->n && trainer && normalizer))
        return mf_err_set(err, MF_EFORMAT, "it has no pieces or no settings, so that it is no SentencePiece model");
    return rc;
}

/* ---- tables ---- */

static void place(struct mf_tokenizer *t, struct mf_arena *a)
{
    t->piece = mf_arena_take(a, (size_t)t->n, sizeof *t->piece);
    t->user = mf_arena_take(a, (size_t)t->n, sizeof *t->user);
    t->slot = mf_arena_take(a, (size_t)t->mask + 1, sizeof *t->slot);
}

static bool same(const struct mf_lang_piece *p, const char *text, uint32_t n)
{
    return p->n == n && !memcmp(p->text, text, n);
}

int32_t mf_tokenizer_find(const struct mf_tokenizer *t, const char *text, uint32_t n)
{
    const uint64_t h = mf_bytes_hash(text, n);
    for (uint64_t i = h & t->mask; t->slot[i].id; i = (i + 1) & t->mask)
        if (t->slot[i].hash == (uint32_t)(h >> 32) && same(&t->piece[t->slot[i].id - 1], text, n))
            return t->slot[i].id - 1;
    return -1;
}

static int enter(struct mf_tokenizer *t, int id, struct mf_err *err)
{
    const struct mf_lang_piece *p = &t->piece[id];
    const uint64_t h = mf_bytes_hash(p->text, p->n);
    for (uint64_t i = h & t->mask, probes = 0; probes < PROBES_MAX; i = (i + 1) & t->mask, probes++) {
        if (!t->slot[i].id) {
            t->slot[i] = (struct mf_lang_slot){(uint32_t)(h >> 32), id + 1};
            return 0;
        }
        if (t->slot[i].hash == (uint32_t)(h >> 32) && same(&t->piece[t->slot[i].id - 1], p->text, p->n))
            return mf_err_set(err, MF_EFORMAT, "pieces %d and %d are the same text", t->slot[i].id - 1, id);
    }
    return mf_err_set(err, MF_EFORMAT, "its pieces collide as those of no vocabulary do");
}

/* <0xNN> */
static int byte_of(const struct mf_lang_piece *p)
{
    unsigned v;
    char again[8];
    if (p->n != 6 ||
        sscanf((char[7]){p->text[0], p->text[1], p->text[2], p->text[3], p->text[4], p->text[5]}, "<0x%2X>", &v) != 1)
        return -1;
    snprintf(again, sizeof again, "<0x%02X>", v);
    return same(p, again, 6) ? (int)v : -1;
}

static int by_bytes(const void *a, const void *b, void *pieces)
{
    const struct mf_lang_piece *p = (struct mf_lang_piece *)pieces + *(const int32_t *)a,
                               *q = (struct mf_lang_piece *)pieces + *(const int32_t *)b;
    const int d = memcmp(p->text, q->text, p->n < q->n ? p->n : q->n);
    return d ? d : (p->n > q->n) - (p->n < q->n);
}

static void sort_user(struct mf_tokenizer *t, int n)
{
    qsort_r(t->user, (size_t)n, sizeof *t->user, by_bytes, t->piece);
    for (int i = n; i > 0; i--)
        t->user_of[(uint8_t)t->piece[t->user[i - 1]].text[0]] = i - 1;
    t->user_of[256] = n;
    for (int c = 255; c >= 0; c--) /* without any: as the next byte */
        if (t->user_of[c] < 0)
            t->user_of[c] = t->user_of[c + 1];
}

static int index_pieces(struct mf_tokenizer *t, struct mf_err *err)
{
    int users = 0, bytes = 0;
    memset(t->byte, -1, sizeof t->byte);
    memset(t->user_of, -1, sizeof t->user_of);
    for (int i = 0; i < t->n; i++) {
        const struct mf_lang_piece *p = &t->piece[i];
        const int b = p->type == MF_PIECE_BYTE ? byte_of(p) : -1;
        if ((p->type == MF_PIECE_NORMAL || p->type == MF_PIECE_USER) && enter(t, i, err))
            return err->code;
        if (p->type == MF_PIECE_NORMAL && p->n > t->longest)
            t->longest = p->n;
        if (p->type == MF_PIECE_USER)
            t->user[users++] = i;
        if (b >= 0 && t->byte[b] < 0)
            t->byte[b] = i, bytes++;
    }
    sort_user(t, users);
    if (bytes < 256)
        return mf_err_set(err, MF_EFORMAT, "it has pieces for %d of 256 bytes; a model with byte_fallback is read here",
                          bytes);
    if (t->piece[0].type != MF_PIECE_CONTROL)
        return mf_err_set(err, MF_EFORMAT, "id 0 is a piece of text, and no padding");
    if (t->bos < 0 || t->bos >= t->n || t->piece[t->bos].type != MF_PIECE_CONTROL)
        return mf_err_set(err, MF_EFORMAT, "it has no piece that begins a text (bos_id is %d)", t->bos);
    return 0;
}

static int parse(struct mf_tokenizer *t, const void *bytes, size_t size, struct mf_err *err)
{
    const struct message m = {bytes, (const uint8_t *)bytes + size};
    int rc;
    if (size > INT32_MAX)
        return mf_err_set(err, MF_EFORMAT, "it is larger than 2 GiB");
    if ((rc = read_model(t, m, false, err)))
        return rc;
    for (t->mask = 1; t->mask < SLOTS_EACH * (uint64_t)t->n; t->mask *= 2)
        ;
    t->mask--;
    place(t, &t->arena);
    if ((rc = mf_arena_alloc(&t->arena, "the pieces of a tokenizer", err)))
        return rc;
    place(t, &t->arena);
    if ((rc = read_model(t, m, true, err)) || (rc = index_pieces(t, err)))
        return rc;
    snprintf(t->digest, sizeof t->digest, "%016jx", (uintmax_t)mf_bytes_hash(bytes, size));
    return 0;
}

int mf_tokenizer_parse(struct mf_tokenizer *t, const void *bytes, size_t size, const char *name, struct mf_err *err)
{
    *t = (struct mf_tokenizer){.bos = -1};
    if (parse(t, bytes, size, err) == 0)
        return 0;
    mf_tokenizer_close(t);
    return mf_err_at(err, "the tokenizer %s", name);
}

int mf_tokenizer_open(struct mf_tokenizer *t, const char *path, struct mf_err *err)
{
    void *map;
    size_t size;
    int rc = mf_map_file(path, "a SentencePiece model", &map, &size, err);
    if (rc)
        return rc;
    if ((rc = mf_tokenizer_parse(t, map, size, path, err))) {
        munmap(map, size);
        return rc;
    }
    t->map = map;
    t->size = size;
    return 0;
}

void mf_tokenizer_close(struct mf_tokenizer *t)
{
    mf_arena_release(&t->arena);
    if (t->map)
        munmap(t->map, t->size);
    *t = (struct mf_tokenizer){0};
}
