/* mf-env: a built-in environment for other processes, by the protocol of examples/envs/README.md. */
#include <stddef.h>
#include <unistd.h>

#include "env/serve.h"
#include "stage/stage.h"

struct env {
    struct mf_env_opts opts;
    int64_t threads;
};

static const struct mf_bind binds[] = {
    {"env.address", offsetof(struct env, opts.address)},
    {"env.model", offsetof(struct env, opts.model)},
    {"env.image_size", offsetof(struct env, opts.image_size)},
    {"env.renderer", offsetof(struct env, opts.renderer)},
    {"env.suite", offsetof(struct env, opts.suite)},
    {"threads", offsetof(struct env, threads)},
    {0},
};

static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    struct env *e = self;
    const struct mf_env *env;
    struct mf_rpc *call;
    int n, rc;
    const char *const *name = mf_run_operands(run, &n);
    if (n != 1)
        return mf_err_set(err, MF_EUSAGE, "give one environment: mf-env lift");
    e->opts.name = name[0];
    if ((rc = mf_env_open_built_in(&env, &e->opts, err)))
        return rc;
    if (!e->opts.address && isatty(STDIN_FILENO))
        return mf_err_set(err, MF_EUSAGE,
                          "requests come through a pipe (env=exec) or env.address, not from a terminal");
    if ((rc = mf_rpc_serve(&call, e->opts.address, err)) == 0) {
        rc = mf_env_serve(call, env, (int)e->threads, (int)e->opts.image_size, err);
        mf_rpc_free(call);
    }
    mf_env_close(env);
    return rc;
}

static const struct mf_stage stage = {
    .name = "env",
    .summary = "Serve a built-in environment to another process: over stdin and stdout, or at env.address.",
    .operands = "NAME",
    .examples = "  mf-collect env=exec env.command='mf-env lift threads=1' | mf-gae | mf-ppo\n"
                "  mf-env lift env.address=tcp://127.0.0.1:5560 &\n"
                "  mf-collect env=remote env.address=tcp://127.0.0.1:5560 | mf-gae | mf-ppo\n",
    .role = MF_TOOL,
    .binds = binds,
    .size = sizeof(struct env),
    .work = work,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
