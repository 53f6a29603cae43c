/* mf-conf: compose a configuration and print it, a few of its keys, or the jobs of a sweep. */
#include <stdio.h>

#include "stage/stage.h"

/* Every program composes its configuration; this one only prints it. */
static int work(struct mf_run *run, void *self, struct mf_err *err)
{
    int n;
    const char *const *key = mf_run_operands(run, &n);
    (void)self;
    if (n == 0)
        mf_conf_print(mf_run_conf(run), stdout);
    for (int i = 0; i < n; i++) {
        if (!mf_conf_has(key[i]))
            return mf_err_set(err, MF_EUSAGE, "'%.128s' is not a key; mf-conf --doc lists all", key[i]);
        const char *text = mf_conf_text(mf_run_conf(run), key[i]);
        puts(text ? text : "");
    }
    return 0;
}

static const struct mf_stage stage = {
    .name = "conf",
    .summary = "Compose a configuration and print it, or the values of KEYs, one per line (null: an empty line).",
    .operands = "[KEY]...",
    .examples = "  mf-conf --config-name=lift training.learning_rate=3e-5 > mine.yaml\n"
                "  mf-conf --config-name=lift training.num_envs\n"
                "  mf-conf --config-name=lift -m training.learning_rate=1e-4,3e-4 training.clip_range=.01,.02\n"
                "  mf-conf -m env=point training.clip_range=.01,.02 'run.name=clip_${training.clip_range}' |\n"
                "      xargs -L1 pipelines/train\n",
    .role = MF_TOOL,
    .composes = true,
    .size = 1,
    .work = work,
};

int main(int argc, char **argv)
{
    return mf_stage_main(&stage, argc, argv);
}
