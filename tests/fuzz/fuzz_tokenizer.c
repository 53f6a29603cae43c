/* The reader of SentencePiece models on any bytes, and what it makes of texts: ids of the model, as many as it counts,
 * the same a second time.
 *
 * rooms: lang
 */
#include <stdlib.h>
#include <string.h>

#include "lang/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(const struct mf_tokenizer *t, const char *text)
{
    enum { ROOM = 256 };
    int32_t ids[ROOM], again[ROOM];
    struct mf_err err;
    const int n = mf_tokenizer_encode(t, text, ids, ROOM, &err);
    if (n < 0 || mf_tokenizer_encode(t, text, again, ROOM, &err) != n)
        abort();
    for (int i = 0; i < n && i < ROOM; i++)
        if (ids[i] < 0 || ids[i] >= t->n || ids[i] != again[i])
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mf_tokenizer t;
    struct mf_err err;
    if (mf_tokenizer_parse(&t, data, size, "input", &err))
        return 0;
    char *text = malloc(size + 1); /* its own bytes are a text, too */
    memcpy(text, data, size);
    text[size] = '\0';
    for (size_t i = 0; i < size; i++)
        text[i] += text[i] == 0;
    text[size < 4096 ? size : 4096] = '\0';
    encode(&t, text);
    encode(&t, "push the red_block  into\nthe left bin <loc0001>");
    free(text);
    mf_tokenizer_close(&t);
    return 0;
}
