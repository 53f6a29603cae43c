# The scripts of pipelines/, from another folder than their own; sweep.bats has sweeps.
load scripts

@test "each has a help text" {
    local p
    for p in train pretrain offline eval debug sweep compare three-stages; do
        "$ROOT/pipelines/$p" --help | grep -q "pipelines/$p" || return 1
    done
}

@test "plan: a stored run gives the numbers of the formulas; without a collector's time there are none" {
    # A collector takes 2 s for 264 kB, the update 0.5 s in 10 minibatches; the first three iterations are no measure.
    stored() { # DIR LAG
        mkdir -p "$1/logs" "$1/configs" && echo "collect: {sources: 1, max_lag: $2}" >"$1/configs/mf-ppo.yaml" && /usr/bin/python3 -c '
import msgpack, os
spec = {"obs": {"state": {"shape": [5], "dtype": "<f4"}}, "action_dim": 2, "n_obs_steps": 1, "n_action_steps": 4, "horizon": 4, "denoising_steps": 4}
put = lambda m: os.write(1, msgpack.packb(m))
put({"mf": "head", "v": 1, "run": "", "src": "", "seed": 0, "chain": [], "spec": spec, "num_envs": 10, "steps": 100})
for i in range(12):
    k = 99 if i < 3 else 1
    put({"mf": "metrics", "iter": i, "step": i, "time": float(i), "values": {"perf/rollout_time": 2.0 * k, "perf/update_time": 0.5 * k, "train/minibatches": 10.0}})' >"$1/logs/metrics.mf"
    }
    stored run 0 || skip "no python3-msgpack"
    "$ROOT/pipelines/plan" run collectors="1 4" ranks="1 2" latency=.01 >out 2>&1 || { cat out; return 1; }
    grep -q "^measured: 1 collectors at a lag of 0; a round of one 2.000 s and 0.26 MB, the update 0.500 s in 10 minibatches" out &&
        grep -qx " *1 *1 | *2.000 *0.000 *0.000 *0.500 | *2.500 *1.0x | *2.000 *1.3x  collectors" out &&
        grep -qx " *4 *1 | *2.000 *0.001 *0.000 *2.000 | *4.001 *2.5x | *2.001 *5.0x  learner" out &&
        grep -qx " *4 *2 | *2.000 *0.001 *0.000 *1.800 | *3.801 *2.6x | *2.000 *5.0x  collectors" out || { cat out; return 1; }
    stored late 1 && ! pipeline plan late && told "measure a run with collect.max_lag=0" && ! pipeline plan run lag=2 && told "'lag=2' is no word" && ! pipeline plan none && told "has no metrics" || return 1
    local bad
    for bad in collectors=0 collectors=-1 collectors=1e99 "collectors=1 x" ranks=0 ranks=99999999999999999999 nodes=1.5 net=-1 net=0 net=1e99 net=. latency=1e99 none; do
        run -2 "$ROOT/pipelines/plan" run "$bad" && [[ $output == "pipelines/plan: "*"${bad#none}"* && ${#lines[@]} == 1 ]] || { echo "$bad: $output"; return 1; }
    done
}

@test "train: a complete folder by the configuration's name, and the next commands" {
    pipeline train --config-name=point "${tiny[@]}" training.total_timesteps=2000 && told "outputs/point/ppo is done. Next:" && [[ $(readlink outputs/point/latest) == ppo ]] &&
        [[ -d outputs/point/ppo/checkpoints && -d outputs/point/ppo/videos && -e outputs/point/ppo/configs/mf-gae.yaml && -e outputs/point/ppo/logs/metrics.mf ]] &&
        pipeline train wandb_run_name=mine "${tiny[@]}" training.total_timesteps=600 && [[ -d outputs/mine/ppo/checkpoints ]] &&
        pipeline train run.dir=here "${tiny[@]}" training.total_timesteps=600 && [[ -d here/checkpoints ]]
}

@test "train: the same words resume, others are compared with those of the start" {
    pipeline train "${tiny[@]}" training.total_timesteps=2000 &&
        pipeline train "${tiny[@]}" training.total_timesteps=4000 && told "resuming outputs/point/ppo/" &&
        ! pipeline train "${tiny[@]}" training.total_timesteps=6000 training.learning_rate=.1 &&
        told "training.learning_rate=0.1, which was 0.001; give the old values, or run.force=true" &&
        told "pipelines/train: mf-ppo ended with 2" &&
        ! pipeline train "${tiny[@]}" training.total_timesteps=6000 advantage.gae_lambda=.5 && told "mf-gae: error: outputs/point/ppo was started with another configuration: now advantage.gae_lambda=0.5, which was 0.95" &&
        pipeline train "${tiny[@]}" training.total_timesteps=6000 training.learning_rate=.1 run.force=true && told "resuming outputs/point/ppo/" &&
        pipeline train "${tiny[@]}" training.total_timesteps=7000 training.learning_rate=.1
}

@test "train: another initial checkpoint is another run, a copy of it is not; a replay records the settings of its head" {
    local s words=("${tiny[@]}" training.total_timesteps=600)
    mf-collect collect.actor=expert collect.episodes=8 | mf-record demos.hdf5 >/dev/null || return 1
    for s in 1 2; do mf-bc clone.dataset=demos.hdf5 'policy.hidden=[8]' clone.steps=20 clone.warmup_steps=0 clone.batch_size=16 run.dir=c$s run.seed=$s >m 2>log && cp c$s/checkpoints/clone.safetensors $s.safetensors || return 1; done
    pipeline train "${words[@]}" policy.checkpoint=1.safetensors && ! pipeline train "${words[@]}" policy.checkpoint=2.safetensors &&
        told "outputs/point/ppo cannot be resumed with policy.checkpoint=2.safetensors: it started from policy.checkpoint=1.safetensors, with other weights" && told "run.resume=never run.force=true" &&
        pipeline train "${words[@]}" policy.checkpoint=c1 && told "the run has already reached training.total_timesteps=600: raise it to continue" && pipeline train "${words[@]}" &&
        pipeline train "${words[@]}" policy.checkpoint=2.safetensors training.total_timesteps=900 run.force=true && told "resuming outputs/point/ppo" && ! grep already err &&
        pipeline train "${words[@]}" policy.checkpoint=2.safetensors run.resume=never run.force=true && told "starting from 2.safetensors" && ! pipeline train "${words[@]}" policy.checkpoint=c1 || return 1
    mf-collect env=lift training.num_envs=2 training.num_steps_per_rollout=4 training.total_timesteps=20 run.dir=l 2>log | mf-gae | mf-ppo run.dir=l >m 2>>log &&
        mf-collect policy.checkpoint=l training.num_envs=2 training.num_steps_per_rollout=4 training.total_timesteps=20 run.dir=k 2>>log | tee k.mf | mf-gae | mf-ppo >m 2>>log &&
        mf-record k.hdf5 <k.mf >m 2>>log && pipeline offline k.hdf5 run.dir=o && mf-replay k.hdf5 | mf-gae | mf-ppo run.dir=p >m 2>>log || return 1
    for s in o p; do [[ $(mf-conf --config $s/configs/mf-ppo.yaml env.name policy.checkpoint | xargs) == "lift l/checkpoints/000001.safetensors" ]] || { cat $s/configs/mf-ppo.yaml; return 1; }; done
}

@test "train: a folder may have any name of one line" {
    local dir="it's, (a) [b] {c}=d \\\${e}"
    pipeline train "${tiny[@]}" training.total_timesteps=600 "run.dir='it\\'s, (a) [b] {c}=d \\\\\\\${e}'" && [[ -d $dir/checkpoints ]] &&
        mf-report "$dir" 2>warned >/dev/null && ! grep warn warned &&
        told "mf-plot ./$(printf %q "$dir")" && ! pipeline train "${tiny[@]}" "run.dir='a
b'" && told "no room for a second line"
}

@test "demo, robosuite: their output folder may have any name of one line" {
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

@test "three-stages: each begins from the one before, all are evaluated on the same trials" {
    OUT=three CONFIG=point pipeline three-stages "${tiny[@]}" training.total_timesteps=200 collect.episodes=4 clone.steps=20 clone.warmup_steps=0 \
        clone.batch_size=16 'clone.critic_hidden=[8]' eval.num_episodes=4 || { cat err; return 1; }
    told "starting from three/clone/checkpoints/clone.safetensors" && told "starting from three/offline/checkpoints/clone.safetensors" &&
        jq -e '.results | length == 4 and all(.n == 4)' three/stages.json >/dev/null && mf-replay three/demos.hdf5 | mf-view | jq -es 'map(select(.mf == "head").src) == ["good", "poor"]' >/dev/null
}

@test "demo, robosuite, three-stages: a folder of another origin is refused and unchanged; in their own only their files are replaced" {
    mkdir -p X/ppo && echo hi >X/ppo/x.txt && echo hi >file && mkdir bin && printf '#!/bin/sh\nexit 1\n' >bin/python && chmod +x bin/python || return 1
    local p out
    for p in demo robosuite three-stages; do
        for out in X file; do
            OUT=$out PYTHON=bin/python pipeline $p && return 1
            told "pipelines/$p: OUT=$out is not empty and was not made by this script" && [[ $(cat X/ppo/x.txt file) == $'hi\nhi' && $(ls -A X) == ppo ]] || return 1
        done
        own() { OUT=new$p PYTHON=bin/python CONFIG=point pipeline $p collect.episodes=2 device=none; }
        mkdir new$p && ! own && [[ -e new$p/.maniflow-$p ]] && mkdir new$p/ppo && echo mine >new$p/notes && ! own &&
            [[ -e new$p/notes && ! -e new$p/ppo ]] && ! grep 'not empty' err || { cat err; return 1; }
    done
    ! OUT=newdemo PYTHON=bin/python pipeline robosuite && told "OUT=newdemo is not empty" && [[ -e newdemo/notes ]]
}

@test "train: the estimator is a key" {
    pipeline train "${tiny[@]}" training.total_timesteps=600 advantage.advantage_type=n_step &&
        mf-view outputs/point/ppo/logs/metrics.mf | jq -es '.[0].chain | map(.stage) == ["mf-collect", "mf-nstep", "mf-ppo"]' >/dev/null &&
        ! grep 'fresh weights' err && pipeline train env=lift "${tiny[@]:1}" training.total_timesteps=100 run.dir=l && told "pipelines/train: lift starts from fresh weights, and its reward is sparse; policy.checkpoint=.. starts from a clone"
    # what clones is not trained in silence
    ! pipeline train --config-name=lift +method=aw && told "pipelines/train: run.pipeline=pretrain: this configuration clones; run it with pipelines/pretrain"
}

@test "train, train-multi, offline: policy.steer=sac is for mf-sac, without an estimator; killed, the same words end with the same bytes" {
    local sac=("${tiny[@]}" +method=dsrl_sac 'sac.critic_hidden=[8]' sac.warmup_decisions=100 sac.batch_size=16 sac.updates=.1 training.total_timesteps=20000)
    chain() { mf-view "$1/logs/metrics.mf" | jq -es --argjson want "$2" '.[0].chain | map(.stage) == $want' >/dev/null; }
    pipeline train "${sac[@]}" run.dir=want && chain want '["mf-collect", "mf-sac"]' || { cat err; return 1; }
    "$ROOT/pipelines/train" "${sac[@]}" run.dir=k 2>err >out &
    local pid=$! tries=500
    until mf-view k/logs/metrics.mf 2>/dev/null | grep -q '"iter": *5'; do ((tries-- > 0)) && sleep .02 || return 1; done
    kill -9 "$(pgrep -P $pid mf-sac)" && ended_by 1 $pid && told "pipelines/train: mf-sac died by SIGKILL; the last metrics" && told "the same words resume it" &&
        pipeline train "${sac[@]}" run.dir=k && told "resuming k/checkpoints/" && cmp "$(newest want)" "$(newest k)" || { cat err; return 1; }
    sac+=(training.total_timesteps=1500)
    pipeline train-multi 2 "${sac[@]}" run.dir=m && chain m '["mf-collect", "mf-sac"]' &&
        pipeline train "${sac[@]}" run.dir=s advantage.stage='mf-record s.hdf5' && chain s '["mf-collect", "mf-record", "mf-sac"]' &&
        pipeline offline s.hdf5 "${sac[@]}" run.dir=o && cmp "$(newest s)" "$(newest o)" || { cat err; return 1; }
}

@test "train: a stage's death is one line: its name, the cause, the last metrics" {
    "$ROOT/pipelines/train" "${tiny[@]}" training.total_timesteps=100000000 >out 2>err &
    local pid=$! tries=500
    until mf-view outputs/point/ppo/logs/metrics.mf 2>/dev/null | grep -q '"step"' || ((tries-- == 0)); do sleep .05; done
    kill -9 "$(pgrep -P $pid mf-gae)"
    ended_by 1 $pid && grep -E '^pipelines/train: mf-gae died by SIGKILL; the last metrics are of iteration [0-9]+, [0-9]+ steps; the same words resume it$' err &&
        [[ $(grep -c '^pipelines/train: ' err) -eq 1 ]]
}

@test "pretrain, eval, offline" {
    mf-collect collect.actor=expert collect.episodes=8 | mf-record demos.hdf5 >/dev/null &&
        pipeline pretrain task.dataset_path=demos.hdf5 "${tiny[@]}" clone.steps=20 clone.warmup_steps=0 clone.batch_size=16 &&
        told "pipelines/train policy.checkpoint=outputs/point/clone/checkpoints/clone.safetensors" &&
        pipeline eval outputs/point/clone/checkpoints/clone.safetensors eval.num_episodes=4 && [[ -s outputs/point/clone/logs/eval.json ]] &&
        mf-collect "${tiny[@]}" training.total_timesteps=600 collect.policy_timeout=20 run.dir=saved 2>log | tee saved.mf | mf-gae | mf-ppo "${tiny[@]}" >/dev/null &&
        mf-record saved.hdf5 <saved.mf >/dev/null &&
        pipeline pretrain task.dataset_path=demos.hdf5 "${tiny[@]}" clone.steps=1 clone.warmup_steps=0 clone.batch_size=16 "run.dir='it\\'s \\\${d} e'" &&
        [[ $(eval "mf-conf $(grep -o 'policy.checkpoint=.*' err) policy.checkpoint") == "it's \${d} e/checkpoints/clone.safetensors" ]] &&
        ! pipeline eval training.seed=1 && told "a run or a checkpoint comes first, and there is no 'training.seed=1'" &&
        mv outputs/point/clone a=b && pipeline eval a=b/checkpoints/clone.safetensors eval.num_episodes=4 && pipeline eval ./a=b/checkpoints/clone.safetensors eval.num_episodes=4 &&
        pipeline offline saved.hdf5 "${tiny[@]:1}" && told "outputs/point/offline is done" && ! pipeline offline none.hdf5 && told "none.hdf5" &&
        mf-collect env=lift training.num_envs=2 training.num_steps_per_rollout=4 training.total_timesteps=20 run.dir=lift 2>log | tee lift.mf | mf-gae | mf-ppo >/dev/null &&
        mf-record lift.hdf5 <lift.mf >/dev/null && pipeline offline lift.hdf5 && told "outputs/lift/offline is done" &&
        pipeline offline saved.hdf5 "${tiny[@]}" run.name=again && [[ -e outputs/again/offline/checkpoints/000001.safetensors ]]
}

@test "a folder with a = in its name is no key to the scripts" {
    [[ $(source "$ROOT/pipelines/common.bash"; for f in a=b x/a=b ./a=b /a=b a; do file "$f"; done | xargs) == "./a=b ./x/a=b ./a=b /a=b a" ]] &&
        few=(--out s=1 --configs "baseline:default" "${tiny[@]}" training.total_timesteps=600) && pipeline sweep "${few[@]}" && told "s=1/baseline_default/0: done" &&
        pipeline sweep "${few[@]}" && told "s=1/baseline_default/0: finished" &&
        ! pipeline train "${tiny[@]}" run.dir=s=1/baseline_default/0 training.learning_rate=1 && told "mf-collect ended with 2; this start wrote no metrics"
}

@test "a failed start reports only its own progress: not an earlier run's metrics, nor words that do not resume" {
    pipeline debug 'policy.hidden=[8]' || { cat err; return 1; }
    cp -r "$ROOT/pipelines" . && cp -r "$ROOT/configs" . && mkdir bin && ln -s "$ROOT"/bin/* bin && rm bin/mf-gae && printf '#!/bin/sh\nkill -9 $$\n' >bin/mf-gae && chmod +x bin/mf-gae &&
        ! pipelines/debug 'policy.hidden=[8]' >out 2>err && told "mf-gae died by SIGKILL; this start wrote no metrics" && ! grep 'resume it' err && [[ -s outputs/debug/logs/metrics.mf ]] || return 1
    frame() { printf '{"mf": "metrics", "iter": %d, "step": 9}\n' "$1"; }
    ending() { bash -c 'source "$0/pipelines/common.bash"; mf-view() { cat; }; begin d 2>/dev/null; [ -z "$1" ] || echo "$1" >d/logs/metrics.mf
        names=(ppo) status=(137); deaths d 1 "${@:2}"' "$ROOT" "$@" 2>&1; }
    mkdir -p d/logs d/checkpoints && frame 6 >d/logs/metrics.mf && : >d/checkpoints/000001.safetensors &&
        [[ $(ending "" run.resume=auto) == *"SIGKILL; this start wrote no metrics" && $(ending "$(frame 7)" run.resume=never) == *"of iteration 8, 9 steps" ]] &&
        [[ $(ending "$(frame 8)" run.resume=auto) == *"of iteration 9, 9 steps; the same words resume it" ]] &&
        rm d/checkpoints/* && [[ $(ending "$(frame 9)" run.resume=auto) == *"of iteration 10, 9 steps" ]]
}

@test "the next commands can be pasted, also for a folder with a = in its name" {
    pipeline train "${tiny[@]}" training.total_timesteps=600 run.dir=a=b && told "mf-plot ./a=b" && mf-plot ./a=b >out
}

@test "debug: every part once, and a verdict" {
    pipeline debug 'policy.hidden=[8]' && [[ -e outputs/debug/logs/metrics.mf && $(cat out) == *whole* ]] && pipeline debug 'policy.hidden=[8]'
}

@test "the first stage that failed is named" {
    named() { bash -c 'source "$0/pipelines/common.bash"; names=(collect gae ppo film log) status=($1); deaths . 3' "$ROOT" "$1" 2>&1; }
    [[ $(named "1 3 3 3 3") == *": collect ended with 1;"* && $(named "1 3 1 3 3") == *": ppo ended with 1;"* ]] &&
        [[ $(named "141 141 1 3 3") == *": ppo "* && $(named "137 3 3 3 3") == *": collect died by SIGKILL;"* ]] &&
        [[ $(named "2 2 2 2 2") == *": collect ended with 2;"* && $(named "141 137 3 3 3") == *": gae died by SIGKILL"* ]] &&
        [[ $(named "0 0 0 137 3") == *": film died by SIGKILL; training continued without it" && $(named "0 0 0 0 1") == *": log ended with 1; "*without* ]] &&
        mkdir logs && echo "mf-ppo: error: of this start" >logs/ppo.log && [[ $(named "1 3 3 3 3") == *": ppo ended with 3: of this start;"* ]] &&
        began() { bash -c 'source "$0/pipelines/common.bash"; begin .; echo "mf-gae: error: <stdin> is truncated: it ends" >logs/gae.log
            names=(collect gae ppo film log) status=($1); deaths . 3' "$ROOT" "$@" 2>&1; } && # an error of an earlier start is none
        [[ $(began "1 3 3 3 3") == *": collect ended with 1;"* && -z $(named "0 0 0 0 0") ]]
}

@test "cluster: prints a job of one learner and a collector on each other node" {
    "$ROOT/pipelines/cluster" --nodes 3 --cpus 2 --config-name=lift "policy.hidden=[8,8]" "run.name='a b'" advantage.advantage_type=n_step >job.sh 2>err || { cat err; return 1; }
    # shellcheck disable=SC2016 # the job expands it
    bash -n job.sh && grep -q '^#SBATCH .*--nodes=3 .*--cpus-per-task=2$' job.sh && grep -q 'mf-nstep --in "@tcp://$host:$port" "${learner\[@\]}" | mf-ppo' job.sh || return 1
    run=$(eval "$(grep '^run=' job.sh)" && echo "$run") && [[ $run == "outputs/a b/cluster" ]] && grep -q 'collect.sources=2 ' job.sh || return 1
    "$ROOT/pipelines/cluster" --nodes 2 policy.steer=sac | grep -q '^ *mf-sac --in "@tcp' || return 1
    for bad in "" "--nodes 1" "--nodes 3 --cpus x" "--nodes" "--nodes 99999999999999999999" "--nodes 99999 --collectors 99" "--nodes 2 --cpus 1e99"; do
        # shellcheck disable=SC2086 # words
        run -2 "$ROOT/pipelines/cluster" $bad && [[ $output == "pipelines/cluster: "*--* || $output == *"more than the 65536 that"* ]] && [[ ${#lines[@]} == 1 ]] || { echo "$bad: $output"; return 1; }
    done
    run -2 "$ROOT/pipelines/cluster" --nodes 2 policy.checkpoint=none && [[ $output == *"cannot open none"* && ${#lines[@]} == 1 ]]
}

@test "a policy, a list or a seed that is not there ends a script before anything begins" {
    local line
    while read -r line; do
        # shellcheck disable=SC2086 # words
        run -2 "$ROOT"/pipelines/$line </dev/null && [[ ${#lines[@]} == 1 && ! -e outputs ]] || { echo "$line: $output"; return 1; }
    done <<'END'
train-multi 2 env=point policy.checkpoint=none
compare --methods grpo env=point policy.checkpoint=none
compare --methods grpo --seeds 99999999999999999999 env=point
sweep --seeds x env=point
sweep --list none env=point
sweep --jobs 99999999999 env=point
END
}

@test "a seed, an experiment or a method that is given twice ends a script before anything begins" {
    twice() { run -2 "$ROOT/pipelines/$1" "${@:3}" env=point </dev/null && [[ $output == "pipelines/$1: $2 twice: give it once" && ! -e outputs ]]; }
    twice sweep "--seeds has 0" --seeds "0 1 0" && twice sweep "--seeds has 1" --seeds "1 01" && twice sweep "--seeds has 3" run.seed=3,3 &&
        twice sweep "--configs has a" --configs "a a" && twice compare "--methods has grpo" --methods "grpo rfc grpo" &&
        twice compare "--seeds has 2" --methods grpo --seeds "2 2" || { echo "$output"; return 1; }
}

@test "train: a monitor dies, and the training continues; the script names it, and exits with the training's status" {
    cp -r "$ROOT/pipelines" . && mkdir bin && ln -s "$ROOT"/bin/* bin && rm bin/mf-film &&
        printf '#!/bin/sh\nkill -9 $$\n' >bin/mf-film && chmod +x bin/mf-film && pipelines/train "${tiny[@]}" training.total_timesteps=600 >out 2>err &&
        told "pipelines/train: mf-film died by SIGKILL; training continued without it" && told "mf-ppo: warn: <stdout>: the reader is gone; the run continues" &&
        ! grep 'error:' err && told "outputs/point/ppo is done"
}

@test "train: TERM to the script reaches its programs, and it ends after them" {
    "$ROOT/pipelines/train" "${tiny[@]}" training.total_timesteps=100000000 >out 2>err &
    local pid=$! tries=500 programs
    until mf-view outputs/point/ppo/logs/metrics.mf 2>/dev/null | grep -q '"step"' || ((tries-- == 0)); do sleep .05; done
    programs=$(pgrep -P $pid mf-) && kill -TERM $pid && ended_by 143 $pid && [[ $(wc -w <<<"$programs") -eq 5 ]] && ! ps -p "$(xargs <<<"$programs" | tr ' ' ,)" &&
        grep -qE "^pipelines/train: stopped by SIGTERM; the newest checkpoint is outputs/point/ppo/checkpoints/0.*; the last metrics are of iteration .*; the same words resume it" err &&
        pipeline train "${tiny[@]}" training.total_timesteps=100 && told "resuming outputs/point/ppo"
}

@test "train: the estimator may be any program" {
    pipeline train "${tiny[@]}" training.total_timesteps=600 "advantage.stage='/usr/bin/python3 $ROOT/examples/vtrace.py'" advantage.gamma=.9 &&
        mf-view outputs/point/ppo/logs/metrics.mf | jq -es '.[0].chain[1] | .stage == "vtrace.py" and (.argv | index("advantage.gamma=.9") != null)' >/dev/null &&
        ! pipeline train "${tiny[@]}" advantage.stage=no_such_filter && told "pipelines/train: advantage.stage: no program no_such_filter"
}

@test "train, pretrain: a line of text an iteration on stderr; frames only into a pipe" {
    pipeline train "${tiny[@]}" training.total_timesteps=600 && [[ ! -s out && $(grep -cE '^mf-ppo: info: iteration [0-9]+, [0-9]+ steps in .* kl ' err) -eq 3 ]] && told "outputs/point/ppo: watch it from another terminal: mf-top outputs/point/ppo" &&
        "$ROOT/pipelines/train" "${tiny[@]}" training.total_timesteps=1200 2>err | cat >m.mf && mf-check m.mf &&
        mf-collect collect.actor=expert collect.episodes=8 | mf-record demos.hdf5 >/dev/null &&
        pipeline pretrain clone.dataset=demos.hdf5 clone.steps=20 clone.batch_size=16 "${tiny[@]}" && [[ ! -s out ]] && grep -E '^mf-bc: info: minibatch 20 of 20 in .*, loss ' err &&
        rows=$(script -qec "$ROOT/pipelines/train run.dir=t ${tiny[*]} training.total_timesteps=600" /dev/null </dev/null) && [[ $(grep -cE '^ +[0-9]+ +[0-9]+ +[0-9.]+s ' <<<"$rows") -eq 3 && $rows == *"steps/s"* && $rows != *values* ]]
}

@test "train, train-multi, pretrain: a reader of the frames has the terminal alone until it ends" {
    local reader="(cat >m.mf && sleep .5 && echo 'the reader is over')" p
    mf-collect collect.actor=expert collect.episodes=8 | mf-record demos.hdf5 >/dev/null
    for p in train "train-multi 2" "pretrain clone.dataset=demos.hdf5 clone.steps=20 clone.batch_size=16"; do
        rm -rf t && script -qec "$ROOT/pipelines/$p run.dir=t ${tiny[*]} training.total_timesteps=600 | $reader" /dev/null </dev/null >err &&
            mf-check m.mf && [[ $(head -1 err) == "the reader is over"* ]] && told "t is done. Next:" || { cat err; return 1; }
    done
    script -qec "$ROOT/pipelines/train env=none | $reader" /dev/null </dev/null >err
    [[ $(head -1 err) == "the reader is over"* ]] && told "unknown environment 'none'"
}

@test "each of the printed next commands works, with the configuration" {
    mf-collect collect.actor=expert collect.episodes=8 policy.n_action_steps=2 | mf-record "d'x.hdf5" >/dev/null
    printf 'defaults: [point]\ntraining: {num_envs: 4, num_steps_per_rollout: 4, total_timesteps: 600}\n' >"my conf.yaml"
    next() { sed '1,/is done. Next:/d; s/^    //' err; }
    MF_CONFIG="$T/my conf.yaml" pipeline pretrain clone.dataset="'d\\'x.hdf5'" 'policy.hidden=[8, 8, 8]' policy.n_action_steps=2 clone.steps=20 clone.warmup_steps=0 clone.batch_size=16 "run.name='it\\'s'" threads=1 &&
        next >lines && [[ $(wc -l <lines) -eq 2 ]] && bash -e lines 2>err && told "it's/ppo is done" && grep -q 'num_envs: 4' "outputs/it's/ppo/configs/mf-ppo.yaml" &&
        grep -q 'hidden: \[8, 8, 8\]' "outputs/it's/ppo/configs/mf-ppo.yaml" && [[ $(readlink "outputs/it's/latest") == ppo ]] || { cat lines err; return 1; }
    sed '1,/ppo is done. Next:/d; /^    /!d; s/^    //; /tensorboard/d; /^trials/d; /^ *[0-9]/d' err >lines && [[ $(wc -l <lines) -ge 3 ]] && bash -e lines >out 2>err || { cat lines err; return 1; }
}

@test "pretrain: the hint for an external environment names the missing env.command, and works with it" {
    mf-collect collect.actor=expert collect.episodes=8 policy.n_action_steps=1 | mf-record d.hdf5 >/dev/null
    /usr/bin/python3 -c 'import h5py; h5py.File("d.hdf5", "a")["data"].attrs["env_args"] = "{\"env_name\": \"theirs\", \"type\": 2, \"env_kwargs\": {}}"' || skip "no python3-h5py"
    pipeline pretrain clone.dataset=d.hdf5 clone.steps=20 clone.batch_size=16 clone.warmup_steps=0 "${tiny[@]:1}" && told "env.command is missing: what starts a server of 'theirs', which is no environment of maniflow" &&
        sed -n "s/^    \(.*eval .* env=exec env.command='\)\.\.'$/\1mf-env point' eval.num_episodes=4/p" err >lines && [[ -s lines ]] && bash -e lines 2>err || { cat lines err; return 1; }
}

@test "train, eval: an environment in another process needs its command once" {
    pipeline train env=exec "env.command='$ROOT/bin/mf-env point threads=1'" env.max_steps=5 "${tiny[@]:1}" training.total_timesteps=300 run.name=served && sed -n 's/^    \(.*eval .*\)/\1/p' err >lines && [[ -s lines ]] &&
        bash lines 2>err && jq -e '.results[0].trials.length | max <= 5' outputs/served/ppo/logs/eval.json >/dev/null &&
        pipeline eval outputs/served eval.num_episodes=2 env.max_steps=7 && jq -e '.results[0].trials.length | max == 7' outputs/served/ppo/logs/eval.json >/dev/null || { cat lines err; return 1; }
    chown 4242 outputs/served/ppo 2>/dev/null || skip "only root gives a folder to another"
    run -2 mf-eval outputs/served eval.num_episodes=2 --out /dev/null &&
        [[ $output == *"outputs/served/ppo belongs to another user, and its environment is started by the command: $ROOT/bin/mf-env point threads=1; if you trust it, give it as env.command"* ]] &&
        mf-eval outputs/served eval.num_episodes=2 env.command="$ROOT/bin/mf-env point" --out /dev/null
}

# stub: a package wandb that records its calls.
stub() {
    mkdir -p stub && cat >stub/wandb.py <<'END'
def note(*what):
    with open("wandb.log", "a") as f:
        print(*what, file=f)
class Run:
    def log(self, values, step=None): note("log", step, values.get("rollout/success_once", "-"))
    def finish(self): note("finish")
def init(**kw):
    note("init", kw["id"], kw["resume"], kw["name"], kw["config"]["training"]["num_envs"], kw["config"]["policy"]["hidden"])
    return Run()
END
    export PYTHONPATH="$T/stub" PATH="/usr/bin:$PATH"
}

@test "train: W&B gets every iteration, the configuration, and the same run after a resume" {
    stub && for total in 600 1200; do pipeline train "${tiny[@]}" training.total_timesteps=$total use_wandb=true || { cat err; return 1; }; done
    [[ $(grep -c '^init' wandb.log) -eq 2 && $(grep '^init' wandb.log | sort -u | wc -l) -eq 1 && $(head -1 wandb.log) == "init $(cat outputs/point/ppo/logs/wandb.id) allow point 8 [8]" ]] &&
        [[ $(grep -c '^log' wandb.log) -eq $(mf-view outputs/point/ppo/logs/metrics.mf | grep -c '"metrics"') && $(grep -c finish wandb.log) -eq 2 ]] &&
        pipeline train "${tiny[@]}" training.total_timesteps=600 use_wandb=true run.resume=never run.force=true && [[ $(grep '^init' wandb.log | sort -u | wc -l) -eq 2 ]]
}

@test "train: without W&B's package it says so before anything runs" {
    mkdir stub && echo 'raise ImportError("No module named wandb")' >stub/wandb.py
    run -2 env PYTHONPATH="$T/stub" PATH="/usr/bin:$PATH" "$ROOT/pipelines/train" "${tiny[@]}" use_wandb=true &&
        [[ $output == *"-m pip install wandb msgpack, or use_wandb=false" && ! -e outputs ]]
}

@test "W&B's bridge: live, and complete after TERM" {
    stub && mkfifo feed && { /usr/bin/python3 "$ROOT/examples/wandb_bridge.py" <feed & local bridge=$!; } && exec 8>feed || return 1
    /usr/bin/python3 -c 'import msgpack, os
for i in range(3): os.write(1, msgpack.packb({"mf": "metrics", "iter": i, "step": i, "time": 0.0, "values": {"rollout/success_once": float("nan") if i == 1 else i}}))' >three
    mkdir -p run/configs run/logs && printf 'training:\n  num_envs: 4\npolicy:\n  hidden: [8]\n' >run/configs/mf-ppo.yaml
    /usr/bin/python3 -c 'import msgpack, os; os.write(1, msgpack.packb({"mf": "head", "v": 1, "run": "run", "src": "", "seed": 0, "spec": {}, "chain": []}))' >&8 && cat three >&8
    local tries=200 && until grep -q 'log 2 2' wandb.log 2>/dev/null || ((tries-- == 0)); do sleep .05; done
    grep -q 'log 1 nan' wandb.log && cat three >&8 && kill -TERM "$bridge" && ended_by 143 "$bridge" && exec 8>&- && [[ $(tail -1 wandb.log) == finish && $(grep -c '^log' wandb.log) -eq 6 ]]
}
