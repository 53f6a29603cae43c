/* dev_ref.c - the plain device: the meaning, that every other is tested against. */
#include "dev/dev.h"
#include "dev/ref.h"

const struct mf_ops mf_ops_ref = {
    .name = "ref",
    .op =
        {
            MF_REF_ROWS,
            [MF_OP_LINEAR] = MF_REF_ROW(linear),
            [MF_OP_SUM] = MF_REF_ROW(sum),
            [MF_OP_NORM] = MF_REF_ROW(norm),
            [MF_OP_MODULATE] = MF_REF_ROW(modulate),
            [MF_OP_GATE] = MF_REF_ROW(gate),
            [MF_OP_ATTENTION] = {"attention", mf_ref_attention, mf_ref_attention_back, mf_ref_attention_work, false},
            [MF_OP_NOISE_STD] = MF_REF_ROW(noise_std),
        },
};
