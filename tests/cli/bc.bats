# mf-bc: metrics on stdout, a checkpoint, and the same bytes for every way of running it.
# shellcheck disable=SC2154,SC2030,SC2031,SC2086 # bats sets stderr and forks per test; $small is words

load helpers

setup() {
    export PATH="$BATS_TEST_DIRNAME/../../bin:$PATH"
    demos=$BATS_TEST_TMPDIR/point.hdf5 # whose path needs no quotes, wherever the checkout is
    ln -s "$BATS_TEST_DIRNAME/../fixtures/point.hdf5" "$demos"
    small="clone.dataset=$demos policy.hidden=[32,32,32] clone.batch_size=64 clone.steps=60 clone.warmup_steps=10"
    cd "$BATS_TEST_TMPDIR" || return
}

bc() { # shellcheck disable=SC2086 # words
    mf-bc $small "$@"
}

clone() { echo "$1/checkpoints/clone.safetensors"; }

@test "a complete stream of metrics, whose loss falls, and its copy in the run's folder" {
    bc run.dir=a clone.steps=400 >a.mf
    mf-check <a.mf
    mf-check <a/logs/metrics.mf
    mf-view <a.mf | jq -es 'map(select(.mf == "metrics")) | length == 40 and
        .[39].values["train/loss"] < .[0].values["train/loss"] * .8 and .[39].step == 400'
    [ "$(mf-view <a.mf | jq -s '.[0].spec.obs | keys_unsorted | join(",")')" = '"position,velocity,goal"' ]
    [ -s "$(clone a)" ]
}

@test "the number of threads changes no byte" {
    bc run.dir=one threads=1 >/dev/null
    bc run.dir=two threads=2 >/dev/null
    cmp "$(clone one)" "$(clone two)"
    bc run.dir=other run.seed=1 >/dev/null
    run ! cmp -s "$(clone one)" "$(clone other)"
}

@test "an interrupted run resumes to the same bytes" {
    small="$small clone.steps=1000"
    bc run.dir=whole >/dev/null
    interrupt TERM mf-bc $small run.dir=cut
    [ -s "$(clone cut)" ]
    run ! cmp -s "$(clone whole)" "$(clone cut)"
    bc run.dir=cut run.resume=auto >/dev/null
    cmp "$(clone whole)" "$(clone cut)"
    [ "$(mf-view <cut/logs/metrics.mf | jq -s 'map(select(.mf == "metrics").iter) == [range(100)]')" = true ]
    : >"$(clone cut).part" # as a killed program leaves it
    bc run.dir=cut run.resume=auto >/dev/null
    cmp "$(clone whole)" "$(clone cut)" && [[ ! -e $(clone cut).part ]]
}

@test "TERM saves and ends by the signal" {
    # shellcheck disable=SC2086 # words
    mf-bc $small run.dir=t clone.steps=1000000 >t.mf 2>t.err &
    pid=$!
    until [ -s t/logs/metrics.mf ] && [ -s t.mf ]; do kill -0 "$pid" && sleep 0.05; done
    kill -TERM "$pid"
    status=0
    wait "$pid" || status=$?
    [ "$status" -eq 143 ]
    [ -s "$(clone t)" ]
    grep -qE 'stopped at minibatch [1-9][0-9]* of 1000000; its checkpoint is t/checkpoints/clone.safetensors' t.err
}

@test "shortcut and consistency losses, EMA by power, a filter, both conventions" {
    net="policy.network=shortcut_mlp policy.cond_hidden=[16,16]"
    for words in "clone.loss=shortcut" "clone.loss=consistency clone.ema_decay=0" \
        "clone.loss=shortcut policy.convention=noise1 clone.filter_key=train" "clone.loss=flow clone.normalizer=gaussian" "clone.normalizer=quantile clone.normalize_actions=true"; do
        # shellcheck disable=SC2086 # words
        bc run.dir=s run.force=true $net $words >s.mf
        mf-check <s.mf
    done
}

@test "cfm, for every network: a killed run resumes to the same bytes, with the average that teaches" {
    mf-collect env=point collect.actor=expert collect.episodes=8 training.num_envs=4 2>/dev/null | mf-record demos.hdf5
    small="$small clone.dataset=demos.hdf5 clone.loss=cfm clone.steps=1000 clone.ema_decay=.9"
    bc run.dir=whole threads=2 >/dev/null
    interrupt TERM mf-bc $small run.dir=cut
    interrupt KILL mf-bc $small run.dir=cut run.resume=auto
    run ! cmp -s "$(clone whole)" "$(clone cut)"
    bc run.dir=cut run.resume=auto threads=1 >/dev/null
    cmp "$(clone whole)" "$(clone cut)"
    for weights in raw ema; do
        mf-eval whole eval.num_episodes=4 policy.weights=$weights eval.json=$weights.json >/dev/null 2>&1
        [ "$(jq -r '.results[0].weights' $weights.json)" = $weights ]
    done
    [ "$(jq -r '.results[0].digest' raw.json)" != "$(jq -r '.results[0].digest' ema.json)" ]
    bc run.dir=alone clone.ema_decay=0 clone.ema_max=0 >/dev/null # the student is its own teacher
    run ! cmp -s "$(clone whole)" "$(clone alone)"
    bc run.dir=steps policy.network=shortcut_mlp 'policy.cond_hidden=[16,16]' policy.target_time=zero clone.steps=20 >/dev/null
    run -2 bc run.dir=refused policy.network=shortcut_mlp 'policy.cond_hidden=[16,16]'
    [[ $output == *"policy.target_time=zero"* ]]
}

@test "invalid requests are refused with an error" {
    run --separate-stderr mf-bc run.dir=r
    [ "$status" -eq 2 ]
    [[ "$stderr" == *clone.dataset* ]]
    run --separate-stderr bc run.dir=r clone.loss=shortcut
    [ "$status" -eq 2 ]
    [[ "$stderr" == *shortcut_mlp* ]]
    run --separate-stderr bc run.dir=r env=lift
    [ "$status" -ne 0 ]
    [[ "$stderr" == *object* ]]
    bc run.dir=r >/dev/null
    run --separate-stderr bc run.dir=r
    [ "$status" -eq 2 ]
    [[ "$stderr" == *run.resume=auto* ]]
    run --separate-stderr bc run.dir=r run.resume=auto run.seed=7
    [ "$status" -eq 2 ]
    [[ "$stderr" == *run.seed=0* ]]
    run --separate-stderr bc run.dir=r run.resume=auto 'policy.hidden=[16,16,16]'
    [ "$status" -eq 2 ]
    [[ "$stderr" == *16* ]]
}

@test "a clone resumes with its own words; a clone and a training do not share a folder" {
    local words before
    bc run.dir=r >/dev/null && before=$(cat r/configs/mf-bc.yaml) && cp "$demos" moved.hdf5 || return 1
    for words in clone.learning_rate=.5 clone.batch_size=8 clone.steps=90 clone.loss=shortcut; do
        run ! bc run.dir=r run.resume=auto "$words" --out /dev/null && [[ $status -eq 2 && $before == "$(cat r/configs/mf-bc.yaml)" ]] || { echo "$words: $output" && return 1; }
    done
    run -2 bc run.dir=r run.resume=auto clone.learning_rate=.5 clone.batch_size=8 --out /dev/null &&
        [[ $output == *"r was started with another configuration: now clone.batch_size=8, which was 64; clone.learning_rate=0.5, which was 0.001; give the old values, or run.force=true"* ]] || return 1
    bc run.dir=r run.resume=auto clone.dataset=moved.hdf5 threads=1 >/dev/null && bc run.dir=r run.resume=auto run.force=true clone.steps=90 >/dev/null &&
        grep -q "resuming r/checkpoints/clone.safetensors at minibatch 60" r/logs/mf-bc.log || return 1
    local train=(env=point training.num_envs=4 training.num_steps_per_rollout=4 training.total_timesteps=64 'policy.hidden=[8]' 'policy.critic_hidden=[8]' threads=1)
    for words in run.resume=auto run.resume=never; do
        run -2 --separate-stderr mf-collect "${train[@]}" run.dir=r "$words" --out /dev/null &&
            [[ $stderr == *"r is a run of mf-bc, which reinforcement learning cannot continue; give another run.dir, or overwrite it with run.force=true"* ]] || return 1
    done
    mf-collect "${train[@]}" run.dir=r run.force=true | mf-gae | mf-ppo "${train[@]}" >/dev/null && [[ ! -e $(clone r) && -e r/checkpoints/000001.safetensors ]] &&
        run -2 bc run.dir=r run.resume=auto --out /dev/null && [[ $output == *"r is a run of reinforcement learning, which mf-bc cannot continue"* ]]
}

@test "on a terminal it shows its progress, not frames" {
    run script -qec "mf-bc $small run.dir=t" /dev/null
    [ "$status" -eq 0 ]
    [[ "$output" == *"60 minibatches"* ]]
    [[ "$output" != *train/loss* ]]
    # mpirun's terminal, whose other end is a pipe: frames, also where a shell stands between
    OMPI_COMM_WORLD_SIZE=1 script -qec "bash -c 'mf-bc $small run.dir=u; exit'" /dev/null </dev/null 2>err | cat >out
    grep -aq train/loss out
}

@test "every program accepts its folder as a run, also through the link latest" {
    local run clone
    mf-collect env=point collect.actor=expert collect.episodes=8 training.num_envs=4 2>/dev/null | mf-record demos.hdf5
    bc clone.dataset=demos.hdf5 run.dir=o/lift clone.steps=300 >/dev/null
    ln -s lift o/latest
    clone=$(clone o/lift)
    for run in o/lift o o/latest; do
        [ "$(mf-ckpt path "$run")" = "${clone/o\/lift/${run/%o/o/lift}}" ]
        [ "$(mf-ckpt show "$run")" = "$(mf-ckpt show "$clone")" ]
        mf-ckpt diff "$run" "$clone" | grep -qx 'the same'
        mf-ckpt verify "$run" | grep -q 'clone.safetensors: ok'
        mf-ckpt ls "$run" | grep -q ' clone .*clone.safetensors'
        mf-ckpt export "$run" out.pt
        mf-ckpt ema "$run" ema.safetensors
        mf-ckpt prune "$run" ckpt.keep=1
        mf-eval "$run" eval.num_episodes=2 eval.format=csv log.level=error 2>&1 >/dev/null | grep -q 'clone.safetensors,'
        [ "$(mf-check "$run")" = "whole: 32 frames" ]
        mf-stat "$run" | grep -q 'metrics *30'
        mf-top "$run" | grep -q 'o.*iteration=30'
        mf-plot "$run" 'plot.series=[train/loss]' >/dev/null
        mf-report "$run" | grep -q '<h3>'
    done
    mf-collect policy.checkpoint=o/lift run.dir=ppo training.total_timesteps=200 training.num_envs=4 training.num_steps_per_rollout=8 2>log |
        mf-gae | mf-ppo 2>>log >/dev/null
    grep -q 'starting from o/lift/checkpoints/clone.safetensors' log
    mkdir empty && run -2 mf-eval empty eval.num_episodes=2 && [[ $output == *"empty is not a run"* ]]
}

@test "the recorded configuration of a clone resumes it, for demonstrations of any environment" {
    local args words
    # shellcheck disable=SC2016,SC2089,SC2090 # the name is meant so
    for args in '{"env_name": "MyOwnTask"}' ''; do
        for words in '' 'policy.obs_keys=[a]' 'policy.obs_keys=["\${x}",a]'; do
            rm -rf R && /usr/bin/python3 - "$args" <<'PY' || return 1
import sys, h5py, numpy
f = h5py.File("own.hdf5", "w")
data = f.create_group("data")
if sys.argv[1]:
    data.attrs["env_args"] = sys.argv[1]
demo = data.create_group("demo_0")
demo.attrs["num_samples"] = 5
demo["actions"] = numpy.linspace(-1, 1, 10).reshape(5, 2)
for name, n in ("a", 3), ("${x}", 2):
    demo["obs/" + name] = numpy.linspace(0, 1, 5 * n).reshape(5, n)
PY
            set -- clone.dataset=own.hdf5 clone.batch_size=4 clone.steps=3 clone.warmup_steps=1 run.dir=R
            mf-bc "$@" ${words:+"$words"} >/dev/null 2>log && mf-bc --config R/configs/mf-bc.yaml run.resume=auto >/dev/null 2>>log &&
                mf-bc "$@" ${words:+"$words"} run.resume=auto >/dev/null 2>>log && [[ $(grep -c resuming log) -eq 2 ]] || { echo "$args $words" && cat log && return 1; }
        done
    done
}

@test "the error for a dangling link has its whole path and its file" {
    /usr/bin/python3 - <<'PY' && run -3 mf-bc clone.dataset=a.hdf5 policy.obs_keys=[p] run.dir=R
import h5py, numpy
demo = h5py.File("a.hdf5", "w").create_group("data/demo_0")
demo.attrs["num_samples"] = 5
demo["actions"] = numpy.zeros((5, 2))
demo["obs/p"] = h5py.SoftLink("/nowhere")
PY
    [[ $output == *"'a.hdf5': /data/demo_0/obs/p cannot be opened"* ]] || { echo "$output" && return 1; }
    run -3 mf-data a.hdf5
    [[ $output == *"'a.hdf5': "*"/data/demo_0/obs/p cannot be opened"* ]]
}
