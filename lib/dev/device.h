/* device.h - the interface of a device: it has memory, compiles listings into programs, and runs them.
 *
 * lib/graph records and differentiates a computation, finds lifetimes, and hands over a listing: calls of operations
 * (op.h) in order, each operand at a place in a space. A device allocates these spaces. It decides how many samples it
 * computes at once (a tile), on how many cores or streams, and by which kernels. Code above this interface does not
 * know which device it uses, and touches a device's memory by put, get and copy alone.
 *
 * All places in a listing are fixed, and the host takes no decision between its calls: a device may record a run once
 * and replay it (a CUDA Graph).
 *
 * Sums over samples go to accumulator lanes, which a device sums in a fixed order of its own. The lane of a sample is a
 * function of the number of samples and the listing, never of the number of threads.
 *
 * A device is a table, `mf_device_NAME` in lib/ROOM/device_NAME.c; the Makefile lists the tables by these file names.
 */
#ifndef MF_DEV_DEVICE_H
#define MF_DEV_DEVICE_H

#include <stdint.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/workers.h"
#include "dev/op.h"

enum mf_precision { MF_FP32, MF_BF16, MF_TF32 }; /* of the operands of matrix products; sums are fp32 */
enum {
    MF_DEVICE_GROUPS = 8, /* of parameters, at most */
    MF_LANES_MAX = 64,
    MF_STEP_SLICE = 16384, /* floats of a parameter: a norm is the sum of its slices' sums, in order */
};

/* Floats in whole cache lines. */
static inline size_t mf_whole_lines(size_t floats)
{
    return (floats + 15) / 16 * 16;
}

/* ---- a listing: position-independent; the plan owns it, and it outlives the program ---- */

enum mf_space {
    MF_NOWHERE,
    MF_IN_TILE,   /* per sample, reused: `tile` floats for `samples` samples */
    MF_IN_SHARED, /* one for all samples: `shared` floats */
    MF_IN_TAIL    /* after the trained parameters in a lane and in the summed gradients */
};

struct mf_site { /* at: floats from the base of the space */
    enum mf_space space;
    size_t at;
};

struct mf_value_at { /* a value of the listing, by its number */
    int root;        /* itself; of an alias (reshape, detach), the value whose floats it names */
    int rows, cols;  /* of one sample */
    int heads;       /* above 1: stored head by head, see op.h */
    bool shared;
    bool input; /* fed, or set where it is shared; no call computes it */
    struct mf_site data;
};

struct mf_operand {
    int rows, cols, heads;
    bool shared;
    bool add;                  /* backward adds to its gradient, which an earlier call has written */
    struct mf_site data, grad; /* grad: MF_NOWHERE where none is wanted */
};

struct mf_listed { /* a call */
    const struct mf_op *op;
    const void *how; /* its attributes, which the graph owns */
    int value;       /* the number of the value that it computes */
    struct mf_operand y, *x;
    int n_x;
    struct mf_site only;   /* (y.rows): rows of y where it is 0 may be left out, and are then 0; or MF_NOWHERE */
    bool shared;           /* runs once for all samples: before the tiles, and backward after them */
    bool back;             /* runs backward, too */
    bool first_W, first_b; /* the first call, in backward order, by which a tile adds to the gradient of W, b */
    ptrdiff_t W, b;        /* floats into the weights; -1: none */
    const void *W_bf16;    /* W in the host's memory, and W is -1: bf16, row by row, unaligned. Else NULL */
    ptrdiff_t dW, db;      /* the same, where it is trained; else -1 */
    size_t W_floats, b_floats;
    int ldw;            /* columns of W */
    struct mf_site aux; /* mf_call.aux, or MF_NOWHERE */
    size_t aux_floats;  /* of one sample */
};

struct mf_loss_start { /* a loss: the gradient of its value starts as `scale` for every sample */
    struct mf_site grad;
    bool shared; /* the loss of a shared value counts once per sample: its gradient starts as n * scale */
    float scale;
};

struct mf_tail { /* the gradient of a shared value that tiles read: each tile's is added to its lane, at `at` */
    struct mf_site grad;
    size_t at, floats;
};

struct mf_piece { /* one parameter */
    int group;
    bool trained;
    size_t at, floats;
};

struct mf_ranks; /* ranks/ranks.h */

/* What a device calls of ranks/ranks.h, since a plugin does not link it. */
struct mf_ranks_verbs {
    int (*count)(const struct mf_ranks *r);
    int (*me)(const struct mf_ranks *r);
    double (*patience)(const struct mf_ranks *r);
    int (*broadcast)(struct mf_ranks *r, void *bytes, size_t n, struct mf_err *err);
    int (*meet)(struct mf_ranks *r, int rc, struct mf_err *err);
    int (*await)(struct mf_ranks *r, struct mf_err *err);
    int (*gather)(struct mf_ranks *r, void *array, size_t item, const size_t *first, struct mf_err *err);
    int (*agree)(struct mf_ranks *r, int rc, struct mf_err *err);
};

struct mf_listing {
    int n_calls, n_values, n_starts, n_tails, n_pieces;
    struct mf_listed *call;    /* in forward order; backward is the reverse */
    struct mf_value_at *value; /* number 0 is no value */
    struct mf_loss_start *start;
    struct mf_tail *tail;
    struct mf_piece *piece;
    size_t tile, shared, lane; /* floats: of the spaces; of a lane, tails included */
    size_t params, trained;    /* floats: of the parameters; of those that are trained, which come first */
    int samples;               /* of a tile, for which the tile space has room */
    bool exact;                /* all tiles but the last have exactly `samples`, else at most */
    int lanes;
    bool backward;
    float *weights; /* the device's memory, (params); NULL: an outline, which takes no memory and cannot run */
    /* Those that divide the lanes of a listing with backward, where the device does: every rank starts the same jobs.
     * NULL: alone. In the host's memory rank k has the sums of the trained parameters from segment[k] to before
     * segment[k + 1], steps these, and gives them to all; a segment begins with a slice of a step, or is empty. With a
     * memory of its own each rank has and steps all. */
    struct mf_ranks *ranks;
    const size_t *segment;
    const struct mf_ranks_verbs *verbs;
    /* Lays the tile space out again, for another number of samples: `samples`, `tile` and the sites change, and the
     * arrays of this struct move. For a device that allocates by what its runs need. */
    void (*place)(const struct mf_listing *l, int samples);
};

/* ---- a run ---- */

struct mf_val { /* a value's number; 0: none */
    int id;
};
#define MF_NONE ((struct mf_val){0})

/* Host memory of an input: sample i of the run reads rows*cols floats at base + index[i]*stride. */
struct mf_feed {
    struct mf_val input;
    const float *base;
    size_t stride; /* floats */
    bool direct;   /* at base + i*stride, whatever the index (weights of this minibatch) */
};

/* Host memory for a value: sample i writes rows*cols floats at base + i*stride. Values stored head by head have no such
 * form, and cannot be fetched. */
struct mf_fetch {
    struct mf_val value;
    float *base;
    size_t stride; /* floats */
};

struct mf_batch {          /* the samples of a run */
    size_t n;              /* may be 0: gradients are then 0 */
    const uint32_t *index; /* (n); NULL: 0, 1, .. */
    const struct mf_feed *feed;
    const struct mf_fetch *fetch;
    int n_feeds, n_fetches; /* every input that is not shared is fed once */
};

/* One step of AdamW (Loshchilov & Hutter 2019) with a moving average of the weights (EMA). */
struct mf_adam_state {
    /* The device's memory: (trained), of several ranks the own segment; ema NULL: no average; by group, the steps
     * taken, to which a step adds 1 where the rate is above 0. */
    float *m, *v, *ema;
    int64_t *step;
};

struct mf_step {
    struct mf_adam_state of;
    double lr[MF_DEVICE_GROUPS]; /* by group; 0: its weights and moments stay */
    double beta1, beta2, eps, weight_decay;
    double max_norm;    /* of the gradient; 0: no clipping */
    bool separate;      /* each group is clipped by its own norm, else all by the norm over all that is trained */
    double ema_decay;   /* ema = decay ema + (1 - decay) weights */
    unsigned averaged;  /* bit g: group g has an average */
    struct mf_val veto; /* (1, 1) per sample, or MF_NONE: where its sum over the samples is above `most`, no step */
    double most;
    /* Begins an update. A step that does not, and follows a vetoed one of this program, takes no step and is vetoed,
     * too: it may have started before the host knew. */
    bool first;
};

struct mf_verdict {
    double norm[MF_DEVICE_GROUPS], total; /* of the gradient before clipping: by group, and over all that is trained */
    double veto;                          /* the sum */
    bool finite, vetoed, stepped;         /* a norm that is not finite takes no step */
};

/* `start` reads the job and all that it points to; of host memory it keeps the fetches' bases and the verdict, which
 * are written by the time `finish` returns. */
struct mf_job {
    const struct mf_batch *batch;
    /* Versions of the weights and of all shared inputs. Results that depend on them alone (shared values, packed
     * weights) are valid until the version changes. A step makes a new version of the weights. */
    uint64_t weights, sets;
    const struct mf_step *step; /* after the gradients; NULL: none */
    struct mf_verdict *verdict; /* of the step; the caller's */
};

/* ---- the device ---- */

struct mf_dev;     /* opened */
struct mf_program; /* a listing, compiled */

struct mf_device_usage {
    double used, total; /* bytes of its memory, by all processes */
    double utilisation; /* percent of the last second or so in which it computed; negative: unknown */
};

/* One caller at a time. A function that takes *err may fail: MF_ENOMEM, MF_EDEVICE, and as stated. After a failure the
 * contents of the memory that it writes are undefined, and the caller may call it again. */
struct mf_device {
    const char *name; /* device=NAME or device=NAME:which */
    int ahead;        /* at most so many jobs of a program are started and not finished; at least 1 */
    bool divides;     /* jobs with gradients among ranks (ranks/ranks.h) */
    bool
        own_memory; /* else it computes in the host's, `take` returns the host's floats, and listings may have W_bf16 */
    /* which: "" or the text after the colon. workers: the host's, borrowed. MF_EUSAGE where this build, processor or
     * machine lacks the device or the precision. */
    int (*open)(struct mf_dev **d, const char *which, struct mf_workers *workers, enum mf_precision precision,
                struct mf_err *err);
    void (*close)(struct mf_dev *d); /* after its programs were forgotten and its memory was given back */
    /* In all ranks together, before the first job of a listing with ranks: their devices are checked against each
     * other. *how: the way of gradients from one to another ("by NCCL 2.28.9"), the device's. As verbs fail, and
     * MF_EUSAGE where the devices do not go together. NULL: there is nothing to check. */
    int (*join)(struct mf_dev *d, struct mf_ranks *ranks, const struct mf_ranks_verbs *verbs, const char **how,
                struct mf_err *err);
    /* In a line, "NVIDIA H200, 139 GiB, driver 580.1"; the device's. */
    const char *(*describe)(const struct mf_dev *d);
    int (*usage)(const struct mf_dev *d, struct mf_device_usage *u); /* 0: it has none to report, and *u is untouched */

    /* Device memory for the floats at `host`; its contents are undefined until put. A device that computes in the
     * host's memory returns `host` itself: then give, and put and get between the two, do nothing. `what` names the
     * memory in the error. NULL: *err. */
    float *(*take)(struct mf_dev *d, float *host, size_t floats, const char *what, struct mf_err *err);
    void (*give)(struct mf_dev *d, float *p, float *host, size_t floats); /* as it was taken */
    /* Transfers, complete on return; they come after the jobs that have started, and before later ones. */
    int (*put)(struct mf_dev *d, float *to, const float *host, size_t floats, struct mf_err *err);
    int (*get)(struct mf_dev *d, float *host, const float *from, size_t floats, struct mf_err *err);
    int (*copy)(struct mf_dev *d, float *to, const float *from, size_t floats, struct mf_err *err); /* on the device */
    /* Floats on the host that feeds read by index, in several runs: they do not change until they are let go, so that a
     * device copies them once. One hold for each base. */
    int (*hold)(struct mf_dev *d, const float *base, size_t floats, struct mf_err *err);
    void (*let_go)(struct mf_dev *d, const float *base); /* of what is not held: nothing */

    /* The number of samples for a tile, where one sample takes so many floats of the tile space. At least 1. The bits
     * of gradients depend on it, so it may not depend on the number of threads or the free memory. */
    int (*samples)(const struct mf_dev *d, size_t floats);
    /* Allocates the spaces. MF_EUSAGE where the device cannot compute the listing in its precision. */
    int (*compile)(struct mf_program **p, struct mf_dev *d, const struct mf_listing *l, struct mf_err *err);
    void (*forget)(struct mf_program *p);
    /* Adds the memory that runs of n samples use, in bytes; also of an outline. On a device with a memory of its own,
     * without the weights. */
    void (*memory)(const struct mf_program *p, size_t n, struct mf_memory *to);
    /* Where it divides: of[i] is the rank that computes sample i of n, of a listing with backward. */
    void (*ranks)(const struct mf_program *p, size_t n, int *of);
    /* Copies a shared input to its place: rows*cols floats, before the first run and again when they change. Jobs that
     * have started have the floats of before. */
    int (*set)(struct mf_program *p, int value, const float *host, struct mf_err *err);
    /* A job: forward; backward, where the listing has it; then the step. `start` returns when the job is under way,
     * `finish` ends the oldest that was started; jobs run in the order in which they start. After a failure of either
     * the weights and moments may be partly stepped; of start, the job needs no finish. */
    int (*start)(struct mf_program *p, const struct mf_job *j, struct mf_err *err);
    int (*finish)(struct mf_program *p, struct mf_err *err);
    /* The device's memory, (lane): the sums over the samples of the last job, which has finished; after a step of
     * several ranks, the own segment of them. Only of a listing with backward. */
    const float *(*grads)(struct mf_program *p);
};

extern const struct mf_device *const mf_devices[]; /* ends with NULL; generated from the file names */

#endif
