# A run's folder: nothing in it changes before the run is accepted, it is locked where locks are, and names are no paths.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    small=(env=point training.num_envs=4 training.num_steps_per_rollout=4 training.total_timesteps=64 threads=1
        training.batch_size=16 training.num_epochs=1 'policy.hidden=[8]' 'policy.critic_hidden=[8]' policy.n_action_steps=1)
    held=
}

# go DIR [word ...]: the pipe in DIR, its statuses in $status and its messages in DIR.err.
go() {
    local dir=$1
    shift
    : >"$dir.err"
    mf-collect "${small[@]}" run.dir="$dir" "$@" 2>>"$dir.err" | mf-gae "$@" 2>>"$dir.err" |
        mf-ppo "${small[@]}" run.dir="$dir" "$@" 2>>"$dir.err" | mf-film film.every=0 2>>"$dir.err" | mf-log >/dev/null 2>>"$dir.err"
    status=${PIPESTATUS[*]}
}

# held DIR [word ...]: the same in the background, for ever; waits until it learns. Its shell is $held.
held() {
    set -m # a group of its own
    bash -c 'mf-collect "$@" training.total_timesteps=100000000 | mf-gae | mf-ppo "$@" >/dev/null' _ "${small[@]}" run.dir="$1" "${@:2}" 2>held.err &
    held=$!
    set +m
    until_there learns "$1" && until_there locked "$1"
}
learns() { [[ $(find "$1/checkpoints" -name '*.safetensors' 2>/dev/null | wc -l) -gt 3 ]]; }
locked() { ! flock -n "$1/lock" true; }
let_go() { kill -TERM -- "-$held" && { wait "$held" || true; } && held=; }
teardown() { [[ -z $held ]] || kill -KILL -- "-$held"; }

# all_of DIR: every file with its content and the time of its last change.
all_of() { find "$1" ! -name '*lock' -printf '%P %T@ %l\n' -type f -exec sha256sum {} \; | sort; }

@test "a refused run changes nothing in the folder of the finished one" {
    go a && [[ $status == "0 0 0 0 0" && -e a/configs/mf-gae.yaml && -e a/logs/mf-ppo.log && -e a/logs/metrics.csv ]] || return 1
    all_of a >before
    local words
    for words in "run.resume=auto training.learning_rate=.5" "run.resume=auto advantage.gae_lambda=.5" \
        "run.resume=auto training.num_steps_per_rollout=8" "training.learning_rate=.5" "run.resume=auto run.seed=5" \
        "run.resume=auto policy.hidden=[16]" "run.force=true policy.hidden=[16] policy.checkpoint=a" "run.force=true policy.checkpoint=none"; do
        # shellcheck disable=SC2086
        go a $words && [[ " $status " == *" 2 "* || " $status " == *" 1 "* ]] && all_of a >after && cmp before after || { echo "$words: $status" && cat a.err && diff before after && return 1; }
    done
    mf-ppo "${small[@]}" run.dir=a run.force=true policy.hidden=[16] </dev/null 2>/dev/null || true
    mf-bc clone.dataset="$ROOT/tests/fixtures/point.hdf5" run.dir=a clone.steps=1 --out /dev/null && return 1
    all_of a >after && cmp before after
    go a run.resume=auto training.total_timesteps=128 && [[ $status == "0 0 0 0 0" && -e a/checkpoints/000008.safetensors ]] &&
        grep -q "resuming a/checkpoints/000004" a/logs/mf-ppo.log # what was said before it was accepted, too
}

@test "run.force refused by the learner or a filter keeps the old checkpoints; accepted, it starts over" {
    go a && mf-collect "${small[@]}" run.dir=a run.force=true 2>/dev/null | mf-gae 2>/dev/null | mf-ppo "${small[@]}" policy.horizon=9 >/dev/null 2>err || true
    [[ -e a/checkpoints/000004.safetensors ]] && grep -q horizon err && go a run.force=true training.total_timesteps=16 && [[ $status == "0 0 0 0 0" ]] &&
        [[ $(ls a/checkpoints) == $'000001.json\n000001.safetensors' && $(mf-stat a | grep -c .) -gt 0 ]]
}

@test "a recorded configuration that is empty, a folder or a pipe does not prevent a resume" {
    go a && : >a/configs/mf-ppo.yaml && rm a/configs/mf-collect.yaml a/configs/mf-gae.yaml && mkdir a/configs/mf-collect.yaml && mkfifo a/configs/mf-gae.yaml || return 1
    timeout 20 bash -c "$(declare -p small); $(declare -f go); go a run.resume=auto training.total_timesteps=80; [[ \$status == '0 0 0 0 0' ]]" &&
        [[ -e a/checkpoints/000005.safetensors && -s a/configs/mf-ppo.yaml && -p a/configs/mf-gae.yaml ]] &&
        grep -q "mf-gae: warn: cannot read the configuration of the run in a: a: a/configs/mf-gae.yaml is a pipe" a.err || { cat a.err && return 1; }
}

@test "a pipe, a socket or a device in the place of a run's file is named, and does not block" {
    local program
    go a && mkdir b && cp -r a/checkpoints b && mkdir b/logs b/configs && mkfifo b/logs/metrics.mf || return 1
    for program in mf-stat mf-check mf-view; do
        run timeout 10 "$program" b
        [[ $status -ne 124 && $status -ne 0 && $output == *"b/logs/metrics.mf is a pipe, not a regular file"* ]] || { echo "$program $status $output" && return 1; }
    done
    rm a/logs/metrics.mf && mkfifo a/logs/metrics.mf a/logs/metrics.part && timeout 20 bash -c "$(declare -p small); $(declare -f go); go a run.resume=auto training.total_timesteps=80" &&
        [[ -e a/checkpoints/000005.safetensors || $(cat a.err) == *"a device or a pipe"* ]] &&
        rm b/checkpoints/* && mkfifo b/checkpoints/000001.safetensors && run timeout 10 mf-eval b && [[ $status -ne 124 && $output == *"is a pipe"* ]]
}

@test "a pipe in the place of a stage's wait times, or of a configuration, does not block" {
    mkdir -p a/logs && mkfifo a/logs/mf-gae.idle a/logs/mf-collect.idle c.yaml && timeout 20 bash -c "$(declare -p small); $(declare -f go); go a; [[ \$status == '0 0 0 0 0' ]]" || { cat a.err && return 1; }
    run timeout 10 mf-conf --config c.yaml
    [[ $status -eq 2 && $output == *"c.yaml is a pipe, not a regular file"* ]] && mf-conf --config <(echo 'run: {name: b}') | grep -q '^  name: b$'
}

@test "a saved stream and a second filter leave a run in progress alone" {
    mf-collect "${small[@]}" run.dir=a | tee saved.mf | mf-gae | mf-ppo "${small[@]}" >/dev/null && held a run.resume=auto && all_of a/configs >before &&
        mf-gae advantage.gae_lambda=.1 --in saved.mf >/dev/null 2>err && ! grep -q already err &&
        mf-gae advantage.gae_lambda=.1 < <(cat saved.mf) 2>err >/dev/null && grep -q "the run in a already has a running mf-gae" err &&
        mf-gae --in saved.mf >ready.mf && mf-ppo "${small[@]}" --in ready.mf run.dir=b 2>err >/dev/null && grep -q "writing to b, not to the stream's run" err &&
        all_of a/configs >after && cmp before after && kill -0 "$held" && let_go
}

nolocks() {
    preload nolocks && export LD_PRELOAD=$T/nolocks.so NOLOCK_ERRNO=$1
}

@test "a file system without locks: the run continues, with one warning of what is not protected" {
    local code
    for code in 37 38 95; do # ENOLCK, ENOSYS, EOPNOTSUPP
        (nolocks $code && go "a$code" && [[ $status == "0 0 0 0 0" ]]) && [[ -e a$code/checkpoints/000004.safetensors && -s a$code/configs/mf-gae.yaml && ! -d outputs ]] &&
            [[ $(grep -c "has no locks" "a$code.err") == 1 ]] && ! grep -q "belongs to a run" "a$code.err" || { cat "a$code.err" && return 1; }
    done
    (nolocks 37 && go a37 run.resume=auto training.total_timesteps=80 && [[ $status == "0 0 0 0 0" ]]) && [[ -e a37/checkpoints/000005.safetensors && ! -s a37/lock ]] || return 1
    (nolocks 37 && mf-eval a38 eval.num_episodes=4 eval.num_inference_steps=[1,2] eval.results=r.jsonl >/dev/null 2>err) && [[ $(wc -l <r.jsonl) == 2 && $(grep -c "cannot be locked" err) == 1 ]]
}

@test "a resuming run waits for the run that locks its folder, up to run.wait; any other is refused at once" {
    held a && run -1 --separate-stderr timeout 20 mf-collect "${small[@]}" run.dir=a run.resume=auto run.wait=.4 --out /dev/null &&
        [[ $stderr == *"waiting up to 0.4 s for its end (run.wait)"*"has not ended in 0.4 s (run.wait)"* ]] || return 1
    SECONDS=0
    run -1 timeout 20 mf-collect "${small[@]}" run.dir=a --out /dev/null && [[ $output == *"belongs to a run in progress; give another run.dir"* && $SECONDS -lt 10 ]] || return 1
    (go a run.resume=auto && echo "$status" >statuses) &
    local second=$! rc=0
    until_there grep -q "waiting up to 120 s" a.err && sleep .5 && [[ ! -e statuses ]] && let_go && wait "$second" && [[ $(cat statuses) == "0 0 0 0 0" ]] || return 1
    held a run.resume=auto || return 1
    mf-collect "${small[@]}" run.dir=a run.resume=auto --out /dev/null 2>err &
    second=$!
    until_there grep -q "waiting up to" err && kill -TERM $second && wait $second || rc=$?
    let_go && [[ $rc == 143 ]]
}

@test "a folder path too long for a socket: the policy is served from a private folder, which is removed" {
    local deep
    printf -v deep 'abcdefghij/%.0s' {1..14}
    export XDG_RUNTIME_DIR=$PWD/rt && mkdir rt && mkdir -p "$deep" && go "$deep"a && [[ $status == "0 0 0 0 0" && -e ${deep}a/checkpoints/000004.safetensors ]] &&
        [[ $(stat -c %a rt/maniflow-*) == 700 && -z $(ls rt/maniflow-*) ]] || { cat "${deep}a.err" && return 1; }
    run -2 mf-collect "${small[@]}" collect.policy_address="ipc://$PWD/${deep}s" --out /dev/null && [[ $output == *"has a path of "*" bytes and at most 107 are possible"* ]]
}

@test "the link latest goes to a run that has learned something, which says which one it was" {
    local words=(clone.dataset="$ROOT/tests/fixtures/point.hdf5" clone.steps=0 threads=1)
    mf-bc "${words[@]}" run.dir=outputs/point/a --out /dev/null 2>a.err
    run ! grep latest a.err
    mf-bc "${words[@]}" run.dir=outputs/point/b --out /dev/null 2>b.err
    grep -q 'info: outputs/point/latest is this run now, b; it was a$' b.err
    mf-bc "${words[@]}" run.dir=outputs/point/b run.resume=auto --out /dev/null 2>b.err
    run ! grep latest b.err
    [[ $(readlink outputs/point/latest) == b ]]
}

@test "names in streams and files are not used as paths" {
    run -2 mf-collect "${small[@]}" collect.src=../x --out /dev/null && [[ $output == *"collect.src=../x: must be a name, not a path: it contains '/'"* ]] &&
        run -2 mf-conf run.name=.. && [[ $output == *"must be a name"* ]] || return 1
    mf-collect "${small[@]}" env=exec env.command="/usr/bin/python3 $ROOT/tests/tools/env_server.py name" env.workers=1 2>err | mf-gae | mf-ppo "${small[@]}" >/dev/null 2>>err
    [[ $(ls) == *outputs* && $(ls outputs) == _.*x && $(ls outputs/*) == *latest* && ! -e ../x && ! -e ../../x ]] || { cat err; find . -maxdepth 3; return 1; }
}

@test "pipelines accept such names as plain names" {
    (source "$ROOT/pipelines/common.bash" && run_dir ppo wandb_run_name=../../x && run_dir clone env=ALE/Pong-v5 && run_dir ppo run.name=mine && run_dir ppo run.dir=/x/y) >dirs &&
        [[ $(cat dirs) == $'outputs/_._.._x/ppo\noutputs/ALE_Pong-v5/clone\noutputs/mine/ppo\n/x/y' ]]
}
