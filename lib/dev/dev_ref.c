/* dev_ref.c - the plain device: the meaning, that every other is tested against. */
#include "dev/dev.h"
#include "dev/ref.h"

#define ROW(op)                                                                                                        \
    {                                                                                                                  \
#op, mf_ref_##op, mf_ref_##op##_back, NULL                                                                     \
    }

const struct mf_ops mf_ops_ref = {
    .name = "ref",
    .op =
        {
            [MF_OP_LINEAR] = ROW(linear),
            [MF_OP_SUM] = ROW(sum),
            [MF_OP_CONCAT] = ROW(concat),
            [MF_OP_STACK] = ROW(stack),
            [MF_OP_ROWS] = ROW(rows),
            [MF_OP_COLS] = ROW(cols),
            [MF_OP_PARAM] = ROW(param),
            [MF_OP_POOL] = ROW(pool),
            [MF_OP_NORM] = ROW(norm),
            [MF_OP_MODULATE] = ROW(modulate),
            [MF_OP_GATE] = ROW(gate),
            [MF_OP_ATTENTION] = {"attention", mf_ref_attention, mf_ref_attention_back, mf_ref_attention_work},
            [MF_OP_WEIGH] = ROW(weigh),
            [MF_OP_SINUSOID] = {"sinusoid", mf_ref_sinusoid, NULL, NULL},
            [MF_OP_FLOW_MEAN] = ROW(flow_mean),
            [MF_OP_NOISE_STD] = ROW(noise_std),
            [MF_OP_FLOW_NOISE] = {"flow_noise", mf_ref_flow_noise, NULL, NULL},
            [MF_OP_FLOW_LOGPROB] = ROW(flow_logprob),
            [MF_OP_FLOW_ENTROPY] = ROW(flow_entropy),
            [MF_OP_REDUCE] = ROW(reduce),
            [MF_OP_PPO_LOSS] = ROW(ppo_loss),
            [MF_OP_VALUE_LOSS] = ROW(value_loss),
            [MF_OP_MSE] = ROW(mse),
        },
};
