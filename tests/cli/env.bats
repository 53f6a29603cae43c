# Environments in other processes: the protocol, and the effect of their failures on a run.
load helpers

setup() {
    /usr/bin/python3 -c 'import msgpack, numpy' || skip "no python3-msgpack, python3-numpy"
    cd "$BATS_TEST_TMPDIR" || return 1
    small=(training.num_envs=8 training.num_steps_per_rollout=8 training.total_timesteps=1200 training.batch_size=32
        training.num_epochs=2 'policy.hidden=[32,32,32]' 'policy.critic_hidden=[32,32,32]' threads=2)
    counters=(env=exec env.workers=2 training.num_envs=6 training.num_steps_per_rollout=8 training.total_timesteps=250
        policy.n_action_steps=2 policy.horizon=2 training.batch_size=16 training.num_epochs=1 'policy.hidden=[8]'
        'policy.critic_hidden=[8]' threads=1 collect.reward_scale=running)
    server="$ROOT/tests/tools/env_server.py"
}

# train DIR [word ...]: the pipe to its end; its rollouts in DIR.rollouts, its last checkpoint in $last.
train() {
    local dir=$1 status
    shift
    mf-collect "${small[@]}" run.dir="$dir" "$@" 2>"$dir.err" | tee "$dir.rollouts" | mf-gae 2>>"$dir.err" |
        mf-ppo "${small[@]}" run.dir="$dir" >"$dir.mf" 2>>"$dir.err"
    status=${PIPESTATUS[*]}
    last=$(newest "$dir")
    [[ $status == "0 0 0 0" ]] || { cat "$dir.err"; echo "status $status"; return 1; }
}

# count FAULT [word ...]: rollouts of the counters, in out and err; the status in $rc.
count() {
    rc=0
    # shellcheck disable=SC2016 # of the inner shell
    timeout 60 bash -c 'mf-collect "$@" run.dir=c run.force=true 2>err | tee out | mf-gae 2>/dev/null |
        mf-ppo "$@" run.dir=c >/dev/null 2>ppo.err; exit "${PIPESTATUS[0]}"' _ "${counters[@]}" env.command="$server $1" \
        "${@:2}" || rc=$?
}

# start [word ...]: the counters in the background; back when rollouts flow. Its id in $collector.
start() {
    rm -rf c out
    mf-collect "${counters[@]}" env.command="$server" run.dir=c "$@" > >(tee out | mf-gae 2>/dev/null |
        mf-ppo "${counters[@]}" run.dir=c >/dev/null 2>ppo.err) 2>err &
    collector=$!
    local tries=500
    until [[ -s out && $(wc -c <out) -gt 5000 ]]; do
        ((tries-- > 0)) || { cat err; return 1; }
        sleep 0.02
    done
}

# The shells and the servers that the collector started.
servers() {
    local shells
    shells=$(pgrep -P "$collector" -f env_server)
    echo "$shells"
    pgrep -P "${shells//$'\n'/,}" -f env_server
}

# fails STATUS 'SENTENCE' FAULT: it exits with STATUS and this error.
fails() {
    count "$3" "${@:4}"
    [[ $rc -eq $1 && $(grep -c ': error: ' err) -eq 1 && $(grep ': error: ' err) == *"$2"* ]] ||
        { echo "$3: status $rc, not $1: $(cat err)"; return 1; }
}

# Checks the counters' rollouts: every valid row is part of a complete episode of 3 steps. The round's counts and the
# running reward scale are over valid rows alone.
sound() {
    /usr/bin/python3 - out <<'PY'
import msgpack, numpy as np, sys
dec = lambda m: np.frombuffer(m[b"data"], m[b"type"]).reshape(m[b"shape"]) if m.get(b"nd") else m
valid, ended, counted, running, mean, var, count = 0, 0, 0, {}, 0.0, 1.0, 1e-4
for m in msgpack.Unpacker(open(sys.argv[1], "rb"), object_hook=dec, max_buffer_size=0):
    if m["mf"] == "round":
        counted += m["episodes"]["n"]
        assert not m["episodes"]["n"] or (m["episodes"]["length"], m["episodes"]["return"], m["episodes"]["success"]) == (3, 3, 1), m
    if m["mf"] != "rollout":
        continue
    a = m["arrays"]
    assert (a["loss_mask"] == a["valid"]).all() and not a["terminated"].any()
    for t, keep in enumerate(a["valid"] > 0):
        reward = a["rewards"][t].sum(1).astype("f8")
        now = running[m["src"]] = np.where(keep, reward + 0.99 * running.get(m["src"], 0), 0)
        if keep.any():
            n, delta = keep.sum(), now[keep].mean() - mean
            var = (var * count + now[keep].var() * n + delta**2 * count * n / (count + n)) / (count + n)
            mean, count = mean + delta * n / (count + n), count + n
        want = np.where(keep, np.clip(reward / np.sqrt(var + 1e-8), -10, 10), 0)
        assert np.allclose(a["rewards_scaled"][t], want, 1e-5, 1e-7), (t, a["rewards_scaled"][t], want)
        now[a["truncated"][t] > 0] = 0
    for n in range(a["valid"].shape[1]):
        at = 0
        for t in range(len(a["valid"])):
            if not a["valid"][t, n]:
                at = 0 if not at else at
                continue
            obs = a["obs/count"][t, n, 0, 0]
            env = m["envs"][0] + n
            assert obs // 10**5 == env and obs % 100 in (0, 2), (env, obs)
            assert a["n_exec"][t, n] == (2 if obs % 100 == 0 else 1) == a["rewards"][t, n].sum(), obs
            assert a["truncated"][t, n] == (obs % 100 == 2)
            valid += 1
            ended += a["truncated"][t, n]
assert counted == ended > 0, (counted, ended)
print("valid", valid, "episodes", ended)
PY
}

@test "training through mf-env gives the same checkpoint: 1 or 3 servers, a pipe, ipc or tcp" {
    train a env=point && cp "$last" want
    train b env=exec env.command='mf-env point threads=1' env.workers=1 && cmp "$last" want
    ! grep mf-env b.err && mf-env point </dev/null >nothing && [[ ! -s nothing ]] || return 1 # its end is no error
    train c env=exec env.command='mf-env point' env.workers=3 && cmp "$last" want
    mf-env point env.address="ipc://$PWD/sock" &
    train d env=remote env.address="ipc://$PWD/sock" && cmp "$last" want
    kill $! && ended_by 143 $!
    mf-env point env.address=tcp://127.0.0.1:5577 &
    train e env=remote env.address=tcp://127.0.0.1:5577 && cmp "$last" want
    kill -INT $! && ended_by 130 $!
}

@test "a run with mf-env resumes to the same bytes: its states are saved" {
    train a env=point && cp "$last" want
    train b env=exec env.command='mf-env point' env.workers=3 training.total_timesteps=600
    train b env=exec env.command='mf-env point' env.workers=2 run.resume=auto && cmp "$last" want
}

@test "mf-eval runs the same trials through mf-env" {
    train a env=point
    mf-eval a eval.num_episodes=50 eval.num_envs=20 eval.json=1 >/dev/null
    mf-eval env=exec env.command='mf-env point' a eval.num_episodes=50 eval.num_envs=20 eval.json=2 >/dev/null
    cmp <(jq 'del(.results[].server)' 1) <(jq 'del(.results[].server)' 2)
    [[ $(jq -c '[.results[].server]' 2) == '["mf-env point"]' ]]
    mf-collect "${counters[@]}" env.command="$server" run.dir=c | mf-gae | mf-ppo "${counters[@]}" >/dev/null
    cp "$(mf-ckpt path c)" lone.safetensors
    run -2 mf-eval lone.safetensors --out x # of an environment that is not built in, and of no run that knows its server
    [[ $output == *"was trained in 'counter', which is not built in: give env=exec"* ]]
}

@test "a server in Python: same_step, next_step and disabled give the same transitions" {
    local mode
    for mode in same_step next_step disabled; do
        MODE=$mode count "" && [[ $rc -eq 0 ]] && sound && mf-check out || { cat err; return 1; }
    done
}

@test "a server that dies, exits, is silent, late or answers error: named, restarted, its episodes dropped, the run continues" {
    local fault
    for fault in die exit never late raise; do
        rm -f once
        count "$fault once" env.timeout=1 && [[ $rc -eq 0 ]] && sound && mf-check out &&
            grep -q "warn: environment server [01] ('.*env_server.py $fault once'): process [0-9]* .*; restarting it (1 of env.restarts=3)" err ||
            { echo "$fault: $rc"; cat err; return 1; }
        # Of 3 environments the steps of one decision at least are no transitions.
        [[ $(mf-stat out) == *rollout* ]]
    done
}

@test "kill -9 of a server in the middle of a run: the run continues, and reports it" {
    start training.total_timesteps=20000
    kill -9 "$(servers | tail -n 1)"
    ended_by 0 "$collector" && sound && grep -q "was killed by signal 9 (Killed); restarting" err
}

@test "a server is restarted at most env.restarts times" {
    fails 1 "was killed by signal 9 (Killed); it was restarted 2 times before (env.restarts)" die:1 env.restarts=2 env.workers=1 &&
        [[ $(grep -c 'restarting it' err) -eq 2 ]]
}

@test "an answer of another shape or type, with NaN, mixed with text, sent twice or to another request: one error" {
    fails 3 "'rewards' is <f4 (3, 0) instead of <f4 (3, 2)" shape && fails 3 "'obs/count' is <f8 (3, 1) instead of <f4 (3, 1)" type &&
        fails 3 "an answer lacks the array 'n_exec'" missing && fails 3 "n_exec[0] is " count &&
        fails 1 "environment 1 (counter) gave an observation that is not finite" nan &&
        fails 1 "environment 0 (counter) gave an observation that is not finite" cut-last:2 &&
        fails 1 "environment 0 (counter) gave a reward that is not finite" inf &&
        fails 3 "wrote 0x57 ('Warning: joint limits..') to its stdout" print &&
        fails 3 "it answered twice" twice && fails 3 " instead of " other && fails 3 "without final/KEY arrays" final:2
}

@test "the last observation of a terminated episode is not read: it may be NaN, even if the episode is also truncated" {
    count last:2 && [[ $rc -eq 0 ]] && numbers terminated <out | grep -q 1
}

@test "a missing server, or another protocol, is an error at once" {
    fails 1 "ended with exit status 127" "" env.command=no-such-program &&
        fails 3 "version 9" version && fails 3 "its autoreset is 'sometimes'" mode &&
        fails 3 "its action 0 has the range 2 to 1" bounds && fails 3 "its control_hz is nan" hz &&
        fails 2 "needs env.command='..'" "" env.command=null &&
        fails 2 "needs env.address=tcp://127.0.0.1:PORT or ipc://PATH" "" env=remote &&
        fails 1 "has not answered within env.timeout=0.3 s: raise it if starting or answering takes longer" "" env=remote env.address="ipc://$PWD/nobody" env.timeout=.3 &&
        fails 2 "is not local" "" env=remote env.address=tcp://10.1.1.1:5555
}

@test "a server over a socket answers invalid requests with a reason and continues; a name with .. is no path" {
    mf-env point env.address="ipc://$PWD/sock" & local listener=$!
    "$ROOT/tests/tools/peer.py" "ipc://$PWD/sock" ask >why && grep -q "not a MessagePack map" why || { cat why; return 1; }
    train d env=remote env.address="ipc://$PWD/sock" training.total_timesteps=100 && kill $listener && ended_by 143 $listener || return 1
    count name && [[ $rc -eq 0 && $(mf-view out | jq -r 'select(.mf == "head").spec.env') == _._.._x ]] || { mf-view out | head -1; cat err; return 1; }
}

@test "resuming environments that cannot be saved warns that it is not exact" {
    count "" && [[ $rc -eq 0 ]]
    rc=0
    mf-collect "${counters[@]}" env.command="$server" training.total_timesteps=500 run.dir=c run.resume=auto 2>err |
        mf-gae | mf-ppo "${counters[@]}" run.dir=c run.resume=auto >/dev/null 2>ppo.err
    grep -q "warn: this resume is not exact: the environments of counter cannot be saved" err
}

@test "no server outlives its run, however the run ends" {
    local signal pid tries
    for signal in INT TERM KILL; do
        start training.total_timesteps=100000000
        local all
        mapfile -t all < <(servers)
        kill "-$signal" "$collector" && ! wait "$collector" && ((${#all[@]} == 4)) || { echo "$signal: ${all[*]}"; return 1; }
        for pid in "${all[@]}"; do
            for ((tries = 100; tries > 0; tries--)); do
                [[ $(ps -o stat= -p "$pid") == [^Z]* ]] || continue 2
                sleep 0.05
            done
            echo "$signal: $pid is left" && return 1
        done
    done
}
