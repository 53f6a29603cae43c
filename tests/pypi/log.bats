# What mf-log and the W&B bridge write, read by TensorBoard's and W&B's own code.
load ../cli/helpers

setup() {
    python=$ROOT/build/venv/log/bin/python
    cd "$T" || return 1
    mf-collect run.dir=run training.total_timesteps=6000 'policy.hidden=[8]' threads=1 2>log | mf-gae | mf-ppo 'policy.hidden=[8]' 2>>log |
        mf-film film.every=1 film.trials=1 | mf-log >metrics.mf
}

@test "TensorBoard reads every scalar and every video, at its step" {
    "$python" "$ROOT/tests/pypi/read_events.py" run/logs/tensorboard 2>/dev/null | sort >theirs
    "$ROOT/tests/tools/tfevents.py" run/logs/tensorboard/* | sort | diff - theirs && [[ $(wc -l <theirs) -gt 50 ]] && grep -q '^eval/video [0-9]* 320x240 ' theirs &&
        [[ $(grep -c '^train/approx_kl ' theirs) -eq $(mf-view metrics.mf | grep -c '"metrics"') ]]
}

@test "the W&B bridge, offline" {
    "$python" "$ROOT/examples/wandb_bridge.py" project name <metrics.mf >said 2>&1 || { cat said; return 1; }
    [[ $(find wandb/ -name 'run-*.wandb' | wc -l) -eq 1 ]] && grep -qa 'train/approx_kl' wandb/offline-run-*/run-*.wandb
}
