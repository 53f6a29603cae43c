/* conv2d.h - weights of 2-D convolutions between the two orders: (out, kh, kw, in) in our checkpoints, (out, in, kh,
 * kw) in PyTorch's files. They are the only tensors of rank 4.
 */
#ifndef MF_IMPORT_CONV2D_H
#define MF_IMPORT_CONV2D_H

#include "graph/graph.h"
#include "import/torch.h"

/* The shape of a parameter in PyTorch's files. Returns the rank. */
int mf_torch_shape(const struct mf_param *p, size_t dim[4]);
/* t, of rank 4, as a tensor of the same numbers in our order: for mf_torch_read. */
struct mf_torch_tensor mf_conv2d_import(const struct mf_torch_tensor *t);
/* Replaces the float32 tensors of rank 4 by their numbers in PyTorch's order. They lie in *room; free() it. */
int mf_conv2d_export(struct mf_array *tensors, int n, float **room, struct mf_err *err);
/* Replaces biases of a ResNet's convolutions, into which a batch norm was folded, by that norm, and adds the tensors
 * that published files have twice or empty. t is an allocated list, which may move; what the new tensors hold lies in
 * *room; free() it. */
struct mf_array *mf_resnet_export(struct mf_array *t, int *n, float **room);

#endif
