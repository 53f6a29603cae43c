# The stream in Python: a filter of a dozen lines takes part in everything.
load helpers

PYTHON=/usr/bin/python3
setup() {
    $PYTHON -c 'import msgpack, numpy' || skip "no python3-msgpack, python3-numpy"
    cd "$BATS_TEST_TMPDIR" || return 1
    small=(env=point training.num_envs=4 training.num_steps_per_rollout=4 training.total_timesteps=200
        training.batch_size=16 training.num_epochs=1 'policy.hidden=[16]' 'policy.critic_hidden=[16]' threads=1)
}

filter() { "${VENV:-$PYTHON}" "$ROOT/examples/filter.py" "$@"; }

# train DIR FILTER: the pipe with a filter in it, to its end.
train() {
    local status
    timeout 60 mf-collect "${small[@]}" run.dir="$1" 2>"$1.err" | tee "$1.in" | "${@:2}" | tee "$1.out" | mf-gae 2>>"$1.err" |
        mf-ppo "${small[@]}" run.dir="$1" >"$1.mf" 2>>"$1.err"
    status=${PIPESTATUS[*]}
    [[ $status == "0 0 0 0 0 0" ]] || { cat "$1.err"; echo "status $status"; return 1; }
}

@test "a stream goes through the Python filter byte for byte" {
    stream make case=random iters=3 slices=2 >in && filter 1 <in >out && cmp in out &&
        mf-gae <in >ours && filter 1 <ours >out && cmp ours out
}

@test "the Python filter scales the rewards and nothing else" {
    stream make case=random >in && filter 2 <in >out && stream get rewards <in | awk '{ for (i = 1; i <= NF; i++) $i *= 2; print }' >want &&
        stream get rewards <out | awk '{ for (i = 1; i <= NF; i++) $i *= 1; print }' | cmp - want && mf-check --in out &&
        mf-view --in in | jq -c 'del(.arrays.rewards)' >a && mf-view --in out | jq -c 'del(.arrays.rewards)' | cmp - a
}

@test "in a training, frames pass one by one and the checkpoint is the same" {
    train a cat && train b filter 1 && cmp b.in b.out && cmp a.in a.out &&
        for file in a/checkpoints/*.safetensors; do cmp "$file" "b/checkpoints/${file##*/}" || return 1; done
}

@test "no stream, or an incomplete one, behind a filter: one sentence and exit 3" {
    local bytes
    for bytes in 'GET / HTTP/1.1' '\xc1' '\x81\x01\x02' '\x81\xa2mf\x03' '\x81\xc4\x02nd\xc3' '\x81\xa2mf\xa7rollout'; do
        # shellcheck disable=SC2059 # the bytes are a format
        run -3 bash -c "printf '$bytes' | $PYTHON $ROOT/examples/locate.py" && [[ ${#lines[@]} == 1 && $output == "locate.py: error: "* ]] || { echo "$bytes: $output"; return 1; }
    done
    stream make iters=2 >in && run -3 bash -c "$PYTHON $ROOT/examples/locate.py <in >/dev/null" && [[ $output == "locate.py: error: the rollouts have no obs/goal"* ]] && pipe "head -c -20 in | $PYTHON $ROOT/examples/filter.py | mf-check" && [[ ${lines[-1]} == "0 3 3" && $output == *"filter.py: error: the stream stops without an end frame"* ]]
}

@test "msgpack-numpy itself: our arrays are its arrays, byte for byte" {
    VENV=$ROOT/.venv/bin/python
    "$VENV" -c 'import msgpack_numpy' 2>/dev/null || skip "no msgpack-numpy in .venv: make setup"
    cat >check.py <<'PY'
import msgpack, msgpack_numpy, numpy, sys
seen = 0
for m in msgpack.Unpacker(sys.stdin.buffer, object_hook=msgpack_numpy.decode, max_buffer_size=0):
    if m["mf"] == "rollout":
        a, seen = m["arrays"], seen + 1
        assert a["advantages"].dtype == numpy.float32 and a["advantages"].shape == a["rewards"].shape[:2]
        assert numpy.allclose(a["returns"], a["advantages"] + a["prev_values"], atol=1e-5)
assert seen
PY
    train a filter 1 && cmp a.in a.out && mf-gae <a.in >ours && "$VENV" check.py <ours && filter 1 <ours >out && cmp ours out
}

vtrace() { "$PYTHON" "$ROOT/examples/vtrace.py" "$@"; }
# close_to A B ARRAY: two streams whose array is the same within 1e-5.
close_to() {
    paste -d' ' <(stream get "$3" <"$1") <(stream get "$3" <"$2") | awk '{ n = NF / 2
        for (i = 1; i <= n; i++) { d = $i - $(i + n); if (d < 0) d = -d; s = $i < 0 ? -$i : $i; if (!(d <= 1e-5 * (1 + s))) bad = 1 }
    } END { exit bad || NR == 0 }'
}

@test "V-trace on the policy's own data is TD(lambda): the returns of mf-gae, and its advantages where lambda is 1" {
    stream make case=random T=30 N=8 slices=2 iters=2 dirt=nan >in
    for lambda in 0 .9 1; do
        vtrace advantage.gae_lambda=$lambda training.batch_size=5 <in >ours && mf-gae advantage.gae_lambda=$lambda <in >theirs &&
            mf-check <ours && stream kept in ours && close_to ours theirs returns || return 1
    done
    close_to ours theirs advantages && vtrace advantage.gae_lambda=.5 <in >other && run ! close_to ours other returns
}

@test "V-trace off policy: the sum over products of the paper's equation 1" {
    cat >older.py <<PY
import sys; sys.path.insert(0, "$ROOT/examples")
import numpy
from stream import frames, send
rng = numpy.random.default_rng(3)
for f in frames():
    if f["mf"] == "rollout":
        shape = f["arrays"]["rewards"].shape[:2]
        f["arrays"]["prev_logprobs"] = rng.normal(size=shape).astype("f4")
        f["arrays"]["target_logprobs"] = (f["arrays"]["prev_logprobs"] + rng.normal(0, .7, shape)).astype("f4")
    send(f)
PY
    cat >sums.py <<PY
import sys; sys.path.insert(0, "$ROOT/examples")
import numpy
from stream import frames
g, lam, rho_max, c_max = .97, .9, 1.2, .8
for f in frames():
    if f["mf"] != "rollout":
        continue
    a = f["arrays"]
    T, N = a["prev_values"].shape
    for n in range(N):
        V = numpy.append(a["prev_values"][:, n], a["last_values"][n]).astype("f8")
        r, ratio = a["rewards"][:, n].sum(1), numpy.exp(a["target_logprobs"][:, n] - a["prev_logprobs"][:, n].astype("f8"))
        rho, c = numpy.minimum(ratio, rho_max), lam * numpy.minimum(ratio, c_max)
        delta = rho * (r + g * V[1:] - V[:-1])
        v = [V[s] + sum(g ** (t - s) * numpy.prod(c[s:t]) * delta[t] for t in range(s, T)) for s in range(T)] + [V[T]]
        A = [rho[t] * (r[t] + g * v[t + 1] - V[t]) for t in range(T)]
        assert numpy.allclose(a["returns"][:, n], v[:-1], atol=1e-5) and numpy.allclose(a["advantages"][:, n], A, atol=1e-5)
        print("compared")
PY
    stream make case=table >in && $PYTHON older.py <in >off &&
        vtrace advantage.gamma=.97 advantage.gae_lambda=.9 vtrace.rho=1.2 vtrace.c=.8 <off >out && mf-check <out &&
        [[ $($PYTHON sums.py <out) == compared ]]
}

@test "V-trace in the place of mf-gae: the pipe trains" {
    timeout 60 mf-collect "${small[@]}" run.dir=v 2>v.err | vtrace "${small[@]}" | tee v.in | mf-ppo "${small[@]}" run.dir=v >v.mf 2>>v.err
    [[ ${PIPESTATUS[*]} == "0 0 0 0" ]] || { cat v.err; return 1; }
    mf-check <v.in && mf-check <v.mf && [[ -n $(find v/checkpoints -name '*.safetensors') ]] &&
        mf-view v.in | jq -es '.[0].chain | map(.stage) == ["collect", "vtrace.py"] or map(.stage) == ["mf-collect", "vtrace.py"]'
}

@test "a Python stage has the exit statuses and errors of the others" {
    stream make drop=last_values >in && run -3 bash -c "$PYTHON $ROOT/examples/vtrace.py <in >out" &&
        [[ $output == "vtrace.py: error: the rollout of iteration 0 has no array 'last_values'" ]] &&
        run -2 bash -c "$PYTHON $ROOT/examples/vtrace.py nonsense <in" && [[ $output == *"'nonsense' is not key=value"* ]] &&
        stream make head=0 >in && run -3 bash -c "$PYTHON $ROOT/examples/vtrace.py <in" && [[ $output == *"begins with a head, not with rollout"* ]]
}

@test "a stage in jq on a branch of the pipe: the success of each round, during the training" {
    mf-collect "${small[@]}" run.dir=j 2>j.err | tee >(mf-view view.arrays=none | tee view.json | "$ROOT/examples/success.jq" >told) | mf-gae | mf-ppo "${small[@]}" run.dir=j >j.mf 2>>j.err
    [[ ${PIPESTATUS[*]} == "0 0 0 0" ]] || { cat j.err; return 1; }
    until grep -q decisions told; do sleep 0.05; done # bash waits for no substitution
    rounds=$(jq -s 'map(select(.mf == "round")) | length' view.json)
    [[ $rounds -ge 1 && $(grep -c '^round ' told) -eq $rounds ]] &&
        [[ $(tail -1 told) == "$(jq -r 'select(.mf == "end").samples' view.json) decisions" ]]
}

@test "success.jq: its numbers, and an incomplete stream: exit 3" {
    stream make iters=3 >in && run -0 bash -c "mf-view in | $ROOT/examples/success.jq" &&
        [[ ${lines[0]} == "round 0: 25 % of 4 episodes, 25 % lately" && ${#lines[@]} -eq 4 && ${lines[3]} == "12 decisions" ]] &&
        run -3 bash -c "mf-view in | head -3 | $ROOT/examples/success.jq" && [[ $output == *"the stream stops without an end"* ]]
}

# LIBERO's environment as far as its server asks it: what it shows is made of the time and the last action.
libero() {
    mkdir -p stub/libero/libero/envs && touch stub/libero/__init__.py stub/libero/libero/__init__.py
    cat >stub/libero/libero/benchmark.py <<'PY'
import numpy as np
class Suite:
    n_tasks = 4
    def get_task_bddl_file_path(self, i): return "x.bddl"
    def get_task_init_states(self, i): return np.arange(50.)[:, None] + np.array([0, 100 * i])
    def get_task(self, i): return type("T", (), {"name": "pick_up_the_bowl"})  # without `language`, as some editions
def get_benchmark_dict(): return {"libero_spatial": Suite}
PY
    cat >stub/libero/libero/envs/__init__.py <<'PY'
import numpy as np
class OffScreenRenderEnv:
    def __init__(self, **kw): pass
    def see(self):
        return {"robot0_eef_pos": np.array([1, 2, 3.0]), "robot0_eef_quat": np.array([0, .5, 0, -np.sqrt(.75)]), "robot0_gripper_qpos": np.array([4, 5.0]),
                "robot0_joint_pos": np.arange(7.0), "agentview_image": np.full((8, 8, 3), 200, "u1"), "robot0_eye_in_hand_image": np.full((8, 8, 3), 100, "u1")}
    def seed(self, s): pass
    def reset(self): return self.see()
    def set_init_state(self, s): self.state = s; return self.see()
    def step(self, a): return self.see(), 0.0, False, {}
    def close(self): pass
PY
}

@test "the LIBERO server has the observations of LIBERO's demonstrations, by their names" {
    libero
    local keys=ee_pos,ee_ori,ee_states,gripper_states,joint_states,robot0_eef_quat,agentview_rgb,eye_in_hand_rgb
    export PYTHONPATH=$PWD/stub
    server() { printf '%s' "env.command='$PYTHON $ROOT/examples/envs/libero_env.py libero_spatial 3 --max-steps 5 --keys $1'"; }
    words=(env=exec env.workers=1 env.restarts=0 training.num_envs=1 training.num_steps_per_rollout=4 training.total_timesteps=16 threads=1
        'policy.hidden=[8,8,8]' 'policy.critic_hidden=[8]' training.batch_size=4 "policy.obs_keys=[$keys]" run.dir=r)
    timeout 60 mf-collect "${words[@]}" "$(server $keys)" 2>err | tee a.mf | mf-gae | mf-ppo "${words[@]}" >/dev/null 2>err2
    [[ ${PIPESTATUS[*]} == "0 0 0 0" ]] || { cat err err2; return 1; }
    mf-view view.arrays=whole <a.mf | jq -es 'map(select(.mf == "rollout"))[0].arrays | def first: .data | flatten;
        def near($x): length == ($x | length) and ([., $x] | transpose | all((.[0] - .[1]) * (.[0] - .[1]) < 1e-10));
        # 2 acos(-sqrt 3/4) = 300 degrees about y
        (.["obs/ee_ori"] | first[:3] | near([0, 5.2359878, 0])) and (.["obs/ee_states"] | first[:6] | near([1, 2, 3, 0, 5.2359878, 0])) and
        (.["obs/ee_pos"] | first[:3] == [1, 2, 3]) and (.["obs/gripper_states"] | first[:2] == [4, 5]) and (.["obs/joint_states"] | first[:7] == [0, 1, 2, 3, 4, 5, 6]) and
        (.["obs/agentview_rgb"] | .dtype == "|u1" and (first | unique == [200])) and (.["obs/eye_in_hand_rgb"] | first | unique == [100])' || return 1
    run -1 --separate-stderr mf-collect "${words[@]}" "policy.obs_keys=[]" run.dir=s "$(server ee_pos,ee_quat)" --out /dev/null
    [[ $stderr == *"LIBERO has no observation 'ee_quat'; it has agentview_image, "* ]] || { echo "$stderr"; return 1; }
}

@test "the LIBERO server goes through the tasks and the states of a suite" {
    libero
    PYTHONPATH=$PWD/stub:$ROOT/examples/envs $PYTHON - <<'PY'
import argparse, numpy as np
from libero.libero import benchmark
import libero.libero.envs as envs, libero_env, serving
args = argparse.Namespace(keys=["agentview_rgb", "ee_pos"], size=8)
envs.OffScreenRenderEnv.see = lambda self: {"robot0_eef_pos": np.array([1, 2, 3.]), "agentview_image": np.arange(8 * 8 * 3).reshape(8, 8, 3).astype("u1")}
sim = serving.Each(lambda i: libero_env.Libero(benchmark.get_benchmark_dict()["libero_spatial"](), [0, 1, 2, 3], i, args), "suite", 9, 20,
                   -np.ones(7), np.ones(7), {k: np.zeros((8, 8, 3), "u1") if "rgb" in k else np.zeros(3, "f4") for k in args.keys}, tasks="abcd")
for first in 0, 2, 9: # a later request of an evaluation has other trials
    sim.make(2, first, 9, args.keys, 0)
    rows = sim.reset([1, 1], [0, 1], [5, 6])
    assert list(rows["task"]) == [first % 4, (first + 2) % 4], rows["task"]
    assert [list(one.env.state) for one in sim.ones] == [[t // 4, 100 * (t % 4) + t // 4] for t in (first, first + 2)]
assert rows["obs"]["agentview_rgb"][0, 0, 0].tolist() == [0, 1, 2] and rows["obs"]["ee_pos"][0].tolist() == [1, 2, 3]
PY
}
