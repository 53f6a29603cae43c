/* few.h - forward of few samples: a list of calls in one launch, by one cluster of blocks. A barrier of the cluster
 * takes the place of the end of a launch. Every number is computed as by the call's own kernel, to the same bits.
 *
 * It needs clusters: compute capability 9.0.
 */
#ifndef MF_CUDA_FEW_H
#define MF_CUDA_FEW_H

#include <memory>
#include <vector>

#include "cuda/kernel.h"
#include "cuda/move.h"

enum { MF_FEW = 16 }; /* samples, at most */

struct mf_few_step;

class mf_few
{
  public:
    mf_few();
    ~mf_few();
    /* The next call. false: it has no form here, and nothing was added. */
    bool add(const struct mf_kernel *kernel, const struct mf_kernel_call *k);
    /* A fetch of what a call before, or a feed, has left. */
    void fetch(const struct mf_fetching &f);
    /* Launches all, in as few launches as they go in. */
    cudaError_t run(enum mf_precision precision, cudaStream_t stream) const;

  private:
    struct range {
        const float *from, *to;
    };
    std::vector<mf_few_step> steps;
    std::vector<range> read, written; /* behind the last barrier */

    void begin(const std::vector<range> &reads, const std::vector<range> &writes);
    bool waits = false; /* the next step waits for those before */
    void push(mf_few_step s);
};

#endif
