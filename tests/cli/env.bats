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

@test "language: tasks of a suite as tokens, in rollouts and in words beside demonstrations; a server's are the same bytes" {
    words=(policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" 'policy.obs_keys=[gripper,tokens]' training.num_envs=6
        training.total_timesteps=600 training.num_steps_per_rollout=16)
    mf-collect env=blocks env.suite=unseen "${words[@]}" run.dir=in 2>in.err | tee in.mf | mf-gae 2>>in.err |
        mf-ppo run.dir=in 2>>in.err >/dev/null || cat in.err
    mf-collect env=exec env.workers=2 env.command='mf-env blocks env.suite=unseen' "${words[@]}" run.dir=out 2>out.err |
        mf-gae 2>>out.err | mf-ppo run.dir=out 2>>out.err >/dev/null || cat out.err
    cmp in/checkpoints/000002.safetensors out/checkpoints/000002.safetensors
    [[ $(mf-view in.mf | jq -c 'select(.mf == "rollout").arrays.task | [.shape, .min, .max]' | sort -u) == '[[16,6],8,11]' ]]
    [[ $(mf-view in.mf | jq -r 'select(.mf == "head").tasks' | sed -n 9p) == "put the red block into the middle bin" ]]
    mf-collect env=blocks collect.actor=expert collect.episodes=9 2>/dev/null | mf-record demos.hdf5 >/dev/null 2>&1
    /usr/bin/python3 -c 'import h5py' || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    [[ $(/usr/bin/python3 -c 'import h5py; print(h5py.File("demos.hdf5")["data/demo_7"].attrs["language"])') == "put the yellow block into the right bin" ]]
}

@test "language: success for each task; results of another suite are others" {
    words=(policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" 'policy.obs_keys=[gripper,tokens]' training.num_envs=4
        training.total_timesteps=1 training.num_steps_per_rollout=1)
    mf-collect env=blocks "${words[@]}" run.dir=run 2>log | mf-gae 2>>log | mf-ppo run.dir=run 2>>log >/dev/null || cat log
    run -0 mf-eval run env.suite=unseen eval.num_episodes=10 eval.num_envs=3 eval.tasks=true eval.json=e.json eval.results=r.jsonl
    [[ $output == *"   10 "*"    3 "*"put the red block into the middle bin"*"    2 "*"put the yellow block into the middle bin"* ]]
    [[ $(jq -c '.results[0] | [.suite, [.tasks[].n], .trials.task]' e.json) == '["unseen",[3,3,2,2],[8,9,10,11,8,9,10,11,8,9]]' ]]
    run -0 mf-eval run eval.num_episodes=10 eval.json=train.json eval.results=r.jsonl
    [[ $output != *"already had"* && $(jq -c '.results[0].tasks | length' train.json) == 8 ]]
    run -0 mf-eval run env.suite=unseen eval.num_episodes=10 eval.json=again.json eval.results=r.jsonl
    [[ $output == *"already had 1"* ]] && cmp e.json again.json
    cp -r run twin && run -0 mf-eval run twin 'eval.suites=[unseen,train]' eval.num_inference_steps=[1,4] eval.num_episodes=10 eval.compare=true eval.results=r.jsonl eval.json=both.json
    [[ $output == *"already had 6"* && $(grep -c " unseen .* raw " <<<"$output") == 4 && $(grep -c " train .* raw " <<<"$output") == 4 ]]
    [[ $(jq -c '[.results[] | [.denoising_steps, .suite]][:4]' both.json) == '[[1,"unseen"],[1,"train"],[4,"unseen"],[4,"train"]]' ]]
    cmp <(jq '.results[2].trials' both.json) <(jq '.results[0].trials' e.json)
    run -2 mf-eval run 'eval.suites=[unseen,other]'
    [[ $output == *"no suite 'other'"* ]]
}

@test "language: mf-bc makes tokens of the words of demonstrations, as the environment makes them" {
    /usr/bin/python3 -c 'import h5py' || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    tokenizer=policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model"
    words=("$tokenizer" 'policy.obs_keys=[gripper,tokens,blocks]' clone.steps=20)
    for name in recorded made; do
        extra=()
        [[ $name == made ]] || extra=("$tokenizer")
        mf-collect env=blocks collect.actor=expert collect.episodes=10 "${extra[@]}" 2>log |
            mf-record $name.hdf5 2>>log >/dev/null
        mf-bc clone.dataset=$name.hdf5 "${words[@]}" run.dir=$name >bc.mf 2>>log || cat log
    done
    cmp {recorded,made}/checkpoints/clone.safetensors
    /usr/bin/python3 - <<'PY'
import h5py
with h5py.File("made.hdf5", "r+") as f:
    for i in range(10):
        del f[f"data/demo_{i}"].attrs["language"]
PY
    run -3 mf-bc clone.dataset=made.hdf5 "${words[@]}" run.dir=none
    [[ $output == *"'made.hdf5': /data/demo_0 has no attribute 'language'"* ]]
    /usr/bin/python3 -c 'import h5py; h5py.File("made.hdf5", "r+")["data"].attrs["problem_info"] = "{\"language_instruction\": \"turn on the stove\"}"'
    mf-bc clone.dataset=made.hdf5 "${words[@]}" run.dir=all >bc.mf 2>log || cat log
    run -0 mf-bc clone.dataset=made.hdf5 "${words[@]}" policy.prompt_length=3 clone.steps=1 run.dir=short
    [[ $(grep -c "'turn on the stove' has .* is cut to 3," <<<"$output") == 1 ]]
}

@test "language: ids are no numbers: a policy reads tokens where policy.obs_keys names them" {
    words=(policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" clone.steps=0 training.num_envs=2 training.total_timesteps=1 training.num_steps_per_rollout=1)
    unread() { grep -q 'policy.tokenizer has no effect: the policy reads tokens where' "$1.log" && mf-ckpt show "$1" | grep -q 'spec.obs.*gripper' && run ! grep 'spec.obs.*tokens' <(mf-ckpt show "$1"); }
    mf-collect env=blocks collect.actor=expert collect.episodes=2 "${words[0]}" 2>/dev/null | mf-record demos.hdf5 >/dev/null 2>&1
    mf-bc clone.dataset=demos.hdf5 "${words[@]}" run.dir=bc 2>bc.log >/dev/null || return 1
    unread bc
    mf-collect env=blocks "${words[@]}" run.dir=ppo 2>ppo.log | mf-gae 2>>ppo.log | mf-ppo run.dir=ppo training.freeze_encoder=true 2>>ppo.log >/dev/null || return 1
    unread ppo
    grep -q 'mf-ppo: warn: training.freeze_encoder=true has no effect: the policy has no encoder' ppo.log
    run ! grep -h 'as numbers' bc.log ppo.log
    mf-bc clone.dataset=demos.hdf5 "${words[@]}" 'policy.obs_keys=[gripper,tokens]' run.dir=named 2>named.log >/dev/null || return 1
    run ! unread named
    grep -q 'mf-bc: warn: the network reads the ids of tokens as numbers: policy.network=pi05 has an embedding' named.log
    run -0 mf-bc clone.dataset=demos.hdf5 policy.checkpoint=bc training.freeze_encoder=true clone.steps=0 run.dir=further --out /dev/null
    [[ $output == *"mf-bc: warn: training.freeze_encoder=true has no effect"* ]]
    /usr/bin/python3 -c 'import h5py' || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    /usr/bin/python3 -c 'import h5py; del h5py.File("demos.hdf5", "r+")["data"].attrs["env_args"]'
    mf-bc clone.dataset=demos.hdf5 "${words[@]}" run.dir=nowhere 2>nowhere.log >/dev/null || return 1
    unread nowhere
}

@test "language: what is refused" {
    run -2 mf-collect env=blocks env.suite=other
    [[ $output == *"no suite 'other'"*"train, unseen, all"* ]]
    run -2 mf-collect env=point policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model"
    [[ $output == *"env=point has no language"* ]]
    run -2 mf-collect env=blocks 'policy.obs_keys=[tokens]'
    [[ $output == *"tokens with policy.tokenizer=FILE"* ]]
    run -3 mf-collect env=blocks policy.tokenizer="$ROOT/README.md"
    [[ $output == *"SentencePiece"* ]]
    mf-bc clone.dataset="$ROOT/tests/fixtures/point.hdf5" clone.steps=0 run.dir=mute --out /dev/null 2>err
    run -2 mf-eval mute eval.tasks=true --out /dev/null
    [[ $output == *"eval.tasks=true has a row for each task in words, and env=point has none"* ]]
    run -2 mf-collect env=blocks policy.state_in_prompt=true
    [[ $output == *"a policy that reads a prompt: give policy.tokenizer"* ]]
    run -2 mf-collect env=blocks policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" 'policy.obs_keys=[tokens]' policy.state_in_prompt=true
    [[ $output == *"policy.obs_keys has no state"* ]]
    for word in image_size=40 turn_images=true; do
        run -2 mf-collect env=blocks policy.$word run.dir=x
        [[ $output == *"policy.$word is for color pictures, and the policy reads none"* ]]
    done
}

@test "language: a policy keeps to its tokenizer, and to the state in its prompts" {
    words=('policy.obs_keys=[gripper,tokens]' policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model")
    python3 -c 'import sys; b = open(sys.argv[1], "rb").read(); open("other.model", "wb").write(b + b"\x98\x06\x01")' "$ROOT/tests/fixtures/tokenizer.model"
    mf-collect env=blocks collect.actor=expert collect.episodes=4 "${words[@]}" policy.prompt_length=70 2>log |
        mf-record demos.hdf5 2>>log >/dev/null
    mf-bc clone.dataset=demos.hdf5 "${words[@]}" policy.prompt_length=70 policy.state_in_prompt=true clone.normalizer=identity \
        clone.steps=5 run.dir=clone >bc.mf 2>>log || cat log
    [[ $(mf-ckpt show clone) =~ spec.state_in_prompt\ +true.*spec.tokenizer\ +[0-9a-f]{16} ]]
    run -2 mf-bc clone.dataset=demos.hdf5 policy.checkpoint=clone run.dir=none policy.state_in_prompt=true
    [[ $output == *"policy.tokenizer is not given"* ]]
    for program in "mf-bc clone.dataset=demos.hdf5" mf-collect mf-eval; do
        # shellcheck disable=SC2086 # several words
        run -2 $program policy.checkpoint=clone policy.tokenizer=other.model run.dir=none
        [[ $output == *"policy.tokenizer has the digest "*" was trained with the tokenizer "* ]]
    done
    mf-eval clone eval.num_episodes=2 eval.json=e.json 2>>log >/dev/null || cat log
    words=(policy.checkpoint=clone policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" training.num_envs=4 training.num_steps_per_rollout=8
        training.total_timesteps=200 policy.state_in_prompt=true)
    mf-collect "${words[@]}" run.dir=run 2>>log | tee in.mf | mf-gae 2>>log | mf-ppo "${words[@]}" 2>>log >out.mf || cat log
    mf-view out.mf | jq -es 'map(select(.mf == "metrics").values["train/logratio_gap"]) | length > 1 and all(.[]; . == 0)'
    [[ $(mf-ckpt show run) =~ spec.state_in_prompt\ +true.*spec.tokenizer\ +[0-9a-f]{16} ]]
    sed -i 's/prompt_length: 0/prompt_length: 70/' run/configs/mf-collect.yaml && grep -q 'prompt_length: 70' run/configs/mf-collect.yaml
    mf-collect "${words[@]}" run.dir=run run.resume=auto 2>>log | mf-gae 2>>log | mf-ppo "${words[@]}" run.resume=auto 2>>log >again.mf || cat log
    grep -q 'resuming run' log
    /usr/bin/python3 -c 'import h5py' || skip "no h5py for /usr/bin/python3 (Debian: python3-h5py)"
    mf-collect "${words[@]}" policy.n_action_steps=1 run.dir=one 2>>log | mf-record seen.hdf5 2>>log | mf-gae 2>>log | mf-ppo 2>>log >/dev/null || cat log
    words=(clone.dataset=seen.hdf5 clone.normalizer=identity clone.steps=5 'policy.obs_keys=[gripper,tokens]')
    mf-bc "${words[@]}" run.dir=read >bc.mf 2>>log || cat log
    mf-bc "${words[@]}" policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" policy.prompt_length=70 policy.state_in_prompt=true run.dir=made >bc.mf 2>>log || cat log
    run -0 mf-ckpt diff {read,made}/checkpoints/clone.safetensors
    [[ ${#lines[@]} == 2 && $output == "spec.state_in_prompt "*"spec.tokenizer "* ]]
    words=(policy.checkpoint=clone policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model")
    run -2 mf-collect "${words[@]}" policy.state_in_prompt=false run.dir=none
    [[ $output == *"policy.state_in_prompt=false contradicts"* ]]
}

@test "language: a server in Python lists its tasks, and rows have them" {
    /usr/bin/python3 -c 'import msgpack' 2>/dev/null || skip "no python3-msgpack"
    cat >talker.py <<PY
import sys; sys.path.insert(0, "$ROOT/examples/envs")
import numpy as np
from serving import Each, keep_stdout, serve
class Talker:
    def __init__(self, first): self.first = first
    def see(self): return {"task_is": np.full(1, self.task, "f4")}
    def reset(self, seed, episode):
        self.t, self.task = 0, (self.first + episode) % 2 * int(sys.argv[1])
        return self.see()
    def step(self, action):
        self.t += 1
        return self.see(), 0.0, self.t == 3, False, self.task == 2
out = keep_stdout()
serve(Each(Talker, "talker", 5, 10, -np.ones(1), np.ones(1), {"task_is": np.zeros(1, "f4")}, tasks=["turn on\nthe stove", "", "red bin"]), None, out)
PY
    words=(env=exec env.workers=2 policy.tokenizer="$ROOT/tests/fixtures/tokenizer.model" 'policy.obs_keys=[task_is,tokens]' policy.n_action_steps=2 training.num_envs=3
        training.total_timesteps=1 training.num_steps_per_rollout=6 run.dir=run)
    mf-collect env.command='/usr/bin/python3 talker.py 2' "${words[@]}" 2>log | tee a.mf | mf-gae 2>>log | mf-ppo run.dir=run 2>>log >/dev/null || cat log
    /usr/bin/python3 - <<'PY'
import msgpack, numpy as np
of = lambda m: np.frombuffer(m[b"data"], m[b"type"]).reshape(m[b"shape"]) if m.get(b"nd") else m
head, *frames = [f for f in msgpack.Unpacker(open("a.mf", "rb"), object_hook=of)]
assert head["tasks"] == "turn on the stove\n\nred bin", head
a = next(f for f in frames if f["mf"] == "rollout")["arrays"]
task, tokens = a["task"], a["obs/tokens"][:, :, 0]
assert set(task.ravel()) == {0, 2} and (a["obs/task_is"][:, :, 0, 0] == task).all(), task
for i in 0, 2:
    mine = tokens[task == i]
    assert (mine == mine[0]).all() and mine[0][0] == 2 and mine[0][-1] == 0, mine
assert (tokens[task == 0][0] != tokens[task == 2][0]).any()
PY
    run -0 mf-eval run eval.num_episodes=4 eval.json=e.json
    [[ $(jq -c '.results[0] | [.tasks[] | [.task, .n, .success_once]]' e.json) == '[["turn on the stove",2,0],["red bin",2,1]]' ]]
    sed 's/"red bin"\]/"red bin", ""]/' talker.py >more.py
    run -0 mf-eval run env=exec env.command='/usr/bin/python3 more.py 3' eval.num_episodes=4
    run -3 mf-eval run env=exec env.command='/usr/bin/python3 talker.py 7' eval.num_episodes=4
    [[ $output == *"task["*"is 7, and it has 3 tasks"* ]]
}

@test "pictures of demonstrations and of a server are resized to policy.image_size, and turned" {
    words=('policy.obs_keys=[gripper,image]' policy.encoder=nature 'policy.encoder_channels=[4,4,4]' policy.encoder_output_dim=8 'policy.hidden=[8,8,8]')
    mf-collect env=blocks collect.actor=expert collect.episodes=4 env.image_size=60 "${words[@]}" 2>log | mf-record demos.hdf5 2>>log >/dev/null
    mf-bc clone.dataset=demos.hdf5 "${words[@]}" policy.image_size=40 policy.turn_images=true clone.steps=5 run.dir=clone >bc.mf 2>>log || cat log
    [[ $(mf-ckpt show clone) =~ spec.obs\ +4:gripper,40x40x3u8:image.*spec.turn_images\ +true ]]
    run -2 mf-eval clone eval.num_episodes=2
    [[ $output == *"policy.turn_images=true: env=blocks draws pictures that are upright"* ]]
    run -2 mf-bc clone.dataset=demos.hdf5 policy.checkpoint=clone run.dir=again
    [[ $output == *"'image' is uint8 (40, 40, 3) in "*", and uint8 (60, 60, 3) in demos.hdf5: give policy.image_size=40 "* && ! -e again ]]
    run -2 mf-eval clone eval.num_episodes=2 policy.turn_images=false policy.image_size=30
    [[ $output == *"(30, 30, 3) in the environment: policy.image_size=30 is another size: give policy.image_size=40 "* ]]
    words=(policy.checkpoint=clone env=exec env.workers=1 env.command='mf-env blocks env.image_size=60')
    run -2 mf-eval "${words[@]}" eval.num_episodes=2 policy.image_size=0
    [[ $output == *"'image' is uint8 (40, 40, 3) in "*"(60, 60, 3) in the environment"*", or policy.image_size=40 "* ]]
    words+=(policy.image_size=40)
    run -0 mf-eval "${words[@]}" eval.num_episodes=2
    words+=(training.num_envs=2 training.num_steps_per_rollout=4 training.total_timesteps=60)
    mf-collect "${words[@]}" run.dir=run 2>>log | tee in.mf | mf-gae 2>>log | mf-ppo "${words[@]}" 2>>log >out.mf || cat log
    mf-view out.mf | jq -es 'map(select(.mf == "metrics").values["train/logratio_gap"]) | length > 1 and all(.[]; . == 0)'
    [[ $(mf-view in.mf | jq -c 'select(.mf == "rollout").arrays["obs/image"].shape' | sort -u) == '[4,2,1,40,40,3]' ]]
}
