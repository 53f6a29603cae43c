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

@test "it scales the rewards and nothing else" {
    stream make case=random >in && filter 2 <in >out && stream get rewards <in | awk '{ for (i = 1; i <= NF; i++) $i *= 2; print }' >want &&
        stream get rewards <out | awk '{ for (i = 1; i <= NF; i++) $i *= 1; print }' | cmp - want && mf-check --in out &&
        mf-view --in in | jq -c 'del(.arrays.rewards)' >a && mf-view --in out | jq -c 'del(.arrays.rewards)' | cmp - a
}

@test "in the middle of a run that learns, frames arrive one by one and the checkpoint is the same" {
    train a cat && train b filter 1 && cmp b.in b.out && cmp a.in a.out &&
        for file in a/checkpoints/*.safetensors; do cmp "$file" "b/checkpoints/${file##*/}" || return 1; done
}

@test "what is cut before its end stays cut behind the filter: exit 3" {
    stream make iters=2 >in && pipe "head -c -20 in | $PYTHON $ROOT/examples/filter.py | mf-check" && [[ ${lines[-1]} == "0 0 3" ]]
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
