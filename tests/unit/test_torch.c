/* Files that PyTorch wrote (tests/reference/torch_files.py): their names, values and numbers; and what is no such file.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/torch_show.h"
#include "tap.h"

static const struct mf_torch_tensor *find(const struct mf_torch *f, const char *name)
{
    for (int i = 0; i < f->n; i++)
        if (!strcmp(f->tensor[i].name, name))
            return &f->tensor[i];
    printf("Bail out! no tensor %s\n", name);
    exit(1);
}

static bool reads(struct mf_torch *f, const char *name, const char *dtype, size_t n, const float *want)
{
    const struct mf_torch_tensor *t = find(f, name);
    float got[32];
    struct mf_err err;
    if (strcmp(t->dtype->name, dtype) || t->count != n || mf_torch_read(f, t, 0, n, got, &err))
        return false;
    for (size_t i = 0; i < n; i++)
        if (got[i] != want[i])
            return false;
    return n < 2 || (mf_torch_read(f, t, n - 1, 1, got, &err) == 0 && got[0] == want[n - 1]);
}

static void numbers(const char *path)
{
    static const char *const dtypes[] = {"float32", "float64", "float16", "bfloat16", "int64",
                                         "int32",   "int16",   "int8",    "uint8",    "uint16"};
    struct mf_torch f;
    struct mf_err err = {0};
    ok(mf_torch_open(&f, path, &err) == 0, "%s opens %s", path, err.text);
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        char name[64];
        snprintf(name, sizeof name, "dtype.%s", dtypes[i]);
        ok(reads(&f, name, dtypes[i], 5, (float[]){0, 1, 2, 3, 4}), "%s", dtypes[i]);
    }
    ok(reads(&f, "dtype.bool", "bool", 5, (float[]){0, 1, 1, 1, 1}), "bool");
    ok(reads(&f, "half", "float16", 4, (float[]){0.0999755859375f, -65504, 5.9604644775390625e-08f, INFINITY}),
       "float16 to its ends");
    ok(reads(&f, "brain", "bfloat16", 3, (float[]){0.10009765625f, -3.00405527e38f, -INFINITY}), "bfloat16");
    ok(!find(&f, "complex")->dtype->number, "a complex number is no number of ours");

    float t[24];
    for (int i = 0; i < 24; i++)
        t[i] = (float)(i % 4 * 6 + i / 4) - 3.5f;
    ok(reads(&f, "strided.transposed", "float32", 24, t), "a transposed one in C order");
    ok(reads(&f, "strided.tail", "float32", 4, (float[]){16.5f, 17.5f, 18.5f, 19.5f}), "one with an offset");
    ok(reads(&f, "strided.every_third", "float32", 8, (float[]){-2.5f, .5f, 3.5f, 6.5f, 9.5f, 12.5f, 15.5f, 18.5f}),
       "one with a stride");
    ok(reads(&f, "strided.corner", "float32", 4, (float[]){14.5f, 15.5f, 18.5f, 19.5f}), "a corner of a block");
    ok(reads(&f, "strided.expanded", "float32", 6, (float[]){3.5f, 3.5f, 3.5f, 3.5f, 3.5f, 3.5f}), "an expanded one");
    ok(reads(&f, "strided.scalar", "float32", 1, (float[]){1.5f}) && find(&f, "strided.scalar")->rank == 0, "a scalar");
    ok(reads(&f, "strided.empty", "float32", 0, NULL) && find(&f, "strided.empty")->dim[0] == 2, "an empty one");
    ok(reads(&f, "parameter", "float32", 3, (float[]){-3.5f, -2.5f, -1.5f}), "a Parameter");
    ok(reads(&f, "module.0.weight", "float32", 6, (float[]){0, 1, 2, 3, 4, 5}), "a module has its state_dict's names");
    ok(!strcmp(find(&f, "module.0.weight")->key, "0.weight") && mf_torch_within(find(&f, "module.0.weight"), "module"),
       "and is one dictionary");
    ok(reads(&f, "list.1.deep", "float32", 2, (float[]){1, 1}), "a tensor in a list");
    mf_torch_close(&f);
}

static bool says(const struct mf_torch *f, const char *name, const char *text)
{
    for (int i = 0; i < f->n_values; i++)
        if (!strcmp(f->value[i].name, name))
            return !strcmp(f->value[i].text, text);
    return false;
}

static void values(void)
{
    static const char *const want[][2] = {
        {"values.none", "null"},
        {"values.yes", "true"},
        {"values.small", "7"},
        {"values.negative", "-70000"},
        {"values.wide", "1099511627776"},
        {"values.number", "0.1"},
        {"values.text", "Grüße zwei"},
        {"values.pair", "[1, b]"},
        {"values.nested.0", "[1, 2]"},
        {"values.numpy", "1.5"},
        {"values.whole", "9"},
        {"values.size", "[2, 3]"},
        {"values.space.lr", "0.0001"},
        {"values.odd", "<__main__.Odd>"},
        {"7.key", "an integer's"},
    };
    struct mf_torch f;
    struct mf_err err = {0};
    ok(mf_torch_open(&f, "tests/fixtures/torch_kinds.pt", &err) == 0, "values %s", err.text);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        ok(says(&f, want[i][0], want[i][1]), "%s is %s", want[i][0], want[i][1]);
    mf_torch_close(&f);
}

static void workspace(void)
{
    struct mf_torch f;
    struct mf_err err = {0};
    ok(mf_torch_open(&f, "tests/fixtures/torch_workspace.ckpt", &err) == 0, "a workspace opens %s", err.text);
    struct mf_torch_layout l = mf_torch_layout(&f);
    ok(l.name && !strcmp(l.weights, "state_dicts.model") && l.average && !strcmp(l.average, "state_dicts.ema_model"),
       "its weights and their average are found");
    const struct mf_torch_tensor *t = find(&f, "state_dicts.ema_model.net.0.weight");
    ok(!strcmp(t->key, "net.0.weight") && mf_torch_within(t, l.average) && !mf_torch_within(t, l.weights) &&
           !mf_torch_within(t, "state_dicts") && !mf_torch_within(t, ""),
       "a tensor is within one dictionary");
    const char *horizon = mf_torch_value(&f, "cfg", "policy.horizon");
    ok(horizon && !strcmp(horizon, "8"), "${horizon} is followed");
    ok(says(&f, "cfg.policy.dims", "[64, 16]") && says(&f, "cfg.policy.act", "null"), "OmegaConf's lists and nulls");
    ok(says(&f, "pickles.global_step", "123") && says(&f, "pickles._output_dir", "/tmp/run"),
       "a pickle within the pickle");
    ok(!mf_torch_value(&f, "cfg", "policy") && !mf_torch_value(&f, "cfg", "none"), "a missing name is not found");
    mf_torch_close(&f);
}

/* Cut anywhere, a file is refused; nothing lies at its end alone. */
static void cut(const char *path)
{
    FILE *from = fopen(path, "rb");
    char *bytes = calloc(1, 1 << 16);
    size_t size = from ? fread(bytes, 1, 1 << 16, from) : 0, refused = 0;
    struct mf_torch f;
    struct mf_err err;
    for (size_t n = 0; n < size; n++) {
        char *copy = malloc(n + 1); /* so that a sanitizer sees a step beyond */
        memcpy(copy, bytes, n);
        refused += mf_torch_parse(&f, copy, n, path, &err) == MF_EFORMAT;
        free(copy);
    }
    ok(size > 1000 && refused == size, "%s cut at each of its %zu bytes is refused", path, size);
    fclose(from);
    free(bytes);
}

int main(void)
{
    numbers("tests/fixtures/torch_kinds.pt");
    numbers("tests/fixtures/torch_deflated.pt");
    values();
    workspace();
    cut("tests/fixtures/torch_workspace.ckpt");
    cut("tests/fixtures/torch_deflated.pt");
    return done();
}
