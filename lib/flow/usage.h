/* usage.h - memory and utilisation of the device as metrics: device/memory (GiB), device/utilisation (percent). */
#ifndef MF_FLOW_USAGE_H
#define MF_FLOW_USAGE_H

#include "graph/plan.h"
#include "stream/frame.h"

/* Adds those that are known; of the host's processor none are. */
void mf_usage_report(const struct mf_engine *e, struct mf_frame *metrics);

#endif
