/* device.h - what computes: a device has memory, compiles listings into programs, and runs them.
 *
 * lib/graph records, differentiates, finds lifetimes, and hands over a listing: calls of operations (op.h) in order,
 * each operand at a place in a space. A device takes the memory of these spaces, and decides how many samples it
 * computes at once (a tile), on how many cores or streams, and in what form. Nothing above this interface knows which
 * device it has, or looks at a device's memory but by put and get.
 *
 * A listing promises that nothing on the host branches on what it computes, and that all places are fixed: a device
 * may record a run once (a CUDA Graph).
 *
 * Sums over samples go to accumulator lanes, which are summed in order: how samples are dealt to lanes is a function of
 * their number and the listing, never of threads.
 *
 * A device is a table, `mf_device_NAME` in lib/ROOM/device_NAME.c: the files are the list.
 */
#ifndef MF_DEV_DEVICE_H
#define MF_DEV_DEVICE_H

#include <stdint.h>

#include "base/err.h"
#include "base/memory.h"
#include "base/workers.h"
#include "dev/op.h"

enum mf_precision { MF_FP32, MF_BF16 };
enum {
    MF_DEVICE_GROUPS = 8, /* of parameters, at most */
    MF_LANES_MAX = 64,
};

/* ---- a listing: position-independent, valid while its graph is ---- */

enum mf_space {
    MF_NOWHERE,
    MF_IN_TILE,   /* per sample, reused: `tile` floats for `samples` samples */
    MF_IN_SHARED, /* one for all samples: `shared` floats */
    MF_IN_TAIL    /* behind the parameters in a lane and in the summed gradients */
};

struct mf_site { /* floats from the base of the space */
    enum mf_space space;
    size_t at;
};

struct mf_value_at { /* a value of the listing, by its number; aliases (reshape, detach) name their root */
    int root, rows, cols;
    int heads; /* above 1: stored head by head, see op.h */
    bool shared;
    bool input; /* fed or set, made by no call */
    struct mf_site data;
};

struct mf_operand {
    int rows, cols, heads;
    bool shared;
    bool add; /* its gradient was written before */
    struct mf_site data, grad;
};

struct mf_listed { /* a call */
    const struct mf_op *op;
    const void *how; /* attributes */
    int value;       /* that it makes */
    struct mf_operand y, *x;
    int n_x;
    bool shared;           /* runs once for all samples */
    bool back;             /* runs backward, too */
    bool first_W, first_b; /* in backward order, no other call of a tile reached this parameter before */
    ptrdiff_t W, b;        /* floats into the weights; -1: none */
    ptrdiff_t dW, db;      /* the same, where it is trained; else -1 */
    size_t W_floats, b_floats;
    int ldw;             /* columns of W */
    struct mf_site keep; /* what forward keeps for backward: `keeps` floats of a sample */
    size_t keeps;
};

struct mf_loss_start { /* a loss: the gradient of this value is `scale` for every sample */
    struct mf_site grad;
    bool shared; /* the loss of a shared value counts once per sample of the run */
    float scale;
};

struct mf_tail { /* a shared value's gradient: each tile's sum is added to a lane's tail */
    struct mf_site grad;
    size_t at, floats;
};

struct mf_piece { /* of the parameters, which one group owns */
    int group;
    bool trained;
    size_t at, floats;
};

struct mf_listing {
    int n_calls, n_values, n_starts, n_tails, n_pieces;
    struct mf_listed *call;    /* in forward order; backward is the reverse */
    struct mf_value_at *value; /* 0 is no value */
    struct mf_loss_start *start;
    struct mf_tail *tail;
    struct mf_piece *piece;
    size_t tile, shared, lane, params; /* floats: of the spaces; of a lane, tails included; of the parameters */
    int samples;                       /* that the tile space has room for */
    bool exact;                        /* tiles of exactly `samples`, else at most */
    int lanes;
    bool backward;
    float *weights; /* the device's, (params); NULL: an outline, which takes no memory and cannot run */
};

/* ---- a run ---- */

struct mf_val { /* a value's number; 0: none */
    int id;
};
#define MF_NONE ((struct mf_val){0})

/* Where an input's samples are on the host: sample i of the run reads rows*cols floats at base + index[i]*stride. */
struct mf_feed {
    struct mf_val input;
    const float *base;
    size_t stride; /* floats */
    bool direct;   /* by i, not by index[i] (weights of this minibatch) */
};

/* Where a value goes on the host: base + i*stride. Not a value that is stored head by head. */
struct mf_fetch {
    struct mf_val value;
    float *base;
    size_t stride;
};

/* One step of AdamW (Loshchilov & Hutter 2019) with a moving average of the weights, by group. Pointers are the
 * device's. */
struct mf_adam_state {
    float *m, *v, *ema; /* (params); ema NULL: no average */
    int64_t *step;      /* by group, the host's: steps taken, counted by the device */
};

struct mf_step {
    struct mf_adam_state of;
    double lr[MF_DEVICE_GROUPS]; /* 0: the group's weights and moments stay */
    double beta1, beta2, eps, weight_decay;
    double max_norm;    /* of the gradient; 0: no clipping */
    bool separate;      /* one norm for each group, else one over all */
    double ema_decay;   /* ema = decay ema + (1 - decay) weights */
    unsigned averaged;  /* bit g: group g */
    struct mf_val veto; /* (1, 1) per sample: where its sum over the samples passes `most`, no step is taken */
    double most;
};

struct mf_verdict {
    double norm[MF_DEVICE_GROUPS], total; /* of the gradient before clipping: by group, and over all that is trained */
    double veto;                          /* the sum */
    bool finite, vetoed, stepped;         /* a norm that is not finite takes no step */
};

struct mf_run_of {
    size_t n;
    const uint32_t *index; /* NULL: sample i is row i */
    const struct mf_feed *feed;
    const struct mf_fetch *fetch;
    int n_feeds, n_fetches;
    uint64_t weights, shared;   /* versions: what derives from weights or set values is computed again when they move */
    const struct mf_step *step; /* after the gradients; NULL: none */
    struct mf_verdict *verdict; /* of the step */
};

/* ---- the device ---- */

struct mf_dev;     /* opened */
struct mf_program; /* a listing, compiled */

struct mf_device {
    const char *name; /* device=NAME or device=NAME:which */
    /* which: "" or what follows the colon. workers: the host's, they outlive the device. MF_EUSAGE where this build,
     * processor or machine has no such device or precision. */
    int (*open)(struct mf_dev **d, const char *which, struct mf_workers *workers, enum mf_precision precision,
                struct mf_err *err);
    void (*close)(struct mf_dev *d);

    /* Memory that will hold what the host has at `host`. A device that computes in the host's memory returns `host`
     * itself, and give, put and get do nothing with it. NULL: *err. */
    float *(*take)(struct mf_dev *d, float *host, size_t floats, const char *what, struct mf_err *err);
    void (*give)(struct mf_dev *d, float *p, float *host, size_t floats);
    int (*put)(struct mf_dev *d, float *to, const float *host, size_t floats, struct mf_err *err);
    int (*get)(struct mf_dev *d, float *host, const float *from, size_t floats, struct mf_err *err);

    int (*copy)(struct mf_dev *d, float *to, const float *from, size_t floats, struct mf_err *err); /* both its own */

    /* Samples that are best computed at once, where one takes so many floats. */
    int (*samples)(const struct mf_dev *d, size_t floats);
    int (*compile)(struct mf_program **p, struct mf_dev *d, const struct mf_listing *l, struct mf_err *err);
    void (*forget)(struct mf_program *p);
    void (*memory)(const struct mf_program *p, size_t n,
                   struct mf_memory *to); /* added: what runs of n samples touch */
    int (*set)(struct mf_program *p, int value, const float *host, struct mf_err *err); /* a shared input */
    int (*run)(struct mf_program *p, const struct mf_run_of *r, struct mf_err *err);
    const float *(*grads)(struct mf_program *p); /* (lane), the device's, after a run with backward */
};

extern const struct mf_device *const mf_devices[]; /* ends with NULL; made from the file names */

#endif
