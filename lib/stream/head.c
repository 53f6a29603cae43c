#include "stream/head.h"

enum { FORMAT = 1 };

static const struct {
    const char *field;
    int64_t low, high;
} bounds[] = {{"max_lag", 0, MF_LAG_MAX},
              {"num_envs", 1, MF_ROUND_DIM_MAX},
              {"steps", 1, MF_ROUND_DIM_MAX},
              {"iter", 0, INT64_MAX / 2},
              {"seed", INT64_MIN, INT64_MAX}};

int mf_head_check(const struct mf_frame *head, struct mf_err *err)
{
    int64_t v;
    int rc = mf_frame_get_int(head, "v", &v, err);
    if (rc == 0 && v != FORMAT)
        return mf_err_set(err, MF_EFORMAT, "the stream's format is %lld, and mf %s reads %d", (long long)v, MF_VERSION,
                          FORMAT);
    for (size_t i = 0; rc == 0 && i < sizeof bounds / sizeof *bounds; i++) {
        if (!mf_frame_has(head, bounds[i].field) || (rc = mf_frame_get_int(head, bounds[i].field, &v, err)))
            continue;
        if (v < bounds[i].low || v > bounds[i].high)
            rc = mf_err_set(err, MF_EFORMAT, "the head's %s is %lld, not within %lld..%lld", bounds[i].field,
                            (long long)v, (long long)bounds[i].low, (long long)bounds[i].high);
    }
    return rc;
}
