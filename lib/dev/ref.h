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

size_t mf_ref_attention_work(const struct mf_call *c, int n, bool back);

/* The weights (n, stride) of one query that dropout takes become negative. part: its block and head. */
void mf_ref_drop(const struct mf_call *c, int sample, int part, int query, int n, float *weight, int stride);

/* Zero the gradients of the operands that are set, so that everything may add. */
void mf_ref_zero(const struct mf_call *c, int n);

/* act(x) and, where slope is wanted, its derivative. */
float mf_ref_act(enum mf_act act, float x, float *slope);

#endif
