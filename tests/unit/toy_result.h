/* toy_result.h - a result of a fictitious environment whose name needs quotes. */
#ifndef MF_TEST_TOY_RESULT_H
#define MF_TEST_TOY_RESULT_H

#include "eval/result.h"
#include "flow/policy.h"

static inline struct mf_result toy_result(struct mf_policy *p, int64_t seed, int n, struct mf_trial *trial)
{
    return (struct mf_result){.checkpoint = "runs/a b\"c\xff.safetensors",
                              .weights = "raw",
                              .policy = p,
                              .env = "toy",
                              .program = "test 1",
                              .device = "cpu",
                              .precision = "fp32",
                              .seed = seed,
                              .max_steps = 50,
                              .n = n,
                              .trial = trial};
}

#endif
