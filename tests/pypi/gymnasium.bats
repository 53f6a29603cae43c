# Gymnasium itself behind examples/envs/gymnasium_env.py.
load ../cli/helpers

setup() {
    cd "$T" || return 1
    export PYTHONPATH=$ROOT/tests/pypi
    server="$ROOT/build/venv/gymnasium/bin/python $ROOT/examples/envs/gymnasium_env.py"
    small=(env=exec env.workers=2 training.num_envs=4 training.num_steps_per_rollout=8 training.total_timesteps=150 threads=1
        policy.horizon=2 policy.n_action_steps=2 'policy.hidden=[8,8,8]' 'policy.critic_hidden=[8]' training.batch_size=16)
}

train() { # COMMAND [word ...]: rollouts in out
    mf-collect "${small[@]}" run.dir=r run.force=true env.command="$1" "${@:2}" 2>err | tee out | mf-gae | mf-ppo "${small[@]}" run.dir=r >/dev/null 2>&1
    [[ ${PIPESTATUS[*]} == "0 0 0 0" ]] || { cat err; return 1; }
}

@test "NextStep, SameStep and Disabled: every episode has return 3, length 3, and a success; reset rows are no transitions" {
    for mode in next_step same_step disabled; do
        train "$server three:Three-v0 --autoreset $mode" && mf-check out || return 1
        mf-view out | jq -c 'select(.mf == "round" and .episodes.n > 0).episodes | [.return, .length, .success]' | sort -u >"$mode"
        [[ $(cat "$mode") == "[3,3,1]" ]] || { echo "$mode: $(cat "$mode")"; return 1; }
        numbers valid <out | grep -qw 0 && echo "$mode" >>resets || true
    done
    [[ $(cat resets) == next_step ]]
}

@test "a MuJoCo task trains, and is evaluated on the same trials twice" {
    train "$server HalfCheetah-v5" env.max_steps=20 && mf-check out
    for i in 1 2; do
        mf-eval "${small[@]}" env.command="$server HalfCheetah-v5" env.max_steps=20 env.workers="$i" r eval.num_episodes=6 eval.num_envs=4 \
            eval.json="$i" >/dev/null 2>&1
    done
    cmp 1 2
}

@test "over ZeroMQ: env=remote finds it" {
    $server three:Three-v0 --bind "ipc://$PWD/sock" 2>/dev/null &
    local pid=$!
    train unused env=remote env.address="ipc://$PWD/sock" && mf-check out
    kill "$pid"
}

@test "every command of examples/own-environment.md, in its order: a clone that PPO makes better, and its video" {
    cd "$ROOT" && rm -rf outputs/reach
    sed -n 's/^    //p' examples/own-environment.md | sed "s|^python3 -m venv .*|true|; s|\$PWD/.venv|$ROOT/build/venv/gymnasium|" >"$T/page"
    bash -euo pipefail "$T/page" >"$T/out" 2>"$T/err" || { tail -5 "$T/err"; return 1; }
    run -0 jq -s '[.[].results[0].success_once]' outputs/reach/before.json outputs/reach/after.json
    [[ $(jq '.[0] > .5 and .[0] < .8 and .[1] > .9' <<<"$output") == true ]] || { echo "$output"; return 1; }
    [[ -s $(echo outputs/reach/ppo/videos/*.mp4) ]] && grep -q "103 succeed" "$T/out" && grep -qF '+0.2' "$T/err"
}

@test "environments as people write them: arrays of one, nested Dicts, integers, matrices of actions" {
    for name in Arrays Nested Whole Matrix; do
        train "$server odd:$name-v0" env.workers=1 && mf-check out &&
            mf-view out | jq -es 'map(select(.mf == "round" and .episodes.n > 0).episodes | [.return, .length, .success]) | unique == [[3, 3, 1]]' || { echo $name; return 1; }
        [[ $name != Nested ]] || mf-view out | jq -es '.[0].spec.obs == {"robot/pos": {shape: [2], dtype: "<f4"}, "robot/n": {shape: [1], dtype: "<f4"},
            scalar: {shape: [1], dtype: "<f4"}, on: {shape: [2], dtype: "<f4"}, bytes: {shape: [2], dtype: "<f4"}}' || return 1
    done
    # Without policy.obs_keys pictures are left out; with them they stay bytes.
    train "$server odd:Nested-v0" env.workers=1 'policy.obs_keys=[image,robot/pos]' && mf-view out |
        jq -es 'map(select(.mf == "rollout"))[0].arrays["obs/image"] | .dtype == "|u1" and .min == 250 and .max == 252'
}

@test "and their faults are named" {
    while IFS=: read -r name text; do
        run ! train "$server odd:$name-v0 --rescale" env.workers=1 env.restarts=0
        grep -qF -- "$text" err || { echo "$name: $output"; return 1; }
    done <<'END'
None:the reward of its step() is None, and must be one finite number
Text:info['success'] is 'yes', and must be one finite number
Wide:observation 'state' is float32 of shape (4,), and its space says (2,)
Huge:observation 'state' has 1e+300, which is more than float32 holds
Tuple:observation 'state' is Tuple(
Buttons:its actions are Discrete(3), and a flow policy makes those of a Box
Unbounded:--rescale needs actions with bounds, and these go from -inf to inf
END
}
