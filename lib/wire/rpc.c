#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/stop.h"
#include "wire/rpc_priv.h"

int mf_rpc_wait_on(const struct mf_rpc *c, double deadline, struct mf_err *err)
{
    int rc = mf_stop_check(err);
    if (rc)
        return rc;
    if (isinf(deadline) && mf_stop_signal())
        return mf_err_set(err, MF_STOPPED, "stopped by signal %d", mf_stop_signal());
    return mf_now() < deadline ? 0 : mf_err_set(err, MF_EIO, "%s has not answered", c->name);
}

int mf_rpc_put(struct mf_rpc *c, const void *frame, size_t len, double timeout_s, struct mf_err *err)
{
    return c->carrier->put(c, frame, len, mf_now() + timeout_s, err);
}

int mf_rpc_get(struct mf_rpc *c, double timeout_s, const void **frame, size_t *len, struct mf_err *err)
{
    return c->carrier->get(c, mf_now() + timeout_s, frame, len, err);
}

bool mf_rpc_is_socket(const struct mf_rpc *c)
{
    return c->carrier == &mf_rpc_zmq;
}

const char *mf_rpc_name(const struct mf_rpc *c)
{
    return c->name;
}

void mf_rpc_free(struct mf_rpc *c)
{
    if (!c)
        return;
    c->carrier->close(c);
    free(c->buf);
    free(c);
}
