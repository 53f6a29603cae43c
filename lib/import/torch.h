/* torch.h - files of torch.save (.pt, .pth, .ckpt) as named tensors and plain values, without Python: nothing in the
 * file is executed.
 *
 * A name is the path through the file's dictionaries, "state_dicts.model.obs_encoder.state_mlp.0.bias"; `key` points at
 * its part within the innermost dictionary. A module that was saved whole reads as its state_dict. OmegaConf's
 * containers, NumPy's scalars and pickles within the pickle are decoded; any other object is the value
 * "<module.Class>". Every tensor lies within its storage.
 */
#ifndef MF_IMPORT_TORCH_H
#define MF_IMPORT_TORCH_H

#include "stream/frame.h"
#include "import/zip.h"

struct mf_safetensors;

struct mf_torch_dtype {
    const char *name;    /* "bfloat16" */
    const char *storage; /* "BFloat16Storage" */
    size_t size;
    float (*number)(const void *p); /* NULL: it is no real number */
};

struct mf_torch_tensor {
    char *name;
    const char *key; /* within name */
    const struct mf_torch_dtype *dtype;
    int rank;
    size_t dim[MF_RANK_MAX], stride[MF_RANK_MAX], offset, count; /* in elements */
    const struct mf_zip_entry *storage;
    const void *mapped; /* of a safetensors file: its numbers; then storage is the file */
};

struct mf_torch_value {
    char *name, *text; /* "cfg.horizon", "16"; texts without quotes, null for None, [1, 2] for lists of such */
};

struct mf_torch {
    int n, n_values;
    struct mf_torch_tensor *tensor; /* in the order of the file, as the values */
    struct mf_torch_value *value;
    struct mf_zip zip;            /* of a safetensors file its path alone */
    struct mf_safetensors *shard; /* private: safetensors files, mapped */
    int n_shards;
    struct mf_zip_entry whole;          /* private: what stands for them */
    const struct mf_zip_entry *span_of; /* private: the storage of `span`, its first byte there, its bytes */
    size_t span_at, span_size;
    uint8_t *span;
};

/* Also of safetensors files, and of their index (.safetensors.index.json), whose files lie beside it. */
int mf_torch_open(struct mf_torch *f, const char *path, struct mf_err *err);
int mf_torch_parse(struct mf_torch *f, const void *bytes, size_t size, const char *path, struct mf_err *err);
void mf_torch_close(struct mf_torch *f); /* a zeroed one is fine */

/* The n numbers of t from the first'th on, in C order, as float32. A tensor that is contiguous and stored takes no
 * memory beside `to`; for others the part of the storage that they lie in is held until another is read. */
int mf_torch_read(struct mf_torch *f, const struct mf_torch_tensor *t, size_t first, size_t n, float *to,
                  struct mf_err *err);

/* Write PATH.part, fsync, rename to PATH: the tensors as a plain state_dict, which torch.load reads with
 * weights_only=True. The same content is the same bytes. */
int mf_torch_write(const char *path, const struct mf_array *tensors, int n, struct mf_err *err);

/* The value `name` below `root` ("cfg", "policy.horizon"), through OmegaConf's ${..}; NULL: none. */
const char *mf_torch_value(const struct mf_torch *f, const char *root, const char *name);

#endif
