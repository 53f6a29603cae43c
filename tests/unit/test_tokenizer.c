/* Text to ids: SentencePiece's own answers (tests/reference/tokens.py), and files that are no model. */
#include <jansson.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "fixture.h"
#include "lang/tokenizer.h"
#include "tap.h"

static const char path[] = "tests/fixtures/tokenizer.model";
static struct mf_err err;

/* ---- texts ---- */

static bool answers(const struct mf_tokenizer *t, const json_t *row)
{
    const json_t *want = json_object_get(row, "ids");
    const int n = (int)json_array_size(want);
    int32_t ids[512];
    if (mf_tokenizer_encode(t, json_string_value(json_object_get(row, "text")), ids, 512, &err) != n)
        return false;
    for (int i = 0; i < n; i++)
        if (ids[i] != (int32_t)json_integer_value(json_array_get(want, (size_t)i)))
            return false;
    return true;
}

static void test_answers(const struct mf_tokenizer *t)
{
    json_t *all = json_load_file("tests/fixtures/tokens.json", 0, NULL), *rows = json_object_get(all, "encode"), *row;
    size_t i, bad = 0;
    json_array_foreach(rows, i, row) if (!answers(t, row))
        printf("# %s\n", json_string_value(json_object_get(row, "text"))),
        bad++;
    ok(json_array_size(rows) > 200 && bad == 0, "the ids of %zu texts, also odd ones, are SentencePiece's",
       json_array_size(rows));
    json_decref(all);
}

static void test_malformed(const struct mf_tokenizer *t)
{
    int32_t ids[8], same[8];
    int n = mf_tokenizer_encode(t, "a\xff\xe2\x96", ids, 8, &err);
    int m = mf_tokenizer_encode(t, "a\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", same, 8, &err);
    ok(n == m && n == 10 && !memcmp(ids, same, sizeof ids),
       "malformed bytes are U+FFFD, and ids beyond the room counted");
}

static void test_long(const struct mf_tokenizer *t)
{
    enum { TIMES = 20000 };
    static const char words[] = "push the red block into the left bin ";
    const size_t n = sizeof words - 1;
    char *text = malloc(TIMES * n + 1);
    int32_t ids[64], first[64];
    for (size_t i = 0; i < TIMES; i++)
        memcpy(text + i * n, words, n);
    text[TIMES * n] = '\0';
    int once = mf_tokenizer_encode(t, words, first, 64, &err), all = mf_tokenizer_encode(t, text, ids, once, &err);
    ok(once > 0 && all >= TIMES * (once - 2) && all <= TIMES * once, "a text of %zu bytes is as its parts", TIMES * n);
    free(text);
}

/* ---- files ---- */

static void refused(const void *bytes, size_t size, const char *why, const char *what)
{
    struct mf_tokenizer t;
    err.text[0] = '\0';
    int rc = mf_tokenizer_parse(&t, bytes, size, "FILE", &err);
    if (!ok(rc == MF_EFORMAT && strstr(err.text, "FILE") && strstr(err.text, why), "refused: %s", what))
        printf("# %d: %s\n", rc, err.text);
}

/* Every prefix of the file is refused or, where it ends between two fields behind the settings, a smaller model. */
static void test_prefixes(const struct fixture *f)
{
    int whole = 0;
    for (size_t n = 0; n < f->size; n++) {
        struct mf_tokenizer t;
        char *copy = malloc(n + 1); /* a sanitizer finds what is read behind it */
        memcpy(copy, f->bytes, n);
        whole += mf_tokenizer_parse(&t, copy, n, "FILE", &err) == 0;
        mf_tokenizer_close(&t);
        free(copy);
    }
    ok(whole == 0, "no prefix of the file is a model");
}

/* The file with one byte changed, at the first place of `find` and `skip` bytes on. */
static void changed(const struct fixture *f, const char *find, size_t n, size_t skip, int byte, const char *why,
                    const char *what)
{
    char *copy = malloc(f->size), *at;
    memcpy(copy, f->bytes, f->size);
    at = memmem(copy, f->size, find, n);
    at[skip] = (char)byte;
    refused(copy, f->size, why, what);
    free(copy);
}

/* A user-defined piece that is a part of a character would cut the characters of a text. */
static void test_cut_pieces(const struct fixture *f)
{
    static const char *const parts[] = {"\xe2", "\x96", "\x81"};
    enum { EACH = 12 };
    char *copy = malloc(f->size + 3 * EACH);
    memcpy(copy, f->bytes, f->size);
    for (size_t i = 0; i < 3; i++) {
        char *piece = copy + f->size + i * EACH;
        memcpy(piece, "\x0a\x0a\x0a\x01?\x15\0\0\0\0\x18\x04", EACH);
        piece[4] = *parts[i];
    }
    refused(copy, f->size + EACH, "piece 416: its text is not UTF-8", "a piece that is the begin of a character");
    refused(copy, f->size + 3 * EACH, "piece 416", "pieces that are the bytes of one");
    free(copy);
}

static void test_files(const struct fixture *f)
{
    refused("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 10, "damaged", "a length past the end");
    refused("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 11, "damaged", "a number without an end");
    refused("PK\x03\x04 a zip file, not a model", 28, "damaged", "a file of another kind");
    changed(f, "\x0a\x05<pad>", 7, 1, 0x7f, "piece 0", "a text past its piece");
    changed(f, "<0x07>", 6, 4, '6', "255 of 256", "a byte without a piece");
    changed(f, "<loc0001>", 9, 7, '0', "same text", "two pieces of one text");
    changed(f, "<pad>", 5, 11, MF_PIECE_NORMAL, "padding", "an id 0 that text may give");
    changed(f, "\x01l\x15", 3, 6, 0x7f, "no finite score", "a score that is no number");
    changed(f, "\x18\x02\x20\xa0\x03", 5, 1, 1, "BPE", "another kind of model");
    changed(f, "identity\x12\x00\x18", 11, 11, 1, "changes the text", "a dummy prefix");
    changed(f, "\xc8\x02\x02", 3, 2, 60, "begins a text", "a begin that is a byte");
}

int main(void)
{
    struct mf_tokenizer t;
    struct fixture f = fixture_load(path);
    if (ok(mf_tokenizer_open(&t, path, &err) == 0 && t.n == 416 && t.bos == 2 && strlen(t.digest) == 16,
           "a model is read")) {
        test_answers(&t);
        test_malformed(&t);
        test_long(&t);
    } else {
        printf("# %s\n", err.text);
    }
    mf_tokenizer_close(&t);
    test_prefixes(&f);
    test_files(&f);
    test_cut_pieces(&f);
    free(f.bytes);
    return done();
}
