/* ref.h - the plain loops of every operation; dev_cpu.c takes those that are rare. */
#ifndef MF_DEV_REF_H
#define MF_DEV_REF_H

#include "dev/op.h"

#define MF_REF(op)                                                                                                     \
    void mf_ref_##op(const struct mf_call *c, int n);                                                                  \
    void mf_ref_##op##_back(const struct mf_call *c, int n, float *lane)

MF_REF(linear);
MF_REF(sum);
MF_REF(concat);
MF_REF(stack);
MF_REF(rows);
MF_REF(cols);
MF_REF(unfold);
MF_REF(fold);
MF_REF(param);
MF_REF(pool);
MF_REF(norm);
MF_REF(modulate);
MF_REF(gate);
MF_REF(attention);
MF_REF(weigh);
MF_REF(flow_mean);
MF_REF(noise_std);
MF_REF(flow_logprob);
MF_REF(flow_entropy);
MF_REF(reduce);
MF_REF(ppo_loss);
MF_REF(value_loss);
MF_REF(mse);
void mf_ref_sinusoid(const struct mf_call *c, int n);
void mf_ref_flow_noise(const struct mf_call *c, int n);

/* Rows of a device's table: one of the plain loops, and all of those that no device has its own of. */
#define MF_REF_ROW(op)                                                                                                 \
    {                                                                                                                  \
#op, mf_ref_##op, mf_ref_##op##_back, NULL, false                                                              \
    }
#define MF_REF_ROWS                                                                                                    \
    [MF_OP_CONCAT] = MF_REF_ROW(concat), [MF_OP_STACK] = MF_REF_ROW(stack), [MF_OP_ROWS] = MF_REF_ROW(rows),           \
    [MF_OP_COLS] = MF_REF_ROW(cols), [MF_OP_UNFOLD] = MF_REF_ROW(unfold), [MF_OP_FOLD] = MF_REF_ROW(fold),             \
    [MF_OP_PARAM] = MF_REF_ROW(param), [MF_OP_POOL] = MF_REF_ROW(pool), [MF_OP_WEIGH] = MF_REF_ROW(weigh),             \
    [MF_OP_SINUSOID] = {"sinusoid", mf_ref_sinusoid, NULL, NULL, false}, [MF_OP_FLOW_MEAN] = MF_REF_ROW(flow_mean),    \
    [MF_OP_FLOW_NOISE] = {"flow_noise", mf_ref_flow_noise, NULL, NULL, false},                                         \
    [MF_OP_FLOW_LOGPROB] = MF_REF_ROW(flow_logprob), [MF_OP_FLOW_ENTROPY] = MF_REF_ROW(flow_entropy),                  \
    [MF_OP_REDUCE] = MF_REF_ROW(reduce), [MF_OP_PPO_LOSS] = MF_REF_ROW(ppo_loss),                                      \
    [MF_OP_VALUE_LOSS] = MF_REF_ROW(value_loss), [MF_OP_MSE] = MF_REF_ROW(mse)

size_t mf_ref_attention_work(const struct mf_call *c, int n, bool back);

/* The weights (n, stride) of one query that dropout takes become negative. part: its block and head. */
void mf_ref_drop(const struct mf_call *c, int sample, int part, int query, int n, float *weight, int stride);

/* Zero the gradients of the operands that are set, so that everything may add. */
void mf_ref_zero(const struct mf_call *c, int n);

/* act(x) and, where slope is wanted, its derivative. */
float mf_ref_act(enum mf_act act, float x, float *slope);

#endif
