#include "nn/net.h"

#include <stdio.h>
#include <string.h>

int mf_net_find(const struct mf_net **net, const char *name, struct mf_err *err)
{
    char names[256] = "";
    for (size_t i = 0, at = 0; mf_nets[i]; i++) {
        if (!strcmp(mf_nets[i]->name, name)) {
            *net = mf_nets[i];
            return 0;
        }
        if (at < sizeof names)
            at += (size_t)snprintf(names + at, sizeof names - at, " %s", mf_nets[i]->name);
    }
    return mf_err_set(err, MF_EUSAGE, "policy.network=%s is none of the networks here:%s", name, names);
}
