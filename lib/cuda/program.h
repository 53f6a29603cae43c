/* program.h - a compiled listing: calls with addresses on each GPU, recorded graphs, and runs in progress (private to
 * lib/cuda).
 */
#ifndef MF_CUDA_PROGRAM_H
#define MF_CUDA_PROGRAM_H

#include <vector>

#include "cuda/cuda.h"
#include "cuda/fusion.h"
#include "cuda/move.h"
#include "cuda/step.h"

enum { MF_AHEAD = 2, MF_GRAPHS = 8 };

/* What a recorded graph depends on. */
struct mf_graph_key {
    int room;                 /* places of a lane */
    bool shared, first;       /* it computes shared values; it is the first wave, which finds empty lanes */
    bool wave, fold, end;     /* it has a wave; after the last, lanes for other GPUs become rows; the end of the run */
    bool step;                /* with a step */
    std::vector<int> fetched; /* values, the veto's last */
    bool operator==(const mf_graph_key &o) const
    {
        return room == o.room && shared == o.shared && first == o.first && wave == o.wave && fold == o.fold &&
               end == o.end && step == o.step && fetched == o.fetched;
    }
};

struct mf_recorded {
    mf_graph_key key;
    cudaGraphExec_t graph; /* NULL: it ran once, unrecorded, which loaded its kernels */
    uint64_t used;
};

/* The calls from one on that a launch takes forward. */
struct mf_run_of {
    const struct mf_fusion *by; /* NULL: one call, by its kernel */
    int calls;
};

/* Calls that run backward, in that order. */
struct mf_back_run {
    const struct mf_fusion *by; /* NULL: one call, by its kernel */
    std::vector<int> call;
};

/* A program on one GPU. */
struct mf_gpu_part {
    int gpu, lane, lanes; /* it computes lanes [lane, lane + lanes) of all */
    cudaStream_t stream;
    float *tile, *shared, *lane_room, *sum, *work;
    char *in;    /* index and rows of the run */
    char *out;   /* what was fetched */
    float *veto; /* its values, by sample */
    size_t in_bytes, out_bytes, veto_bytes;
    mf_wave *wave;    /* of the graph that runs */
    mf_step_in *step; /* of the step that runs */
    mf_verdict *verdict;
    mf_steps *steps;
    std::vector<mf_tensor> operands;
    std::vector<mf_kernel_call> call; /* n and work are set when it is enqueued */
    std::vector<mf_run_of> run;       /* by its first call */
    std::vector<mf_back_run> back, back_shared;
    std::vector<bool> bf16; /* by call: its result is stored so, unless it is fetched */
    std::vector<int> from;  /* by call: the call of which x[0] is such a result; -1: none */
    std::vector<mf_recorded> recorded;
    cudaEvent_t done, met; /* its own lanes are there; it has all lanes */
};

/* A run between start and finish, with the host's ends of its transfers. */
struct mf_running {
    size_t n;
    std::vector<mf_fetch> fetch;
    std::vector<size_t> at, floats; /* of a fetch: bytes into out; floats of one sample */
    struct mf_verdict *verdict;     /* the caller's; NULL: no step */
    size_t verdict_at;              /* bytes into out */
    char *in, *out[MF_GPUS];        /* page-locked */
    size_t in_bytes, out_bytes[MF_GPUS];
    cudaEvent_t own[MF_GPUS], copied[MF_GPUS]; /* its own waves have run; all is there */
};

struct mf_program {
    struct mf_dev *dev;
    const struct mf_listing *l;
    int lanes;                             /* with backward: of gradients; else one for each GPU */
    int ranks;                             /* that divide them */
    int parts, first_part;                 /* GPUs of all ranks; the first of this process */
    mf_rows rows;                          /* of all lanes, when they are summed */
    int most;                              /* samples of a lane in a wave, at most */
    int room;                              /* places of a lane for which there is memory */
    size_t lane;                           /* floats from a lane of gradients to the next */
    std::vector<const mf_kernel *> kernel; /* by call */
    std::vector<int> inputs;               /* values that are fed, in the order of mf_wave.feed */
    mf_gpu_part part[MF_GPUS];
    mf_running running[MF_AHEAD];
    char *staged; /* page-locked, of several ranks: the rows of all, and the values of the veto */
    size_t staged_bytes;
    unsigned started, finished; /* runs */
    uint64_t weights, sets;     /* versions from which shared values were computed */
    uint64_t clock;
};

/* The samples of a wave, at most. */
static inline size_t mf_program_wave(const mf_program *p)
{
    return (size_t)p->lanes * p->most;
}

/* The first lane of a GPU, by its number among those of all ranks; `parts`: behind the last. */
static inline int mf_program_first_lane(const mf_program *p, int part)
{
    return part * p->lanes / p->parts;
}

/* program.cu */
int mf_program_room_for(const mf_program *p,
                        size_t n); /* places of a lane for runs of n samples: few sizes serve all */
int mf_program_grow(mf_program *p, int wanted, struct mf_err *err); /* memory for so many places of a lane */
int mf_program_wait(mf_program *p, struct mf_err *err);             /* for all that was started */

void mf_program_fail(mf_program *p); /* what other ranks will not end any more is ended here */
void mf_program_forget_graphs(mf_gpu_part *q);

/* fuse.cu: finds the runs of calls, which have their addresses, of waves of at most so many samples. */
void mf_program_fuse(mf_program *p, mf_gpu_part *q, int samples);

/* store.cu: finds the results that are stored as bf16, when the runs of calls are known. */
void mf_program_store(const mf_program *p, mf_gpu_part *q, int samples);

/* enqueue.cu: a wave, the end of a run, or both; recorded, and replayed from then on. */
int mf_program_enqueue(mf_program *p, mf_gpu_part *q, const mf_graph_key *key, struct mf_err *err);

/* exchange.cu: after a run's waves, which ended with rc, each GPU gets the rows, and the values of the veto, that the
 * others have computed in a run of n samples. Other ranks are waited for, and where one has failed, all do. */
int mf_program_exchange(mf_program *p, size_t n, bool with_veto, int rc, struct mf_err *err);
size_t mf_program_staged(const mf_program *p, size_t n); /* bytes of p->staged */
/* r->out[0] gets what the other GPUs have fetched. */
int mf_program_join(const mf_program *p, const mf_running *r, struct mf_err *err);

#endif
