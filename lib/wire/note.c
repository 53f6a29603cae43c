#include "wire/note.h"

#include <msgpack.h>
#include <string.h>

#include "wire/token.h"

static void text(msgpack_packer *p, const char *s)
{
    msgpack_pack_str_with_body(p, s, strlen(s));
}

size_t mf_note_write(const struct mf_note_form *form, const void *note, char bytes[MF_NOTE_MAX])
{
    msgpack_sbuffer buffer = {.data = NULL};
    msgpack_packer p;
    size_t fields = 0;
    int say;
    memcpy(&say, note, sizeof say);
    while (form->fields[fields].name)
        fields++;
    msgpack_packer_init(&p, &buffer, msgpack_sbuffer_write);
    msgpack_pack_map(&p, 2 + fields);
    const char *const strings[] = {"mf", form->mf, "say", form->words[say]};
    for (int i = 0; i < 4; i++)
        text(&p, strings[i]);
    for (const struct mf_note_field *f = form->fields; f->name; f++) {
        const char *at = (const char *)note + f->at;
        int64_t number;
        text(&p, f->name);
        if (f->size) {
            text(&p, at);
        } else {
            memcpy(&number, at, sizeof number);
            msgpack_pack_int64(&p, number);
        }
    }
    size_t n = buffer.size;
    memcpy(bytes, buffer.data, n); /* some hundred bytes */
    msgpack_sbuffer_destroy(&buffer);
    return n;
}

/* The next token, with its body if it has one; a token longer than the remaining bytes is invalid. */
static bool next(struct mf_token *t, const uint8_t **p, size_t *left, const char **body)
{
    if (mf_token_read(t, *p, *left) != 1 || t->type == MF_LIST || t->type == MF_MAP)
        return false;
    size_t n = t->type == MF_TEXT || t->type == MF_BYTES || t->type == MF_EXT ? (size_t)t->n : 0;
    *body = (const char *)*p + t->head;
    if (n > *left - t->head)
        return false;
    *p += t->head + n;
    *left -= t->head + n;
    return true;
}

static bool is(const struct mf_token *t, const char *body, const char *word)
{
    return t->type == MF_TEXT && t->n == strlen(word) && !memcmp(body, word, t->n);
}

static bool take(const struct mf_note_field *f, void *note, const struct mf_token *value, const char *body)
{
    char *to = (char *)note + f->at;
    int64_t number = value->type == MF_SINT ? value->i : (int64_t)value->u;
    if (!f->size) {
        memcpy(to, &number, sizeof number);
        return value->type == MF_SINT || (value->type == MF_UINT && value->u <= INT64_MAX);
    }
    if (value->type != MF_TEXT || value->n >= f->size || memchr(body, 0, value->n))
        return false;
    memcpy(to, body, value->n);
    to[value->n] = 0;
    return true;
}

static bool field(const struct mf_note_form *form, void *note, const struct mf_token *key, const char *name,
                  const struct mf_token *value, const char *body)
{
    if (is(key, name, "mf"))
        return is(value, body, form->mf);
    for (int i = 0; is(key, name, "say"); i++) {
        if (!form->words[i])
            return false;
        if (is(value, body, form->words[i])) {
            memcpy(note, &i, sizeof i);
            return true;
        }
    }
    for (const struct mf_note_field *f = form->fields; f->name; f++)
        if (is(key, name, f->name))
            return take(f, note, value, body);
    return true; /* a later version's field */
}

bool mf_note_read(const struct mf_note_form *form, void *note, const void *bytes, size_t size)
{
    const uint8_t *p = bytes;
    struct mf_token t, key;
    const char *name, *body;
    if (mf_token_read(&t, p, size) != 1 || t.type != MF_MAP)
        return false;
    p += t.head;
    size -= t.head;
    for (uint64_t i = 0; i < t.n; i++) {
        struct mf_token value;
        if (!next(&key, &p, &size, &name) || !next(&value, &p, &size, &body) ||
            !field(form, note, &key, name, &value, body))
            return false;
    }
    return size == 0;
}
