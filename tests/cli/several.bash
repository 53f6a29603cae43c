# Several collectors of one learner, for the files that load this in place of helpers.
load helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    small=(env=point training.num_envs=8 training.num_steps_per_rollout=8 training.total_timesteps=2400
        training.batch_size=32 training.num_epochs=2 'policy.hidden=[32]' 'policy.critic_hidden=[32]' threads=1)
}

teardown() { # what a failed test has left
    local rest
    for rest in $(jobs -p); do
        pkill -9 -P "$rest" || true
        kill -9 "$rest" 2>/dev/null || true
    done
}

# save FILE: tee. Where `hold` is set, only that many bytes pass, and then it waits.
save() {
    [[ -z ${hold:-} ]] || { stdbuf -o0 head -c "$hold" | tee "$1" && exec sleep 1000; }
    exec tee "$1"
}
half() { echo $(($(stat -c %s "$1.rollouts") / 2)); }

# learn DIR [word ...]: mf-gae | mf-ppo that wait for two sources; collect DIR NAME [word ...]: one of them.
learn() {
    local dir=$1
    shift
    mkdir -p "$dir"
    { mf-gae --in "ipc://$PWD/$dir/in" "${small[@]}" "$@" 2>"$dir.gae" | save "$dir.rollouts" |
        mf-ppo "${small[@]}" collect.policy_address="ipc://$PWD/$dir/policy" run.dir="$dir" collect.sources=2 "$@" >"$dir.mf" 2>"$dir.ppo"; } &
    learner=$!
}
collect() {
    local dir=$1 name=$2
    shift 2
    mf-collect --out "ipc://$PWD/$dir/in" "${small[@]}" collect.policy_address="ipc://$PWD/$dir/policy" collect.src="$name" "$@" 2>"$dir.$name" &
    collector=$!
}
# both DIR [word ...]: a whole run of two.
both() {
    learn "$@"
    collect "$1" a "${@:2}"
    local a=$collector
    collect "$1" b "${@:2}"
    wait "$a" && wait "$collector" && wait "$learner"
}

# A long run of a and b; ends_well: both end, and all streams are complete.
begin_long() {
    small+=(training.total_timesteps=1000000000)
    learn a && collect a a && a=$collector && collect a b && b=$collector && until_there iterations a 2
}
ends_well() {
    local seen
    seen=$(mf-stat a/logs/metrics.mf 2>/dev/null | sed -n 's/^metrics *//p')
    until_there iterations a $((seen + 3)) && kill -INT "$a" "$b" && ended_by 130 "$a" && ended_by 130 "$b" && wait "$learner" && mf-check a.rollouts
}
