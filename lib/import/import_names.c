/* import_names.c - tensor names without the prefixes of wrappers: torch.compile, DDP and FSDP insert a word before the
 * names of the wrapped module, anywhere in a name; Lightning and own trainers put the name of the field that holds the
 * policy before all names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "import/import_families.h"

/* "module.", "_orig_mod.": each once. */
static void note(struct mf_import *im, const char *prefix, int n)
{
    char quoted[80];
    const size_t used = strlen(im->without);
    snprintf(quoted, sizeof quoted, "'%.*s'", n < 70 ? n : 70, prefix);
    if (!strstr(im->without, quoted))
        snprintf(im->without + used, sizeof im->without - used, "%s%s", used ? ", " : "", quoted);
}

/* Removes the word from the key where it stands between dots and is not the last one. */
static bool take_out(char *key, const char *word)
{
    const size_t n = strlen(word);
    bool any = false;
    for (char *at = key; at;) {
        if (mf_starts(at, word) && at[n] == '.') {
            memmove(at, at + n + 1, strlen(at + n + 1) + 1);
            any = true;
            continue;
        }
        at = strchr(at, '.');
        at += at != NULL;
    }
    return any;
}

void mf_import_names(struct mf_import *im)
{
    static const char *const wrappers[] = {"module.", "_orig_mod.", "_fsdp_wrapped_module.",
                                           "_checkpoint_wrapped_module.", "convnet."}; /* R3M's */
    char word[40];
    im->key = mf_xcalloc((size_t)im->file.n + 1, sizeof *im->key);
    for (int i = 0; i < im->file.n; i++) /* one beside the weights keeps the name of its dictionary */
        im->key[i] = mf_xstrdup(im->layout.beside && mf_torch_within(&im->file.tensor[i], im->layout.beside)
                                    ? im->file.tensor[i].name
                                    : im->file.tensor[i].key);
    for (size_t w = 0; w < sizeof wrappers / sizeof *wrappers; w++) {
        snprintf(word, sizeof word, "%.*s", (int)strlen(wrappers[w]) - 1, wrappers[w]);
        for (int i = 0; i < im->file.n; i++)
            if (take_out(im->key[i], word))
                note(im, wrappers[w], (int)strlen(wrappers[w]));
    }
}

bool mf_import_matches(const char *name, const char *pattern)
{
    const char *star = strchr(pattern, '*');
    const size_t before = star ? (size_t)(star - pattern) : 0, after = star ? strlen(star + 1) : 0, n = strlen(name);
    if (!star)
        return !strcmp(name, pattern);
    return n > before + after && !strncmp(name, pattern, before) && !strcmp(name + n - after, star + 1);
}

bool mf_import_within(const struct mf_import *im, const struct mf_torch_tensor *t, const char *dictionary)
{
    return mf_torch_within(t, dictionary) || (im->layout.beside && mf_torch_within(t, im->layout.beside));
}

const struct mf_torch_tensor *mf_import_tensor(const struct mf_import *im, const char *dictionary, const char *before,
                                               const char *rest)
{
    for (int i = 0; i < im->file.n; i++)
        if (mf_import_within(im, &im->file.tensor[i], dictionary) && mf_starts(im->key[i], before) &&
            mf_import_matches(im->key[i] + strlen(before), rest))
            return &im->file.tensor[i];
    return NULL;
}

/* ---- a field that holds the policy ---- */

/* Bytes before theirs+rest where the key ends with that name after a dot; else 0. */
static size_t outer(const char *key, const char *theirs, const char *rest)
{
    const size_t length = strlen(key), own = strlen(theirs) + strlen(rest);
    if (length <= own + 1)
        return 0;
    const char *at = key + (length - own);
    return at[-1] == '.' && mf_starts(at, theirs) && !strcmp(at + strlen(theirs), rest) ? length - own : 0;
}

static void take_off(struct mf_import *im, const char *prefix, size_t n)
{
    for (int i = 0; i < im->file.n; i++)
        if (!strncmp(im->key[i], prefix, n))
            memmove(im->key[i], im->key[i] + n, strlen(im->key[i] + n) + 1);
}

int mf_import_outer(struct mf_import *im, const char *theirs, const char *rest, struct mf_err *err)
{
    char found[2][200] = {"", ""};
    int n = 0;
    for (int i = 0; i < im->file.n && n < 2; i++) {
        const size_t length =
            mf_torch_within(&im->file.tensor[i], im->layout.weights) ? outer(im->key[i], theirs, rest) : 0;
        if (length && length < sizeof *found &&
            (n == 0 || strncmp(found[0], im->key[i], length) != 0 || found[0][length]))
            snprintf(found[n++], sizeof *found, "%.*s", (int)length, im->key[i]);
    }
    if (n == 2)
        return mf_err_set(
            err, MF_EFORMAT,
            "%.150s holds more than one policy, below '%.80s' and '%.80s': save the one that is meant in a "
            "file of its own",
            im->file.zip.path, found[0], found[1]);
    if (n == 0)
        return 0;
    take_off(im, found[0], strlen(found[0]));
    mf_import_note(im, found[0]);
    return 1;
}

/* Bytes of the first word that all names of the weights share, its dot included; 0: none. */
static size_t common(const struct mf_import *im)
{
    const char *first = NULL;
    size_t n = 0;
    for (int i = 0; i < im->file.n; i++) {
        if (!mf_torch_within(&im->file.tensor[i], im->layout.weights))
            continue;
        first = first ? first : im->key[i];
        n = strcspn(first, ".") + 1;
        if (!first[n - 1] || strncmp(first, im->key[i], n) != 0)
            return 0;
    }
    return n;
}

bool mf_import_common(struct mf_import *im, char *prefix, size_t size)
{
    const size_t n = common(im), used = strlen(prefix);
    char word[200];
    if (n == 0 || n >= sizeof word || used + n >= size)
        return false;
    for (int i = 0; i < im->file.n; i++)
        if (mf_torch_within(&im->file.tensor[i], im->layout.weights)) {
            snprintf(word, sizeof word, "%.*s", (int)n, im->key[i]);
            break;
        }
    strcat(prefix, word);
    take_off(im, word, n);
    return true;
}

void mf_import_note(struct mf_import *im, const char *prefix)
{
    note(im, prefix, (int)strlen(prefix));
}

/* ---- twins ---- */

struct named {
    const struct mf_torch_tensor *t;
    char *name; /* the path of the dictionary and the key, joined */
};

static int by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    const int order = strcmp(x->name, y->name);
    return order ? order : (x->t > y->t) - (x->t < y->t); /* then as in the file */
}

static struct named named(const struct mf_torch_tensor *t, const char *key)
{
    const size_t above = (size_t)(t->key - t->name);
    struct named it = {t, mf_xcalloc(above + strlen(key) + 1, 1)};
    memcpy(it.name, t->name, above);
    strcpy(it.name + above, key);
    return it;
}

/* "'b.c' of 'a' (archive/data/7)", which is named a.b.c. */
static void place(const struct mf_torch_tensor *t, char text[200])
{
    const int above = t->key > t->name ? (int)(t->key - t->name) - 1 : 0;
    snprintf(text, 200, "'%.80s' of '%.*s' (%.40s)", t->key, above < 60 ? above : 60, t->name, t->storage->name);
}

int mf_import_twins(const struct mf_import *im, struct mf_err *err)
{
    const struct mf_torch_layout *l = &im->layout;
    struct named *all = mf_xcalloc((size_t)im->file.n + 1, sizeof *all);
    int rc = 0, n = 0;
    for (int i = 0; i < im->file.n; i++)
        if (mf_starts(im->file.tensor[i].name, l->weights) ||
            (l->average && mf_starts(im->file.tensor[i].name, l->average)))
            all[n++] = named(&im->file.tensor[i], im->key[i]);
    qsort(all, (size_t)n, sizeof *all, by_name);
    for (int i = 0; i + 1 < n && rc == 0; i++) {
        char one[200], other[200];
        if (strcmp(all[i].name, all[i + 1].name) != 0)
            continue;
        place(all[i].t, one);
        place(all[i + 1].t, other);
        rc = mf_err_set(err, MF_EFORMAT, "%.100s: two tensors have the name %.80s, %s and %s: rename one of them",
                        im->file.zip.path, all[i].name, one, other);
    }
    for (int i = 0; i < n; i++)
        free(all[i].name);
    free(all);
    return rc;
}
