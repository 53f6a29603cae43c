/* torch_safetensors.c - safetensors files as files of torch.h: one, or the shards that an index names. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "import/torch_priv.h"
#include "run/safetensors.h"
#include "stream/json.h"

static const char index_end[] = ".safetensors.index.json";

bool mf_torch_is_safetensors(const char *path)
{
    return mf_ends(path, ".safetensors") || mf_ends(path, index_end);
}

static struct mf_torch_tensor tensor_of(const struct mf_array *a, const struct mf_zip_entry *whole)
{
    struct mf_torch_tensor t = {
        .rank = a->rank, .count = a->count, .storage = whole, .mapped = a->data, .dtype = mf_torch_dtype_of(a->dtype)};
    size_t step = 1;
    for (int d = a->rank - 1; d >= 0; step *= a->dim[d--]) {
        t.dim[d] = a->dim[d];
        t.stride[d] = step;
    }
    t.name = mf_xcalloc(strlen(a->name) + 1, 1);
    t.key = strcpy(t.name, a->name);
    return t;
}

static int add_file(struct mf_torch *f, const char *path, struct mf_err *err)
{
    f->shard = mf_xrealloc(f->shard, (size_t)f->n_shards + 1, sizeof *f->shard);
    struct mf_safetensors *s = &f->shard[f->n_shards];
    int rc = mf_safetensors_open(s, path, err);
    if (rc)
        return rc;
    f->n_shards++;
    for (int i = 0; i < s->n_meta; i++) /* of mf-ckpt export: a configuration */
        if (mf_starts(s->meta[i].key, "cfg.")) {
            f->value = mf_xrealloc(f->value, (size_t)f->n_values + 1, sizeof *f->value);
            f->value[f->n_values++] = (struct mf_torch_value){mf_xstrdup(s->meta[i].key), mf_xstrdup(s->meta[i].value)};
        }
    f->tensor = mf_xrealloc(f->tensor, (size_t)(f->n + s->n) + 1, sizeof *f->tensor);
    for (int i = 0; i < s->n; i++)
        f->tensor[f->n++] = tensor_of(&s->tensors[i], &f->whole);
    return 0;
}

/* The files that an index names, each once: a shard's tensors follow one another in no order, so names are kept. */
static int add_shards(struct mf_torch *f, const char *path, struct mf_err *err)
{
    json_t *index, *file;
    int rc = mf_json_open(&index, path, err);
    if (rc)
        return rc;
    json_t *const map = json_object_get(index, "weight_map");
    json_t *seen = json_object();
    const char *name, *slash = strrchr(path, '/');
    if (!json_is_object(map))
        rc = mf_err_set(err, MF_EFORMAT, "%.200s is no index of safetensors files: it has no weight_map", path);
    json_object_foreach(map, name, file)
    {
        char whole[4096];
        const char *word = json_string_value(file);
        if (rc || (word && json_object_get(seen, word)))
            continue;
        if (!word || strchr(word, '/')) {
            rc = mf_err_set(err, MF_EFORMAT, "%.150s: the file of %.100s is not one beside it", path, name);
            continue;
        }
        json_object_set_new(seen, word, json_true());
        snprintf(whole, sizeof whole, "%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, word);
        rc = add_file(f, whole, err);
    }
    json_decref(seen);
    json_decref(index);
    return rc;
}

int mf_torch_open_safetensors(struct mf_torch *f, const char *path, struct mf_err *err)
{
    f->zip.path = strcpy(mf_xcalloc(strlen(path) + 1, 1), path);
    f->whole.name = f->zip.path;
    int rc = mf_ends(path, index_end) ? add_shards(f, path, err) : add_file(f, path, err);
    if (rc)
        mf_torch_close(f);
    return rc;
}

void mf_torch_close_safetensors(struct mf_torch *f)
{
    for (int i = 0; i < f->n_shards; i++)
        mf_safetensors_close(&f->shard[i]);
    free(f->shard);
}
