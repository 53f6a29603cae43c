#include "import/conv2d.h"

#include <stdlib.h>
#include <string.h>

#include "flow/checkpoint_priv.h"

enum { RANK = 4 };

int mf_torch_shape(const struct mf_param *p, size_t dim[4])
{
    const int rank = mf_param_shape(p, dim);
    if (rank == RANK)
        memcpy(dim, (size_t[]){dim[0], dim[3], dim[1], dim[2]}, RANK * sizeof *dim);
    return rank;
}

struct mf_torch_tensor mf_conv2d_import(const struct mf_torch_tensor *t)
{
    static const int from[RANK] = {0, 2, 3, 1};
    struct mf_torch_tensor ours = *t;
    for (int d = 0; d < RANK; d++) {
        ours.dim[d] = t->dim[from[d]];
        ours.stride[d] = t->stride[from[d]];
    }
    return ours;
}

static void reorder(struct mf_array *a, float *to)
{
    const size_t out = a->dim[0], window = a->dim[1] * a->dim[2], in = a->dim[3];
    for (size_t o = 0; o < out; o++)
        for (size_t c = 0; c < in; c++)
            for (size_t w = 0; w < window; w++) /* bytes: the numbers in a file are not aligned */
                memcpy(to + (o * in + c) * window + w, (const char *)a->data + sizeof *to * ((o * window + w) * in + c),
                       sizeof *to);
    memcpy(a->dim, (size_t[]){out, in, a->dim[1], a->dim[2]}, RANK * sizeof *a->dim);
    a->data = to;
}

int mf_conv2d_export(struct mf_array *tensors, int n, float **room, struct mf_err *err)
{
    size_t size = 0;
    for (int i = 0; i < n; i++)
        size += tensors[i].rank == RANK && tensors[i].dtype == MF_F32 ? tensors[i].count : 0;
    *room = malloc((size + 1) * sizeof **room);
    if (!*room)
        return mf_err_set(err, MF_ENOMEM, "cannot allocate %zu numbers of convolutions", size);
    float *to = *room;
    for (int i = 0; i < n; i++)
        if (tensors[i].rank == RANK && tensors[i].dtype == MF_F32) {
            reorder(&tensors[i], to);
            to += tensors[i].count;
        }
    return 0;
}
