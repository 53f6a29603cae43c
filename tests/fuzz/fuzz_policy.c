/* Heads of a stream, and parts of a policy as a server sends them, on any bytes.
 *
 * rooms: flow
 */
#include <stdlib.h>

#include "flow/frames.h"
#include "wire/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct mf_policy *small(void)
{
    static struct mf_policy p;
    struct mf_err err;
    struct mf_policy_spec s = {.obs = {1, 2, {{"state", {2}, false}}},
                               .n_obs_steps = 1,
                               .action_dim = 1,
                               .horizon = 2,
                               .n_action_steps = 2,
                               .K = 2,
                               .noise_method = MF_FLOW_NOISE,
                               .net = {.n_hidden = 3, .hidden = {4, 4, 4}, .act = MF_ACT_MISH, .time_dim = 8},
                               .n_critic = 1,
                               .critic = {4},
                               .n_noise = 2,
                               .noise = {4, 4}};
    if (!p.params.n && (mf_net_find(&s.net.net, "reflow_mlp", &err) || mf_policy_init(&p, &s, &err)))
        abort();
    return &p;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct mf_err err;
    const size_t n = mf_token_span(data, size);
    struct mf_policy_spec spec;
    struct mf_frame *f;
    mf_policy_decode(small(), (const void *const[]){data}, &size, 1, &err);
    if (n && mf_frame_decode(&f, data, n, &err) == 0) {
        (void)mf_policy_spec_from_head(&spec, f, &err);
        mf_frame_free(f);
    }
    return 0;
}
