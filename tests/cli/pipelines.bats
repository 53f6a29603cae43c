# The scripts of pipelines/, from another folder than their own.
load helpers

setup() {
    cd "$T" || return 1
    tiny=(env=point 'policy.hidden=[8]' 'policy.critic_hidden=[8]' training.num_envs=8 training.num_steps_per_rollout=8 threads=1)
}
pipeline() { "$ROOT/pipelines/$1" "${@:2}" >"$T/out" 2>"$T/err"; }
told() { grep -qF -- "$1" "$T/err" || { cat "$T/err"; return 1; }; }

@test "each says what it is" {
    local p
    for p in train pretrain offline eval debug sweep; do
        "$ROOT/pipelines/$p" --help | grep -q "pipelines/$p" || return 1
    done
}

@test "train: a folder by the configuration's name, all of it there, and what to look at next" {
    pipeline train --config-name=point "${tiny[@]}" training.total_timesteps=2000 && told "outputs/point is done. Next:" &&
        [[ -d outputs/point/checkpoints && -d outputs/point/videos && -e outputs/point/configs/mf-gae.yaml && -e outputs/point/logs/metrics.mf ]] &&
        pipeline train wandb_run_name=mine "${tiny[@]}" training.total_timesteps=600 && [[ -d outputs/mine/checkpoints ]] &&
        pipeline train run.dir=here "${tiny[@]}" training.total_timesteps=600 && [[ -d here/checkpoints ]]
}

@test "train: the same words go on, others are held against how it began" {
    pipeline train "${tiny[@]}" training.total_timesteps=2000 &&
        pipeline train "${tiny[@]}" training.total_timesteps=4000 && told "resuming outputs/point/" &&
        ! pipeline train "${tiny[@]}" training.total_timesteps=6000 training.learning_rate=.1 &&
        told "training.learning_rate=0.1, which was 0.001; give what it was, or run.force=true" &&
        told "pipelines/train: mf-ppo ended with 2" &&
        ! pipeline train "${tiny[@]}" training.total_timesteps=6000 advantage.gae_lambda=.5 && told "mf-gae: error: outputs/point goes on as it began" &&
        pipeline train "${tiny[@]}" training.total_timesteps=6000 training.learning_rate=.1 run.force=true && told "resuming outputs/point/" &&
        pipeline train "${tiny[@]}" training.total_timesteps=7000 training.learning_rate=.1
}

@test "train: a folder may have any name of one line" {
    local dir="it's, (a) [b] {c}=d \\\${e}"
    pipeline train "${tiny[@]}" training.total_timesteps=600 "run.dir='it\\'s, (a) [b] {c}=d \\\\\\\${e}'" && [[ -d $dir/checkpoints ]] &&
        mf-report "$dir" 2>warned >/dev/null && ! grep warn warned &&
        told "mf-plot ./$(printf %q "$dir")" && ! pipeline train "${tiny[@]}" "run.dir='a
b'" && told "no room for a second line"
}

@test "demo, robosuite: what they make may lie in a folder of any name of one line" {
    local short=("${tiny[@]:1}" training.total_timesteps=200 collect.episodes=8 clone.steps=20 clone.warmup_steps=0 clone.batch_size=16 eval.num_episodes=4)
    OUT="$T/it's, [a] b\${c}" CONFIG=point pipeline demo "${short[@]}" && [[ -s "$T/it's, [a] b\${c}/curve.png" && -s "$T/it's, [a] b\${c}/after.json" ]] || { cat err; return 1; }
    mkdir "my py" && cat >"my py/python" <<'END' && chmod +x "my py/python"
#!/bin/bash
case $1 in
*_demos.py) mf-collect env=point collect.actor=expert collect.episodes=8 | mf-record "$2" >/dev/null ;;
*_env.py) [ -s "$2" ] && exec mf-env point threads=1 ;;
esac
END
    OUT="$T/it's, [r] b" PYTHON="$T/my py/python" pipeline robosuite "${short[@]}" && [[ -s "$T/it's, [r] b/after.json" ]] || { cat err; return 1; }
}

@test "train: the estimator is a key" {
    pipeline train "${tiny[@]}" training.total_timesteps=600 advantage.advantage_type=n_step &&
        mf-view outputs/point/logs/metrics.mf | jq -es '.[0].chain[1].stage == "mf-nstep"' >/dev/null
}

@test "train: a stage's death is one line: which, by what, after which metrics" {
    "$ROOT/pipelines/train" "${tiny[@]}" training.total_timesteps=100000000 >out 2>err &
    local pid=$! tries=500
    until mf-view outputs/point/logs/metrics.mf 2>/dev/null | grep -q '"step"' || ((tries-- == 0)); do sleep .05; done
    kill -9 "$(pgrep -P $pid mf-gae)"
    ended_by 1 $pid && grep -E '^pipelines/train: mf-gae died by SIGKILL; the last metrics are of iteration [0-9]+, [0-9]+ steps; the same words go on from there$' err &&
        [[ $(grep -c '^pipelines/train: ' err) -eq 1 ]]
}

@test "pretrain, eval, offline" {
    mf-collect collect.actor=expert collect.episodes=8 | mf-record demos.hdf5 >/dev/null &&
        pipeline pretrain task.dataset_path=demos.hdf5 "${tiny[@]}" clone.steps=20 clone.warmup_steps=0 clone.batch_size=16 &&
        told "pipelines/train policy.checkpoint=outputs/point-clone/checkpoints/clone.safetensors" &&
        pipeline eval outputs/point-clone/checkpoints/clone.safetensors eval.num_episodes=4 && [[ -s outputs/point-clone/logs/eval.json ]] &&
        mf-collect "${tiny[@]}" training.total_timesteps=600 collect.policy_timeout=20 run.dir=saved 2>log | tee saved.mf | mf-gae | mf-ppo "${tiny[@]}" >/dev/null &&
        mf-record saved.hdf5 <saved.mf >/dev/null &&
        pipeline pretrain task.dataset_path=demos.hdf5 "${tiny[@]}" clone.steps=1 clone.warmup_steps=0 clone.batch_size=16 "run.dir='it\\'s \\\${d} e'" &&
        [[ $(eval "mf-conf $(grep -o 'policy.checkpoint=.*' err) policy.checkpoint") == "it's \${d} e/checkpoints/clone.safetensors" ]] &&
        ! pipeline eval training.seed=1 && told "a run or a checkpoint comes first, and there is no 'training.seed=1'" &&
        mv outputs/point-clone a=b && pipeline eval a=b/checkpoints/clone.safetensors eval.num_episodes=4 && pipeline eval ./a=b/checkpoints/clone.safetensors eval.num_episodes=4 &&
        pipeline offline saved.hdf5 "${tiny[@]:1}" && told "outputs/point-offline is done" && ! pipeline offline none.hdf5 && told "none.hdf5" &&
        mf-collect env=lift training.num_envs=2 training.num_steps_per_rollout=4 training.total_timesteps=20 run.dir=lift 2>log | tee lift.mf | mf-gae | mf-ppo >/dev/null &&
        mf-record lift.hdf5 <lift.mf >/dev/null && pipeline offline lift.hdf5 && told "outputs/lift-offline is done" &&
        pipeline offline saved.hdf5 "${tiny[@]}" run.name=again && [[ -e outputs/again-offline/checkpoints/000001.safetensors ]]
}

@test "a folder with a = in its name is no key to the scripts" {
    [[ $(source "$ROOT/pipelines/common.bash"; for f in a=b x/a=b ./a=b /a=b a; do file "$f"; done | xargs) == "./a=b ./x/a=b ./a=b /a=b a" ]] &&
        few=(--out s=1 --configs "baseline:default" "${tiny[@]}" training.total_timesteps=600) && pipeline sweep "${few[@]}" && told "s=1/baseline_default/0: done" &&
        pipeline sweep "${few[@]}" && told "s=1/baseline_default/0: finished" &&
        ! pipeline train "${tiny[@]}" run.dir=s=1/baseline_default/0 training.learning_rate=1 && told "the last metrics are of iteration"
}

@test "what to look at next can be pasted, also of a folder with a = in its name" {
    pipeline train "${tiny[@]}" training.total_timesteps=600 run.dir=a=b && told "mf-plot ./a=b" && mf-plot ./a=b >out
}

@test "debug: every part once, and a verdict" {
    pipeline debug 'policy.hidden=[8]' && [[ -e outputs/debug/logs/metrics.mf && $(cat out) == *whole* ]] && pipeline debug 'policy.hidden=[8]'
}

@test "the stage that began it is the one that is named" {
    named() { bash -c 'source "$0/pipelines/common.bash"; deaths . "collect gae ppo log" "$1"' "$ROOT" "$1" 2>&1; }
    [[ $(named "1 3 3 3") == *": collect ended with 1;"* && $(named "1 3 1 3") == *": ppo ended with 1;"* ]] &&
        [[ $(named "141 141 1 3") == *": ppo "* && $(named "137 3 3 3") == *": collect died by SIGKILL;"* ]] &&
        [[ $(named "2 2 2 2") == *": collect ended with 2;"* && $(named "141 141 141 137") == *": log died by SIGKILL"* ]] &&
        [[ -z $(named "0 0 0 0") ]]
}

@test "sweep: 22 experiments as data, a few of them run, finished ones are skipped" {
    few=(--configs "baseline:default lr:high" --jobs 2 "${tiny[@]}" training.total_timesteps=600)
    "$ROOT/pipelines/sweep" --dry-run env=point >all && [[ $(grep -c 'pipelines/train --config-name=preset/reinflow_document' all) -eq 22 ]] &&
        [[ $("$ROOT/pipelines/sweep" --dry-run --seeds "0 1 2" --pretrained-path p.safetensors env=point | grep -c 'policy.checkpoint=p.safetensors') -eq 66 ]] &&
        pipeline sweep "${few[@]}" && told "outputs/sweep/lr_high/0: done" && [[ -e outputs/sweep/baseline_default/0/logs/metrics.csv ]] &&
        pipeline sweep "${few[@]}" && told "outputs/sweep/lr_high/0: finished" &&
        ! pipeline sweep --jobs x && told "--jobs x: give a number from 1" &&
        ! pipeline sweep --configs nope && told "no experiment nope; there are: baseline:default warmup:0"
}

@test "sweep: --slurm prints an array with an index for each experiment and seed, and an index is that run" {
    "$ROOT/pipelines/sweep" --slurm --configs "baseline:default lr:high" --seeds "3 4" --jobs 2 "${tiny[@]}" training.total_timesteps=600 >array.sh &&
        bash -n array.sh && shellcheck array.sh && grep -qx '#SBATCH --array=0-3%2' array.sh && ! grep -q gpus array.sh &&
        (cd / && SLURM_ARRAY_TASK_ID=3 bash "$T/array.sh") 2>err && told "outputs/sweep/lr_high/4: done" &&
        [[ $(echo outputs/sweep/*/*) == outputs/sweep/lr_high/4 ]] &&
        ! bash array.sh 2>err && told "sbatch sets it"
}

@test "sweep: --gpus in turn, and a sentence where there is none" {
    "$ROOT/pipelines/sweep" --dry-run --configs "baseline:default lr:high" --seeds "0 1" --gpus "2 5 7" env=point >all &&
        [[ $(grep -o 'DEVICES=[0-9]' all | xargs) == "DEVICES=2 DEVICES=5 DEVICES=7 DEVICES=2" && $(grep -c device=cuda:0 all) -eq 4 ]] &&
        "$ROOT/pipelines/sweep" --slurm --gpus 0 env=point | grep -qx '#SBATCH --gpus=1' &&
        ! pipeline sweep --gpus 99 env=point && told "nvidia-smi finds no GPU 99 here; without --gpus it runs on the processor" && [[ ! -e outputs ]] &&
        ! pipeline sweep --gpus all env=point && told "'all' is not the number of a GPU"
}
