/* everywhere.h - MF_EVERYWHERE, before an inline function that a GPU's kernels call, too. */
#ifndef MF_BASE_EVERYWHERE_H
#define MF_BASE_EVERYWHERE_H

#ifdef __CUDACC__
#define MF_EVERYWHERE __host__ __device__
#else
#define MF_EVERYWHERE
#endif

#endif
