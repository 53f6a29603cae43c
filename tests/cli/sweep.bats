# pipelines/sweep: experiments as data, on this host and as an array of jobs.
load scripts

@test "22 experiments as data, a few of them run, finished ones are skipped" {
    few=(--configs "baseline:default lr:high" --jobs 2 "${tiny[@]}" training.total_timesteps=600)
    "$ROOT/pipelines/sweep" --dry-run env=point >all && [[ $(grep -c 'pipelines/train --config-name=preset/reinflow_document' all) -eq 22 ]] &&
        [[ $("$ROOT/pipelines/sweep" --dry-run --seeds "0 1 2" --pretrained-path p.safetensors env=point | grep -c 'policy.checkpoint=p.safetensors') -eq 66 ]] &&
        pipeline sweep "${few[@]}" && told "outputs/sweep/lr_high/0: done" && [[ -e outputs/sweep/baseline_default/0/logs/metrics.csv && -e outputs/sweep/baseline_default-0.log && ! -e outputs/sweep/baseline_default/0/train.log ]] &&
        pipeline sweep "${few[@]}" && told "outputs/sweep/lr_high/0: finished" &&
        ! pipeline sweep --jobs x && told "--jobs x: give a number from 1" &&
        ! pipeline sweep --configs nope && told "no experiment nope; there are: baseline:default warmup:0" &&
        ! pipeline sweep --list && told "pipelines/sweep: --list needs a value"
}

@test "run.pipeline names the script; where nothing succeeds, it stops after three failures for one reason" {
    mf-collect collect.actor=expert collect.episodes=8 | mf-record demos.hdf5 >/dev/null
    pipeline sweep env=point run.pipeline=pretrain clone.dataset=demos.hdf5 clone.warmup_steps=0 clone.batch_size=16 clone.steps=5,6 &&
        told "outputs/sweep/steps-6/0: done" && [[ -e outputs/sweep/steps-5/0/checkpoints/clone.safetensors ]] || { cat err; return 1; }
    ! pipeline sweep --out s --seeds "0 1 2 3 4" env=point policy.checkpoint=none.safetensors training.clip_range=.1,.2 && told "none.safetensors" &&
        told "pipelines/sweep: the first 3 runs failed alike; the other 7 were not started" && told "pipelines/sweep: 3 failed" && [[ $(find s -name '*.log' | wc -l) -eq 3 ]] &&
        ! pipeline sweep --out m --seeds "0 1 2 3" --config-name=point "${tiny[@]}" training.total_timesteps=600 training.num_steps_per_rollout=9,12 collect.group=4 &&
        ! grep 'not started' err && told "pipelines/sweep: 4 failed" && [[ -e m/num_steps_per_rollout-12/3/logs/metrics.mf ]]
}

@test "--slurm prints an array with an index for each experiment and seed; the index runs it" {
    "$ROOT/pipelines/sweep" --slurm --configs "baseline:default lr:high" --seeds "3 4" --jobs 2 "${tiny[@]}" training.total_timesteps=600 >array.sh &&
        bash -n array.sh && shellcheck array.sh && grep -qx '#SBATCH --array=0-3%2' array.sh && ! grep -q gpus array.sh &&
        (cd / && SLURM_ARRAY_TASK_ID=3 bash "$T/array.sh") 2>err && told "outputs/sweep/lr_high/4: done" &&
        [[ $(echo outputs/sweep/*/*) == outputs/sweep/lr_high/4 ]] &&
        ! bash array.sh 2>err && told "sbatch sets it"
    # At the time limit it asks to be queued again, and goes on until it is told to end, which reaches its programs.
    mkdir tools && printf '#!/bin/sh\necho "$@" >>%s\n' "$T/asked" >tools/scontrol && chmod +x tools/scontrol
    sed -i s/total_timesteps=600/total_timesteps=100000000/ array.sh
    PATH=$T/tools:$PATH SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=2 setsid bash array.sh 2>err & local job=$!
    until_there test -e outputs/sweep/baseline_default/4/logs/metrics.mf && kill -USR1 $job && until_there test -e asked && kill -0 $job &&
        [[ $(cat asked) == "requeue 7_2" ]] && kill -TERM $job && ended_by 143 $job && ! pgrep -s $job
}

@test "a run's log is appended: an earlier start, which may be alive, is not overwritten" {
    mkdir -p outputs/sweep && echo "of an earlier start: error: x" >outputs/sweep/baseline_default-0.log
    ! pipeline sweep --configs baseline:default env=point policy.checkpoint=none.safetensors && told "none.safetensors" &&
        grep -q "of an earlier start" outputs/sweep/baseline_default-0.log && grep -q "none.safetensors" outputs/sweep/baseline_default-0.log && ! grep "of an earlier" err
}

@test "words of several values are experiments, or combine with each of a list" {
    local dry=("$ROOT/pipelines/sweep" --dry-run env=point)
    [[ $("${dry[@]}" 'training.clip_range=choice(.01,.02)' 'policy.hidden=[8,8],[9]' run.seed=3,4 | grep -o 'run.dir=.*' | xargs -n1 | xargs) == \
"run.dir=outputs/sweep/clip_range-.01_hidden-_8_8_/3 run.dir=outputs/sweep/clip_range-.01_hidden-_9_/3 \
run.dir=outputs/sweep/clip_range-.02_hidden-_8_8_/3 run.dir=outputs/sweep/clip_range-.02_hidden-_9_/3 \
run.dir=outputs/sweep/clip_range-.01_hidden-_8_8_/4 run.dir=outputs/sweep/clip_range-.01_hidden-_9_/4 \
run.dir=outputs/sweep/clip_range-.02_hidden-_8_8_/4 run.dir=outputs/sweep/clip_range-.02_hidden-_9_/4" ]] &&
        [[ $("${dry[@]}" --configs lr:low 'training.num_epochs=range(1,3)' | sed 's/.*run.dir=//' | xargs) == \
"outputs/sweep/lr_low_num_epochs-1/0 outputs/sweep/lr_low_num_epochs-2/0" ]] &&
        ! pipeline sweep env=point 'training.num_epochs=1,x' && told "training.num_epochs=x: must be an integer" &&
        ! pipeline sweep env=point "run.name='a b','a c',\"a b\"" && told "two runs would share the folder outputs/sweep/name-_a_b_" &&
        "$ROOT/pipelines/sweep" --slurm env=point "${tiny[@]}" training.total_timesteps=600 training.clip_range=.01,.02 >array.sh &&
        SLURM_ARRAY_TASK_ID=1 bash array.sh 2>err && told "outputs/sweep/clip_range-.02/0: done" && [[ -d outputs/sweep/clip_range-.02 && ! -e outputs/sweep/clip_range-.01 ]]
}

@test "the jobs of mf-conf -m are lines for a shell, and xargs runs them" {
    # shellcheck disable=SC2016 # for mf-conf
    mf-conf -m env=point "${tiny[@]}" training.total_timesteps=300 training.clip_range=.01,.02 'run.name=it_${training.clip_range}' "wandb_project='a b'" >list &&
        [[ $(wc -l <list) -eq 2 ]] && xargs -L1 "$ROOT/pipelines/train" <list >/dev/null 2>&1 &&
        mf-check outputs/it_0.01 && mf-check outputs/it_0.02 && [[ $(mf-conf --config outputs/it_0.02/ppo/configs/mf-ppo.yaml training.clip_range wandb_project) == $'0.02\na b' ]]
}

@test "TERM and INT reach every run, and it ends after them; the same command resumes" {
    local sig pid tries programs few=(--jobs 2 --configs "baseline:default lr:high" "${tiny[@]}" training.total_timesteps=100000000)
    for sig in TERM INT; do
        env --default-signal=INT setsid "$ROOT/pipelines/sweep" "${few[@]}" >out 2>err &
        pid=$! tries=1000
        until [[ $(pgrep -s $pid -c mf-ppo) -eq 2 && -s outputs/sweep/lr_high/0/logs/metrics.mf && -s outputs/sweep/baseline_default/0/logs/metrics.mf ]] || ((tries-- == 0)); do sleep .05; done
        programs=$(pgrep -s $pid mf-) && [[ $(wc -w <<<"$programs") -ge 10 ]] && kill -$sig $pid && ended_by $((128 + $(kill -l $sig))) $pid && ! pgrep -s $pid && ! grep failed err || { cat err; pkill -KILL -s $pid; return 1; }
    done
    pipeline sweep "${few[@]/100000000/100}" --configs "lr:high" && told "outputs/sweep/lr_high/0: "
}

@test "--gpus are used in turn, and an error without one" {
    "$ROOT/pipelines/sweep" --dry-run --configs "baseline:default lr:high" --seeds "0 1" --gpus "2 5 7" env=point >all &&
        [[ $(grep -o 'DEVICES=[0-9]' all | xargs) == "DEVICES=2 DEVICES=5 DEVICES=7 DEVICES=2" && $(grep -c device=cuda:0 all) -eq 4 ]] &&
        "$ROOT/pipelines/sweep" --slurm --gpus 0 env=point | grep -qx '#SBATCH --gpus=1' &&
        ! pipeline sweep --gpus 99 env=point && told "nvidia-smi finds no GPU 99 here; without --gpus it runs on the processor" && [[ ! -e outputs ]] &&
        ! pipeline sweep --gpus all env=point && told "'all' is not the number of a GPU"
}
