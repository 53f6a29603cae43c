#include "flow/usage.h"

#include "dev/device.h"

void mf_usage_report(const struct mf_engine *e, struct mf_frame *metrics)
{
    struct mf_device_usage u;
    if (!mf_engine_usage(e, &u))
        return;
    mf_frame_set_num(metrics, "values.device/memory", u.used / (1 << 30));
    if (u.utilisation >= 0)
        mf_frame_set_num(metrics, "values.device/utilisation", u.utilisation);
}
