/* mf-relay: serves the policy to the collectors of a node; the learner sends each version once to the node. */
#include <string.h>

#include "stage/stage.h"
#include "wire/edge.h"

struct relay {
    const char *learner;
    double timeout;
    struct mf_edge_relay *edge;
};

static const struct mf_bind binds[] = {
    {"collect.policy_address", offsetof(struct relay, learner)},
    {"collect.policy_timeout", offsetof(struct relay, timeout)},
    {0},
};

static int open_relay(struct mf_run *run, void *self, struct mf_err *err)
{
    struct relay *r = self;
    int n;
    const char *const *at = mf_run_operands(run, &n);
    if (n != 1 || !r->learner)
        return mf_err_set(err, MF_EUSAGE,
                          "give the address to serve at, and collect.policy_address, at which the learner serves");
    if (!strcmp(at[0] + strspn(at[0], "@>"), r->learner + strspn(r->learner, "@>")))
        return mf_err_set(err, MF_EUSAGE, "%s is the learner's address (collect.policy_address): serve at another one",
                          at[0]);
    return mf_edge_relay_open(&r->edge, at[0], r->learner, mf_run_wire(run), err);
}

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct relay *r = self;
    (void)run;
    const int rc = mf_edge_relay_work(r->edge, r->timeout, err);
    if (rc == 0)
        mf_log(MF_LOG_INFO, "the learner at %s has ended", r->learner);
    return rc;
}

static int close_relay(struct mf_run *run, void *self, int rc, struct mf_err *err)
{
    struct relay *r = self;
    (void)run, (void)rc, (void)err;
    mf_edge_relay_close(r->edge);
    return 0;
}

static const struct mf_stage stage = {
    .name = "relay",
    .summary = "Serve the learner's policy to the collectors of a node: it asks once for each version.",
    .operands = "ADDRESS",
    .examples = "  mf-relay ipc://node.policy collect.policy_address=tcp://127.0.0.1:5556 &\n"
                "  mf-collect --out tcp://127.0.0.1:5555 collect.policy_address=ipc://node.policy collect.src=a\n",
    .role = MF_TOOL,
    .binds = binds,
    .size = sizeof(struct relay),
    .open = open_relay,
    .work = work,
    .close = close_relay,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
